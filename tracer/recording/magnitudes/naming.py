"""Calls a run's modules and parameters as a run of another implementation does, part by part where they are fused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from math import gcd

import numpy as np
import torch

from tracer.names import PlaceKind
from tracer.recording.magnitudes.sketching import DeviceSketch, sketched
from tracer.recording.options import PlaceOptions
from tracer.trace.values import read_magnitudes
from tracer.trace.values.places import Form, Layout, layouts, spelled

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

    def results(self, path: str, tensor: torch.Tensor) -> list[torch.Tensor]:
        """What each of the modules that it is returns: ``tensor`` cut along its last dimension."""
        layout = self._layouts.get(path)
        if layout is None or len(self.of(path)) == 1 or sum(layout.lengths) != tensor.shape[-1]:
            return [tensor]
        return _cut(tensor, layout._replace(dimension=-1, is_turned=False))

    def parameters(self, path: str, name: str, tensor: torch.Tensor) -> list[tuple[str, str, torch.Tensor]]:
        """Module, name and elements of what a parameter holds, or what has its shape, such as its gradient."""
        full = f"{path}.{name}".lstrip(".")
        targets = self._names.get(full) or (f"{self.of(path)[0]}.{name}".lstrip("."),)
        if full not in self._layouts:
            layout = self._layouts[full] = self._layout(path, targets, tensor)
            if layout is not None and len(targets) > 1:
                self._layouts.setdefault(path, layout)
        layout = self._layouts[full]
        pieces = [tensor] if layout is None else _cut(tensor, layout)
        split = (target.rpartition(".") for target in targets)
        return [(module, own, piece) for (module, _, own), piece in zip(split, pieces, strict=False)]

    def _layout(self, path: str, targets: tuple[str, ...], tensor: torch.Tensor) -> Layout | None:
        theirs = [self._theirs[target] for target in targets if target in self._theirs]
        shapes = [form.shape for form, _ in theirs]
        found = [*layouts(tuple(tensor.shape), shapes)] if len(theirs) == len(targets) else []
        if not found or (len(found) == 1 and len(targets) == 1):
            return found[0] if found else None
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
