"""What is changed while a call is made again: nothing, a busy second stream, another number of threads."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from tracer.names import TrialArm

#: Numbers that the second stream is busy with, and how often it goes through them.
_BUSY_NUMBERS, _BUSY_TIMES = 1 << 22, 8


class Arms:
    """The circumstances of trials, in turn."""

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
        """Change what ``arm`` says while a trial runs."""
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
        """Start work on a stream of our own, which goes on while the trial runs."""
        known = self._streams.get(device)
        if known is None:
            numbers = torch.zeros(_BUSY_NUMBERS, device=device)
            torch.cuda.synchronize(device)
            known = self._streams[device] = (torch.cuda.Stream(device), numbers)
        stream, numbers = known
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
    """Does torch take its number of threads from the OpenMP that was found?"""
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
