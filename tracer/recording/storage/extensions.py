"""Code that writes to tensors and dispatches nothing: torch extensions that are plain functions, nodes and ops in C++.

What such code writes cannot be seen, so what it may have written must not be called unwritten.
"""

from __future__ import annotations

import mmap
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from types import FrameType
from typing import Any

import torch

from tracer.recording.torch_private import compile_seams, seams

#: Every library of functions on torch tensors names one of torch's own.
_MARKS = (b"c10.dll",) if sys.platform == "win32" else (b"libc10", b"libtorch")
#: Known to be built without torch: not searched. (Triton asks tensors for their address.)
_WITHOUT_TORCH = frozenset(
    {"torch", "functorch", "triton", "numpy", "scipy", "pandas", "pyarrow", "sklearn", "cv2", "PIL"}
)
_STANDARD_LIBRARY = f"{os.sep}lib-dynload{os.sep}"
#: They take tensors without calling a method of them.
_BY_NAME = ("tvm_ffi",)
#: Parts of torch that hand what they allocate to a library that writes it.
_OWN_PARTS = tuple(
    os.path.join(os.path.dirname(torch.__file__), *parts, "")
    for parts in (("nn", "parallel"), ("distributed",), ("cuda",), ("_inductor",), ("sparse",), ("xpu",))
) + (os.path.join(os.path.dirname(torch.__file__), "quasirandom.py"),)
#: Functions of torch whose C++ writes to what it allocates: the lengths of a packed sequence.
_OWN_FUNCTIONS = {os.path.join(os.path.dirname(torch.__file__), "nn", "utils", "rnn.py"): "pad_packed_sequence"}
_OPS_FILE = os.path.join(os.path.dirname(torch.__file__), "_ops.py")
_known: dict[str, bool] = {}
_modules_seen = 0
_found = False


def is_written_unseen(frame: FrameType | None) -> bool:
    """May memory that was given to ``frame`` just now be written by the caller without a dispatch?"""
    if frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_OWN_PARTS) or _OWN_FUNCTIONS.get(code.co_filename) == code.co_name:
            return True
        if code.co_filename == _OPS_FILE and not _calls_torchs_own(frame):
            return True
    node = seams.current_node()
    return node is not None and type(node).__name__ == "CppFunction"


def _calls_torchs_own(frame: FrameType) -> bool:
    """Is the op that is called in ``frame`` one of torch's? Another one's body may allocate, and write by itself."""
    name = str(frame.f_locals.get("self", ""))
    return name.startswith(("aten.", "prims."))


def has_foreign_extension() -> bool:
    """Has the process loaded an extension module that is built on torch and is no part of it?

    The kernels that Inductor compiles are such modules too; they run in regions, and those are seen to run.
    """
    global _modules_seen, _found
    if not _found and len(sys.modules) != _modules_seen:
        _modules_seen = len(sys.modules)
        _found = any(_is_foreign(name, module) for name, module in list(sys.modules.items()))
    return _found


def _is_foreign(name: str, module: Any) -> bool:
    known = _known.get(name)
    if known is None:
        top = name.partition(".")[0]
        path = getattr(module, "__file__", None) or ""
        known = _known[name] = top in _BY_NAME or (
            top not in _WITHOUT_TORCH
            and isinstance(path, str)
            and _STANDARD_LIBRARY not in path
            and path.endswith(tuple(EXTENSION_SUFFIXES))
            and not (compile_seams.SEES_REGIONS and compile_seams.is_generated(name, path))
            and _names_torch(path)
        )
    return known


def _names_torch(path: str) -> bool:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(content.find(mark) >= 0 for mark in _MARKS)
    except (OSError, ValueError):
        return True
