"""Calls a run's modules and parameters as a run of another implementation does, part by part where they are fused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from math import gcd

import numpy as np
import torch
from msgspec.structs import replace

from tracer.names import PlaceKind
from tracer.recording.magnitudes import DeviceSketch, sketched
from tracer.recording.options import PlaceOptions
from tracer.trace.values import read_magnitudes
from tracer.trace.values.places import Form, Layout, PlaceName, layouts, spelled

_OF_PARAMETERS = (PlaceKind.INITIAL, PlaceKind.GRADIENT, PlaceKind.PARAMETER, PlaceKind.STATE)
_OF_MODULES = (PlaceKind.INPUT, PlaceKind.OUTPUT, PlaceKind.OUTPUT_GRADIENT, PlaceKind.REGION)
#: Groups that parts of a matrix may be cut into: heads of attention.
_MOST_GROUPS = 256


class Naming:
    """The names of ``options``; what the parameters are in the file ``options.names_of`` tells how parts lie."""

    def __init__(self, options: PlaceOptions) -> None:
        self._names = options.names
        self._modules: dict[str, tuple[str, ...]] = {}
        self._layouts: dict[str, Layout | None] = {}
        """By full name of a parameter, and of the module that it is of."""
        self._theirs: dict[str, tuple[Form, np.ndarray]] = {}
        with (places := read_magnitudes(options.names_of).places):
            for row, number in enumerate(places.rows["name"].tolist()):
                if (place := places.names[number]).kind is PlaceKind.INITIAL:
                    form = places.forms[int(places.rows["form"][row])]
                    self._theirs[str(place)] = form, places.sketch(row).reshape(-1)

    def of(self, path: str) -> tuple[str, ...]:
        """What a module is called; several: it is those together."""
        if path not in self._modules:
            self._modules[path] = spelled(self._names, path)
        return self._modules[path]

    def places(self, place: PlaceName, tensor: torch.Tensor) -> list[tuple[PlaceName, torch.Tensor]]:
        """The place of ``tensor`` under the other names; several with what each of them has of it."""
        before, of, own = place.name.rpartition(" of ")
        if place.kind in _OF_PARAMETERS:
            full = f"{place.module}.{own}".lstrip(".")
            names = self._names.get(full) or (f"{self.of(place.module)[0]}.{own}".lstrip("."),)
            if full not in self._layouts:
                self._layouts[full] = self._layout(place.module, names, tensor)
                if len(names) > 1:
                    self._layouts.setdefault(place.module, self._layouts[full])
            split = [(module, f"{before}{of}{name}") for module, _, name in (one.rpartition(".") for one in names)]
        elif place.kind in _OF_MODULES:
            full, split = place.module, [(module, place.name) for module in self.of(place.module)]
        else:
            return [(place, tensor)]
        layout = self._layouts.get(full)
        if layout is not None and place.kind in _OF_MODULES:
            layout = layout._replace(dimension=tensor.dim() - 1, is_turned=False)
        pieces = [tensor] * (len(split) if place.kind is PlaceKind.INPUT else 1)
        if layout is not None and place.kind is not PlaceKind.INPUT:  # else nobody knows how its parts lie
            length = sum(tensor.shape[layout.dimension : layout.dimension + 1])
            pieces = _cut(tensor, layout) if length == sum(layout.lengths) else pieces
        named = (replace(place, module=module, name=name) for module, name in split)
        return list(zip(named, pieces, strict=False))

    def _layout(self, path: str, targets: tuple[str, ...], tensor: torch.Tensor) -> Layout | None:
        theirs = [self._theirs[target] for target in targets if target in self._theirs]
        shapes = [form.shape for form, _ in theirs]
        found = [*layouts(tuple(tensor.shape), shapes)] if len(theirs) == len(targets) else []
        if not found or (len(targets) == 1 and tensor.dim() != 2):
            return None
        for layout in (laid for one in found for laid in _orders(one)):
            if all(_agrees(piece, *other) for piece, other in zip(_cut(tensor, layout), theirs, strict=True)):
                return layout
        known = self._layouts.get(path)
        return found[0] if known is None else found[0]._replace(groups=known.groups, order=known.order)


def _orders(layout: Layout) -> Iterator[Layout]:
    """Its parts one after another, and a piece of each at a time; in any order."""
    together = gcd(*layout.lengths) if len(layout.lengths) > 1 else 1
    for groups in (count for count in range(1, min(together, _MOST_GROUPS) + 1) if not together % count):
        for order in permutations(layout.order):
            yield layout._replace(groups=groups, order=order)


def _cut(tensor: torch.Tensor, layout: Layout) -> list[torch.Tensor]:
    rows = tensor.detach().movedim(layout.dimension, 0).unflatten(0, (layout.groups, -1))
    pieces = rows.split([layout.lengths[at] // layout.groups for at in layout.order], 1)
    parts = [piece.flatten(0, 1).movedim(0, layout.dimension) for piece in pieces]
    in_order = [parts[layout.order.index(at)] for at in range(len(parts))]
    return [part.t() if layout.is_turned else part for part in in_order]


def _agrees(piece: torch.Tensor, form: Form, theirs: np.ndarray) -> bool:
    sketch = sketched(piece)
    own = (sketch.read() if isinstance(sketch, DeviceSketch) else sketch).sums
    units = (torch.finfo(dtype).eps for dtype in (piece.dtype, getattr(torch, form.dtype)))
    norm = float(np.linalg.norm(theirs))
    return norm > 0 and float(np.linalg.norm(own - theirs[: len(own)])) <= max(units) * norm
