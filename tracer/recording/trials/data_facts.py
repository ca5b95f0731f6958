"""What a call's data settle: writes to distinct places, exact sums, choices without ties. Reading waits for a device.

Nothing is read if sizes settle a call, or if an earlier call of its group was not settled by its data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from math import prod
from typing import Any

import torch

from tracer.facts import Args, Kwargs
from tracer.names import SETTLING_DATA, DataShown
from tracer.ops import Op, Orders, Writes, row_of
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.observers import Interest, Observer
from tracer.recording.storage import bound
from tracer.recording.values import unseen
from tracer.recording.values.digest_table import is_capturing

#: Whole numbers up to 2 to this power are exact, and so is every sum of them that stays below it.
_EXACT_BITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
#: The arguments that say where a call writes.
_PLACES: dict[Writes, tuple[str, ...]] = {
    Writes.ALONG: ("self", "dim", "index"),
    Writes.ROWS: ("self", "dim", "index"),
    Writes.SEVERAL: ("self", "indices"),
    Writes.FLAT: ("self", "index"),
    Writes.EMBEDDED: ("indices", "num_weights", "padding_idx"),
    Writes.POOLED: ("self", "indices"),
    Writes.UNPOOLED: ("self", "indices", "output_size"),
}
_ADDED = ("src", "source", "values", "grad_output")
_BY_SHAPE = "index.distinct"

Given = dict[str, Any]
"""The arguments of a call, by name."""


def _shown_by_order(op: Op, given: Given, chosen: torch.Tensor) -> DataShown:
    """Whether there are ties among the numbers that a call ordered, where it shows."""
    numbers, dim = given["self"], given["dim"]
    if not numbers.dim() or not numbers.numel():
        return DataShown.NO_TIES
    if numbers.is_floating_point() and bool(numbers.isnan().any()):
        return DataShown.NAN
    if op.orders is Orders.SEVERAL:
        has_ties = _has_ties_among(numbers, chosen, dim)
    else:
        extreme = chosen if chosen.dim() == numbers.dim() else chosen.unsqueeze(dim)
        has_ties = bool(((numbers == extreme).sum(dim) > 1).any())
    return DataShown.TIES if has_ties else DataShown.NO_TIES


def _has_ties_among(numbers: torch.Tensor, chosen: torch.Tensor, dim: int) -> bool:
    """Return whether two chosen values are equal, or the last chosen one also occurs among the rest."""
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


def _destinations(op: Op, given: Given) -> tuple[torch.Tensor, int]:
    """A number for the place of each write of a call, and what these lie below."""
    assert op.writes is not None
    target, *rest = (given[name] for name in _PLACES[op.writes])
    if op.writes is Writes.SEVERAL:
        return _at_several(target, rest[0])
    if op.writes is Writes.EMBEDDED:
        indices, (rows, padding) = target.reshape(-1), rest
        return indices[indices != padding] if padding >= 0 else indices, int(rows)  # the padding row gets no gradient
    if op.writes is Writes.FLAT:
        count = target.numel()
        return rest[0].reshape(-1).to(torch.int64).remainder(max(1, count)), count
    if op.writes in (Writes.POOLED, Writes.UNPOOLED):
        indices, *size = rest
        extent = prod(size[0] if size else target.shape[-op.spatial :])
        return _in_rows(indices.reshape(-1, prod(indices.shape[-op.spatial :])), extent)
    dim, index = rest
    if op.writes is Writes.ROWS:
        return index.reshape(-1), target.shape[dim] if target.dim() else 1
    if not target.dim() or not index.dim():
        return index.reshape(-1), max(1, target.numel())
    return _in_rows(index.movedim(dim, -1).reshape(-1, index.shape[dim]), target.shape[dim])


def _in_rows(numbers: torch.Tensor, extent: int) -> tuple[torch.Tensor, int]:
    """Destinations in rows, each counted separately."""
    offsets = torch.arange(numbers.shape[0], device=numbers.device).unsqueeze(1) * extent
    return (numbers.to(torch.int64) + offsets).reshape(-1), numbers.shape[0] * extent


def _at_several(target: torch.Tensor, indices: Any) -> tuple[torch.Tensor, int]:
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
    return numbers.reshape(-1), count


def _most_at_one_place(numbers: torch.Tensor, below: int) -> int:
    """The largest number of writes to a single destination."""
    if numbers.numel() < 2:
        return numbers.numel()
    if below <= 4 * numbers.numel() + 65536:
        return int(torch.bincount(numbers).max())
    ordered = numbers.sort().values
    if not bool((ordered[1:] == ordered[:-1]).any()):
        return 1
    return 3 if bool((ordered[2:] == ordered[:-2]).any()) else 2


def _shown_by_writes(op: Op, given: Given) -> DataShown:
    """Whether a call writes twice to one place, and whether the order shows in what it adds there."""
    most = _most_at_one_place(*_destinations(op, given))
    if most <= 1:
        return DataShown.DISTINCT
    if "backward" in op.name:
        adds = not given.get("scale_grad_by_freq")
    elif op.sums or "reduce" not in given:
        adds = op.sums or bool(given.get("accumulate"))
    else:
        adds = given["reduce"] in ("sum", "add")
    added = next((value for name, value in given.items() if name in _ADDED), None)
    if added is None or not adds:
        return DataShown.DUPLICATES
    is_onto_zeros = op.onto_zeros or "backward" in op.name or not given.get("include_self", True)
    target = None if is_onto_zeros else given.get("self")
    # NaN excluded: of two that meet, the first one's payload stays.
    if most == 2 and not (target is not None and bool(target.any())) and not bool(added.isnan().any()):
        return DataShown.TWICE_ONTO_ZEROS
    bits, factor = _EXACT_BITS.get(added.dtype), given.get("alpha", 1)
    if bits is None or (added.numel() and factor != int(factor)):
        return DataShown.DUPLICATES
    reach = most * _largest_whole(added) * abs(factor) + _largest_whole(target) if added.numel() else 0
    return DataShown.EXACT if reach <= 2**bits else DataShown.DUPLICATES


def _largest_whole(numbers: torch.Tensor | None) -> float:
    """The largest absolute value; infinity if any value is not an integer."""
    if numbers is None or not numbers.numel():
        return 0.0
    largest = float(numbers.abs().max())  # NaN and infinity come through
    return largest if largest == largest and bool((numbers == numbers.round()).all()) else float("inf")


class DataFacts(Observer):
    """The data facts of one recording's calls."""

    def __init__(self) -> None:
        self._ops: dict[OverloadInfo, tuple[Op, bool]] = {}
        """What an overload is, and whether it writes by an index; if not, it chooses among values."""
        self._tallies: dict[CallCounter, Counter[DataShown]] = {}

    def wants(self, info: OverloadInfo) -> Interest:
        """Calls that write by an index or choose among values."""
        namespace, _, rest = info.name.partition(".")
        op = row_of(rest.partition(".")[0])
        schema = getattr(info.func, "_schema", None) if namespace == "aten" else None
        names = {argument.name for argument in schema.arguments} if schema is not None else set()
        writes = op.writes is not None and names.issuperset(_PLACES[op.writes])
        self._ops[info] = op, writes
        return writes or (op.orders is not None and names.issuperset(("self", "dim")))

    def before(self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs) -> bool:
        """Examine where a call is about to write; returns whether to examine what it chooses."""
        if counter is None or not self._tallies.get(counter, {}).keys() <= SETTLING_DATA:
            return False
        if counter.asked is not None and dict(zip(info.readers, counter.asked, strict=True)).get(_BY_SHAPE) is True:
            return False
        op, writes = self._ops[info]
        if writes:
            self._note(counter, lambda: _shown_by_writes(op, bound(info.func, args, kwargs)), args)
        return not writes

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Kwargs, result: Any, frame: Any
    ) -> None:
        if begun:
            op, _ = self._ops[info]
            self._note(counter, lambda: _shown_by_order(op, bound(info.func, args, kwargs), result[0]), args)

    def group_fields(self, counter: CallCounter) -> dict[str, Any]:
        tally = self._tallies.get(counter)
        return {} if tally is None else {"data": dict(tally)}

    def _note(self, counter: CallCounter, look: Callable[[], DataShown], args: Args) -> None:
        shown = DataShown.UNREAD
        if not any(isinstance(value, torch.Tensor) and is_capturing(value) for value in args):
            with suppress(Exception), unseen():  # sparse, out of bounds, a tensor of an unforeseen kind
                shown = look()
        self._tallies.setdefault(counter, Counter())[shown] += 1
