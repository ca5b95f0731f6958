"""Calls replayed on the spot, as often as asked, and their results compared bit by bit with the call's own.

The program is left as it was: what a call may write is copied before, every generator is put back as the call left it,
no mode, autograd graph or version counter sees a trial, and what a trial gives is dropped. A call that raises when it
is made again, or that cannot be made again without being felt, is counted with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from types import FrameType
from typing import Any

import torch
from msgspec.structs import replace

from tracer.names import TrialArm, Untried
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.compiled.listing import RegionList
from tracer.recording.observers import Interest, Observer
from tracer.recording.options import Trials
from tracer.recording.trials.copies import CannotCopyError, Copies, tensors_in
from tracer.recording.trials.generator_states import GeneratorStates
from tracer.recording.trials.region_trials import RegionTrials
from tracer.recording.trials.replay import Replay, quietly, unseen
from tracer.recording.trials.replay_plan import ReplayPlan, plan_replay
from tracer.recording.trials.risk import Risk
from tracer.recording.trials.tally import TrialTally
from tracer.recording.values.digesting.device import is_capturing
from tracer.trace.records import CallGroup, Environment, Tried


class Prepared:
    """A call that is about to be made and will be replayed."""

    __slots__ = ("copies", "generators", "plan", "tally")

    def __init__(self, tally: TrialTally, plan: ReplayPlan, copies: Copies, generators: GeneratorStates) -> None:
        self.tally = tally
        self.plan = plan
        self.copies = copies
        self.generators = generators


class TrialObserver(Observer):
    """The trials of one recording. ``describe`` gives the group that a counter stands for; ``regions`` what is known of
    compiled ones."""

    def __init__(
        self, trials: Trials, describe: Callable[[OverloadInfo, CallCounter], CallGroup], regions: RegionList
    ) -> None:
        arms = (TrialArm.THREADS,) if trials.threads else ()
        self._replay = Replay(trials.times, trials.memory, arms)
        self.regions = RegionTrials(self._replay, regions, tries_all=trials.all)
        """Observes every execution of a compiled region."""
        self._describe = describe
        self._tries_all = trials.all
        self._risk: Risk | None = None
        self._approaches: dict[OverloadInfo, ReplayPlan | Untried | None] = {}
        self._tallies: dict[CallCounter, TrialTally | None] = {}
        """``None``: not at risk, or nothing is computed."""

    def start(self, environment: Environment) -> None:
        """Recording begins, under these settings."""
        self._risk = self.regions.risk = self._risk or Risk(environment)

    def wants(self, info: OverloadInfo) -> Interest:
        """Calls that compute something."""
        return self._plan(info) is not None

    def not_computed(self, info: OverloadInfo, counter: CallCounter) -> None:
        """A call on fake tensors gives no result to compare."""
        tally = self._met(info, counter)
        if tally is not None:
            plan = self._plan(info)
            tally.leave(plan if isinstance(plan, Untried) else Untried.NOT_COMPUTED)

    def before(
        self,
        info: OverloadInfo,
        counter: CallCounter | None,
        asked: tuple[Any, ...] | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Prepared | Untried | None:
        """Get ready to make a call again, where it is one to try."""
        if counter is None:
            return Untried.NO_INPUT
        tally = self._met(info, counter)
        if tally is None:
            return None
        plan = self._plan(info)
        reason = plan if isinstance(plan, Untried) else None if tally.is_due() else Untried.RARER
        if reason is None and any(map(is_capturing, tensors_in((args, kwargs)))):
            reason = Untried.CAPTURED
        if reason is None:
            assert isinstance(plan, ReplayPlan)
            try:
                with unseen():
                    copies = Copies(plan, args, kwargs, self._replay.limit)
            except CannotCopyError as problem:
                reason = problem.reason
            except Exception:  # a tensor of an unforeseen kind, or no memory left
                reason = Untried.LAYOUT
        if reason is None:
            assert isinstance(plan, ReplayPlan)
            try:
                return Prepared(tally, plan, copies, GeneratorStates(plan, args, kwargs))
            except Exception:
                reason = Untried.GENERATOR
        tally.leave(reason)
        return None

    def after(
        self,
        begun: Prepared | Untried | None,
        info: OverloadInfo,
        counter: CallCounter,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,
        frame: FrameType | None,
    ) -> None:
        """The call returned: make it again."""
        if not isinstance(begun, Prepared):
            if begun is not None:
                self._pass_over(info, counter, begun)
            return
        prepared, tally = begun, begun.tally
        with ExitStack() as put_back:
            put_back.enter_context(unseen())
            try:
                prepared.generators.the_call_returned()
                put_back.callback(prepared.generators.as_after)
                reason = self._try(prepared, info, args, kwargs, result)
            except Exception:  # whatever it is, it is no business of the program's
                reason = Untried.FAILED
        if reason is not None:
            tally.leave(reason)

    def _try(
        self, prepared: Prepared, info: OverloadInfo, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any
    ) -> Untried | None:
        plan = prepared.plan

        def make(positional: tuple[Any, ...], named: dict[str, Any]) -> list[torch.Tensor]:
            replayed = quietly(partial(info.func, *positional, **named))
            return _outcome(plan, positional, named, replayed)

        own = _outcome(plan, args, kwargs, result)
        results = [*_results(plan, result)]
        return self._replay.compare(prepared.tally, prepared.copies, prepared.generators, own, results, make)

    def _pass_over(self, info: OverloadInfo, counter: CallCounter, reason: Untried) -> None:
        """A call was made that cannot be replayed."""
        tally = self._met(info, counter)
        if tally is not None:
            plan = self._plan(info)
            tally.leave(plan if isinstance(plan, Untried) else reason)

    def _met(self, info: OverloadInfo, counter: CallCounter) -> TrialTally | None:
        if counter not in self._tallies:
            is_tried = self._plan(info) is not None and self._is_asked(info, counter)
            self._tallies[counter] = TrialTally() if is_tried else None
        tally = self._tallies[counter]
        if tally is not None:
            tally.seen += 1
        return tally

    def _plan(self, info: OverloadInfo) -> ReplayPlan | Untried | None:
        if info not in self._approaches:
            self._approaches[info] = plan_replay(info.func, info.access)
        return self._approaches[info]

    def _is_asked(self, info: OverloadInfo, counter: CallCounter) -> bool:
        if self._tries_all:
            return True
        return self._risk is not None and self._risk.of(self._describe(info, counter))

    # --- what was found ---

    def group_fields(self, counter: CallCounter) -> dict[str, Any]:
        """What the trials of a group showed, where it was at risk."""
        tally = self._tallies.get(counter)
        return {} if tally is None else {"tried": tally.listed()}

    def unreached(self, group: CallGroup) -> CallGroup:
        """A group of calls that no trial reaches; named where it is at risk."""
        if self._tries_all or (self._risk is not None and self._risk.of(group)):
            return replace(group, tried=Tried(untried={Untried.COMPILED: group.count}))
        return group


def _outcome(plan: ReplayPlan, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> list[torch.Tensor]:
    """The tensors to compare: those that the call wrote, then its results, each once."""
    written = (tensor for argument in plan.written for tensor in tensors_in(argument.of(args, kwargs)))
    tensors: list[torch.Tensor] = []
    for tensor in (*written, *_results(plan, result)):
        if not any(tensor is other for other in tensors):
            tensors.append(tensor)
    return tensors


def _results(plan: ReplayPlan, result: Any) -> Iterator[torch.Tensor]:
    if plan.scratch and isinstance(result, (tuple, list)):
        for place, item in enumerate(result):
            if place not in plan.scratch:
                yield from tensors_in(item)
    else:
        yield from tensors_in(result)
