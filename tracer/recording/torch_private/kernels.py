"""``seams``, continued: which kernels an op has, and calling one of them by itself.

Checked on torch 2.4.1 and 2.13.0.
"""

from __future__ import annotations

from typing import Any

import torch


def has_composite_kernel(func: Any) -> bool:
    """Does ``func`` have a composite kernel (made of other ops) and none of its own for CPU or CUDA?"""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    try:
        name = func.name()
        return has_kernel(name, "CompositeImplicitAutograd") and not any(
            has_kernel(name, key) for key in ("CPU", "CUDA", "XPU", "MPS", "PrivateUse1")
        )
    except (RuntimeError, AttributeError):
        return False


def has_kernel_of_a_layout(func: Any) -> bool:
    """Does ``func`` have a kernel of its own for nested, sparse, MKL-DNN or quantized tensors?"""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    layouts = ("NestedTensor", "Sparse", "SparseCsr", "Mkldnn", "Quantized")
    keys = [f"{layout}{device}" for layout in layouts for device in ("CPU", "CUDA")]
    for key in ("CompositeImplicitAutogradNestedTensor", *keys):
        try:
            if has_kernel(func.name(), key):
                return True
        except (RuntimeError, AttributeError):  # a key of another build
            continue
    return False


def can_call_composite(func: Any) -> bool:
    """Can the composite kernel of ``func`` be called by itself?"""
    return hasattr(func, "_op_dk")


def call_composite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the composite kernel that torch itself would have run.

    ``func.decompose`` prefers a decomposition written in Python where there is one (``matmul``, ``dropout``, ``lstm``,
    ``upsample_*``); it is made for compilers, and its results differ in the last bits.
    """
    return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def lacks_autograd(func: Any) -> bool:
    """Is ``func`` an op of an extension with kernels for devices alone?

    Autograd sees what such a kernel is made of; under a dispatch mode it sees nothing, and gradients are lost.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    try:
        name = func.name()
        if func.namespace in ("aten", "prims", "prim") or not hasattr(func, "_op_dk"):
            return False
        if not hasattr(torch._C, "_SetExcludeDispatchKeyGuard"):
            return False
        return not any(has_kernel(name, key) for key in ("Autograd", "CompositeImplicitAutograd", *_AUTOGRAD_KEYS))
    except (RuntimeError, AttributeError):
        return False


_AUTOGRAD_KEYS = ("AutogradCPU", "AutogradCUDA", "AutogradXPU", "AutogradMPS", "AutogradPrivateUse1")


def kernel_of(func: Any, tensor: torch.Tensor) -> Any | None:
    """The key of the kernel that a call on ``tensor`` runs; ``None`` where that is not plainly known."""
    device = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mps": "MPS", "privateuseone": "PrivateUse1"}
    key = device.get(tensor.device.type)
    if key is None or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return None
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in (key, "CompositeExplicitAutograd"):
        if has_kernel(func.name(), name):
            return getattr(torch._C.DispatchKey, name)
    return None


def call_kernel(func: Any, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one kernel of ``func`` with autograd watching what it is made of and versions counted, as without a mode."""
    keys, guard = torch._C.DispatchKey, torch._C._SetExcludeDispatchKeyGuard
    with guard(keys.AutogradFunctionality, False), guard(keys.ADInplaceOrView, False):
        return func._op_dk(key, *args, **kwargs)
