"""The runs that an answer on two configurations needs: both, shaken ones, and the calls of a faulty module."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from tracer.divergence.jobs import Job, check_job, compared_jobs, first_call_of_jobs
from tracer.divergence.magnitudes import CompareVerdict, Comparison
from tracer.errors import TraceError
from tracer.names import PlaceKind

#: Further shaken runs where the answer is undecided.
FURTHER = 3

Side = Literal["a", "b"]


class Recording(Protocol):
    """Runs one configuration and gives the magnitudes of its processes."""

    def __call__(self, side: Side, *, shake: int | None = None, calls_of: str = "") -> Job:
        """``shake``: the seed with which results are shaken; ``calls_of``: a module whose single calls are places."""


def answered(record: Recording, yardstick_runs: int) -> Comparison:
    """Compare the two configurations by ``yardstick_runs`` shaken runs, and by some more where it is undecided."""
    first = record("a")
    check_job(first, "a", is_first=True)
    second = record("b")
    check_job(second, "b", is_first=False)
    comparison = compared_jobs(first, second)
    shaken: list[Job] = []
    of_second: list[Job] = []
    second_is_narrower = comparison.second_is_narrower
    needed = yardstick_runs if comparison.verdict is CompareVerdict.NOT_JUDGED else 0
    while needed:
        for seed in range(len(shaken) + 1, len(shaken) + needed + 1):
            shaken.append(record("a", shake=seed))
            if second_is_narrower:
                of_second.append(record("b", shake=seed))
        comparison = compared_jobs(first, second, shaken, of_second)
        is_undecided = comparison.verdict is CompareVerdict.UNDECIDED
        needed = FURTHER if is_undecided and len(shaken) < yardstick_runs + FURTHER else 0
    place = comparison.first
    if place is None or place.kind is not PlaceKind.OUTPUT or comparison.is_given:
        return comparison
    try:
        one, two = record("a", calls_of=place.module), record("b", calls_of=place.module)
        call = first_call_of_jobs(one, two, record("a", shake=1, calls_of=place.module), place)
    except TraceError:  # a side that fails now and then; the answer stands
        return comparison
    return msgspec.structs.replace(comparison, call=call)
