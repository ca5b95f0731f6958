"""The runs that an answer on two configurations needs: both, shaken ones, and the calls of a faulty module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from tracer.divergence.jobs import Job, check_job, compared_jobs, first_call_of_jobs
from tracer.divergence.magnitudes import CompareVerdict, Comparison, Side, unrepeated
from tracer.errors import TraceError
from tracer.names import BACKWARD_OF, OWN_CODE, Phase, PlaceKind
from tracer.recording.options import UNSHAKEN, PlaceOptions
from tracer.trace.values.joined_rows import joined_parts
from tracer.trace.values.places import decisions_beside, follow_the_others

#: Further shaken runs where the answer is undecided.
FURTHER = 3

#: Places whose module's calls are held against each other.
_WITH_CALLS = (PlaceKind.OUTPUT, PlaceKind.OUTPUT_GRADIENT, PlaceKind.GRADIENT)


class Recording(Protocol):
    """Runs one configuration and gives the magnitudes of its processes."""

    def __call__(self, side: Side, places: PlaceOptions = UNSHAKEN) -> Job: ...


def answered(record: Recording, yardstick_runs: int) -> Comparison:
    """Compare the two configurations by ``yardstick_runs`` shaken runs, and by further ones where that does not decide.

    Where all agrees bit for bit up to one module, runs of both that are shaken inside it alone judge what it returns.
    What is undecided then is decided by more runs, and by the means of shaken runs of both. Where they differ the first
    runs twice: shaken runs of a configuration that does not repeat are no yardstick. Where calls of the second (a ReLU,
    a top-k) decide otherwise, a run of the first that decides as they do is compared. Shaken runs decide as the run
    that they shake.
    """
    first = record("a")
    check_job(first, "a", is_first=True)
    second = record("b")
    check_job(second, "b", is_first=False)
    comparison = compared_jobs(first, second)
    rows = _rows(first, second)
    if rows["a"] is not rows["b"]:
        first = first if rows["a"] is UNSHAKEN else record("a", rows["a"])
        second = second if rows["b"] is UNSHAKEN else record("b", rows["b"])
        comparison = compared_jobs(first, second)
    if comparison.verdict is CompareVerdict.EQUAL:
        return comparison
    # One can decide as the other does in single processes that run eagerly.
    follows = rows["a"] is rows["b"] and _are_single(first, second) and not _runs_compiled((first, second), "")
    follows = follows and comparison.draws is None
    options = rows
    again = record("a", msgspec.structs.replace(rows["a"], keeps_decisions=follows))
    kept = [_decisions(again)]
    try:
        alone = compared_jobs(first, again)
        if (place := unrepeated(alone)) is not None:
            return msgspec.structs.replace(
                comparison, verdict=CompareVerdict.UNDECIDED, unrepeated=place, draws=alone.draws
            )
        if follows:
            second = record("b", PlaceOptions(keeps_decisions=True))
            kept.append(_decisions(second))
            options = {"a": PlaceOptions(decides_as=str(kept[0])), "b": PlaceOptions(decides_as=str(kept[1]))}
            if follow_the_others(*kept):
                first = record("a", options["a"])
                comparison = compared_jobs(first, second)
        comparison = _judged(record, comparison, first, second, options, yardstick_runs)
        return _with_call(record, comparison, first, second, options)
    finally:
        for path in kept:
            path.unlink(missing_ok=True)


def _decisions(job: Job) -> Path:
    return decisions_beside(next(iter(job.processes.values())).places.path)


def _judged(
    record: Recording,
    comparison: Comparison,
    first: Job,
    second: Job,
    options: Mapping[Side, PlaceOptions],
    yardstick_runs: int,
) -> Comparison:
    """Judge what differs by shaken runs."""
    shaken: list[Job] = []
    of_second: list[Job] = []

    def shake(side: Side, seeds: Iterable[int], module: str = "") -> list[Job]:
        shake_not = comparison.agreeing if module else ()
        places = msgspec.structs.replace(options[side], shake_in=module, shake_not=shake_not)
        return [record(side, msgspec.structs.replace(places, shake=seed)) for seed in seeds]

    second_is_narrower = comparison.second_is_narrower
    needed = yardstick_runs if comparison.verdict is CompareVerdict.NOT_JUDGED else 0
    runs = 0
    while needed:
        seeds = range(runs + 1, runs + needed + 1)
        runs += needed
        shaken += shake("a", seeds)
        of_second += shake("b", seeds if second_is_narrower else ())
        comparison = compared_jobs(first, second, shaken, of_second)
        if comparison.parts_in:
            shaken += shake("a", seeds, comparison.parts_in)
            if not comparison.parts_in.startswith(BACKWARD_OF):
                of_second += shake("b", seeds, comparison.parts_in)
            comparison = compared_jobs(first, second, shaken, of_second)
        needed = FURTHER if comparison.is_open and runs < yardstick_runs + FURTHER else 0
    if comparison.is_open:
        of_second += shake("b", () if second_is_narrower else range(1, runs + 1))
        comparison = compared_jobs(first, second, shaken, of_second, by_means=True)
    return comparison


def _with_call(
    record: Recording, comparison: Comparison, first: Job, second: Job, options: Mapping[Side, PlaceOptions]
) -> Comparison:
    """The answer with the first call inside the first faulty module that differs."""
    place = comparison.first
    if place is None or comparison.is_given or comparison.verdict is not CompareVerdict.SIGNIFICANT:
        return comparison
    if not (place.is_own_code or place.kind in _WITH_CALLS) or _runs_compiled((first, second), place.module):
        return comparison
    if place.phase is Phase.OPTIMIZER:
        return comparison
    if place.step in comparison.split_steps:  # single calls of a part are not those of the whole
        return comparison
    inside = comparison.parts_in if place.is_alone else ""
    own = f"{place.module}{OWN_CODE}" if place.is_own_code else place.module
    of_a, of_b = (msgspec.structs.replace(places, calls_of=own) for places in (options["a"], options["b"]))
    try:
        one, two = record("a", of_a), record("b", of_b)
        without = comparison.agreeing if inside else ()
        shaken_calls = record("a", msgspec.structs.replace(of_a, shake=1, shake_in=inside, shake_not=without))
        call = first_call_of_jobs(one, two, shaken_calls, place)
    except TraceError:  # a side that fails now and then; the answer stands
        return comparison
    if call is None or not place.is_own_code:
        return msgspec.structs.replace(comparison, call=call)
    at_call = msgspec.structs.replace(place, location=call.location, called_from=call.called_from)
    significant = tuple(at_call if one is place else one for one in comparison.significant)
    return msgspec.structs.replace(comparison, call=call, first=at_call, significant=significant)


def _rows(first: Job, second: Job) -> dict[Side, PlaceOptions]:
    """How both are recorded once more, where one has rows of the other's batch in calls of other shapes."""
    options: dict[Side, PlaceOptions] = {"a": UNSHAKEN, "b": UNSHAKEN}
    if not _are_single(first, second):
        return options
    places = [job.processes[""].places for job in (first, second)]
    part = joined_parts(*places)
    if part is None:
        return options
    whole = PlaceOptions(rows_of=str(places[1 - part[0]].path), rows_in=str(places[part[0]].path), is_whole=True)
    options["b" if part[0] else "a"] = msgspec.structs.replace(whole, is_whole=False)
    if not part[1]:
        options["a" if part[0] else "b"] = whole
    return options


def _are_single(*jobs: Job) -> bool:
    return all(list(job.processes) == [""] and not job.processes[""].other_ranks for job in jobs)


def _runs_compiled(jobs: Iterable[Job], module: str) -> bool:
    """Return whether compiled code runs in ``module`` (empty: anywhere) or around it: its calls are made nowhere."""
    names = (name for job in jobs for own in job.processes.values() for name in own.places.names)
    regions = {f"{name.module}." for name in names if name.kind is PlaceKind.REGION}
    return any(not module or region.startswith(f"{module}.") or f"{module}.".startswith(region) for region in regions)
