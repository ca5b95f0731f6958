"""Replays calls on the spot and compares their results bit by bit with their own.

What a call may write is copied first, every generator is restored to its state after the call, and no mode, autograd
graph or version counter sees a trial. Memory of the size of each result is allocated, filled and freed before each
replay: an allocator that reuses it shows some reads of unwritten memory. What cannot be replayed is counted.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace

from tracer.facts import Args, Kwargs
from tracer.names import Backend, DeterministicMode, Settings, Untried, Verdict
from tracer.recording import patching
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.observers import Interest, Observer
from tracer.recording.options import Trials
from tracer.recording.torch_private import seams
from tracer.recording.trials import (
    CannotCopyError,
    Copies,
    ReplayPlan,
    is_due,
    plan_replay,
    quietly,
    tensors_in,
    unseen_by_modes,
)
from tracer.recording.values.digest_table import DeviceDigests, Slot, is_capturing
from tracer.tables.compiled import Compilation, CompiledCalls, load_compilers
from tracer.tables.loading import load_tables
from tracer.tables.settings import MODE, settings_of
from tracer.tables.target_tables import TargetTables
from tracer.tables.versions import release
from tracer.trace.merging import join
from tracer.trace.records import CallGroup, Environment, Region, Tried

_Placed = tuple[int, CallGroup]
_SAFE = (Verdict.DETERMINISTIC, Verdict.SEEDED, Verdict.RAISES)
#: Size of the second stream's work, and how often it is repeated.
_BUSY_NUMBERS, _BUSY_TIMES = 1 << 22, 8
#: The bytes that fill fresh memory, in turn: neighbours differ, and none is zero.
_BYTES = (0x55, 0xAA, 0x3C, 0xC3, 0xFF)


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


class _Tally:
    """The outcomes of one group of calls."""

    def __init__(self) -> None:
        self.call_count = 0
        self.tried = Tried()
        self.untried: Counter[Untried] = Counter()


class _Begun(NamedTuple):
    """What replays of one call need, taken before it ran."""

    tally: _Tally
    plan: ReplayPlan
    copies: Copies
    generators: list[tuple[Callable[[Any], Any], Callable[[], Any]]]
    """Of each generator that the call may draw from, what sets and reads its state."""
    states: list[Any]

    def rewind(self, states: list[Any]) -> None:
        for (put, _), state in zip(self.generators, states, strict=True):
            put(state)


class TrialObserver(Observer):
    """The trials of one recording. ``describe`` returns the group that a counter counts."""

    def __init__(self, trials: Trials, describe: Callable[[OverloadInfo, CallCounter], CallGroup]) -> None:
        self._options = trials
        self._describe = describe
        self._environment: Environment | None = None
        self._is_risky: Callable[[CallGroup], bool] = lambda group: False
        self._plans: dict[OverloadInfo, ReplayPlan | Untried | None] = {}
        self._tallies: dict[CallCounter, _Tally | None] = {}
        """``None``: not at risk, or nothing is computed."""
        self._streams: dict[torch.device, tuple[Any, torch.Tensor]] = {}
        self._digests = DeviceDigests()

    def start(self, environment: Environment) -> None:
        if self._environment is None:
            self._environment, self._is_risky = environment, _risk(environment)

    def wants(self, info: OverloadInfo) -> Interest:
        """Calls that compute something, limited to the requested overloads if any were named."""
        self._plans[info] = plan_replay(info.func, info.access)
        return (not self._options.ops or info.name in self._options.ops) and self._plans[info] is not None

    def not_computed(self, info: OverloadInfo, counter: CallCounter) -> None:
        self._pass_over(info, counter, Untried.NOT_COMPUTED)

    def _pass_over(self, info: OverloadInfo, counter: CallCounter, reason: Untried) -> None:
        tally, plan = self._met(info, counter), self._plans[info]
        if tally is not None:
            tally.untried[plan if isinstance(plan, Untried) else reason] += 1

    def _met(self, info: OverloadInfo, counter: CallCounter) -> _Tally | None:
        if counter not in self._tallies:
            is_tried = self._options.all or self._is_risky(self._describe(info, counter))
            self._tallies[counter] = _Tally() if is_tried else None
        tally = self._tallies[counter]
        if tally is not None:
            tally.call_count += 1
        return tally

    def before(
        self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs
    ) -> _Begun | Untried | None:
        if counter is None:
            return Untried.NO_INPUT
        tally, plan = self._met(info, counter), self._plans[info]
        if tally is None or plan is None:
            return None
        begun = plan if isinstance(plan, Untried) else self._begin(tally, plan, args, kwargs)
        if not isinstance(begun, Untried):
            return begun
        tally.untried[begun] += 1
        return None

    def _begin(self, tally: _Tally, plan: ReplayPlan, args: Args, kwargs: Kwargs) -> _Begun | Untried:
        """Copy what replays need; returns the reason if the call is not replayed."""
        if not is_due(tally.call_count):
            return Untried.RARER
        if any(map(is_capturing, tensors_in((args, kwargs)))):
            return Untried.CAPTURED
        try:
            with unseen_by_modes():
                copies = Copies(plan, args, kwargs, self._options.memory)
        except CannotCopyError as problem:
            reason: Untried = problem.args[0]
            return reason
        except Exception:  # a tensor of an unforeseen kind, or no memory left
            return Untried.LAYOUT
        try:
            generators = _generators(plan, args, kwargs) if plan.draws else []
            return _Begun(tally, plan, copies, generators, [read() for _, read in generators])
        except Exception:
            return Untried.GENERATOR

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Kwargs, result: Any, frame: Any
    ) -> None:
        if isinstance(begun, Untried):
            self._pass_over(info, counter, begun)
        elif begun is not None:
            with unseen_by_modes():
                reason = self._replay(begun, info.func, args, kwargs, result)
            if reason is not None:
                begun.tally.untried[reason] += 1

    def _replay(self, begun: _Begun, func: Any, args: Args, kwargs: Kwargs, result: Any) -> Untried | None:
        """Replay a call and leave the generators as it left them; returns why it was not replayed."""
        try:
            states = [read() for _, read in begun.generators]
        except Exception:
            return Untried.GENERATOR
        try:
            return self._compare(begun, func, begun.plan.outcome(args, kwargs, result), begun.plan.results(result))
        except Exception:  # a failure of the recorder must not reach the program
            return Untried.FAILED
        finally:
            begun.rewind(states)

    def _compare(
        self, begun: _Begun, func: Any, own: Sequence[torch.Tensor], results: Sequence[torch.Tensor]
    ) -> Untried | None:
        """Replay a call and tally how its ``own`` tensors compare; ``results``: those of them that it allocated."""
        if begun.copies.size + sum(tensor.numel() * tensor.element_size() for tensor in own) > self._options.memory:
            return Untried.MEMORY
        digest = self._digest(own)
        if digest is None:
            return Untried.LAYOUT
        device = next((tensor.device for tensor in own if not tensor.is_cpu), torch.device("cpu"))
        digests, relative = [digest], 0.0
        for trial in range(self._options.times):
            byte = _BYTES[trial % len(_BYTES)]
            begun.rewind(begun.states)
            args, kwargs = begun.copies.fresh(byte)
            # The allocator gives a block that was just freed to the next result of its size.
            blocks = [
                torch.empty(each.nbytes, dtype=torch.uint8, device=each.device).fill_(byte)
                for each in results
                if each.layout is torch.strided and each.nbytes
            ]
            blocks.clear()
            if device.type == "cuda" and trial % 2:
                self._keep_busy(device)
            again = begun.plan.outcome(args, kwargs, quietly(partial(func, *args, **kwargs)))
            other = self._digest(again)
            if other is None or len(again) != len(own):
                return Untried.LAYOUT
            digests.append(other)
            if other != digest:
                relative = max(relative, _relative_difference(own, again))
        tally, varied = begun.tally, len(digests) - digests.count(digest)
        call = Tried(calls=1, trials=len(digests) - 1, varied=varied, distinct=len({*digests}), relative=relative)
        tally.tried = join(tally.tried, replace(call, first=tally.call_count) if varied else call)
        return None

    def _keep_busy(self, device: torch.device) -> None:
        """Start work on another stream that continues during the replay."""
        if device not in self._streams:
            numbers = torch.zeros(_BUSY_NUMBERS, device=device)
            torch.cuda.synchronize(device)
            self._streams[device] = (torch.cuda.Stream(device), numbers)
        stream, numbers = self._streams[device]
        with torch.cuda.stream(stream):
            for _ in range(_BUSY_TIMES):
                numbers.sin_()

    def _digest(self, tensors: Sequence[torch.Tensor]) -> tuple[int, ...] | None:
        """One digest per tensor; waits for a device. ``None`` if a tensor has no digest."""
        digests = [self._digests.digest(tensor) for tensor in tensors]
        if self._digests.is_used:
            self._digests.fetch()
        numbers: list[Any] = [digest.value if isinstance(digest, Slot) else digest for digest in digests]
        return None if None in numbers else tuple(numbers)

    def group_fields(self, counter: CallCounter) -> dict[str, Any]:
        tally = self._tallies.get(counter)
        return {} if tally is None else {"tried": replace(tally.tried, untried=dict(tally.untried))}

    def unreached(self, groups: Iterable[_Placed], regions: Sequence[Region]) -> Iterator[_Placed]:
        """``groups`` of calls that trials cannot reach, each with its place; those at risk are counted as untried."""
        is_risky = self._is_risky if self._environment is None else _risk(self._environment, regions)
        for place, group in groups:
            untried = Tried(untried={Untried.COMPILED: group.count})
            is_tried = self._options.all or is_risky(group)
            yield place, replace(group, tried=untried) if is_tried else group


def _generators(plan: ReplayPlan, args: Args, kwargs: Kwargs) -> list[Any]:
    """Of each generator that a call may draw from, its arguments too, the functions that set and read its state: below
    those that watch for seeding, because nothing is seeded."""
    passed: list[Any] = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Generator)]
    defaults = [generator for _, generator in seams.default_generators()]
    generators: dict[int, Any] = {generator._cdata: generator for generator in (*defaults, *passed)}
    set_state: Any = patching.held_by(torch._C.Generator, "set_state")
    pairs: list[Any] = [(partial(set_state, generator), generator.get_state) for generator in generators.values()]
    if plan.is_foreign:
        hidden: Any = getattr(patching.held_by(random, "random"), "__self__", None)
        if hidden is not None:
            pairs.append((hidden.setstate, hidden.getstate))
        mersenne = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
        if mersenne is not None:
            pairs.append((mersenne.set_state, mersenne.get_state))
    return pairs


def _relative_difference(own: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
    """The largest difference of a floating-point element, relative to the larger one; 1 if only one is a number."""
    largest = 0.0
    for left, right in zip(own, other, strict=False):
        if left.is_complex() and right.is_complex():
            left, right = torch.view_as_real(left.resolve_conj()), torch.view_as_real(right.resolve_conj())
        is_strided = left.layout is torch.strided is right.layout
        if not left.is_floating_point() or not is_strided or (left.dtype, left.shape) != (right.dtype, right.shape):
            continue
        differs = (left != right) & ~(left.isnan() & right.isnan())
        left, right = left[differs].double(), right[differs].double()
        size = torch.maximum(left.abs(), right.abs())
        # Divided first: the difference of two large ones is infinite.
        distances = (left / size - right / size).abs().nan_to_num(1.0, 1.0)
        largest = max(largest, *distances.clamp_max(1.0).amax(0, keepdim=True).tolist()) if left.numel() else largest
    return largest
