"""Replays calls on the spot and compares their results bit by bit with their own.

What a call may write is copied first, every generator is restored to its state after the call, and no mode, autograd
graph or version counter sees a trial. What cannot be replayed is counted with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from msgspec.structs import replace

from tracer.facts import Args, Kwargs
from tracer.names import Backend, DeterministicMode, Settings, Untried, Verdict
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.observers import Interest, Observer
from tracer.recording.options import Trials
from tracer.recording.trials import (
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
from tracer.tables.compiled import Compilation, CompiledCalls, load_compilers
from tracer.tables.loading import load_tables
from tracer.tables.settings import MODE, settings_of
from tracer.tables.target_tables import TargetTables
from tracer.tables.versions import release
from tracer.trace.records import CallGroup, Environment, Region, Tried

_Placed = tuple[int, CallGroup]
_SAFE = (Verdict.DETERMINISTIC, Verdict.SEEDED, Verdict.RAISES)


def _risk(environment: Environment, regions: Sequence[Region] = ()) -> Callable[[CallGroup], bool]:
    """Returns what tells whether two runs of a call, in one of ``regions`` if it is compiled, can differ: by the tables
    under the current settings and without deterministic mode, whose effect is tested so."""
    recorded = settings_of(environment, Settings.RECORDED)
    version, is_rocm = release(environment.torch), environment.hip is not None
    compilation = Compilation(load_compilers(), {each.id: each for each in regions}, {}, version, is_rocm)
    both = [
        TargetTables(
            load_tables(),
            Backend.RECORDED,
            version,
            conditions,
            is_rocm=is_rocm,
            compiled=CompiledCalls(compilation, version, conditions) if regions else None,
        )
        for conditions in (recorded, {**recorded, MODE: DeterministicMode.OFF.value})
    ]
    return lambda group: any(tables.rule_on(group).verdict not in _SAFE for tables in both)


class TrialObserver(Observer):
    """The trials of one recording. ``describe`` returns the group that a counter counts."""

    def __init__(self, trials: Trials, describe: Callable[[OverloadInfo, CallCounter], CallGroup]) -> None:
        self._replay = Replay(trials.times, trials.memory)
        self._describe = describe
        self._tries_all = trials.all
        self._ops = frozenset(trials.ops)
        self._environment: Environment | None = None
        self._is_risky: Callable[[CallGroup], bool] = lambda group: False
        self._plans: dict[OverloadInfo, ReplayPlan | Untried | None] = {}
        self._tallies: dict[CallCounter, TrialTally | None] = {}
        """``None``: not at risk, or nothing is computed."""

    def start(self, environment: Environment) -> None:
        """Recording starts under these settings."""
        if self._environment is None:
            self._environment, self._is_risky = environment, _risk(environment)

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
            is_tried = self._plan(info) is not None
            is_tried = is_tried and (self._tries_all or self._is_risky(self._describe(info, counter)))
            self._tallies[counter] = TrialTally() if is_tried else None
        tally = self._tallies[counter]
        if tally is not None:
            tally.call_count += 1
        return tally

    def _plan(self, info: OverloadInfo) -> ReplayPlan | Untried | None:
        if info not in self._plans:
            self._plans[info] = plan_replay(info.func, info.access)
        return self._plans[info]

    def group_fields(self, counter: CallCounter) -> dict[str, Any]:
        tally = self._tallies.get(counter)
        return {} if tally is None else {"tried": tally.listed()}

    def unreached(self, groups: Iterable[_Placed], regions: Sequence[Region]) -> Iterator[_Placed]:
        """``groups`` of calls that trials cannot reach, each with its place; those at risk are counted as untried."""
        is_risky = self._is_risky if self._environment is None else _risk(self._environment, regions)
        for place, group in groups:
            untried = Tried(untried={Untried.COMPILED: group.count})
            is_tried = self._tries_all or is_risky(group)
            yield place, replace(group, tried=untried) if is_tried else group


def _outcome(plan: ReplayPlan, args: Args, kwargs: Kwargs, result: Any) -> list[torch.Tensor]:
    """The tensors to compare: those that the call wrote to, then its results, without duplicates."""
    several = (*tensors_of(plan.written, args, kwargs), *results_of(plan.scratch, result))
    return list({id(tensor): tensor for tensor in several}.values())
