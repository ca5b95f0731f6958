"""Replays an op or a compiled region and compares its results bit by bit.

Fresh memory has different contents in each replay, so elements that a kernel leaves unwritten differ: memory of the
size of each result is allocated, filled and freed at once. A device's allocator reuses it, the host's usually does, so
this detects some reads of unwritten memory, not all.
"""

from __future__ import annotations

import ctypes
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch

from tracer.facts.argument_readers import Args, Kwargs
from tracer.names import TrialArm, Untried
from tracer.recording import patching
from tracer.recording.torch_private import seams
from tracer.recording.trials.copies import CannotCopyError, Copies, tensors_in
from tracer.recording.trials.replay_plan import ReplayPlan
from tracer.recording.trials.tally import Distance, TrialTally, distance_between
from tracer.recording.values.digesting.device import DeviceDigests, Slot, is_capturing

#: Size of the second stream's work, and how often it is repeated.
_BUSY_NUMBERS, _BUSY_TIMES = 1 << 22, 8
#: The bytes that fill fresh memory, in turn: neighbours differ, and none is zero.
_BYTES = (0x55, 0xAA, 0x3C, 0xC3, 0xFF)


def _thread_switch() -> Any:
    """OpenMP's own switch, for the calling thread only; torch's would change MKL's behavior from then on."""
    try:
        switch = ctypes.CDLL(None).omp_set_num_threads
    except (OSError, AttributeError, TypeError):
        return None
    switch.argtypes, switch.restype = [ctypes.c_int], None
    return switch


_SET_THREADS: Any = _thread_switch()


@contextmanager
def _other_threads() -> Iterator[int]:
    """Run with another number of threads, which is yielded."""
    threads = torch.get_num_threads()
    other = 1 if threads > 1 else 2
    _SET_THREADS(other)
    try:
        yield other
    finally:
        _SET_THREADS(threads)


def _can_change_threads() -> bool:
    """Whether torch takes its number of threads from this OpenMP library."""
    if _SET_THREADS is None:
        return False
    with _other_threads() as other:
        return torch.get_num_threads() == other


_CAN_CHANGE_THREADS = _can_change_threads()


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


class GeneratorStates:
    """The states of every generator that a call may draw from, including those among its arguments.

    Each trial starts from the state before the call; the program continues from the state after it. States are
    restored below the functions that watch for seeding, because nothing was seeded.
    """

    def __init__(self, plan: ReplayPlan, args: Args, kwargs: Kwargs) -> None:
        """Raises if a state cannot be read."""
        self._ways = _ways(plan, args, kwargs) if plan.draws else []
        self._before = [read() for _, read in self._ways]
        self._after: list[Any] = []

    def the_call_returned(self) -> None:
        """Read the states after the call."""
        self._after = [read() for _, read in self._ways]

    def as_before(self) -> None:
        """Restore the states from before the call, for a trial."""
        for (put, _), state in zip(self._ways, self._before, strict=True):
            put(state)

    def as_after(self) -> None:
        """Restore the states from after the call, for the program."""
        for (put, _), state in zip(self._ways, self._after, strict=True):
            put(state)


def _ways(plan: ReplayPlan, args: Args, kwargs: Kwargs) -> list[tuple[Callable[[Any], Any], Callable[[], Any]]]:
    """For each generator, the functions that restore and read its state."""
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
    generators: GeneratorStates

    def finish(self, attempt: Callable[[], Untried | None]) -> None:
        """Run ``attempt``, which replays the call, then restore the generators to their states after the call."""
        try:
            self.generators.the_call_returned()
        except Exception:
            self.tally.leave(Untried.GENERATOR)
            return
        try:
            reason = attempt()
        except Exception:  # whatever it is, it is no business of the program's
            reason = Untried.FAILED
        finally:
            self.generators.as_after()
        if reason is not None:
            self.tally.leave(reason)


class Replay:
    """The replays of the calls of one recording."""

    def __init__(self, times: int, limit: int, *, threads: bool = False) -> None:
        """``limit``: bytes that the trials of one call may copy. ``threads``: replay with other threads too."""
        self._times = times
        self._limit = limit
        self._threads = threads
        self._streams: dict[torch.device, tuple[Any, torch.Tensor]] = {}
        self._digests = DeviceDigests()

    def prepare(
        self, tally: TrialTally, plan: ReplayPlan, args: Args, kwargs: Kwargs, *, lets_go: bool = False
    ) -> Prepared | Untried:
        """Copy what replays need. Returns the reason if the call is not replayed.

        ``lets_go``: drop references to the copied tensors, so that the call can free them before it ends.
        """
        if not tally.is_due():
            return Untried.RARER
        if any(map(is_capturing, tensors_in((args, kwargs)))):
            return Untried.CAPTURED
        try:
            with unseen():
                copies = Copies(plan, args, kwargs, self._limit)
                if lets_go:
                    copies.let_go()
        except CannotCopyError as problem:
            return problem.reason
        except Exception:  # a tensor of an unforeseen kind, or no memory left
            return Untried.LAYOUT
        try:
            return Prepared(tally, copies, GeneratorStates(plan, args, kwargs))
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
        digests: list[tuple[TrialArm, Digest]] = []
        largest = Distance()
        for trial, arm in enumerate(self._arms(device)):
            byte = _BYTES[trial % len(_BYTES)]
            prepared.generators.as_before()
            positional, named = copies.fresh(byte)
            _fill_next(results, byte)
            if arm is TrialArm.THREADS:
                with _other_threads():
                    tensors = make(positional, named)
            else:
                if arm is TrialArm.STREAM:
                    self._keep_busy(device)
                tensors = make(positional, named)
            digest = self._digest(tensors)
            if digest is None or len(tensors) != len(own_tensors):
                return Untried.LAYOUT
            digests.append((arm, digest))
            if digest != own and arm is not TrialArm.THREADS:
                largest = largest.or_more(distance_between(own_tensors, tensors))
        prepared.tally.note(own, digests, largest)
        return None

    def _arms(self, device: torch.device) -> list[TrialArm]:
        """The arm of each trial on ``device``, and one more for other threads, if asked for."""
        arms = [TrialArm.REPEATED] * self._times
        if device.type == "cuda":
            arms[1::2] = [TrialArm.STREAM] * len(arms[1::2])
        if self._threads and device.type == "cpu" and _CAN_CHANGE_THREADS:
            arms.append(TrialArm.THREADS)
        return arms

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
def unseen() -> Iterator[None]:
    """No mode or subclass sees the ops that run inside."""
    with seams.without_torch_function(), seams.without_modes():
        yield


def quietly(make: Callable[[], Any]) -> Any:
    """Replay a call without repeating its warnings.

    torch's kernels defer a warning until the function that Python called returns. That is the program's own call,
    unless another is in between: ``apply_`` calls back, and issues the warnings of what it called when it returns.
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
