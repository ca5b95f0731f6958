"""``seams``, continued: which kernels an op has, and calling one by itself. Checked on torch 2.4.1 and 2.13.0."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import product
from typing import Any

import torch

_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
#: Dispatch keys by type of device.
_KEYS = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mps": "MPS", "privateuseone": "PrivateUse1"}


def has_composite_kernel(func: Any) -> bool:
    """Return whether ``func`` has a composite kernel (made of other ops) and none of its own for CPU or CUDA."""
    with suppress(RuntimeError, AttributeError):
        is_composite = _has_kernel(func.name(), "CompositeImplicitAutograd")
        return is_composite and not any(_has_kernel(func.name(), key) for key in _KEYS.values())
    return False


def has_kernel_of_a_layout(func: Any) -> bool:
    """Return whether ``func`` has a kernel of its own for nested, sparse, MKL-DNN or quantized tensors."""
    layouts = ("NestedTensor", "Sparse", "SparseCsr", "Mkldnn", "Quantized")
    for key in ("CompositeImplicitAutogradNestedTensor", *map("".join, product(layouts, ("CPU", "CUDA")))):
        with suppress(RuntimeError, AttributeError):  # a key of another build
            if _has_kernel(func.name(), key):
                return True
    return False


def can_call_composite(func: Any) -> bool:
    """Return whether the composite kernel of ``func`` can be called by itself."""
    return hasattr(func, "_op_dk")


def call_composite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the composite kernel that torch itself would have run.

    ``func.decompose`` prefers a decomposition in Python, whose results differ in the last bits (``matmul``, ``lstm``).
    """
    return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def lacks_autograd(func: Any) -> bool:
    """Return whether ``func`` is a custom op with device kernels only, and no autograd kernel.

    Autograd sees the ops inside such a kernel; under a dispatch mode it does not, and gradients are lost.
    """
    keys = ("Autograd", "CompositeImplicitAutograd", *(f"Autograd{key}" for key in _KEYS.values()))
    with suppress(RuntimeError, AttributeError):
        is_callable = hasattr(func, "_op_dk") and hasattr(torch._C, "_SetExcludeDispatchKeyGuard")
        is_extension = func.namespace not in ("aten", "prims", "prim")
        return is_extension and is_callable and not any(_has_kernel(func.name(), key) for key in keys)
    return False


def kernel_of(func: Any, tensor: torch.Tensor) -> Any | None:
    """The key of the kernel that a call on ``tensor`` runs; ``None`` if it is not certain."""
    key = _KEYS.get(tensor.device.type)
    if key is None or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return None
    names = (name for name in (key, "CompositeExplicitAutograd") if _has_kernel(func.name(), name))
    return getattr(torch._C.DispatchKey, next(names, ""), None)


def is_made_of_ops(func: Any) -> bool:
    """Return whether the kernel is a Python function of torch's that calls other ops, and touches no memory itself."""
    return str(func.namespace) == "fsdp"


def call_kernel(func: Any, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one kernel of ``func`` with autograd watching what it is made of and versions counted, as without a mode."""
    keys, guard = torch._C.DispatchKey, torch._C._SetExcludeDispatchKeyGuard
    with guard(keys.AutogradFunctionality, False), guard(keys.ADInplaceOrView, False):
        return func._op_dk(key, *args, **kwargs)


#: Where Python finds torch's functions that are written in C++.
_NATIVE = (torch._C._VariableFunctions, torch._C.TensorBase, torch._C._nn, torch.linalg, torch.fft, torch.special)


def is_native_function(name: str) -> bool:
    """Return whether torch has a function or a method ``name`` that is written in C++, as far as names tell."""
    return any(hasattr(owner, name) for owner in _NATIVE) or (name.startswith("_") and hasattr(torch._C, name))


#: A kernel of an op as torch lists it: its key, file and line. Those that were overridden are marked, and do not match.
_REGISTERED = re.compile(r"^(\w+)(?:\[alias\])?: registered at (.+:\d+) ::", re.MULTILINE)
_INSTALLED = os.path.dirname(torch.__file__)
#: Where torch registers what others hand to it.
_FOR_OTHERS = tuple(os.path.join(_INSTALLED, name) for name in ("library.py", "_library"))


def overriding_kernels(func: Any) -> dict[str, str]:
    """Who registered kernels of ``func``, an op of torch's, that are no part of torch, by type of device.

    Torch's own files lie where it was built, or is installed. A kernel for all devices serves those without their own.
    """
    if getattr(func, "namespace", "") != "aten":
        return {}
    found: dict[str, str] = {}
    with suppress(RuntimeError, AttributeError):
        listed = torch._C._dispatch_dump(func.name())
        root, is_known, _ = listed.partition("debug: registered at ")[2].partition("build/aten/src/ATen/")
        lines: dict[str, str] = dict(_REGISTERED.findall(listed))
        for device, key in _KEYS.items() if is_known else ():
            line = lines.get(key, lines.get("CompositeExplicitAutograd", ""))
            if line.startswith(_FOR_OTHERS):
                found[device] = "by torch.library"
            elif line and not line.startswith((root or "build/aten/", _INSTALLED)):
                found[device] = f"at {line}"
    return found
