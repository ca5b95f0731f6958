"""Replays calls on the spot and compares their results bit by bit with the call's own.

The program is not changed: what a call may write is copied first, every generator is restored to its state after the
call, and no mode, autograd graph or version counter sees a trial. A call that cannot be replayed is counted with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from msgspec.structs import replace

from tracer.facts.argument_readers import Args, Kwargs
from tracer.names import Untried
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.compiled.listing import RegionList
from tracer.recording.observers import Interest, Observer
from tracer.recording.options import Trials
from tracer.recording.trials.copies import tensors_in
from tracer.recording.trials.region_trials import RegionTrials
from tracer.recording.trials.replay import Prepared, Replay, quietly, results_of, unseen
from tracer.recording.trials.replay_plan import ReplayPlan, plan_replay
from tracer.recording.trials.risk import Risk
from tracer.recording.trials.tally import TrialTally
from tracer.trace.records import CallGroup, Environment, Tried


class TrialObserver(Observer):
    """The trials of one recording. ``describe`` returns the group that a counter counts."""

    def __init__(
        self, trials: Trials, describe: Callable[[OverloadInfo, CallCounter], CallGroup], regions: RegionList
    ) -> None:
        self._replay = Replay(trials.times, trials.memory, threads=trials.threads)
        self.regions = RegionTrials(self._replay, regions, tries_all=trials.all)
        """Observes every execution of a compiled region."""
        self._describe = describe
        self._tries_all = trials.all
        self._ops = frozenset(trials.ops)
        self._risk: Risk | None = None
        self._plans: dict[OverloadInfo, ReplayPlan | Untried | None] = {}
        self._tallies: dict[CallCounter, TrialTally | None] = {}
        """``None``: not at risk, or nothing is computed."""

    def start(self, environment: Environment) -> None:
        """Recording starts under these settings."""
        self._risk = self.regions.risk = self._risk or Risk(environment)

    def wants(self, info: OverloadInfo) -> Interest:
        """Calls that compute something, limited to the requested overloads if any were named."""
        return (not self._ops or info.name in self._ops) and self._plan(info) is not None

    def not_computed(self, info: OverloadInfo, counter: CallCounter) -> None:
        """A call on fake tensors has no result to compare."""
        self._pass_over(info, counter, Untried.NOT_COMPUTED)

    def before(
        self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs
    ) -> Prepared | Untried | None:
        """Prepare to replay a call, if it is to be tried."""
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
        """Replay the call, which has returned."""
        if isinstance(begun, Untried):
            self._pass_over(info, counter, begun)
        elif begun is not None:
            with unseen():
                begun.finish(lambda: self._try(begun, info, args, kwargs, result))

    def _try(self, prepared: Prepared, info: OverloadInfo, args: Args, kwargs: Kwargs, result: Any) -> Untried | None:
        plan = self._plan(info)
        assert isinstance(plan, ReplayPlan)

        def make(positional: Args, named: dict[str, Any]) -> list[torch.Tensor]:
            return _outcome(plan, positional, named, quietly(partial(info.func, *positional, **named)))

        own = _outcome(plan, args, kwargs, result)
        return self._replay.compare(prepared, own, list(results_of(plan.scratch, result)), make)

    def _pass_over(self, info: OverloadInfo, counter: CallCounter, reason: Untried) -> None:
        """Count a call that cannot be replayed."""
        tally = self._met(info, counter)
        if tally is not None:
            plan = self._plan(info)
            tally.leave(plan if isinstance(plan, Untried) else reason)

    def _met(self, info: OverloadInfo, counter: CallCounter) -> TrialTally | None:
        if counter not in self._tallies:
            is_tried = self._plan(info) is not None and (
                self._tries_all or self._is_risky(self._describe(info, counter))
            )
            self._tallies[counter] = TrialTally() if is_tried else None
        tally = self._tallies[counter]
        if tally is not None:
            tally.call_count += 1
        return tally

    def _plan(self, info: OverloadInfo) -> ReplayPlan | Untried | None:
        if info not in self._plans:
            self._plans[info] = plan_replay(info.func, info.access)
        return self._plans[info]

    def _is_risky(self, group: CallGroup) -> bool:
        return self._risk is not None and self._risk.of(group)

    def group_fields(self, counter: CallCounter) -> dict[str, Any]:
        """The outcome of a group's trials, if the group is at risk."""
        tally = self._tallies.get(counter)
        return {} if tally is None else {"tried": tally.listed()}

    def unreached(self, group: CallGroup) -> CallGroup:
        """Count a group of calls that trials cannot reach, if the group is at risk."""
        if self._tries_all or self._is_risky(group):
            return replace(group, tried=Tried(untried={Untried.COMPILED: group.count}))
        return group


def _outcome(plan: ReplayPlan, args: Args, kwargs: Kwargs, result: Any) -> list[torch.Tensor]:
    """The tensors to compare: those that the call wrote to, then its results, without duplicates."""
    written = (tensor for argument in plan.written for tensor in tensors_in(argument.of(args, kwargs)))
    return list({id(tensor): tensor for tensor in (*written, *results_of(plan.scratch, result))}.values())
