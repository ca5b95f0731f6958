"""Compiled regions replayed on the spot: the region is called again, on copies of its inputs.

The region has no ops any more, so the op that varied cannot be named. All inputs of a backward are copied, because
Inductor writes into some that are not read afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace

from tracer.names import Direction, Untried
from tracer.recording.compiled.executions import Run
from tracer.recording.compiled.graphs.graph_text import Graph
from tracer.recording.compiled.listing import RegionList
from tracer.recording.storage.accesses import Access
from tracer.recording.trials.copies import CannotCopyError, Copies, tensors_in
from tracer.recording.trials.generator_states import GeneratorStates
from tracer.recording.trials.replay import Replay, unseen
from tracer.recording.trials.replay_plan import Argument, ReplayPlan, plan_replay
from tracer.recording.trials.risk import Risk
from tracer.recording.trials.tally import TrialTally
from tracer.recording.values.digesting.device import is_capturing
from tracer.trace.records import CallGroup, Region, Tried

_OP = re.compile(r"\btorch\.ops\.([\w.]+)")
#: Of ops that take functions: those that do something beside computing.
_EFFECTS = frozenset({"higher_order.with_effects", "higher_order.print", "higher_order.call_torchbind"})
#: What forbids that a region runs again, if an op of it has it.
_FORBIDS = (Untried.COLLECTIVE, Untried.SIDE_EFFECTS, Untried.FRESH_MEMORY)


class TriedRegion(NamedTuple):
    """What is known of one region's code, worked out before it first runs."""

    name: str
    """As the trace calls it."""
    reason: Untried | None
    """Why it is not run again."""
    outputs: int | None
    """How many results its graph gives; ``None`` where that does not matter."""
    scratch: frozenset[int]
    """Places of results that only its own backward reads: parts of them stay unwritten."""
    tally: TrialTally | None
    """``None``: nothing in it is at risk."""


class Begun(NamedTuple):
    """An execution that is under way and will be replayed."""

    known: TriedRegion
    compiled: Any
    copies: Copies
    generators: GeneratorStates
    written: tuple[int, ...]
    """Places of the inputs that it writes."""
    changed: list[torch.Tensor]
    """Those inputs themselves."""


