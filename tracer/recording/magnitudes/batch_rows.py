"""Where the rows of what the program hands to its modules stand in a recording of the whole batch.

Whatever a module is given and returns row by row is recorded as rows of one call of the whole batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from inspect import signature
from typing import NamedTuple

import numpy as np
import torch

from tracer.names import Phase, PlaceKind
from tracer.recording.magnitudes import Part
from tracer.recording.options import PlaceOptions
from tracer.trace.values import PlaceName, read_magnitudes
from tracer.trace.values.places import (
    Joined,
    Matching,
    RowCall,
    are_alike,
    joined_in,
    joined_rows,
    leads_with_class,
    module_of,
    row_calls,
)

#: Occurrences of what is in no call of the whole batch begin here.
_ELSEWHERE = 2**30
_Key = tuple[PlaceKind, str, str, Phase, int]


class PartRows(NamedTuple):
    """A tensor as rows of the whole batch: adjacent ones each, and their place."""

    parts: list[Part]
    occurrence: int


class BatchRows:
    """The rows of a recording of a run that takes the batch as a whole; ``options`` name it.

    ``is_class_here``: paths of modules begin with the model's class in this run.
    """

    def __init__(self, options: PlaceOptions, rank: int, world_size: int, *, is_class_here: bool) -> None:
        self._is_whole = options.is_whole
        with (places := read_magnitudes(options.rows_of).places):
            wholes = row_calls(places)
        is_class = leads_with_class(places.names)
        self._leads_with_class = [is_class, is_class and is_class_here]
        self._matchings = {step: Matching(calls, rank, world_size) for step, calls in wholes.items()}
        self._known: dict[int, list[list[Joined]]] | None = None
        if options.rows_in:
            with (of_parts := read_magnitudes(options.rows_in).places):
                parts = row_calls(of_parts)
            self._known = {
                step: joined_rows(matching, parts[step], of_whole=self._is_whole)
                for step, matching in self._matchings.items()
                if step in parts and not are_alike(wholes[step], parts[step])
            }
        self._occurrences: dict[tuple[_Key, int], list[int]] = {}
        self._entries: dict[tuple[object, ...], set[str]] = {}
        """Names of what a module is given or returns, by module and last size."""
        called: Counter[int] = Counter()
        for name, form, occurrence, step in places.rows[["name", "form", "occurrence", "step"]].tolist():
            called[step] += places.names[name].kind is PlaceKind.ROWS
            key = self._key(places.names[name], step, is_here=False)
            self._occurrences.setdefault((key, called[step] - 1), []).append(occurrence)
            self._entries.setdefault((*key[:2], key[3:], *places.forms[form].shape[-1:]), set()).add(key[2])
        self._keys = {key for key, _ in self._occurrences}
        self._call = (-1, -1)
        self._shape: tuple[int, ...] = ()
        self._joined: list[Joined] | None = None
        self._counts: Counter[_Key] = Counter()

    def enters(self, place: PlaceName, step: int, contents: torch.Tensor) -> None:
        self._call = (step, self._call[1] + 1 if step == self._call[0] else 0)
        self._shape, self._joined = tuple(contents.shape), None
        self._counts.clear()
        if self._known is not None:
            if (known := self._known.get(step)) is not None:
                self._joined = known[self._call[1]] if self._call[1] < len(known) else []
        elif (matching := self._matchings.get(step)) is not None:
            call = RowCall(self._key(place, step)[1], contents.cpu().numpy(), place.name)
            self._joined = joined_in(matching, *matching.find(call))

    def rows(self, place: PlaceName, step: int, occurrence: int, part: Part) -> list[PartRows]:
        """``part`` as rows of calls of the whole batch, where it has rows that are there."""
        as_it_is = [PartRows([part], occurrence)]
        if self._joined is None or place.kind not in (PlaceKind.INPUT, PlaceKind.OUTPUT) or step != self._call[0]:
            return as_it_is
        key = self._key(place, step)
        entries = self._entries.get((*key[:2], key[3:], *part.shape[-1:]), ())
        if key not in self._keys and len(entries) == 1:  # returned alone here, and there as ``logits`` beside others
            key = (*key[:2], next(iter(entries)), *key[3:])
        count = self._counts[key]
        self._counts[key] += 1
        sequences, length = self._shape
        shape, rank, joined = part.shape, 1, self._joined
        if shape[:2] == self._shape:
            rank = 2
        elif shape[:1] == (sequences,) and length > 1:
            joined = [one.sequences(length) for one in joined]
        elif shape[:1] != (sequences * length,):
            joined = []
        joined = [one for one in joined if len(one.sources)]
        if part.start or part.is_term or (self._is_whole and not joined):
            return as_it_is
        several = []
        for one in joined:
            occurrences = self._occurrences.get((key, one.call), [])
            if count < len(occurrences):
                several.append(PartRows(_cut(part, one, rank), occurrences[count]))
        return several or [PartRows([part], _ELSEWHERE + occurrence)]

    def _key(self, place: PlaceName, step: int, *, is_here: bool = True) -> _Key:
        module = module_of(place, leads_with_class=self._leads_with_class[is_here])
        return place.kind, module, place.name, place.phase, step


def _cut(part: Part, joined: Joined, rank: int) -> list[Part]:
    """The rows of a tensor that stand beside each other in the whole, of which ``rank`` dimensions number rows."""
    rest = part.shape[rank:]
    rows, size = part.local.reshape(-1, *rest), len(joined.is_end)
    parts = []
    for places in np.split(np.arange(len(joined.targets)), np.flatnonzero(np.diff(joined.targets) != 1) + 1):
        sources = joined.sources[places]
        is_slice = (np.diff(sources) == 1).all()
        local = rows[sources[0] : sources[-1] + 1] if is_slice else rows[torch.as_tensor(sources, device=rows.device)]
        start = (int(joined.targets[places[0]]), *(0 for _ in rest)) if len(sources) < size else ()
        parts.append(Part(local, (size, *rest), start))
    return parts


def contents_of(
    module: torch.nn.Module, positional: int, tensors: Sequence[tuple[str, torch.Tensor]]
) -> torch.Tensor | None:
    """A number for each row that the program hands to a module, one line a sequence; ``None``: it hands over none.

    Integers of two dimensions are sequences of tokens, as are numbers of three; any other tensor has a sample a row.
    Numbers count as bfloat16 has them, so that another precision has the same rows. A mask leaves rows out.
    """
    names = [name for name, _ in tensors]
    with suppress(Exception):
        parameters = [*signature(module.forward).parameters]
        names[:positional] = [parameters[int(name[1 : name.find("]")] or 0)] for name in names[:positional]]
    given = [(name, one) for name, (_, one) in zip(names, tensors, strict=True) if type(one) is torch.Tensor]
    masks = [(name, one) for name, one in given if "mask" in name and one.dim() == 2 and not one.is_floating_point()]
    given = [(name, one) for name, one in given if "mask" not in name]
    tokens = [(name, one) for name, one in given if one.dim() == 2 and not one.is_floating_point()]
    tokens.sort(key=lambda one: "input_ids" not in one[0])
    numbers = [one for _, one in given if one.is_floating_point() and one.dim() > 1]
    flat = [one[None] for _, one in given if not one.is_floating_point() and one.dim() == 1]
    rows = next(iter([one for _, one in tokens] + numbers + flat), None)
    if rows is None:
        return None
    rows = rows.detach()
    contents = _hashed(rows) if rows.is_floating_point() else rows.double()
    sequences, length = contents.shape
    for name, mask in masks:
        longer = mask.shape[1] - length  # by the tokens in a cache
        if len(mask) == sequences and longer >= 0:
            contents = contents.masked_fill(mask[:, longer:].bool() == ("padding" in name), float("nan"))
    return contents


def _hashed(rows: torch.Tensor) -> torch.Tensor:
    bits = rows.to(torch.bfloat16).reshape(len(rows), rows.shape[1] if rows.dim() == 3 else 1, -1).view(torch.int16)
    factors = torch.arange(1, bits.shape[-1] + 1, device=bits.device) * -7046029254386353131
    sums = (bits.to(torch.int64) * ((factors ^ (factors >> 29)) | 1)).sum(-1) * -4658895280553007687
    return ((sums ^ (sums >> 32)) & (2**52 - 1)).double()
