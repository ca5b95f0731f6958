"""What a call's data settle: writes to distinct places, exact sums, choices without ties. Reading waits for a device.

Nothing is read if sizes settle a call, or if an earlier call of its group was not settled by its data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import prod
from typing import Any, NamedTuple

import torch

from tracer.facts import Args, Kwargs, argument_getter, getters
from tracer.names import SETTLING_DATA, DataShown
from tracer.ops import Op, Orders, Writes, row_of
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.observers import Interest, Observer
from tracer.recording.values import unseen
from tracer.recording.values.digest_table import is_capturing

#: Whole numbers up to 2 to this power are exact, and so is every sum of them that stays below it.
_EXACT_BITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def _add_exactly(target: torch.Tensor | None, added: torch.Tensor, most: int, factor: float = 1) -> bool:
    """Whether every sum of ``target`` (``None``: zeros) and ``most`` of ``added``, times ``factor``, is exact."""
    bits = _EXACT_BITS.get(added.dtype)
    if bits is None or factor != int(factor) or not added.numel():
        return bits is not None and not added.numel()
    reach = _largest_whole(added)
    onto = 0.0 if target is None or not target.numel() else _largest_whole(target)
    return bool(most * reach * abs(factor) + onto <= 2**bits)


def _largest_whole(numbers: torch.Tensor) -> float:
    """The largest absolute value; infinity if any value is not an integer."""
    largest = float(numbers.abs().max())  # NaN and infinity come through
    return largest if largest == largest and bool((numbers == numbers.round()).all()) else float("inf")


DataLook = Callable[[Args, Kwargs, Any], DataShown]
DataTest = Callable[[Args, Kwargs], DataShown]


def _ties_of(func: Any, op: Op) -> DataLook | None:
    """The test for ties in calls of ``func``, an overload of ``op``; ``None`` if it orders nothing."""
    gets = getters(func, "self", "dim")
    if op.orders is None or gets is None:
        return None
    test = _among_chosen if op.orders is Orders.SEVERAL else _of_one

    def look(args: Args, kwargs: Kwargs, result: Any) -> DataShown:
        numbers, axis = (get(args, kwargs) for get in gets)
        if not numbers.dim() or not numbers.numel():
            return DataShown.NO_TIES
        if numbers.is_floating_point() and bool(numbers.isnan().any()):
            return DataShown.NAN
        return DataShown.TIES if test(numbers, result[0], axis) else DataShown.NO_TIES

    return look


def _of_one(numbers: torch.Tensor, chosen: torch.Tensor, dim: int) -> bool:
    """Whether the chosen value occurs more than once."""
    extreme = chosen if chosen.dim() == numbers.dim() else chosen.unsqueeze(dim)
    return bool(((numbers == extreme).sum(dim) > 1).any())


def _among_chosen(numbers: torch.Tensor, chosen: torch.Tensor, dim: int) -> bool:
    """Whether two chosen values are equal, or the last chosen one also occurs among the rest."""
    if not chosen.shape[dim]:
        return False
    ordered = chosen.sort(dim).values
    extent = ordered.shape[dim]
    if bool((ordered.narrow(dim, 1, extent - 1) == ordered.narrow(dim, 0, extent - 1)).any()):
        return True
    if extent == numbers.shape[dim]:
        return False
    # Each chosen value is there once; one that is found again was left at the edge.
    edges = (ordered.narrow(dim, 0, 1), ordered.narrow(dim, extent - 1, 1))
    return any(bool(((numbers == edge).sum(dim) > 1).any()) for edge in edges)


class WritePlaces(NamedTuple):
    """The destinations of one call's writes."""

    numbers: torch.Tensor
    below: int
    """The numbers lie below this."""


def _along(target: torch.Tensor, dim: int, index: torch.Tensor) -> WritePlaces:
    """A destination is the index along ``dim`` and the position in all other dimensions."""
    if not target.dim() or not index.dim():
        return WritePlaces(index.reshape(-1), max(1, target.numel()))
    return _in_rows(index.movedim(dim, -1).reshape(-1, index.shape[dim]), target.shape[dim])


def _in_rows(numbers: torch.Tensor, extent: int) -> WritePlaces:
    """Destinations in rows, each counted separately."""
    offsets = torch.arange(numbers.shape[0], device=numbers.device).unsqueeze(1) * extent
    return WritePlaces((numbers.to(torch.int64) + offsets).reshape(-1), numbers.shape[0] * extent)


def _rows(target: torch.Tensor, dim: int, index: torch.Tensor) -> WritePlaces:
    return WritePlaces(index.reshape(-1), target.shape[dim] if target.dim() else 1)


def _put(target: torch.Tensor, index: torch.Tensor) -> WritePlaces:
    count = target.numel()
    return WritePlaces(index.reshape(-1).to(torch.int64).remainder(max(1, count)), count)


def _put_by_several(target: torch.Tensor, indices: Any) -> WritePlaces:
    numbers = torch.zeros((), dtype=torch.int64, device=target.device)
    count, dim = 1, 0
    for index in indices:
        if index is None:
            dim += 1
            continue
        for part in index.nonzero().unbind(1) if index.dtype in (torch.bool, torch.uint8) else (index,):
            extent = target.shape[dim]
            numbers = numbers * extent + part.to(target.device, torch.int64).remainder(max(1, extent))
            count *= extent
            dim += 1
    return WritePlaces(numbers.reshape(-1), count)


def _embedded(indices: torch.Tensor, rows: int, padding: int) -> WritePlaces:
    """The padding row gets no gradient."""
    numbers = indices.reshape(-1)
    return WritePlaces(numbers[numbers != padding] if padding >= 0 else numbers, int(rows))


