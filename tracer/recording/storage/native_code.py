"""Native code that is no registered op: who asked for memory, and which extension modules are built on torch.

Memory that native code allocates, native code writes, without a dispatch (``at::tensor``, ``data_ptr``). Only memory
that Python asked for can be left unwritten by the program.
"""

from __future__ import annotations

import dis
import gc
import mmap
import os
import sys
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from types import BuiltinFunctionType, CodeType, FrameType, MethodDescriptorType, ModuleType
from typing import Any, NamedTuple

import torch

from tracer.ops.op import Touch
from tracer.ops.rows import packet_of, row_of
from tracer.recording.patching import Holder, Replacement, held_by, original_of
from tracer.recording.program_text import source_tree
from tracer.recording.torch_private import compile_seams, kernels, seams

#: Every library of functions on torch tensors names one of torch's own.
_MARKS = (b"c10.dll",) if sys.platform == "win32" else (b"libc10", b"libtorch")
#: Known to be built without torch: not searched. (Triton asks tensors for their address.)
_WITHOUT_TORCH = frozenset(
    {
        *("torch", "functorch", "triton", "numpy", "scipy", "pandas", "pyarrow", "sklearn", "cv2", "PIL", "tokenizers"),
        *("regex", "yaml", "pydantic_core", "msgspec", "safetensors", "aiohttp", "matplotlib", "h5py", "numba", "lxml"),
    }
)
_STANDARD_LIBRARY = f"{os.sep}lib-dynload{os.sep}"
#: Libraries that take tensors without calling a method of them.
_BY_NAME = ("tvm_ffi",)
_TORCH = os.path.dirname(torch.__file__)
#: Parts of torch that hand what they allocate to a library that writes it.
_OWN_PARTS = tuple(
    os.path.join(_TORCH, *part.split("/"))
    for part in ("nn/parallel/", "distributed/", "cuda/", "_inductor/", "sparse/", "xpu/", "quasirandom.py")
)
_OPS_FILE = os.path.join(_TORCH, "_ops.py")
_MOST_SITES = 1024
#: What refers to a function and is no object of the program.
_NO_HOLDERS = (FrameType, ModuleType)
_LIBRARIES = "/proc/self/maps"

# --- who asked for memory ---


def is_written_unseen(frame: FrameType | None) -> bool:
    """Return whether native code that ``frame`` called allocated memory, or passes on what it allocated: it writes it.

    ``frame`` is the innermost one. The autograd engine and threads of torch's own have no other caller.
    """
    if frame is None or frame.f_code is seams.ENGINE_CODE or frame.f_code.co_filename.startswith(_OWN_PARTS):
        return True
    if frame.f_code.co_filename == _OPS_FILE:
        op = str(frame.f_locals.get("self", ""))
        return not op.startswith(("aten.", "prims.")) or _is_native(packet_of(op))
    name, is_bare = _called(frame.f_code, frame.f_lasti) or (_called_in_text(frame), False)
    if is_bare:
        function = original_of(frame.f_locals.get(name, frame.f_globals.get(name)))
        name = function.__name__ if isinstance(function, (BuiltinFunctionType, MethodDescriptorType)) else name
    return _is_native(name)


def _is_native(name: str) -> bool:
    """Return whether torch has a function ``name`` that is no way to ask for memory."""
    asks = "empty" in name or name == "new" or row_of(name).touches in (Touch.ALLOCATES, Touch.GROWS)
    return not asks and kernels.is_native_function(name)


