"""Replays calls and compiled regions on the spot and compares their results bit by bit with their own.

What a call may write is copied first, every generator is restored to its state after the call, and no mode, autograd
graph or version counter sees a trial. What cannot be replayed is counted with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from msgspec.structs import replace

from tracer.facts import Args, Kwargs, Value
from tracer.names import Backend, DeterministicMode, Direction, Settings, Untried, Verdict
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.compiled.compilations import CompiledCode
from tracer.recording.compiled.executions import RegionObserver, RegionRun
from tracer.recording.compiled.listing import RegionList
from tracer.recording.observers import Interest, Observer
from tracer.recording.options import Trials
from tracer.recording.storage.accesses import Access
from tracer.recording.trials.replay import (
    Prepared,
    Replay,
    ReplayPlan,
    TrialTally,
    plan_replay,
    quietly,
    results_of,
    tensors_of,
    unseen_by_modes,
)
from tracer.recording.values.digests import unseen
from tracer.tables.compiled import Compilation, CompiledCalls, load_compilers
from tracer.tables.loading import load_tables
from tracer.tables.settings import MODE, settings_of
from tracer.tables.target_tables import TargetTables
from tracer.tables.versions import release
from tracer.trace.records import CallGroup, Environment, Region, Tried

_SAFE = (Verdict.DETERMINISTIC, Verdict.SEEDED, Verdict.RAISES)


class RiskyCall:
    """The tables' verdicts under the current settings and without deterministic mode, whose effect is tested so."""

    def __init__(self, environment: Environment) -> None:
        recorded = settings_of(environment, Settings.RECORDED)
        self._torch = release(environment.torch)
        self._is_rocm = environment.hip is not None
        self._both = (recorded, {**recorded, MODE: DeterministicMode.OFF.value})
        self._tables = [self._under(conditions) for conditions in self._both]

    def of(self, groups: Iterable[CallGroup], region: Region | None = None) -> bool:
        """Whether two runs of these calls, made in ``region`` if one is given, can differ."""
        both = self._tables if region is None else [self._under(conditions, region) for conditions in self._both]
        return any(tables.rule_on(group).verdict not in _SAFE for group in groups for tables in both)

    def suspects(self, region: Region, groups: Iterable[CallGroup]) -> list[CallGroup]:
        """The region's calls by which two runs of it can differ, under the current settings."""
        tables = self._under(self._both[0], region)
        return [group for group in groups if tables.rule_on(group).verdict not in _SAFE]

    def _under(self, conditions: dict[str, Value], region: Region | None = None) -> TargetTables:
        compiled = None
        if region is not None:
            regions = {region.id: region}
            compilation = Compilation(load_compilers(), regions, {}, self._torch, self._is_rocm)
            compiled = CompiledCalls(compilation, self._torch, conditions)
        return TargetTables(
            load_tables(), Backend.RECORDED, self._torch, conditions, is_rocm=self._is_rocm, compiled=compiled
        )


_OP = re.compile(r"\btorch\.ops\.([\w.]+)")
#: Of ops that take functions: those that do something beside computing.
_EFFECTS = frozenset({"higher_order.with_effects", "higher_order.print", "higher_order.call_torchbind"})
_NO_SCRATCH: frozenset[int] = frozenset()
#: What forbids that a region runs again, if an op of it has it.
_FORBIDS = (Untried.COLLECTIVE, Untried.SIDE_EFFECTS, Untried.FRESH_MEMORY)


Attempt = Callable[[Any], Untried | None]
"""Replays a region that has returned its argument; returns the reason if that is not possible."""


