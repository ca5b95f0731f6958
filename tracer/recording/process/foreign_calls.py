"""Calls of compiled functions through ``ctypes``: who is told of them, and what of their answers can be compared."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

#: Types that hold an address, which differs in every process.
_ADDRESSES = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p, ctypes._Pointer, ctypes._CFuncPtr)  # type: ignore[attr-defined]
_PLAIN = (bool, int, float, bytes, str, type(None))
#: Bytes of one argument that are compared.
_MOST = 1 << 16

#: Functions that return memory which nobody has written, and the argument that is its size in bytes.
_GIVES_UNWRITTEN = {"malloc": 0, "valloc": 0, "pvalloc": 0, "aligned_alloc": 1, "memalign": 1}

Tell = Callable[[str, Any, tuple[Any, ...], FrameType], None]
"""Told the name of a function that was called, what it returned, its arguments, and the frame that called."""


def tell_of_calls(library: Any, tell: Tell) -> None:
    """Tell of each call of a function that the program takes from ``library``, after it; the call itself is ctypes'."""
    inner: Any = getattr(
        library, "_FuncPtr", None
    )  # private; in Python 3.10 to 3.14 each library has a class of its own
    if inner is None:
        return

    class Function(inner):  # type: ignore[misc]
        _flags_ = inner._flags_
        _restype_ = inner._restype_

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            result = super().__call__(*args, **kwargs)
            is_address = isinstance(self.restype, type) and issubclass(self.restype, ctypes.c_void_p)
            name = getattr(self, "__name__", "")
            gives = is_address and name in _GIVES_UNWRITTEN
            tell(name, result if gives or not is_address else None, args, sys._getframe(1))
            return result

    Function.__name__, Function.__qualname__ = inner.__name__, inner.__qualname__
    library._FuncPtr = Function


def unwritten_memory(name: str, result: Any, args: tuple[Any, ...]) -> bytes | None:
    """Return what the memory holds that the function ``name`` gave; ``None`` where it gave none, or no whole address.

    ``restype`` must be ``c_void_p``: an ``int`` of C is half an address.
    """
    place = _GIVES_UNWRITTEN.get(name, len(args))
    size = getattr(args[place], "value", args[place]) if place < len(args) else 0
    address = getattr(result, "value", result)
    if not (isinstance(size, int) and isinstance(address, int) and size > 0 and address):
        return None
    return ctypes.string_at(address, min(size, _MOST))


def answered(result: Any, args: tuple[Any, ...]) -> tuple[bytes, bool]:
    """Return what a function returned and left in objects passed by reference, and whether that is all.

    Addresses are left out, and so is the memory that they point to.
    """
    parts = [repr(result).encode(errors="surrogateescape")] if isinstance(result, _PLAIN) else []
    is_whole = isinstance(result, _PLAIN)
    for value in args:
        passed = getattr(value, "_obj", value)  # of ``ctypes.byref``
        if isinstance(passed, (ctypes.Structure, ctypes.Union, ctypes.Array)) or passed is not value:
            if _holds_addresses(type(passed)):
                is_whole = False
            else:
                parts.append(bytes(memoryview(passed).cast("B")[:_MOST]))
        else:
            is_whole = is_whole and not isinstance(passed, (int, *_ADDRESSES))
    return b"\0".join(parts), is_whole


def _holds_addresses(kind: Any) -> bool:
    if issubclass(kind, ctypes.Array):
        return _holds_addresses(kind._type_)
    fields = getattr(kind, "_fields_", None)
    if fields is not None:
        return any(_holds_addresses(field[1]) for field in fields)
    return issubclass(kind, (*_ADDRESSES, ctypes.py_object))
