"""What the data of compiled regions settle: where their calls write, computed from the region's inputs.

Values inside a region are not visible. An index is usually an input, or computed from integer inputs alone: those ops
are recomputed beside the region. The result is exact, because they compute with integers or move elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from tracer.names import SETTLING_DATA, DataShown
from tracer.ops.rows import MOVING
from tracer.recording.compiled.executions import Run
from tracer.recording.compiled.graphs.graph_facts import constant
from tracer.recording.compiled.graphs.graph_text import VIEWS, Graph, Name, Node, Unread, Value
from tracer.recording.compiled.listing import RegionList
from tracer.recording.torch_private import compile_seams
from tracer.recording.trials.data_facts import Test, test_of_writes
from tracer.recording.values.digesting.device import is_capturing
from tracer.recording.values.digesting.digests import unseen

_OWN = ("aten.", "prims.")


class _Unavailable(Exception):
    """A value inside the region, which is not visible."""


class Asked(NamedTuple):
    """A call inside a region that writes by an index."""

    number: int
    """Its position among the region's calls."""
    node: Node
    test: Test


class RegionData:
    """The data facts of one recording's regions."""

    def __init__(self, regions: Callable[[], RegionList]) -> None:
        """``regions`` is called when the first region runs."""
        self._regions = regions
        self._asked: dict[Run, tuple[Graph, list[Asked]] | None] = {}
        self._tallies: dict[tuple[Run, int], Counter[DataShown]] = {}

    def before(self, run: Run, compiled: Any, inputs: Any) -> None:
        """Examine the inputs of a region that is about to run."""
        with unseen():
            if run not in self._asked:
                self._asked[run] = self._read(run)
            asked = self._asked[run]
            if asked is None:
                return
            graph, calls = asked
            values = _Values(graph, inputs)
            for call in calls:
                tally = self._tallies.setdefault((run, call.number), Counter())
                if tally.keys() <= SETTLING_DATA:
                    tally[_shown(call, values)] += 1

    def after(self, begun: None, result: Any) -> None:
        """The region has run."""

    def left(self, begun: None) -> None:
        """The execution ended, normally or with an error."""

    def of_call(self, run: Run, number: int) -> Mapping[DataShown, int]:
        """The data facts of the region's call at that position, counted by execution."""
        return dict(self._tallies.get((run, number), {}))

    def _read(self, run: Run) -> tuple[Graph, list[Asked]] | None:
        try:
            regions = self._regions()
            regions.data_of = self.of_call
            inside = regions.inside_of(run)
            if inside.graph is None:
                return None
            asked = []
            for number, node in enumerate(inside.nodes):
                func = compile_seams.overload(node.op) if node.op.startswith(_OWN) else None
                test = None if func is None or inside.facts[number].get("index.distinct") else test_of_writes(func)
                if test is not None:
                    asked.append(Asked(number, node, test))
        except Exception:  # a text of an unforeseen form
            return None
        return (inside.graph, asked) if asked else None


def _shown(call: Asked, values: _Values) -> DataShown:
    try:
        args = tuple(map(values.stand_in, call.node.args))
        return call.test(args, {name: values.stand_in(value) for name, value in call.node.kwargs.items()})
    except Exception:  # an index that the region makes itself, sparse, out of bounds
        return DataShown.UNREAD


class _Values:
    """The values of one execution, as far as they can be computed."""

    def __init__(self, graph: Graph, inputs: Any) -> None:
        self._inputs = dict(zip(graph.inputs, inputs, strict=True)) if len(graph.inputs) == len(inputs) else {}
        self._nodes = {node.name: node for node in graph.nodes}
        self._values: dict[str, Any] = {}

    def stand_in(self, argument: Any) -> Any:
        """An argument of a call; unknown numbers are replaced by NaN, which settle nothing.

        Raises ``_Unavailable`` for an index that is not known.
        """
        if isinstance(argument, list):
            return [*map(self.stand_in, argument)]
        try:
            return self._of(argument)
        except _Unavailable:
            dtype = compile_seams.dtype_of(argument.dtype) if isinstance(argument, Value) else torch.int64
            if not isinstance(argument, Value) or not dtype.is_floating_point:
                raise
            number = torch.full((), float("nan"), dtype=dtype, device=argument.device or "cpu")
            sizes = [size for size in argument.shape if size is not None]
            return number.expand(sizes) if len(sizes) == len(argument.shape) else number

    def _of(self, argument: Any) -> Any:
        if isinstance(argument, list):
            return [*map(self._of, argument)]
        if isinstance(argument, Value):
            return self._named(argument.name)
        if isinstance(argument, Unread):
            return self._named(argument.text.strip())
        if isinstance(argument, Name):
            word = constant(argument.text)
            if word is ...:
                raise _Unavailable
            return word
        return argument

    def _named(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = self._computed(name)
        value = self._values[name]
        if value is ...:
            raise _Unavailable
        return value

    def _computed(self, name: str) -> Any:
        """The value of that name; ``...`` if it exists only inside the region."""
        if name in self._inputs:
            value = self._inputs[name]
            return ... if isinstance(value, torch.Tensor) and is_capturing(value) else value
        node = self._nodes.get(name)
        func: Any = compile_seams.overload(node.op) if node is not None and node.op.startswith(_OWN) else None
        if node is None or func is None or func._schema.is_mutable or torch.Tag.nondeterministic_seeded in func.tags:
            return ...
        try:
            args = [*map(self._of, node.args)]
            named = {key: self._of(value) for key, value in node.kwargs.items()}
        except _Unavailable:
            return ...
        result = func(*args, **named)
        if not isinstance(result, torch.Tensor):
            return result if isinstance(result, int) else ...
        tensors = [result, *(value for value in (*args, *named.values()) if isinstance(value, torch.Tensor))]
        is_exact = node.op.split(".")[1] in VIEWS | MOVING or not any(map(_may_round, tensors))
        return result if is_exact else ...


def _may_round(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