class RegionTrials(RegionObserver):
    """The trials of one recording's regions."""

    def __init__(self, replay: Replay, regions: RegionList, *, tries_all: bool) -> None:
        self._replay = replay
        self._regions = regions
        self._tries_all = tries_all
        self.risk: RiskyCall | None = None
        """``None`` until recording begins."""
        self._tried: dict[CompiledCode, tuple[TrialTally | None, Untried | None]] = {}
        """``None``: nothing is at risk; no reason not to run it again."""

    def before(self, run: RegionRun, compiled: Any, inputs: Any) -> tuple[Prepared, Attempt] | None:
        with unseen():
            if run.code not in self._tried:
                try:
                    self._tried[run.code] = self._read(run)
                except Exception:  # code of a form that is not known
                    self._tried[run.code] = TrialTally(), Untried.COMPILED
            tally, reason = self._tried[run.code]
            if tally is None:
                return None
            tally.call_count += 1
            try:
                begun = reason or self._prepare(run, tally, compiled, list(inputs))
            except Exception:  # a failure of the recorder never reaches the program
                begun = Untried.FAILED
        if not isinstance(begun, Untried):
            return begun
        tally.leave(begun)
        return None

    def _prepare(
        self, run: RegionRun, tally: TrialTally, compiled: Any, inputs: list[Any]
    ) -> tuple[Prepared, Attempt] | Untried:
        if (call := getattr(compiled, "current_callable", None)) is None:
            return Untried.COMPILED
        places = sorted(int(place) for place in getattr(compiled, "mutated_input_idxs", None) or ())
        plan = ReplayPlan(  # a region may call anything, ops from outside torch too
            written=tuple((place, "") for place in places),
            overwritten=(),
            copies_all=run.code.direction is Direction.BACKWARD,
            draws=True,
            is_foreign=True,
            scratch=_NO_SCRATCH,
        )
        prepared = self._replay.prepare(tally, plan, tuple(inputs), {})
        if isinstance(prepared, Untried):
            return prepared
        changed = [inputs[place] for place in places]

        def make(positional: tuple[Any, ...], named: dict[str, Any]) -> list[torch.Tensor]:
            written = [positional[place] for place in places]
            return [*written, *results_of(_NO_SCRATCH, call(list(positional)))]  # it empties the list it is handed

        def attempt(result: Any) -> Untried | None:
            results = list(results_of(_NO_SCRATCH, result))
            return self._replay.compare(prepared, [*changed, *results], results, make)

        return prepared, attempt

    def after(self, begun: tuple[Prepared, Attempt] | None, result: Any) -> None:
        if begun is not None:
            prepared, attempt = begun
            with unseen():
                prepared.finish(lambda: attempt(result))

    def _read(self, run: RegionRun) -> tuple[TrialTally | None, Untried | None]:
        region, groups, graph = self._regions.one_execution(run)
        is_asked = self._tries_all or graph is None or self.risk is None or self.risk.of(groups, region)
        tally = TrialTally() if is_asked else None
        if graph is None or run.code.uses_cuda_graphs:
            return tally, Untried.CAPTURED if run.code.uses_cuda_graphs else Untried.COMPILED
        forbidden = {_forbidden_by(name) for name in dict.fromkeys(_OP.findall(run.code.text))}
        return tally, next((reason for reason in _FORBIDS if reason in forbidden), None)

    def tried(
        self, regions: tuple[Region, ...], groups: tuple[CallGroup, ...]
    ) -> tuple[tuple[Region, ...], tuple[CallGroup, ...]]:
        """``regions`` with the outcomes of their trials, which those of ``groups`` have that may vary."""
        outcomes = {self._regions.name_of(code): tally.listed() for code, (tally, _) in self._tried.items() if tally}
        tried: dict[int, Tried] = {}
        for name, outcome in outcomes.items():
            region = next((region for region in regions if region.id == name), None)
            if region is not None and self.risk is not None:
                suspects = self.risk.suspects(region, [group for group in groups if group.region == name])
                outcomes[name] = replace(outcome, together=len(suspects))
                tried |= {id(group): outcomes[name] for group in suspects}
        of_regions = (replace(each, tried=outcomes[each.id]) if each.id in outcomes else each for each in regions)
        of_groups = (replace(each, tried=tried[id(each)]) if id(each) in tried else each for each in groups)
        return tuple(of_regions), tuple(of_groups)


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


