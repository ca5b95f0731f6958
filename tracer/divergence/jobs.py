"""Two configurations of a program and its child processes: processes paired by role, one answer for all of them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from tracer.divergence.calls_inside import first_call
from tracer.divergence.magnitudes import (
    MOST_LISTED,
    CallDifference,
    CompareVerdict,
    Comparison,
    PlaceDifference,
    check_side,
    compared,
)
from tracer.divergence.process_pairs import paired_roles, siblings
from tracer.errors import TraceError
from tracer.names import PlaceKind, Training
from tracer.trace.file import Trace
from tracer.trace.paths import child_path, values_path
from tracer.trace.records import Child
from tracer.trace.values import Magnitudes, read_magnitudes

#: Verdicts of single processes: the last one among them is that of all.
_IN_ORDER = (
    CompareVerdict.EQUAL,
    CompareVerdict.ROUNDING,
    CompareVerdict.NOT_JUDGED,
    CompareVerdict.UNDECIDED,
    CompareVerdict.SIGNIFICANT,
)
_AFTER_OTHERS = (PlaceKind.PARAMETER, PlaceKind.STATE)


class Job(msgspec.Struct, frozen=True):
    """The magnitudes of one run, by process."""

    processes: Mapping[str, Magnitudes]
    """By role; the first process has an empty one. Those that have a place at all."""
    children: tuple[Child, ...] = ()
    training: Training = Training.RECORDED
    """Whether its first process trained."""


def read_job(path: str | os.PathLike[str]) -> Job:
    """The magnitudes beside the trace ``path``, and those of its children.

    Raises ``TraceError`` in one line, also where no process has a place.
    """
    first = read_magnitudes(values_path(path))
    trace = Trace.load(path) if os.path.exists(path) else None
    children = () if trace is None else trace.children
    processes = {"": first}
    for child in children:
        beside = values_path(child_path(path, child.role))
        if beside.is_file():
            processes[child.role] = read_magnitudes(beside)
    training = {role: magnitudes for role, magnitudes in processes.items() if not magnitudes.places.is_empty}
    return Job(training or {"": first}, children, Training.RECORDED if trace is None else trace.training)


def check_job(job: Job, name: str, *, is_first: bool) -> None:
    """``check_side`` for each process of the configuration ``name``."""
    for role, magnitudes in job.processes.items():
        check_side(magnitudes, f"{name}, {_CHILD}{role}" if role else name, is_first=is_first)


def compared_jobs(
    first: Job, second: Job, shaken: Sequence[Job] = (), of_second: Sequence[Job] = (), *, by_means: bool = False
) -> Comparison:
    """Hold ``second`` against ``first``, each process against its own; see ``compared``.

    Jobs of other numbers of ranks are joined and compared as wholes. The first significant place is that of the process
    that no other one explains: what a process receives (inputs, reduced gradients) comes after what others compute.
    """
    sides = (first, second, *shaken, *of_second)
    if all(list(job.processes) == [""] for job in sides):
        one, two, *others = (job.processes[""] for job in sides)
        return compared(one, two, others[: len(shaken)], others[len(shaken) :], by_means=by_means)
    roles, unpaired = _paired(first, second)
    if unpaired:
        wholes = [_as_one(job) for job in sides]
        if None not in wholes:
            one, two, *others = (whole for whole in wholes if whole is not None)
            return compared(one, two, others[: len(shaken)], others[len(shaken) :], by_means=by_means)
    if not roles:
        raise TraceError(
            "no process of the two configurations corresponds", hint="start them at the same lines in both"
        )
    own = [_paired(first, job)[0] for job in shaken]
    others_own = [_paired(second, job)[0] for job in of_second]
    comparisons = {
        role: compared(
            first.processes[role],
            second.processes[other],
            [job.processes[pairs[role]] for job, pairs in zip(shaken, own, strict=True) if role in pairs],
            [job.processes[pairs[other]] for job, pairs in zip(of_second, others_own, strict=True) if other in pairs],
            by_means=by_means,
        )
        for role, other in sorted(roles.items(), key=lambda pair: _numbers(pair[0]))
    }
    return _joined(comparisons, unpaired)


def first_call_of_jobs(first: Job, second: Job, shaken: Job, place: PlaceDifference) -> CallDifference | None:
    """``first_call`` in the process of ``place``; ``None`` where that is not told apart from its siblings."""
    role = place.process.removeprefix(_CHILD)
    if role not in first.processes or any(key[-1] for key in siblings([role], first.children)):
        return None
    others = [_paired(first, job)[0].get(role) for job in (second, shaken)]
    if others[0] is None or others[1] is None:
        return None
    return first_call(first.processes[role], second.processes[others[0]], shaken.processes[others[1]], place)


_CHILD = "child "


def _numbers(role: str) -> list[int]:
    return [int(part) for part in role.split(".") if part]


def _paired(first: Job, second: Job) -> tuple[dict[str, str], int]:
    """Each process of ``first`` with its own in ``second``, and how many have none."""

    @cache
    def distance(role: str, other: str) -> float:
        try:
            comparison = compared(first.processes[role], second.processes[other])
        except TraceError:
            return float("inf")
        return 0.0 if comparison.largest is None else comparison.largest.relative

    ours, theirs = (siblings(job.processes, job.children) for job in (first, second))
    pairs, unpaired = paired_roles(ours, theirs, distance)
    both = ["" in job.processes for job in (first, second)]
    return ({"": ""} if all(both) else {}) | pairs, unpaired + (both[0] is not both[1])


def _as_one(job: Job) -> Magnitudes | None:
    """All processes as the ranks of one job; ``None`` where they are not those of one."""
    whole = sorted(job.processes.values(), key=lambda magnitudes: magnitudes.header.rank or 0)
    ranks = [magnitudes.header.rank or 0 for magnitudes in whole]
    if ranks != list(range(whole[0].header.world_size or 1)):
        return None
    return msgspec.structs.replace(whole[0], other_ranks=tuple(whole[1:]))


def _joined(comparisons: Mapping[str, Comparison], unpaired: int) -> Comparison:
    """One answer for all processes."""
    every = [_of_process(role, comparison) for role, comparison in comparisons.items()]
    significant = [place for comparison in every for place in comparison.significant]
    stages = {id(place): _stage(place, comparison) for comparison in every for place in comparison.significant}
    causing = [place for place in significant if stages[id(place)] == min(stages.values())]
    first = causing[0] if causing else None
    of_first = [comparison for comparison in every if first in comparison.significant]
    differing = [comparison for comparison in every if comparison.largest is not None]
    widest = max(differing, key=_size_of_largest, default=every[0])
    shown = of_first[0] if of_first else widest
    verdict = max((comparison.verdict for comparison in every), key=_IN_ORDER.index)
    reason = "the configurations started different numbers of processes" if unpaired else ""
    only = [place for comparison in every for place in comparison.only]
    return msgspec.structs.replace(
        shown,
        verdict=verdict,
        places=sum(comparison.places for comparison in every),
        compared=(sum(one.compared[0] for one in every), sum(one.compared[1] for one in every)),
        rows=(sum(one.rows[0] for one in every), sum(one.rows[1] for one in every)),
        lacks_ends=any(comparison.lacks_ends for comparison in every),
        differing=sum(comparison.differing for comparison in every),
        largest=widest.largest,
        first=first,
        significant=tuple(causing[:MOST_LISTED]),
        following=sum(comparison.following for comparison in every) + len(significant) - len(causing),
        split_steps=tuple(sorted({step for comparison in every for step in comparison.split_steps})),
        not_finite=next((comparison.not_finite for comparison in every if comparison.not_finite), ""),
        only=tuple(only[:MOST_LISTED]),
        only_count=sum(comparison.only_count for comparison in every),
        earliest=next((comparison.earliest for comparison in every if comparison.earliest is not None), None),
        draws=next((comparison.draws for comparison in (*of_first, *every) if comparison.draws is not None), None),
        unjudged=sum(comparison.unjudged for comparison in every),
        second_is_narrower=any(comparison.second_is_narrower for comparison in every),
        parts_in=next((comparison.parts_in for comparison in every if comparison.parts_in), ""),
        agreeing=next((comparison.agreeing for comparison in every if comparison.parts_in), ()),
        partial=next((comparison.partial for comparison in every if comparison.partial), reason),
        processes=len(every),
    )


def _of_process(role: str, comparison: Comparison) -> Comparison:
    """``comparison`` with its places said to be of the process ``role``."""
    process = f"{_CHILD}{role}" if role else ""

    def named(place: PlaceDifference) -> PlaceDifference:
        return msgspec.structs.replace(place, process=process)

    return msgspec.structs.replace(
        comparison,
        largest=None if comparison.largest is None else named(comparison.largest),
        first=None if comparison.first is None else named(comparison.first),
        significant=tuple(map(named, comparison.significant)),
        shown_process=process,
    )


def _stage(place: PlaceDifference, comparison: Comparison) -> tuple[int, int]:
    """Return when a process comes to differ there: by step, then by how likely it received the difference."""
    if comparison.is_given:
        return place.step, 1
    if place.kind is PlaceKind.GRADIENT:
        return place.step, 2
    return place.step, 3 if place.kind in _AFTER_OTHERS else 0


def _size_of_largest(comparison: Comparison) -> tuple[float, float]:
    largest = comparison.largest
    if largest is None:
        return 0.0, 0.0
    ratio = largest.ratio if largest.ratio is not None else math.inf if comparison.yardstick.runs else 0.0
    return ratio, largest.relative
