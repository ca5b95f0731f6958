"""Gradients from the end of backward to the optimizer's step, and the lines that change them: clipping, unscaling.

A gradient is measured before the first call outside the backward pass that reads or writes its memory, and at the step.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import torch
from torch.utils._pytree import tree_leaves

from tracer.facts.fact import Args, Kwargs
from tracer.names import Phase, PlaceKind
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.magnitudes.sketching import Measured, part_of, storage_of
from tracer.recording.observers import Interest, Observer
from tracer.recording.origin.modules import ModuleStack
from tracer.recording.torch_private import seams
from tracer.recording.values.digests import unseen
from tracer.trace.values import PlaceName

_Tensor = torch.Tensor
_Line = dict[str, Any]


class _GradientRows(Protocol):
    def measure(self, tensor: torch.Tensor) -> Measured | None: ...
    def put(self, place: PlaceName, tensor: torch.Tensor, measured: Measured | None, same: int = -1) -> int: ...


class _Left(msgspec.Struct, eq=False):
    parameter: weakref.ref[torch.Tensor]
    measured: Measured | None = None
    line: _Line = {}


class GradientFollower(Observer):
    """Follows the gradients of all parameters from one backward pass to the step that reads them."""

    def __init__(self, rows: _GradientRows, modules: ModuleStack) -> None:
        self._rows = rows
        self._modules = modules
        self._left: dict[int, _Left] = {}
        self._in: dict[int, list[_Left]] = {}
        self._derived: dict[int, _Line] = {}
        """Storages of what was computed from gradients, with its line."""

    def backward_ended(self) -> None:
        self.forget()
        for parameter in (each for _, module in self._modules.alive() for each in module._parameters.values()):
            if parameter is None or parameter.grad is None or not parameter.is_leaf:
                continue
            if (part := part_of(parameter.grad)) is not None and id(parameter) not in self._left:
                left = self._left[id(parameter)] = _Left(weakref.ref(parameter))
                self._in.setdefault(storage_of(part.local), []).append(left)

    def forget(self) -> None:
        self._left.clear()
        self._in.clear()
        self._derived.clear()

    def unread(self) -> Iterator[torch.Tensor]:
        """Parameters whose gradient no step has read since."""
        parameters = [left.parameter() for left in self._left.values()]
        return (parameter for parameter in parameters if parameter is not None)

    def record(self, name: tuple[str, str], parameter: torch.Tensor) -> None:
        """The gradient as backward left it, and as it is now with the line that changed it last."""
        gradient = parameter.grad
        if gradient is None:
            return
        left = self._left.pop(id(parameter), None)
        if not self._left:
            self._in.clear()
        before, now = None if left is None else left.measured, self._rows.measure(gradient)
        line = (None if left is None else left.line) or self._derived.get(storage_of(gradient), {})
        place = PlaceName(kind=PlaceKind.GRADIENT, module=name[0], name=name[1], phase=Phase.BACKWARD)
        row = self._rows.put(place, gradient, before or now)
        is_same = before is None or (now is not None and 0 != before.bits == now.bits)
        place = PlaceName(kind=place.kind, module=name[0], name=name[1], phase=Phase.OPTIMIZER, **line)
        self._rows.put(place, gradient, now, row if is_same else -1)

    # --- calls ---

    def wants(self, info: OverloadInfo) -> Interest:
        """Calls that are made while there are gradients that no step has read."""
        return self._in

    def before(self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs) -> bool:
        """Measure gradients that the call is the first to touch; returns whether it touches any."""
        if counter is None or seams.graph_task_id() != -1:
            return False
        touched = False
        with suppress(Exception), unseen():
            written = {*map(id, info.access.written_tensors(args, kwargs))} if info.mutates else set()
            for tensor in _tensors((args, kwargs)):
                storage = storage_of(tensor)
                touched = touched or storage in self._derived
                for left in self._in.get(storage, ()):
                    touched = True
                    parameter = left.parameter()
                    if left.measured is None and parameter is not None and parameter.grad is not None:
                        left.measured = self._rows.measure(parameter.grad)
                    if id(tensor) in written:
                        left.line = counter.origin.line()
        return touched

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Kwargs, result: Any, frame: Any
    ) -> None:
        """What was computed from a gradient may become the gradient."""
        if not begun:
            return
        with suppress(Exception):
            for tensor in _tensors(result):
                if (storage := storage_of(tensor)) not in self._in:
                    self._derived[storage] = counter.origin.line()


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, _Tensor))