class RegionTrials:
    """The trials of one recording's regions."""

    def __init__(self, again: Replay, regions: RegionList, *, tries_all: bool) -> None:
        self._replay = again
        self._regions = regions
        self._tries_all = tries_all
        self.risk: Risk | None = None
        """``None`` until recording begins."""
        self._known: dict[int, tuple[Any, TriedRegion]] = {}

    # --- every execution ---

    def before(self, run: Run, compiled: Any, inputs: Any) -> Begun | None:
        """A region is about to run: get ready to run it again, where it is one to try."""
        with unseen(), torch.no_grad():
            compiled_region = self._of(run)
            if compiled_region.tally is None:
                return None
            compiled_region.tally.seen += 1
            try:
                prepared = self._prepared(run, compiled_region, compiled, list(inputs))
            except Exception:  # whatever it is, it is no business of the program's
                prepared = Untried.FAILED
        if isinstance(prepared, Untried):
            compiled_region.tally.leave(prepared)
            return None
        return prepared

    def _prepared(self, run: Run, known: TriedRegion, compiled: Any, inputs: list[Any]) -> Begun | Untried:
        if known.reason is not None:
            return known.reason
        if known.tally is not None and not known.tally.is_due():
            return Untried.RARER
        if any(map(is_capturing, tensors_in(inputs))):
            return Untried.CAPTURED
        if getattr(compiled, "current_callable", None) is None:
            return Untried.COMPILED
        written = tuple(sorted(int(place) for place in getattr(compiled, "mutated_input_idxs", None) or ()))
        plan = _plan(written, copies_all=run.code.direction is Direction.BACKWARD)
        try:
            copies = Copies(plan, tuple(inputs), {}, self._replay.limit)
            copies.let_go()
        except CannotCopyError as problem:
            return problem.reason
        except Exception:  # a tensor of an unforeseen kind, or no memory left
            return Untried.LAYOUT
        try:
            generators = GeneratorStates(plan, tuple(inputs), {})
        except Exception:
            return Untried.GENERATOR
        return Begun(known, compiled, copies, generators, written, [inputs[place] for place in written])

    def after(self, begun: Begun | None, result: Any) -> None:
        """It ran: run it again."""
        if begun is None or begun.known.tally is None:
            return
        with unseen(), torch.no_grad():
            try:
                begun.generators.the_call_returned()
            except Exception:
                begun.known.tally.leave(Untried.GENERATOR)
                return
            try:
                reason = self._try(begun, result)
            except Exception:  # whatever it is, it is no business of the program's
                reason = Untried.FAILED
            finally:
                begun.generators.as_after()
        if reason is not None:
            begun.known.tally.leave(reason)

    def left(self, begun: Begun | None) -> None:
        """It is over, also where it failed."""

    def _try(self, begun: Begun, result: Any) -> Untried | None:
        known, call = begun.known, begun.compiled.current_callable
        assert known.tally is not None
        if known.outputs is not None and len(result) != known.outputs:
            return Untried.FRESH_MEMORY  # which of them stay partly unwritten is not known
        results = [
            tensor for place, one in enumerate(result) if place not in known.scratch for tensor in tensors_in(one)
        ]

        def make(given: tuple[Any, ...], named: dict[str, Any]) -> list[torch.Tensor]:
            written = [given[place] for place in begun.written]
            again = call(list(given))  # it empties the list that it is handed
            kept = (one for place, one in enumerate(again) if place not in known.scratch)
            return [*written, *tensors_in(list(kept))]

        return self._replay.compare(
            known.tally, begun.copies, begun.generators, [*begun.changed, *results], results, make
        )

    # --- one region ---

    def _of(self, run: Run) -> TriedRegion:
        entry = self._known.get(id(run.code))
        if entry is None:
            try:
                trial_state = self._read(run)
            except Exception:  # code of a form that is not known
                trial_state = TriedRegion(
                    self._regions.name_of(run.code), Untried.COMPILED, None, frozenset(), TrialTally()
                )
            entry = self._known[id(run.code)] = (run.code, trial_state)
        return entry[1]

    def _read(self, run: Run) -> TriedRegion:
        region, groups, graph = self._regions.told_of(run)
        is_asked = self._tries_all or graph is None or self.risk is None or self.risk.lies_in(region, groups)
        tally = TrialTally() if is_asked else None
        if run.code.uses_cuda_graphs:
            return TriedRegion(region.id, Untried.CAPTURED, None, frozenset(), tally)
        if graph is None:
            return TriedRegion(region.id, Untried.COMPILED, None, frozenset(), tally)
        plans = {name: _approach_to(name) for name in dict.fromkeys(_OP.findall(run.code.text))}
        reasons = [reason for reason in _FORBIDS if reason in plans.values()]
        scratch = frozenset(_scratch_in(graph, plans))
        return TriedRegion(
            region.id, reasons[0] if reasons else None, len(graph.outputs) if scratch else None, scratch, tally
        )

    # --- what was found ---

    def in_regions(self, regions: tuple[Region, ...], groups: tuple[CallGroup, ...]) -> tuple[Region, ...]:
        """``regions`` with what running them again showed."""
        tallies = {known.name: known.tally for _, known in self._known.values()}
        listed = []
        for region in regions:
            tally = tallies.get(region.id)
            if tally is not None:
                together = len(self._suspects(region, groups))
                region = replace(region, tried=replace(tally.listed(), together=together))
            listed.append(region)
        return tuple(listed)

    def in_groups(self, regions: tuple[Region, ...], groups: tuple[CallGroup, ...]) -> tuple[CallGroup, ...]:
        """``groups``, those that may vary with what running their region again showed."""
        tried: dict[int, Tried] = {}
        for region in regions:
            if region.tried is not None:
                tried |= {id(group): region.tried for group in self._suspects(region, groups)}
        return tuple(replace(group, tried=tried[id(group)]) if id(group) in tried else group for group in groups)

    def _suspects(self, region: Region, groups: tuple[CallGroup, ...]) -> list[CallGroup]:
        if self.risk is None:
            return []
        return self.risk.suspects(region, [group for group in groups if group.region == region.id])


def _plan(written: tuple[int, ...], *, copies_all: bool) -> ReplayPlan:
    """A region may call anything, ops from outside torch too."""
    return ReplayPlan(
        written=tuple(Argument(place, "") for place in written),
        overwritten=(),
        copies_all=copies_all,
        draws=True,
        is_foreign=True,
        scratch=frozenset(),
    )


def _approach_to(name: str) -> ReplayPlan | Untried | None:
    """How an op of a graph would be replayed by itself; ``None`` if it computes nothing or is not found."""
    if name in _EFFECTS:
        return Untried.SIDE_EFFECTS
    func: Any = torch.ops
    for part in name.split("."):
        func = getattr(func, part, None)
        if func is None:
            return None
    return plan_replay(func, Access(func)) if isinstance(func, torch._ops.OpOverload) else None


def _scratch_in(graph: Graph, plans: Mapping[str, ReplayPlan | Untried | None]) -> list[int]:
    """Places among what a graph returns that hold scratch of an op."""
    ops = {node.name: node.op for node in graph.nodes}
    places = []
    for place, name in enumerate(graph.outputs):
        plan = plans.get(ops.get(graph.parts.get(name, ""), ""))
        if isinstance(plan, ReplayPlan) and graph.places.get(name) in plan.scratch:
            places.append(place)
    return places
