"""What is known of the numbers in tensors that the step itself made: until somebody writes to them, by their storage.

Indices of distinct numbers (``arange``, ``randperm``, ``sort``, ``topk``), and values that add up to the same in any
order: whole numbers, or one number beside zero. Of values, only the sign of what ``unique`` found is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isfinite, prod
from operator import add, mul
from typing import Any

import msgspec
import torch

from tracer import ops
from tracer.facts import Args, Kwargs
from tracer.ops import Numbers, Touch, row_of
from tracer.recording.storage import Access, has_out, positions_of
from tracer.recording.storage.overlaps import is_nested
from tracer.recording.storage.registry import COMPUTES, MAKES, WRITES, NumbersTable, Role, StorageRegistry
from tracer.recording.torch_private import seams

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
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
#: Whole numbers up to these are the same in this dtype, and so are their sums.
_EXACT = {dtype: 2 / torch.finfo(dtype).eps for dtype in _FLOATS}


def _op_of(func: Any) -> tuple[str, bool, int]:
    """The name of an overload's op, whether numbers of its result are known by that, and ``WRITES`` if it writes."""
    schema = func._schema
    namespace, _, rest = str(func).partition(".")
    name = rest.partition(".")[0]
    writes = schema.is_mutable or bool(row_of(name).undeclared)
    return name, namespace == "aten" and not has_out(schema), WRITES if writes else 0


def value_role(func: Any) -> Role | None:
    """Return the role of calls of ``func``, if they play one, with the name of the op that writes no argument."""
    if getattr(func, "_schema", None) is None:
        return None
    name, is_known, kind = _op_of(func)
    plain = name if name.startswith("_") else name.removesuffix("_")
    if is_known:
        if plain in ops.NUMBERED or plain in ops.FILLING or plain == "_to_copy":  # which makes numbers of a mask
            kind = MAKES
        elif plain in ops.TAKING or plain in ops.SUMMING or plain in ops.ARITHMETIC:
            kind = COMPUTES
    by_first = kind == COMPUTES and plain not in _OF_SEVERAL
    return Role(kind, plain, func._schema.is_mutable, by_first) if kind else None


def index_role(func: Any) -> Role | None:
    """Return the role of calls of ``func``, if they play one."""
    if getattr(func, "_schema", None) is None:
        return None
    name, is_known, kind = _op_of(func)
    kind = (is_known and _ROLES[row_of(name).numbers]) or kind
    dim = next((position for position, argument in positions_of(func._schema) if argument.name == "dim"), -1)
    return Role(kind, name, func._schema.is_mutable, dim=dim) if kind else None


class KnownValues(NumbersTable[Known]):
    """The tensors of one recording of whose numbers something is known."""

    dtypes = frozenset((*_FLOATS, torch.int64, torch.int32))

    def of(self, value: Any) -> Known:
        """Return what is known of a tensor, of each of several, or of a number."""
        if isinstance(value, (list, tuple)):
            return _either(*map(self.of, value)) if value else _UNKNOWN
        if not isinstance(value, _Tensor):
            return _constant(value)
        return _MASK if value.dtype is torch.bool else self.entry_of(value) or _UNKNOWN

    def note(self, role: Role, access: Access, args: Args, kwargs: Kwargs, result: Any) -> None:
        known = self._known_of(role.name, args, kwargs)
        if role.is_mutable and known is not _UNKNOWN:
            target = args[0]
            if not target.is_contiguous() or target.nbytes != seams.storage_bytes(target):
                known = _either(self.of(target), known)
        if known.largest is not None and known.largest > _EXACT.get(result.dtype, known.largest):
            known = Known(None, known.one)
        if role.is_mutable and (known == _UNKNOWN or not access.is_simple):
            self.forget_written(access, args, kwargs)
        if known != _UNKNOWN:
            self._keep(result, known, int(role.is_mutable))

    def _known_of(self, name: str, args: Args, kwargs: Kwargs) -> Known:
        if name in ops.NUMBERED:
            return _constant(ops.NUMBERED[name])
        if name in ops.FILLING:
            return self.of(args[ops.FILLING[name]])
        if name == "where":
            return _either(self.of(args[1]), self.of(args[2]))
        first = self.of(args[0])
        if first == _UNKNOWN:
            return first
        if name in ops.SUMMING and (name != "index_put" or (args[3] if len(args) > 3 else kwargs.get("accumulate"))):
            if kwargs.get("alpha", 1) != 1 or (name == "scatter_reduce" and args[4] != "sum"):
                return _UNKNOWN
            added = args[ops.SUMMING[name]]
            return _sum(first, _times(self.of(added), Known(added.numel(), None)))
        if name in ops.TAKING:
            taken = (self.of(args[place]) for place in ops.TAKING[name])
            return _UNKNOWN if "reduce" in kwargs else _either(first, *taken)
        if name == "sum":
            return _times(first, Known(args[0].numel(), None))
        second = self.of(args[1])
        if name == "mul":
            return _times(first, second)
        if name == "div":
            return _times(first, _inverse(args[1]) if type(args[1]) in (int, float) else _UNKNOWN)
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


