"""Replays an op or a compiled region and compares its results bit by bit.

Memory of the size of each result is allocated, filled and freed before each replay: an allocator that reuses it shows
some reads of unwritten memory.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace

from tracer.facts.argument_readers import Args, Kwargs
from tracer.names import Untried
from tracer.recording import patching
from tracer.recording.torch_private import seams
from tracer.recording.trials.replay_plan import CannotCopyError, Copies, ReplayPlan, tensors_in
from tracer.recording.values.device import DeviceDigests, Slot, is_capturing
from tracer.trace.merging import join
from tracer.trace.records import Tried

#: Whole numbers as wide as the floating-point ones, by their bytes.
_BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16}
_MOST = 2**62


def distance_between(own: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> Tried:
    """The largest difference between the floating-point elements of ``own`` and ``other``; other dtypes are skipped."""
    pairs = zip(own, other, strict=False)
    return reduce(join, (_of(*pair) for pair in pairs if pair[0].shape == pair[1].shape), Tried())


def _of(own: torch.Tensor, other: torch.Tensor) -> Tried:
    if own.dtype is not other.dtype or own.layout is not torch.strided or other.layout is not torch.strided:
        return Tried()
    if own.is_complex():
        own, other = torch.view_as_real(own.resolve_conj()), torch.view_as_real(other.resolve_conj())
    kind = _BITS.get(own.itemsize) if own.is_floating_point() else None
    if kind is None or not own.numel():
        return Tried()
    left, right = own.resolve_neg().reshape(-1), other.resolve_neg().reshape(-1)
    differs = left.view(kind) != right.view(kind)
    left, right = left[differs], right[differs]
    if not left.numel():
        return Tried()
    is_number = left.isfinite() & right.isfinite()
    is_lost = not bool(is_number.all())
    left, right = left[is_number], right[is_number]
    if not left.numel():
        return Tried(relative=1.0)
    places = _places_between(left.view(kind), right.view(kind))
    left, right = left.double(), right.double()
    largest = torch.maximum(left.abs(), right.abs()).clamp_min(5e-324)
    relative = float(((left / largest) - (right / largest)).abs().max())
    return Tried(ulp=min(_MOST, int(places.max())), relative=1.0 if is_lost else min(1.0, relative))


def _places_between(own: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The number of representable values between each pair (ULPs), from their bits."""
    mask = torch.iinfo(own.dtype).max
    near, far = ((bits & mask).to(torch.int64) for bits in (own, other))
    # On two sides of zero the ways to it add up; halves of the widest would not fit otherwise.
    around_zero = near.clamp_max(_MOST // 2) + far.clamp_max(_MOST // 2)
    return torch.where((own < 0) == (other < 0), (near - far).abs(), around_zero)


#: The first calls of a group are all tried, then those whose number is a power of two.
_FIRST_CALLS = 3


class TrialTally:
    """The outcomes of one group of calls."""

    def __init__(self) -> None:
        self.call_count = 0
        """Calls so far."""
        self._tried = Tried()
        self._untried: Counter[Untried] = Counter()

    def is_due(self) -> bool:
        """Whether this call is to be tried: the first few of a group are, then increasingly rare ones."""
        return self.call_count <= _FIRST_CALLS or not self.call_count & (self.call_count - 1)

    def leave(self, reason: Untried) -> None:
        """Count a call that was not tried."""
        self._untried[reason] += 1

    def note(self, own: object, results: Sequence[object], largest: Tried) -> None:
        """Count a call that was tried: its ``own`` result, that of each trial, the ``largest`` difference."""
        varied = sum(result != own for result in results)
        counts = {"calls": 1, "trials": len(results), "varied": varied, "varied_calls": bool(varied)}
        first = self.call_count if varied else 0
        self._tried = join(self._tried, replace(largest, distinct=len({own, *results}), first=first, **counts))

    def listed(self) -> Tried:
        """The outcomes as stored in a trace."""
        return replace(self._tried, untried=dict(self._untried))


#: Size of the second stream's work, and how often it is repeated.
_BUSY_NUMBERS, _BUSY_TIMES = 1 << 22, 8
#: The bytes that fill fresh memory, in turn: neighbours differ, and none is zero.
_BYTES = (0x55, 0xAA, 0x3C, 0xC3, 0xFF)


def _fill_next(results: Sequence[torch.Tensor], byte: int) -> None:
    """Fill the allocator's next block of each result's size with ``byte``."""
    blocks = [
        torch.empty(result.nbytes, dtype=torch.uint8, device=result.device).fill_(byte)
        for result in results
        if result.layout is torch.strided and result.nbytes
    ]
    blocks.clear()


Digest = tuple[int, ...]
Make = Callable[[Args, dict[str, Any]], list[torch.Tensor]]
"""Makes the call on these arguments; returns the tensors to compare."""


Ways = list[tuple[Callable[[Any], Any], Callable[[], Any]]]
"""For each generator that a call may draw from, those among its arguments too: the functions that set and read its
state, below those that watch for seeding, because nothing is seeded."""


def _ways(plan: ReplayPlan, args: Args, kwargs: Kwargs) -> Ways:
    passed: list[Any] = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Generator)]
    defaults = [generator for _, generator in seams.default_generators()]
    generators: dict[int, Any] = {generator._cdata: generator for generator in (*defaults, *passed)}
    set_state: Any = patching.held_by(torch._C.Generator, "set_state")
    ways: list[Any] = [(partial(set_state, generator), generator.get_state) for generator in generators.values()]
    if plan.is_foreign:
        hidden: Any = getattr(patching.held_by(random, "random"), "__self__", None)
        if hidden is not None:
            ways.append((hidden.setstate, hidden.getstate))
        mersenne = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
        if mersenne is not None:
            ways.append((mersenne.set_state, mersenne.get_state))
    return ways


