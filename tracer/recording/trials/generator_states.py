"""Every generator that a call may draw from: as it was before the call for each trial, as the call left it at the end.

A generator that the call was given counts as much as the default ones. States are put back past the functions that
watch who seeds: nobody seeded anything.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tracer.recording import patching
from tracer.recording.torch_private import seams
from tracer.recording.trials.replay_plan import ReplayPlan

_State = tuple[Callable[[Any], Any], Callable[[], Any]]
"""What puts a state back, and what reads it."""


class GeneratorStates:
    """The generators of one call, from before it was made."""

    def __init__(self, plan: ReplayPlan, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raises where a state cannot be read."""
        self._ways = list(_ways(plan, args, kwargs)) if plan.draws else []
        self._before = [read() for _, read in self._ways]
        self._after: list[Any] = []

    def the_call_returned(self) -> None:
        """How the call left them is how they will be."""
        self._after = [read() for _, read in self._ways]

    def as_before(self) -> None:
        """For a trial: as the call found them."""
        for (put, _), state in zip(self._ways, self._before, strict=True):
            put(state)

    def as_after(self) -> None:
        """For the program: as the call left them."""
        for (put, _), state in zip(self._ways, self._after, strict=True):
            put(state)


def _ways(plan: ReplayPlan, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[_State]:
    generators: dict[int, Any] = {}
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Generator):
            generators[value._cdata] = value  # type: ignore[attr-defined]
    for _, generator in seams.default_generators():
        generators.setdefault(generator._cdata, generator)
    set_state: Any = patching.held_by(torch._C.Generator, "set_state")
    ways: list[_State] = [
        (lambda state, one=one: set_state(one, state), one.get_state)  # type: ignore[misc]
        for one in generators.values()
    ]
    if plan.is_foreign:
        hidden: Any = getattr(patching.held_by(random, "random"), "__self__", None)
        if hidden is not None:
            ways.append((hidden.setstate, hidden.getstate))
        numpy = sys.modules.get("numpy.random.mtrand")
        mersenne = getattr(numpy, "_rand", None)
        if mersenne is not None:
            ways.append((mersenne.set_state, mersenne.get_state))
    return ways
