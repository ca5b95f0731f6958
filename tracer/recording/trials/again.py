"""One call made again, and its results held against its own, to the bit: for ops and for compiled regions alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from tracer.names import TrialArm, Untried
from tracer.recording.torch_private import seams
from tracer.recording.trials.arms import Arms
from tracer.recording.trials.copies import Copies
from tracer.recording.trials.differences import Apart, apart
from tracer.recording.trials.fresh_memory import byte_of, fill_what_is_next
from tracer.recording.trials.generator_states import GeneratorStates
from tracer.recording.trials.tally import TrialTally
from tracer.recording.values.digesting.device import DeviceDigests, Slot

Digest = tuple[int, ...]
Make = Callable[[tuple[Any, ...], dict[str, Any]], list[torch.Tensor]]
"""Makes the call on these arguments, and gives what is compared."""


class Again:
    """How often calls of one recording are made again, and under what circumstances."""

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
        """Make a call again, and note what came of it; a reason where that cannot be compared.

        ``own_tensors`` are what the call itself came to, ``results`` those of them that it made.
        """
        if copies.size + sum(one.numel() * one.element_size() for one in own_tensors) > self.limit:
            return Untried.MEMORY
        own = self._digest(own_tensors)
        if own is None:
            return Untried.LAYOUT
        device = next((one.device for one in own_tensors if not one.is_cpu), torch.device("cpu"))
        found: list[tuple[TrialArm, Digest]] = []
        largest = Apart()
        for number, arm in enumerate(self._arms.of(self._times, device)):
            byte = byte_of(number)
            generators.as_before()
            given, named = copies.fresh(byte)
            fill_what_is_next(results, byte)
            with self._arms.under(arm, device):
                tensors = make(given, named)
            digest = self._digest(tensors)
            if digest is None or len(tensors) != len(own_tensors):
                return Untried.LAYOUT
            found.append((arm, digest))
            if digest != own and arm is not TrialArm.THREADS:
                between = apart(own_tensors, tensors)
                largest = Apart(max(largest.ulp, between.ulp), max(largest.relative, between.relative))
        tally.note(own, found, largest)
        return None

    def _digest(self, tensors: Sequence[torch.Tensor]) -> Digest | None:
        """One number a tensor; this waits for a device. ``None`` where a tensor has no digest."""
        found = [self._digests.digest(one) for one in tensors]
        if any(one is None for one in found):
            return None
        if self._digests.is_used:
            self._digests.fetch()
        return tuple(one.value if isinstance(one, Slot) else int(one) for one in found if one is not None)


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
    made: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1).apply_(lambda number: _kept(made, make(), number))
    return made[0]


def _kept(made: list[Any], value: Any, number: float) -> float:
    made.append(value)
    return number