class Prepared(NamedTuple):
    """Everything needed to replay one call, taken before it ran."""

    tally: TrialTally
    copies: Copies
    generators: Ways
    states: list[Any]
    """Those of the generators, from which each trial starts."""

    def rewind(self) -> None:
        """Restore the generators to their states before the call."""
        for (put, _), state in zip(self.generators, self.states, strict=True):
            put(state)

    def finish(self, attempt: Callable[[], Untried | None]) -> None:
        """Run ``attempt``, which replays the call, then restore the generators to their states after the call."""
        try:
            after = self._replace(states=[read() for _, read in self.generators])
        except Exception:
            self.tally.leave(Untried.GENERATOR)
            return
        try:
            reason = attempt()
        except Exception:  # a failure of the recorder never reaches the program
            reason = Untried.FAILED
        finally:
            after.rewind()
        if reason is not None:
            self.tally.leave(reason)


class Replay:
    """The replays of the calls of one recording."""

    def __init__(self, times: int, limit: int) -> None:
        """``limit``: bytes that the trials of one call may copy."""
        self._times = times
        self._limit = limit
        self._streams: dict[torch.device, tuple[Any, torch.Tensor]] = {}
        self._digests = DeviceDigests()

    def prepare(self, tally: TrialTally, plan: ReplayPlan, args: Args, kwargs: Kwargs) -> Prepared | Untried:
        """Copy what replays need. Returns the reason if the call is not replayed."""
        if not tally.is_due():
            return Untried.RARER
        if any(map(is_capturing, tensors_in((args, kwargs)))):
            return Untried.CAPTURED
        try:
            with unseen_by_modes():
                copies = Copies(plan, args, kwargs, self._limit)
        except CannotCopyError as problem:
            return problem.reason
        except Exception:  # a tensor of an unforeseen kind, or no memory left
            return Untried.LAYOUT
        try:
            generators = _ways(plan, args, kwargs) if plan.draws else []
            return Prepared(tally, copies, generators, [read() for _, read in generators])
        except Exception:
            return Untried.GENERATOR

    def compare(
        self, prepared: Prepared, own_tensors: Sequence[torch.Tensor], results: Sequence[torch.Tensor], make: Make
    ) -> Untried | None:
        """Replay a call and tally the result; returns the reason if it cannot be compared.

        ``own_tensors`` are the call's outputs, ``results`` those of them that it allocated.
        """
        copies = prepared.copies
        if copies.size + sum(tensor.numel() * tensor.element_size() for tensor in own_tensors) > self._limit:
            return Untried.MEMORY
        own = self._digest(own_tensors)
        if own is None:
            return Untried.LAYOUT
        device = next((tensor.device for tensor in own_tensors if not tensor.is_cpu), torch.device("cpu"))
        digests: list[Digest] = []
        largest = Tried()
        for trial in range(self._times):
            byte = _BYTES[trial % len(_BYTES)]
            prepared.rewind()
            positional, named = copies.fresh(byte)
            _fill_next(results, byte)
            if device.type == "cuda" and trial % 2:
                self._keep_busy(device)
            tensors = make(positional, named)
            digest = self._digest(tensors)
            if digest is None or len(tensors) != len(own_tensors):
                return Untried.LAYOUT
            digests.append(digest)
            if digest != own:
                largest = join(largest, distance_between(own_tensors, tensors))
        prepared.tally.note(own, digests, largest)
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

    def _digest(self, tensors: Sequence[torch.Tensor]) -> Digest | None:
        """One digest per tensor; synchronizes a device. ``None`` if a tensor has no digest."""
        digests = [self._digests.digest(tensor) for tensor in tensors]
        if self._digests.is_used:
            self._digests.fetch()
        numbers: list[Any] = [digest.value if isinstance(digest, Slot) else digest for digest in digests]
        return None if None in numbers else tuple(numbers)


def results_of(scratch: frozenset[int], result: Any) -> Iterator[torch.Tensor]:
    """The tensors among a call's results, without those at the positions in ``scratch``."""
    if not scratch or not isinstance(result, (tuple, list)):
        yield from tensors_in(result)
        return
    for place, item in enumerate(result):
        if place not in scratch:
            yield from tensors_in(item)


@contextmanager
def unseen_by_modes() -> Iterator[None]:
    """No mode or subclass sees the ops that run inside."""
    with seams.without_torch_function(), seams.without_modes():
        yield


def quietly(make: Callable[[], Any]) -> Any:
    """Replay a call without repeating its warnings.

    torch's kernels defer a warning until the function that Python called returns; ``apply_`` calls back in between.
    """
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        return make()
    results: list[Any] = []

    def keep(number: float) -> float:
        results.append(make())
        return number

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1).apply_(keep)
    return results[0]