@lru_cache
def _inverse(number: float) -> Known:
    return Known(None, _constant(1 / number).one) if number else _UNKNOWN


@lru_cache
def _either(*several: Known) -> Known:
    """Numbers each of which is of one of these kinds."""
    first, *others = several
    for other in others:
        wholes = _both(max, first.largest, other.largest)
        one = first.one if other.one == 0 else other.one if first.one in (0, other.one) else None
        is_certain = 0 in (first.one, other.one) or (wholes is not None and wholes <= _SMALL)
        first = Known(wholes, one if is_certain else None)
    return first


@lru_cache
def _sum(first: Known, second: Known) -> Known:
    one = second.one if first.one == 0 else first.one if second.one == 0 else None
    return Known(_both(add, first.largest, second.largest), one)


@lru_cache
def _times(first: Known, second: Known) -> Known:
    return Known(_both(mul, first.largest, second.largest), _both(mul, first.one, second.one))


def _both(join: Callable[[Any, Any], Any], *numbers: float | None) -> Any:
    """What two numbers make; ``None`` where one of them is not known."""
    return None if None in numbers else join(*numbers)


_WIDE = (torch.int64, torch.int32)

_ROLES = {None: 0, Numbers.MAKES: MAKES, Numbers.CARRIES: COMPUTES, Numbers.PUTS: COMPUTES}


class Distinct(msgspec.Struct, frozen=True):
    dim: int
    """Along this dimension, with the others held fixed, no number occurs twice."""
    extent: int = 0
    """Along it the numbers are ``0`` to ``extent - 1``; 0 where that is not known."""
    has_no_negative: bool = True
    """A negative number stands for a place counted from the end, and so for a second name of it."""
    is_together: bool = False
    """Not the numbers are distinct along ``dim``, but the pairs and the like that they make in the other dimension."""


class _Contents(msgspec.Struct, frozen=True):
    """Distinct numbers, with the geometry of the tensor that holds them."""

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    numbers: Distinct


