"""A call replayed, and its results compared with its own, to the bit: for ops and for compiled regions alike.

Fresh memory holds other bytes in each replay, so that what a kernel leaves unwritten differs. Memory of the size of
each result is taken, filled and given back at once: the allocator of a device hands it out again, that of the host
mostly does. What it does not reach stays as it was, so this finds some reads of unwritten memory, not all.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from tracer.names import TrialArm, Untried
from tracer.recording.torch_private import seams
from tracer.recording.trials.copies import Copies
from tracer.recording.trials.generator_states import GeneratorStates
from tracer.recording.trials.tally import Distance, TrialTally, distance_between
from tracer.recording.values.digesting.device import DeviceDigests, Slot

#: Size of the second stream's work, and how often it is repeated.
_BUSY_NUMBERS, _BUSY_TIMES = 1 << 22, 8


class Arms:
    """The arms of replays, in turn: nothing changed, a busy second stream, another number of threads."""

    def __init__(self, asked: Sequence[TrialArm] = ()) -> None:
        self._asked = tuple(asked)
        self._streams: dict[torch.device, tuple[Any, torch.Tensor]] = {}

    def of(self, times: int, device: torch.device) -> list[TrialArm]:
        """The arm of each of ``times`` trials on ``device``, and one more for other threads, if asked for."""
        arms = [TrialArm.REPEATED] * times
        if device.type == "cuda":
            arms[1::2] = [TrialArm.STREAM] * len(arms[1::2])
        if TrialArm.THREADS in self._asked and device.type == "cpu" and CAN_CHANGE_THREADS:
            arms.append(TrialArm.THREADS)
        return arms

    @contextmanager
    def under(self, arm: TrialArm, device: torch.device) -> Iterator[None]:
        """Apply ``arm`` while a replay runs."""
        if arm is TrialArm.STREAM:
            self._keep_busy(device)
            yield
        elif arm is TrialArm.THREADS:
            threads = torch.get_num_threads()
            _SET_THREADS(1 if threads > 1 else 2)
            try:
                yield
            finally:
                _SET_THREADS(threads)
        else:
            yield

    def _keep_busy(self, device: torch.device) -> None:
        """Start work on another stream, which goes on while the replay runs."""
        busy = self._streams.get(device)
        if busy is None:
            numbers = torch.zeros(_BUSY_NUMBERS, device=device)
            torch.cuda.synchronize(device)
            busy = self._streams[device] = (torch.cuda.Stream(device), numbers)
        stream, numbers = busy
        with torch.cuda.stream(stream):
            for _ in range(_BUSY_TIMES):
                numbers.sin_()


def _found() -> Any:
    """OpenMP's own switch, for the calling thread alone; torch's would change what MKL does from then on."""
    try:
        switch = ctypes.CDLL(None).omp_set_num_threads
    except (OSError, AttributeError, TypeError):
        return None
    switch.argtypes, switch.restype = [ctypes.c_int], None
    return switch


_SET_THREADS: Any = _found()


def _works() -> bool:
    """Does torch take its number of threads from this OpenMP library?"""
    if _SET_THREADS is None:
        return False
    before = torch.get_num_threads()
    other = 1 if before > 1 else 2
    _SET_THREADS(other)
    try:
        return torch.get_num_threads() == other
    finally:
        _SET_THREADS(before)


CAN_CHANGE_THREADS = _works()


#: The bytes, in turn: neighbours differ, and none is zero.
BYTES = (0x55, 0xAA, 0x3C, 0xC3, 0xFF)


def byte_of(trial: int) -> int:
    """The byte that fills fresh memory in a replay."""
    return BYTES[trial % len(BYTES)]


def fill_what_is_next(results: Sequence[torch.Tensor], byte: int) -> None:
    """Have the allocator's next block of the size of each result hold ``byte``."""
    blocks = [
        torch.empty(size, dtype=torch.uint8, device=result.device).fill_(byte)
        for result in results
        if result.layout is torch.strided and (size := result.numel() * result.element_size())
    ]
    blocks.clear()


Digest = tuple[int, ...]
Make = Callable[[tuple[Any, ...], dict[str, Any]], list[torch.Tensor]]
"""Makes the call on these arguments; returns the tensors to compare."""


class Replay:
    """How often the calls of one recording are replayed, and under which arms."""

    def __init__(self, times: int, limit: int, arms: Sequence[TrialArm]) -> None:
        self._times = times
        self.limit = limit
        """What the trials of one call may copy and hold, in bytes."""
        self._arms = Arms(arms)
        self._digests = DeviceDigests()

    def compare(
        self,
        tally: TrialTally,
        copies: Copies,
        generators: GeneratorStates,
        own_tensors: Sequence[torch.Tensor],
        results: Sequence[torch.Tensor],
        make: Make,
    ) -> Untried | None:
        """Replay a call and tally the result; returns the reason if it cannot be compared.

        ``own_tensors`` are the call's outputs, ``results`` those of them that it allocated.
        """
        if copies.size + sum(one.numel() * one.element_size() for one in own_tensors) > self.limit:
            return Untried.MEMORY
        own = self._digest(own_tensors)
        if own is None:
            return Untried.LAYOUT
        device = next((one.device for one in own_tensors if not one.is_cpu), torch.device("cpu"))
        digests: list[tuple[TrialArm, Digest]] = []
        largest = Distance()
        for number, arm in enumerate(self._arms.of(self._times, device)):
            byte = byte_of(number)
            generators.as_before()
            positional, named = copies.fresh(byte)
            fill_what_is_next(results, byte)
            with self._arms.under(arm, device):
                tensors = make(positional, named)
            digest = self._digest(tensors)
            if digest is None or len(tensors) != len(own_tensors):
                return Untried.LAYOUT
            digests.append((arm, digest))
            if digest != own and arm is not TrialArm.THREADS:
                between = distance_between(own_tensors, tensors)
                largest = Distance(max(largest.ulp, between.ulp), max(largest.relative, between.relative))
        tally.note(own, digests, largest)
        return None

    def _digest(self, tensors: Sequence[torch.Tensor]) -> Digest | None:
        """One number a tensor; this waits for a device. ``None`` where a tensor has no digest."""
        digests = [self._digests.digest(tensor) for tensor in tensors]
        if any(digest is None for digest in digests):
            return None
        if self._digests.is_used:
            self._digests.fetch()
        return tuple(
            digest.value if isinstance(digest, Slot) else int(digest) for digest in digests if digest is not None
        )


@contextmanager
def unseen() -> Iterator[None]:
    """Ops in here are seen by no mode and no subclass."""
    with seams.without_torch_function(), seams.without_modes():
        yield


def quietly(make: Callable[[], Any]) -> Any:
    """The call has warned already, if it warns: not once more for each trial.

    A warning of torch's kernels waits until the function that Python called returns. That is the program's own call,
    unless there is one in between: ``apply_`` calls back, and hands out the warnings of what it called when it returns.
    """
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        return make()
    results: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1).apply_(lambda number: _kept(results, make(), number))
    return results[0]


def _kept(results: list[Any], value: Any, number: float) -> float:
    results.append(value)
    return number
