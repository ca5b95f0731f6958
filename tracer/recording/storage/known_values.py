"""Tensors that a step made of whole numbers or of one number beside zero: sums of them are the same in any order.

A tensor is known by its storage, all of whose elements are of that kind, until somebody writes to it. No value is read.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from operator import add, mul
from typing import Any

import msgspec
import torch

from tracer.facts.argument_readers import Args, Kwargs
from tracer.ops import rows
from tracer.recording.storage.accesses import Access, has_out
from tracer.recording.storage.registry import COMPUTES, MAKES, WRITES, NumbersTable, Role
from tracer.recording.torch_private import storages

_Tensor = torch.Tensor
#: Whole numbers up to this are the same in every dtype.
_SMALL = 256
#: Ops that take from several tensors alike.
_OF_SEVERAL = ("where", "cat", "stack")


class Known(msgspec.Struct, frozen=True):
    largest: int | None
    """All are whole numbers, none of a larger magnitude; ``None`` where that is not known."""
    one: float | None
    """Each is zero or this number, as it was before the dtype rounded it; ``None`` where that is not known."""


_MASK, _UNKNOWN = Known(1, 1.0), Known(None, None)


def value_role(func: Any) -> Role | None:
    """Return the role of calls of ``func``, if they play one, with the name of the op that writes no argument."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return None
    namespace, _, rest = str(func).partition(".")
    name = rest.partition(".")[0]
    plain = name if name.startswith("_") else name.removesuffix("_")
    kind = WRITES if schema.is_mutable or rows.row_of(name).undeclared else 0
    if namespace == "aten" and not has_out(schema):
        if plain in rows.NUMBERED or plain in rows.FILLING or plain == "_to_copy":  # which makes numbers of a mask
            kind = MAKES
        elif plain in rows.TAKING or plain in rows.SUMMING or plain in rows.ARITHMETIC:
            kind = COMPUTES
    return Role(kind, plain, schema.is_mutable, kind == COMPUTES and plain not in _OF_SEVERAL) if kind else None


class KnownValues(NumbersTable[Known]):
    """The tensors of one recording of whose numbers something is known."""

    dtypes = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32)

    def of(self, value: Any) -> Known:
        """Return what is known of a tensor, of each of several, or of a number."""
        if isinstance(value, (list, tuple)):
            return _either(*map(self.of, value)) if value else _UNKNOWN
        if not isinstance(value, _Tensor):
            return _constant(value)
        return _MASK if value.dtype is torch.bool else self.entry_of(value) or _UNKNOWN

    def note(self, role: Role, access: Access, args: Args, kwargs: Kwargs, result: Any) -> None:
        known = self._known_of(role.name, args, kwargs)
        if role.is_mutable:
            if known != _UNKNOWN and not _is_whole(args[0]):
                known = _either(self.of(args[0]), known)
            self.forget_written(access, args, kwargs)
        if known.largest is not None and result.is_floating_point():
            is_exact = known.largest <= 2 / torch.finfo(result.dtype).eps
            known = known if is_exact else Known(None, known.one)
        if known != _UNKNOWN:
            self._keep(result, known, int(role.is_mutable))

    def _known_of(self, name: str, args: Args, kwargs: Kwargs) -> Known:
        if name in rows.NUMBERED:
            return _constant(rows.NUMBERED[name])
        if name in rows.FILLING:
            return self.of(args[rows.FILLING[name]])
        if name == "where":
            return _either(self.of(args[1]), self.of(args[2]))
        first = self.of(args[0])
        if first == _UNKNOWN:
            return first
        if name in rows.SUMMING and (name != "index_put" or (args[3] if len(args) > 3 else kwargs.get("accumulate"))):
            if kwargs.get("alpha", 1) != 1 or (name == "scatter_reduce" and args[4] != "sum"):
                return _UNKNOWN
            added = args[rows.SUMMING[name]]
            return _sum(first, _times(self.of(added), Known(added.numel(), None)))
        if name in rows.TAKING:
            taken = (self.of(args[place]) for place in rows.TAKING[name])
            return _UNKNOWN if "reduce" in kwargs else _either(first, *taken)
        if name == "sum":
            return _times(first, Known(args[0].numel(), None))
        second = self.of(args[1])
        if name == "mul":
            return _times(first, second)
        if name == "div":
            is_by_number = not isinstance(args[1], _Tensor) and args[1]
            return _times(first, Known(None, _constant(1 / args[1]).one if is_by_number else None))
        if kwargs.get("alpha", args[2] if len(args) > 2 else 1) != 1:
            return _UNKNOWN
        if name == "rsub":
            if first == second and not isinstance(args[1], _Tensor):  # 1 - mask
                return first
            return _sum(_times(first, _constant(-1)), second)
        return _sum(first, second if name == "add" else _times(second, _constant(-1)))


def _constant(number: Any) -> Known:
    if type(number) not in (bool, int, float) or not isfinite(number):
        return _UNKNOWN
    return Known(abs(int(number)) if number == int(number) else None, float(number))


def _either(*several: Known) -> Known:
    """Numbers each of which is of one of these kinds."""
    first, *others = several
    for other in others:
        wholes = _both(max, first.largest, other.largest)
        one = first.one if other.one == 0 else other.one if first.one in (0, other.one) else None
        is_certain = 0 in (first.one, other.one) or (wholes is not None and wholes <= _SMALL)
        first = Known(wholes, one if is_certain else None)
    return first


def _sum(first: Known, second: Known) -> Known:
    one = second.one if first.one == 0 else first.one if second.one == 0 else None
    return Known(_both(add, first.largest, second.largest), one)


def _times(first: Known, second: Known) -> Known:
    return Known(_both(mul, first.largest, second.largest), _both(mul, first.one, second.one))


def _both(join: Callable[[Any, Any], Any], *numbers: float | None) -> Any:
    """What two numbers make; ``None`` where one of them is not known."""
    return None if None in numbers else join(*numbers)


def _is_whole(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous() and tensor.numel() * tensor.element_size() == storages.storage_bytes(tensor)