def _pooled(spatial: int, source: torch.Tensor, indices: torch.Tensor, size: Any = None) -> WritePlaces:
    extent = prod(source.shape[-spatial:] if size is None else size)
    return _in_rows(indices.reshape(-1, prod(indices.shape[-spatial:])), extent)


def _most_at_one_place(places: WritePlaces) -> int:
    """The largest number of writes to a single destination."""
    numbers, count = places
    if numbers.numel() < 2:
        return numbers.numel()
    if count <= 4 * numbers.numel() + 65536:
        return int(torch.bincount(numbers).max())
    ordered = numbers.sort().values
    if not bool((ordered[1:] == ordered[:-1]).any()):
        return 1
    return 3 if bool((ordered[2:] == ordered[:-2]).any()) else 2


#: What finds the places, and the arguments that it needs.
_FINDS: dict[Writes, tuple[Any, ...]] = {
    Writes.ALONG: (_along, "self", "dim", "index"),
    Writes.ROWS: (_rows, "self", "dim", "index"),
    Writes.SEVERAL: (_put_by_several, "self", "indices"),
    Writes.FLAT: (_put, "self", "index"),
    Writes.EMBEDDED: (_embedded, "indices", "num_weights", "padding_idx"),
    Writes.POOLED: (_pooled, "self", "indices"),
    Writes.UNPOOLED: (_pooled, "self", "indices", "output_size"),
}
_BY_SHAPE = "index.distinct"


class DataFacts(Observer):
    """The data facts of one recording's calls."""

    def __init__(self) -> None:
        self._tests: dict[OverloadInfo, tuple[DataTest | None, DataLook | None]] = {}
        self._tallies: dict[CallCounter, Counter[DataShown]] = {}

    def wants(self, info: OverloadInfo) -> Interest:
        """Calls that write by an index or choose among values."""
        namespace, _, rest = info.name.partition(".")
        test = choice = None
        if namespace == "aten" and getattr(info.func, "_schema", None) is not None:
            op = row_of(rest.partition(".")[0])
            test, choice = _test_of_writes(info.func, op), _ties_of(info.func, op)
        self._tests[info] = test, choice
        return test is not None or choice is not None

    def before(
        self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs
    ) -> DataLook | None:
        """Examine where a call is about to write; returns what to examine after it has chosen."""
        if counter is None or not self._tallies.get(counter, {}).keys() <= SETTLING_DATA:
            return None
        if counter.asked is not None and dict(zip(info.readers, counter.asked, strict=True)).get(_BY_SHAPE) is True:
            return None
        test, choice = self._tests[info]
        if test is None:
            return choice
        self._note(counter, lambda: test(args, kwargs), args)
        return None

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Kwargs, result: Any, frame: Any
    ) -> None:
        if begun is not None:
            self._note(counter, lambda: begun(args, kwargs, result), args)

    def group_fields(self, counter: CallCounter) -> dict[str, Any]:
        tally = self._tallies.get(counter)
        return {} if tally is None else {"data": dict(tally)}

    def _note(self, counter: CallCounter, look: Callable[[], DataShown], args: Args) -> None:
        shown = DataShown.UNREAD
        if not any(isinstance(value, torch.Tensor) and is_capturing(value) for value in args):
            with suppress(Exception), unseen():  # sparse, out of bounds, a tensor of an unforeseen kind
                shown = look()
        self._tallies.setdefault(counter, Counter())[shown] += 1


def _test_of_writes(func: Any, op: Op) -> DataTest | None:
    """A test of where a call writes and what it adds there; ``None`` if it does not write by an index."""
    if op.writes is None:
        return None
    find, *names = _FINDS[op.writes]
    if op.writes in (Writes.POOLED, Writes.UNPOOLED):
        find = partial(find, op.spatial)
    gets = getters(func, *names)
    if gets is None:
        return None
    adds = _adds(func, op)
    target = None if op.onto_zeros or "backward" in op.name else argument_getter(func, "self")
    added = argument_getter(func, "src", "source", "values", "grad_output")
    factor = argument_getter(func, "alpha") or (lambda args, kwargs: 1)
    keeps_target = argument_getter(func, "include_self") or (lambda args, kwargs: True)

    def test(args: Args, kwargs: Kwargs) -> DataShown:
        most = _most_at_one_place(find(*(get(args, kwargs) for get in gets)))
        if most <= 1:
            return DataShown.DISTINCT
        if added is None or not adds(args, kwargs):
            return DataShown.DUPLICATES
        numbers = added(args, kwargs)
        onto = target(args, kwargs) if target is not None and keeps_target(args, kwargs) else None
        # NaN excluded: of two that meet, the first one's payload stays.
        if most == 2 and not (onto is not None and bool(onto.any())) and not bool(numbers.isnan().any()):
            return DataShown.TWICE_ONTO_ZEROS
        is_exact = _add_exactly(onto, numbers, most, factor(args, kwargs))
        return DataShown.EXACT if is_exact else DataShown.DUPLICATES

    return test


def _adds(func: Any, op: Op) -> Callable[[Args, Kwargs], bool]:
    """Whether a call sums values with the same destination."""
    if "backward" in op.name:
        by_frequency = argument_getter(func, "scale_grad_by_freq")
        return lambda args, kwargs: by_frequency is None or not by_frequency(args, kwargs)
    if op.sums:
        return lambda args, kwargs: True
    if reduce := argument_getter(func, "reduce"):
        return lambda args, kwargs: reduce(args, kwargs) in ("sum", "add")
    if accumulate := argument_getter(func, "accumulate"):
        return lambda args, kwargs: bool(accumulate(args, kwargs))
    return lambda args, kwargs: False