class TrialObserver(Observer):
    """The trials of one recording. ``describe`` returns the group that a counter counts."""

    def __init__(
        self, trials: Trials, describe: Callable[[OverloadInfo, CallCounter], CallGroup], regions: RegionList
    ) -> None:
        self._replay = Replay(trials.times, trials.memory)
        self.regions = RegionTrials(self._replay, regions, tries_all=trials.all)
        """Observes every execution of a compiled region."""
        self._describe = describe
        self._tries_all = trials.all
        self._ops = frozenset(trials.ops)
        self._risk: RiskyCall | None = None
        self._plans: dict[OverloadInfo, ReplayPlan | Untried | None] = {}
        self._tallies: dict[CallCounter, TrialTally | None] = {}
        """``None``: not at risk, or nothing is computed."""

    def start(self, environment: Environment) -> None:
        """Recording starts under these settings."""
        self._risk = self.regions.risk = self._risk or RiskyCall(environment)

    def wants(self, info: OverloadInfo) -> Interest:
        """Calls that compute something, limited to the requested overloads if any were named."""
        return (not self._ops or info.name in self._ops) and self._plan(info) is not None

    def not_computed(self, info: OverloadInfo, counter: CallCounter) -> None:
        """A call on fake tensors has no result to compare."""
        self._pass_over(info, counter, Untried.NOT_COMPUTED)

    def before(
        self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs
    ) -> Prepared | Untried | None:
        if counter is None:
            return Untried.NO_INPUT
        tally = self._met(info, counter)
        plan = self._plan(info)
        if tally is None or plan is None:
            return None
        prepared = plan if isinstance(plan, Untried) else self._replay.prepare(tally, plan, args, kwargs)
        if isinstance(prepared, Prepared):
            return prepared
        tally.leave(prepared)
        return None

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Kwargs, result: Any, frame: Any
    ) -> None:
        if isinstance(begun, Untried):
            self._pass_over(info, counter, begun)
        elif begun is not None:
            with unseen_by_modes():
                begun.finish(lambda: self._try(begun, info, args, kwargs, result))

    def _try(self, prepared: Prepared, info: OverloadInfo, args: Args, kwargs: Kwargs, result: Any) -> Untried | None:
        plan = self._plan(info)
        assert isinstance(plan, ReplayPlan)

        def make(positional: Args, named: dict[str, Any]) -> list[torch.Tensor]:
            return _outcome(plan, positional, named, quietly(partial(info.func, *positional, **named)))

        own = _outcome(plan, args, kwargs, result)
        return self._replay.compare(prepared, own, list(results_of(plan.scratch, result)), make)

    def _pass_over(self, info: OverloadInfo, counter: CallCounter, reason: Untried) -> None:
        tally = self._met(info, counter)
        if tally is not None:
            plan = self._plan(info)
            tally.leave(plan if isinstance(plan, Untried) else reason)

    def _met(self, info: OverloadInfo, counter: CallCounter) -> TrialTally | None:
        if counter not in self._tallies:
            is_tried = self._plan(info) is not None and self._is_tried(lambda: self._describe(info, counter))
            self._tallies[counter] = TrialTally() if is_tried else None
        tally = self._tallies[counter]
        if tally is not None:
            tally.call_count += 1
        return tally

    def _plan(self, info: OverloadInfo) -> ReplayPlan | Untried | None:
        if info not in self._plans:
            self._plans[info] = plan_replay(info.func, info.access)
        return self._plans[info]

    def _is_tried(self, describe: Callable[[], CallGroup]) -> bool:
        return self._tries_all or (self._risk is not None and self._risk.of([describe()]))

    def group_fields(self, counter: CallCounter) -> dict[str, Any]:
        tally = self._tallies.get(counter)
        return {} if tally is None else {"tried": tally.listed()}

    def unreached(self, group: CallGroup) -> CallGroup:
        """Count a group of calls that trials cannot reach, if the group is at risk."""
        untried = Tried(untried={Untried.COMPILED: group.count})
        return replace(group, tried=untried) if self._is_tried(lambda: group) else group


def _outcome(plan: ReplayPlan, args: Args, kwargs: Kwargs, result: Any) -> list[torch.Tensor]:
    """The tensors to compare: those that the call wrote to, then its results, without duplicates."""
    several = (*tensors_of(plan.written, args, kwargs), *results_of(plan.scratch, result))
    return list({id(tensor): tensor for tensor in several}.values())