class Indices(NumbersTable[_Contents]):
    """The indices of one recording that are known to be of distinct numbers."""

    dtypes = _WIDE

    def __init__(self, registry: StorageRegistry | None = None) -> None:
        super().__init__(registry)
        self.values = KnownValues(self._registry)

    def of(self, tensor: torch.Tensor) -> Distinct | None:
        """Return what is known of ``tensor``, of which a known index may be a view or the other way about."""
        entry = self._entry(tensor)
        return None if entry is None or entry.numbers.is_together else _in_view(entry, tensor)

    def _entry(self, tensor: Any) -> _Contents | None:
        return self.entry_of(tensor) if isinstance(tensor, _Tensor) else None

    def distinct_together(self, tensors: Sequence[Any]) -> bool:
        """Return whether the rows among ``tensors`` hold distinct pairs, or the like: all parts of a known tensor."""
        rows = [row for row in tensors if row.dim() == 1 and (entry := self._entry(row)) and entry.numbers.is_together]
        entry = self._entry(rows[0]) if rows else None
        if entry is None or not entry.numbers.has_no_negative or any(self._entry(row) is not entry for row in rows):
            return False
        dim, size, step = entry.numbers.dim, rows[0].shape[0], rows[0].stride(0)
        along, across = entry.strides[dim], entry.strides[1 - dim]
        offsets = [row.storage_offset() - entry.offset for row in rows]
        start = min(offsets)
        return (
            all(row.shape[0] == size and row.stride(0) == step for row in rows)
            and not start % along
            and not step % along
            and start + step * (size - 1) <= along * (entry.sizes[dim] - 1)
            and {offset - start for offset in offsets} == {across * part for part in range(entry.sizes[1 - dim])}
        )

    def largest_whole(self, tensor: Any) -> int | None:
        return self.values.of(tensor).largest

    def has_one_number(self, tensor: Any) -> bool:
        return self.values.of(tensor).one is not None

    def was_read_at(self, tensor: Any, dim: int | None, indices: Sequence[Any]) -> bool:
        """Return whether ``tensor`` comes from a read at ``indices``; known in graphs alone."""
        return False

    def distinct_along(self, tensor: torch.Tensor, dim: int) -> bool:
        numbers = self.of(tensor)
        return numbers is not None and numbers.dim == dim % max(1, tensor.dim())

    def covers(self, tensor: torch.Tensor, dim: int, extent: int) -> bool:
        """Return whether ``tensor`` holds each number from 0 to ``extent - 1`` along ``dim``."""
        numbers = self.of(tensor)
        return numbers is not None and numbers.dim == dim and numbers.extent == extent

    def note(self, role: Role, access: Access, args: Args, kwargs: Kwargs, result: Any) -> None:
        if role.kind == MAKES:
            result, numbers = _made_by(role, args, kwargs, result)
        else:
            numbers = self._carried(role.name, args, kwargs, result)
            self.forget_written(access, args, kwargs)
        if numbers is not None:
            self.know(result, numbers, int(role.is_mutable))

    def know(self, tensor: Any, numbers: Distinct, writes: int = 0) -> None:
        if tensor.numel() and is_nested(tensor.shape, tensor.stride()):
            contents = _Contents(int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride(), numbers)
            self._keep(tensor, contents, writes)

    def _carried(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> Distinct | None:
        """Return what is known of the result of an op that takes its numbers from another tensor."""
        row = row_of(name)
        if row.numbers is Numbers.PUTS:
            return self._put(name, args)
        moves, entry = row.touches is Touch.MOVES, self._entry(args[0])
        if moves and entry is not None and entry.numbers.is_together and entry.sizes == tuple(args[0].shape):
            return entry.numbers if entry.strides == args[0].stride() else None
        numbers = self.of(args[0])
        if numbers is None or not isinstance(result, _Tensor):
            return None
        if moves:
            return numbers if tuple(result.shape) == tuple(args[0].shape) else None
        if name == "flip":
            return numbers
        if name == "add":
            added = args[1] * kwargs.get("alpha", 1) if type(args[1]) is int else None
            return None if added is None else Distinct(numbers.dim, 0, numbers.has_no_negative and added >= 0)
        # Of distinct numbers in a row, those that a mask or another such row picks.
        picked = args[2] if name == "index_select" else args[1][0] if len(args[1]) == 1 else None
        if not isinstance(picked, _Tensor) or not picked.dim() == args[0].dim() == result.dim() == 1:
            return None
        if picked.dtype is torch.bool:
            return Distinct(0, 0, numbers.has_no_negative)
        places = self.of(picked)
        if places is None or not places.has_no_negative:
            return None
        whole = numbers.extent if numbers.extent == places.extent == result.numel() else 0
        return Distinct(0, whole, numbers.has_no_negative)

    def _put(self, name: str, args: Args) -> Distinct | None:
        """Numbers in a row, each put to its place by another row: ``empty_like(p).scatter_(0, p, arange(n))``."""
        indices = args[2:3] if name.startswith("scatter") else args[1]
        source = args[3] if name.startswith("scatter") and len(args) > 3 else args[2]
        if len(indices) != 1 or any(not isinstance(value, _Tensor) or value.dim() != 1 for value in (*indices, source)):
            return None
        size = args[0].numel()
        is_whole = args[0].dim() == 1 and source.numel() == size and self.covers(indices[0], 0, size)
        return self.of(source) if is_whole else None


def _made_by(role: Role, args: Args, kwargs: Kwargs, result: Any) -> tuple[Any, Distinct | None]:
    """The tensor of distinct numbers that a call made, and what is known of it; ``None`` where it made none."""
    name, at = role.name, role.dim
    if name == "arange":
        if not args or any(type(arg) is not int for arg in args):
            return result, None
        start, step = (args[0] if len(args) > 1 else 0), (args[2] if len(args) > 2 else 1)
        last = start + step * max(0, result.numel() - 1)
        return result, Distinct(0, result.numel() if (start, step) == (0, 1) else 0, start >= 0 and last >= 0)
    if name == "randperm":
        return result, Distinct(0, result.numel())
    if name == "multinomial":
        replaces = args[2] if len(args) > 2 else kwargs.get("replacement", False)
        return result, None if replaces else Distinct(max(0, result.dim() - 1))
    if name == "nonzero":
        return result, Distinct(0, is_together=args[0].dim() > 1) if args[0].dim() else None
    if name in ("triu_indices", "tril_indices"):
        return result, Distinct(1, is_together=True)
    if name in ("_unique", "_unique2"):
        return result[0], Distinct(0, 0, _has_no_negative(result[0]))
    if name == "unique_dim":
        rows = result[0]
        numbers = Distinct(args[1] % rows.dim(), 0, _has_no_negative(rows), is_together=rows.dim() > 1)
        return rows, numbers if rows.dim() < 3 else None
    if name in ("_indices", "indices"):
        is_distinct = seams.is_coalesced(args[0])
        return result, Distinct(1, is_together=args[0].sparse_dim() > 1) if is_distinct else None
    dim = args[at] if 0 <= at < len(args) else kwargs.get("dim", -1)
    source = args[0]
    if not source.dim():
        return result[1], None
    dim %= source.dim()
    return result[1], Distinct(dim, source.shape[dim] if result[1].shape[dim] == source.shape[dim] else 0)


def _has_no_negative(numbers: torch.Tensor) -> bool:
    """Read what ``unique`` found, where that waits for no device."""
    if type(numbers) is not _Tensor or numbers.device.type != "cpu" or numbers.dtype not in _WIDE:
        return False
    with torch.no_grad(), seams.without_torch_function(), seams.without_modes():
        return not bool((numbers < 0).any())


def _in_view(entry: _Contents, tensor: torch.Tensor) -> Distinct | None:
    """What is known about ``tensor``, a view of the numbers of ``entry``; ``None`` if unsure. Each wide dimension must
    run along one of the entry's, and stay inside it; any step will do if that has only one."""
    numbers = entry.numbers
    runs = zip(entry.strides, entry.sizes, range(len(entry.sizes)), strict=True)
    wide = sorted((run for run in runs if run[1] > 1), reverse=True)
    left = int(tensor.storage_offset()) - entry.offset
    starts: dict[int, int] = {}
    for stride, size, dim in wide:
        starts[dim], left = divmod(left, stride)
        if not 0 <= starts[dim] < size:
            return None
    if left:
        return None
    along = -1
    axes: set[int] = set()
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if size <= 1 or stride == 0:
            continue
        for own, length, place in wide:
            step = stride // own
            is_along = not stride % own and (len(wide) == 1 or step == 1) and place not in axes
            if is_along and starts[place] + step * (size - 1) < length:
                axes.add(place)
                along = dim if place == numbers.dim else along
                break
        else:
            return None
    if along < 0:
        return None
    is_whole = tensor.shape[along] == entry.sizes[numbers.dim]
    return Distinct(along, numbers.extent if is_whole else 0, numbers.has_no_negative)


def written_through(op: str, args: Args, indices: Indices) -> int | None:
    """Elements of ``args[0]`` that a scattering call wrote: all where the index is known to cover it, else at most so
    many, as a negative number; ``None`` where not even that is known."""
    name = op.partition(".")[2].partition(".")[0]
    target = args[0]
    if name in ("scatter_", "index_copy_"):
        dim, index = args[1] % max(1, target.dim()), args[2]
        size = target.shape[dim] if target.dim() else 1
        is_row = name == "index_copy_"
        covers = indices.covers(index, 0 if is_row else dim, size) and (is_row or index.shape == target.shape)
        count = args[3].numel() if is_row else index.numel()
    elif name == "index_put_":
        by_dim = args[1]
        if any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in by_dim):
            return _through_a_mask(target, by_dim, args[2])
        covers = len(by_dim) == 1 and by_dim[0].dim() == 1 and indices.covers(by_dim[0], 0, target.shape[0])
        places = torch.broadcast_shapes(*(index.shape for index in by_dim if index is not None))
        untouched = [size for dim, size in enumerate(target.shape) if dim >= len(by_dim) or by_dim[dim] is None]
        count = prod(places) * prod(untouched)
    else:
        return None
    return int(target.numel() if covers else -min(count, target.numel()))


def _through_a_mask(target: torch.Tensor, indices: Any, values: Any) -> int | None:
    """As ``written_through``, of ``target[mask] = values``: one place a value, unless one goes to all of them."""
    masks = [index for index in indices if index is not None]
    if len(masks) != 1 or not isinstance(values, _Tensor):
        return None
    before = next(place for place, index in enumerate(indices) if index is not None)
    rest = target.shape[before + masks[0].dim() :]
    place = values.dim() - len(rest) - 1
    if place < 0 or values.shape[place] == 1:
        return None
    count = values.shape[place] * prod(rest) * prod(target.shape[:before])
    return int(count if count == target.numel() else -count)
