"""Native code that is no registered op: who asked for memory, and which extension modules are built on torch.

What native code allocates it writes, without a dispatch: only memory that Python asked for can be left unwritten.
"""

from __future__ import annotations

import dis
import gc
import mmap
import os
import sys
from contextlib import suppress
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from types import CodeType, FrameType, ModuleType

import torch

from tracer.ops import Touch, bare_name, row_of
from tracer.recording.patching import Holder, Replacement, held_by, original_of
from tracer.recording.torch_private import compile_seams, seams

#: Every library of functions on torch tensors names one of torch's own.
_MARKS = (b"c10.dll",) if sys.platform == "win32" else (b"libc10", b"libtorch")
_SUFFIXES = tuple(EXTENSION_SUFFIXES)
#: Known to be built without torch: not searched. (Triton asks tensors for their address.)
_WITHOUT_TORCH = frozenset(
    {
        *("torch", "functorch", "triton", "numpy", "scipy", "pandas", "pyarrow", "sklearn", "cv2", "PIL", "tokenizers"),
        *("regex", "yaml", "pydantic_core", "msgspec", "safetensors", "aiohttp", "matplotlib", "h5py", "numba", "lxml"),
    }
)
_STANDARD_LIBRARY = f"{os.sep}lib-dynload{os.sep}"
#: Where wheels keep the libraries that their extension modules link.
_BUNDLED = f".libs{os.sep}"
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
#: Instructions that name a function, or its module; a local variable may bear any name.
_NAMES = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD")
_LIBRARIES = "/proc/self/maps"

# --- who asked for memory ---


def is_written_unseen(frame: FrameType | None) -> bool:
    """Return whether native code that ``frame``, the innermost, called allocated memory or passes it on: it writes
    it."""
    if frame is None or frame.f_code is seams.ENGINE_CODE or frame.f_code.co_filename.startswith(_OWN_PARTS):
        return True
    if frame.f_code.co_filename == _OPS_FILE:
        op = str(frame.f_locals.get("self", ""))
        return not op.startswith(("aten.", "prims.")) or _is_native(bare_name(op))
    key = id(frame.f_code), frame.f_lasti  # a code object's own hash would read all of it
    known = _ASKS.get(key)
    if known is None:
        if len(_ASKS) >= _MOST_SITES:
            _ASKS.clear()
        known = _ASKS[key] = frame.f_code, _asks(frame.f_code, frame.f_lineno)
    return not known[1]


#: By ``id`` of a code object, which the entry keeps alive, and the instruction: whether its line asks for memory.
_ASKS: dict[tuple[int, int], tuple[CodeType, bool]] = {}


@lru_cache(_MOST_SITES)
def _is_native(name: str) -> bool:
    return not _gives(name) and seams.is_native_function(name)


def _gives(name: str) -> bool:
    """Whether torch's function ``name`` is a way to ask for memory."""
    return "empty" in name or name in ("new", "Tensor") or row_of(name).touches in (Touch.ALLOCATES, Touch.GROWS)


def _asks(code: CodeType, line: int) -> bool:
    """Return whether a line asks for memory: it names a function that gives some, or calls none of torch's at all."""
    places = [range(begin, end) for begin, end, at in code.co_lines() if at == line]
    inside = [each for each in dis.get_instructions(code) if any(each.offset in place for place in places)]
    names = {each.argval for each in inside if each.opname.startswith(_NAMES)} - {"torch"}
    calls = any("CALL" in each.opname for each in inside)
    return any(map(_gives, names)) or (calls and not any(map(seams.is_native_function, names)))


# --- extension modules ---

_loaded_modules = 0
_libraries: set[str] = set()
_extensions: tuple[ModuleType, ...] = ()


def extensions() -> tuple[ModuleType, ...]:
    """The extension modules that are loaded, are built on torch, and are no part of it."""
    is_new()
    return _extensions


