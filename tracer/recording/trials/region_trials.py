"""Replays compiled regions on the spot, on copies of their inputs.

A compiled region has no ops left, so the op that varied cannot be named. All inputs of a backward are copied, because
Inductor writes into some that are not read afterwards.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace

from tracer.names import Direction, Untried
from tracer.recording.compiled.compilations import CompiledCode
from tracer.recording.compiled.executions import Run
from tracer.recording.compiled.listing import RegionList
from tracer.recording.storage.accesses import Access
from tracer.recording.trials.replay import Prepared, Replay, results_of
from tracer.recording.trials.replay_plan import Argument, ReplayPlan, plan_replay
from tracer.recording.trials.risk import Risk
from tracer.recording.trials.tally import TrialTally
from tracer.recording.values.digesting.digests import unseen
from tracer.trace.records import CallGroup, Region, Tried

_OP = re.compile(r"\btorch\.ops\.([\w.]+)")
#: Of ops that take functions: those that do something beside computing.
_EFFECTS = frozenset({"higher_order.with_effects", "higher_order.print", "higher_order.call_torchbind"})
_NO_SCRATCH: frozenset[int] = frozenset()
#: What forbids that a region runs again, if an op of it has it.
_FORBIDS = (Untried.COLLECTIVE, Untried.SIDE_EFFECTS, Untried.FRESH_MEMORY)


class TriedRegion(NamedTuple):
    """The plan to replay one region's code, decided before it first runs."""

    name: str
    """As the trace calls it."""
    tally: TrialTally | None
    """``None``: nothing in it is at risk."""
    reason: Untried | None = None
    """The reason not to run it again; ``None`` if there is none."""


class Begun(NamedTuple):
    """An execution in progress that will be replayed."""

    region: TriedRegion
    compiled: Any
    prepared: Prepared
    written: tuple[int, ...]
    """Places of the inputs that it writes."""
    changed: list[torch.Tensor]
    """Those inputs themselves."""


class RegionTrials:
    """The trials of one recording's regions."""

    def __init__(self, replay: Replay, regions: RegionList, *, tries_all: bool) -> None:
        self._replay = replay
        self._regions = regions
        self._tries_all = tries_all
        self.risk: Risk | None = None
        """``None`` until recording begins."""
        self._tried: dict[CompiledCode, TriedRegion] = {}

    def before(self, run: Run, compiled: Any, inputs: Any) -> Begun | None:
        """Prepare to replay a region that is about to run, if it is to be tried."""
        with unseen():
            region = self._region_of(run)
            if region.tally is None:
                return None
            region.tally.call_count += 1
            try:
                begun = self._prepare(run, region, region.tally, compiled, list(inputs))
            except Exception:  # whatever it is, it is no business of the program's
                begun = Untried.FAILED
        if isinstance(begun, Begun):
            return begun
        region.tally.leave(begun)
        return None

    def _prepare(
        self, run: Run, region: TriedRegion, tally: TrialTally, compiled: Any, inputs: list[Any]
    ) -> Begun | Untried:
        if region.reason is not None:
            return region.reason
        if getattr(compiled, "current_callable", None) is None:
            return Untried.COMPILED
        written = tuple(sorted(int(place) for place in getattr(compiled, "mutated_input_idxs", None) or ()))
        plan = ReplayPlan(  # a region may call anything, ops from outside torch too
            written=tuple(Argument(place, "") for place in written),
            overwritten=(),
            copies_all=run.code.direction is Direction.BACKWARD,
            draws=True,
            is_foreign=True,
            scratch=_NO_SCRATCH,
        )
        prepared = self._replay.prepare(tally, plan, tuple(inputs), {}, lets_go=True)
        if isinstance(prepared, Untried):
            return prepared
        return Begun(region, compiled, prepared, written, [inputs[place] for place in written])

    def after(self, begun: Begun | None, result: Any) -> None:
        """Replay the region, which has run."""
        if begun is not None:
            with unseen():
                begun.prepared.finish(lambda: self._try(begun, result))

    def left(self, begun: Begun | None) -> None:
        """The execution ended, normally or with an error."""

    def _try(self, begun: Begun, result: Any) -> Untried | None:
        call = begun.compiled.current_callable
        results = list(results_of(_NO_SCRATCH, result))

        def make(positional: tuple[Any, ...], named: dict[str, Any]) -> list[torch.Tensor]:
            written = [positional[place] for place in begun.written]
            return [*written, *results_of(_NO_SCRATCH, call(list(positional)))]  # it empties the list it is handed

        return self._replay.compare(begun.prepared, [*begun.changed, *results], results, make)

    def _region_of(self, run: Run) -> TriedRegion:
        if run.code not in self._tried:
            try:
                region = self._read(run)
            except Exception:  # code of a form that is not known
                region = TriedRegion(self._regions.name_of(run.code), TrialTally(), Untried.COMPILED)
            self._tried[run.code] = region
        return self._tried[run.code]

    def _read(self, run: Run) -> TriedRegion:
        region, groups, graph = self._regions.one_execution(run)
        is_asked = self._tries_all or graph is None or self.risk is None or self.risk.lies_in(region, groups)
        tally = TrialTally() if is_asked else None
        if graph is None or run.code.uses_cuda_graphs:
            return TriedRegion(region.id, tally, Untried.CAPTURED if run.code.uses_cuda_graphs else Untried.COMPILED)
        forbidden = {_forbidden_by(name) for name in dict.fromkeys(_OP.findall(run.code.text))}
        return TriedRegion(region.id, tally, next((reason for reason in _FORBIDS if reason in forbidden), None))

    def in_regions(self, regions: tuple[Region, ...], groups: tuple[CallGroup, ...]) -> tuple[Region, ...]:
        """``regions`` with the outcomes of their trials."""
        tallies = {tried.name: tried.tally for tried in self._tried.values() if tried.tally is not None}
        listed = []
        for region in regions:
            if region.id in tallies:
                tried = replace(tallies[region.id].listed(), together=len(self._suspects(region, groups)))
                region = replace(region, tried=tried)
            listed.append(region)
        return tuple(listed)

    def in_groups(self, regions: tuple[Region, ...], groups: tuple[CallGroup, ...]) -> tuple[CallGroup, ...]:
        """``groups``, where those that may vary have the outcome of their region's trials."""
        tried: dict[int, Tried] = {}
        for region in regions:
            if region.tried is not None:
                tried |= {id(group): region.tried for group in self._suspects(region, groups)}
        return tuple(replace(group, tried=tried[id(group)]) if id(group) in tried else group for group in groups)

    def _suspects(self, region: Region, groups: tuple[CallGroup, ...]) -> list[CallGroup]:
        if self.risk is None:
            return []
        return self.risk.suspects(region, [group for group in groups if group.region == region.id])


def _forbidden_by(name: str) -> Untried | None:
    """Return why an op of a graph could not be replayed alone; ``None`` if it could, or does not exist."""
    if name in _EFFECTS:
        return Untried.SIDE_EFFECTS
    func: Any = torch.ops
    for part in name.split("."):
        func = getattr(func, part, None)
        if func is None:
            return None
    plan = plan_replay(func, Access(func)) if isinstance(func, torch._ops.OpOverload) else None
    if isinstance(plan, ReplayPlan):  # which of the region's results stay partly unwritten is not known
        return Untried.FRESH_MEMORY if plan.scratch else None
    return plan