@lru_cache(_MOST_SITES)
def _called(code: CodeType, at: int) -> tuple[str, bool] | None:
    """The last name of what the instruction ``at`` calls (``empty``), and whether it is all of it.

    An operator is ``add``, whichever it is; a name that is not known is empty. ``None``: this Python, which is 3.10 or
    was told so, does not keep the positions of instructions.
    """
    places = list(getattr(code, "co_positions", tuple)())
    if not places or at < 0 or places[at // 2][2] is None:
        return None
    here, loaded, is_bare = places[at // 2], "", True
    for instruction in dis.get_instructions(code):
        place, kind = places[instruction.offset // 2], instruction.opname
        if instruction.offset >= at:
            if "CALL" in kind:
                return loaded, is_bare
            return ("add" if kind.startswith(("BINARY", "UNARY", "COMPARE", "INPLACE", "STORE_SUBSCR")) else ""), False
        if place[0] == here[0] and place[2] == here[2] and place != here and kind.startswith("LOAD"):
            loaded = instruction.argval if isinstance(instruction.argval, str) else ""
            is_bare = "ATTR" not in kind and "METHOD" not in kind
    return "", False


def _called_in_text(frame: FrameType) -> str:
    call = source_tree.call_of(frame)
    return "" if call is None else source_tree.called_name(call)


# --- extension modules ---


_loaded_modules = 0
_libraries: set[str] = set()
_extensions: tuple[ModuleType, ...] = ()


def has_foreign_extension() -> bool:
    """Return whether the process has loaded an extension module that is built on torch and is no part of it."""
    return bool(extensions())


def extensions() -> tuple[ModuleType, ...]:
    """The extension modules that are loaded, are built on torch, and are no part of it."""
    is_new()
    return _extensions


def is_new(*, afresh: bool = False) -> bool:
    """Look for extension modules, if any module was loaded since; return whether there are others than before.

    ``torch.utils.cpp_extension`` enters none of its modules in ``sys.modules``: files that are mapped into memory show
    that there are such. Kernels that Inductor compiled do not count: they run in regions, and those are seen to run.
    """
    global _loaded_modules, _libraries, _extensions
    is_loading = len(sys.modules) != _loaded_modules
    libraries = _mapped_files() if is_loading or afresh else _libraries
    if not is_loading and libraries == _libraries:
        return afresh
    _loaded_modules, _libraries = len(sys.modules), libraries
    modules = [
        (name, module, getattr(module, "__dict__", {}).get("__file__")) for name, module in list(sys.modules.items())
    ]
    mapped = libraries.difference(file for _, _, file in modules if isinstance(file, str))
    files = frozenset(file for file in mapped if _is_foreign(os.path.basename(file).partition(".")[0], file))
    modules += ((module.__name__, module, module.__file__) for module in _unlisted(files)) if files else ()
    before, _extensions = _extensions, tuple(module for name, module, file in modules if _is_foreign(name, file))
    return afresh or _extensions != before


@lru_cache(1)
def _unlisted(files: frozenset[str]) -> list[ModuleType]:
    """The modules of ``files``, which ``sys.modules`` does not have."""
    return [each for each in gc.get_objects() if type(each) is ModuleType and vars(each).get("__file__") in files]


def _mapped_files() -> set[str]:
    """Files of extension modules, and other libraries, that are mapped into memory, where the system tells."""
    try:
        with open(_LIBRARIES, encoding="utf-8", errors="replace") as mapped:
            paths = {line[line.find(os.sep) :].rstrip() for line in mapped if line.rstrip().endswith(".so")}
    except OSError:
        return set()
    return {path for path in paths if not path.startswith(_TORCH)}


class NativeFunction(NamedTuple):
    """A function of an extension module, or a method of one of its classes."""

    name: str
    is_method: bool
    holders: list[Holder]


def native_functions() -> list[NativeFunction]:
    """The functions of extension modules, with every module that holds them."""
    return _functions_of(extensions(), len(sys.modules)) if extensions() else []


@lru_cache(1)
def _functions_of(extensions: tuple[ModuleType, ...], _: int) -> list[NativeFunction]:
    methods, functions = [], {}
    for module in extensions:
        for name, value in list(vars(module).items()):
            if isinstance(value, type):
                names = [each for each, method in vars(value).items() if callable(method) and _is_called(each)]
                own = names if value.__module__ == module.__name__ else ()
                methods += [NativeFunction(f"{module.__name__}.{name}.{each}", True, [(value, each)]) for each in own]
            elif callable(value) and not hasattr(value, "__code__"):
                functions[id(original_of(value))] = NativeFunction(f"{module.__name__}.{name}", False, [])
    for module in {id(module): module for module in (*extensions, *list(sys.modules.values()))}.values():
        for name, value in list(getattr(module, "__dict__", {}).items()):
            function = functions.get(id(value)) or functions.get(id(original_of(value)))
            if function is not None:
                function.holders.append((module, name))
    return [*methods, *functions.values()]


def _is_called(name: str) -> bool:
    return not name.startswith("__") or name in ("__init__", "__call__")


def held_elsewhere() -> set[str]:
    """Names of extension modules' functions that objects of the program hold: calls through those cannot be watched."""
    names = {id(held_by(*each.holders[0])): each.name for each in native_functions() if not each.is_method}
    functions = [held_by(*each.holders[0]) for each in native_functions() if not each.is_method]
    modules = {id(getattr(module, "__dict__", None)) for module in (*extensions(), *list(sys.modules.values()))}
    held: set[str] = set()
    for holder in gc.get_referrers(*functions) if functions else ():
        kind = type(holder)
        if holder is functions or id(holder) in modules or kind in _NO_HOLDERS or issubclass(kind, Replacement):
            continue
        inside = {id(each) for each in gc.get_referents(holder)}
        is_ours = kind is tuple and (not inside - names.keys() or type(holder[0]) is ModuleType)
        if not is_ours and not (kind is dict and "_tracer_original" in holder):
            held |= {names[each] for each in inside & names.keys()}
    return held


@cache
def _is_foreign(name: str, path: Any) -> bool:
    top = name.partition(".")[0]
    return top in _BY_NAME or (
        top not in _WITHOUT_TORCH
        and isinstance(path, str)
        and _STANDARD_LIBRARY not in path
        and path.endswith(tuple(EXTENSION_SUFFIXES))
        and not (compile_seams.SEES_REGIONS and compile_seams.is_generated(name, path))
        and _names_torch(path)
    )


@cache
def _names_torch(path: str) -> bool:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(content.find(mark) >= 0 for mark in _MARKS)
    except (OSError, ValueError):
        return True