def is_new(*, afresh: bool = False) -> bool:
    """Look for extension modules; return whether there are others than before. ``torch.utils.cpp_extension`` enters
    none in ``sys.modules``, but maps it into memory."""
    global _loaded_modules, _libraries, _extensions
    is_loading = len(sys.modules) != _loaded_modules
    libraries = _mapped_files() if is_loading or afresh else _libraries
    if not is_loading and libraries == _libraries:
        return afresh
    _loaded_modules, _libraries = len(sys.modules), libraries
    loaded = sys.modules.copy()  # whole, whatever another thread imports meanwhile
    files: dict[str, str] = {}
    for name, module in loaded.items():
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and (file.endswith(_SUFFIXES) or name.startswith(_BY_NAME)):
            files[name] = file
    found = {name: loaded[name] for name, file in files.items() if _is_foreign(name, file)}
    mapped = libraries.difference(files.values())
    unlisted = frozenset(file for file in mapped if _is_foreign(os.path.basename(file).partition(".")[0], file))
    unlisted = unlisted.difference(map(os.path.realpath, files.values()) if unlisted else ())
    before, _extensions = _extensions, (*found.values(), *(_modules_of(unlisted) if unlisted else ()))
    return afresh or _extensions != before


@lru_cache(1)
def _modules_of(files: frozenset[str]) -> list[ModuleType]:
    return [each for each in gc.get_objects() if type(each) is ModuleType and vars(each).get("__file__") in files]


def _mapped_files() -> set[str]:
    """Libraries that are mapped into memory and no part of torch, where the system tells."""
    torchs = _TORCH, os.path.realpath(_TORCH)
    with suppress(OSError), open(_LIBRARIES, encoding="utf-8", errors="replace") as mapped:
        paths = {line[line.find(os.sep) :].rstrip() for line in mapped if line.endswith(".so\n")}
        return {path for path in paths if not path.startswith(torchs)}
    return set()


def native_functions() -> dict[str, list[Holder]]:
    """The functions of extension modules and the methods of their classes, by name: every module or class with each."""
    loaded = extensions()
    return _functions_of(loaded, len(sys.modules)) if loaded else {}


@lru_cache(1)
def _functions_of(extensions: tuple[ModuleType, ...], _: int) -> dict[str, list[Holder]]:
    functions: dict[str, list[Holder]] = {}
    names: dict[int, str] = {}
    for module in extensions:
        for name, value in vars(module).copy().items():
            full = f"{module.__name__}.{name}"
            if isinstance(value, type) and value.__module__ == module.__name__:
                for own, method in vars(value).copy().items():
                    if callable(method) and (not own.startswith("__") or own in ("__init__", "__call__")):
                        functions[f"{full}.{own}"] = [(value, own)]
            elif callable(value) and not isinstance(value, type) and not hasattr(value, "__code__"):
                names[id(original_of(value))] = full
    for holder in {id(module): module for module in (*extensions, *sys.modules.copy().values())}.values():
        for name, value in dict(getattr(holder, "__dict__", {})).items():
            if (full := names.get(id(original_of(value)), "")) != "":
                functions.setdefault(full, []).append((holder, name))
    return functions


def held_elsewhere() -> set[str]:
    """Names of extension modules' functions that objects of the program hold: calls through those cannot be watched."""
    owned = {name: holders[0] for name, holders in native_functions().items() if not isinstance(holders[0][0], type)}
    functions = [held_by(*holder) for holder in owned.values()]
    names = dict(zip(map(id, functions), owned, strict=True))
    modules = {id(getattr(module, "__dict__", None)) for module in (*extensions(), *sys.modules.copy().values())}
    held: set[str] = set()
    for holder in gc.get_referrers(*functions) if functions else ():
        kind, inside = type(holder), {id(each) for each in gc.get_referents(holder)}
        is_ours = kind is tuple and (not inside - names.keys() or type(holder[0]) is ModuleType)
        is_ours |= (
            holder is functions or issubclass(kind, Replacement) or (kind is dict and "_tracer_original" in holder)
        )
        if not is_ours and id(holder) not in modules and kind not in (FrameType, ModuleType):
            held |= {names[each] for each in inside & names.keys()}
    return held


@cache
def _is_foreign(name: str, path: str) -> bool:
    top = name.partition(".")[0]
    return top in _BY_NAME or (
        top not in _WITHOUT_TORCH
        and _STANDARD_LIBRARY not in path
        and _BUNDLED not in path
        and path.endswith(_SUFFIXES)
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
