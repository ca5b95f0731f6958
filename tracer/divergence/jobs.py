"""Two configurations of a program and its child processes: processes paired by role, one answer for all of them."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache

import msgspec
from msgspec.structs import replace

from tracer.divergence.families import paired_roles, siblings, summed
from tracer.divergence.joined_ranks import SIGNIFICANT, JoinedRanks, Whole, distance_of, half_unit
from tracer.divergence.magnitudes import (
    MOST_LISTED,
    CallDifference,
    CompareVerdict,
    Comparison,
    PlaceDifference,
    check_side,
    compared,
)
from tracer.errors import TraceError
from tracer.names import Phase, PlaceKind, Training
from tracer.trace.file import Trace, child_path, values_path
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


class Job(msgspec.Struct, frozen=True):
    """The magnitudes of one run, by process."""

    processes: Mapping[str, Magnitudes]
    """By role; the first process has an empty one. Those that have a place at all."""
    children: tuple[Child, ...] = ()
    training: Training = Training.RECORDED
    """Whether its first process trained."""


def read_job(path: str | os.PathLike[str]) -> Job:
    """The magnitudes beside the trace ``path``, and those of its children. Raises ``TraceError`` in one line."""
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
    """Hold ``second`` against ``first``, each process against its own; see ``compared``. Jobs of other numbers of ranks
    are joined and compared as wholes. The first significant place is that of the process that no other one explains:
    what a process receives (inputs, reduced gradients) comes after what others compute."""
    sides = (first, second, *shaken, *of_second)
    wholes = [job.processes[""] for job in sides if list(job.processes) == [""]]
    if len(wholes) < len(sides):
        roles, unpaired = _paired(first, second)
        wholes = [whole for job in sides if unpaired and (whole := _as_one(job)) is not None]
    if len(wholes) == len(sides):
        one, two, *others = wholes
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
        for role, other in sorted(roles.items(), key=lambda pair: [int(part) for part in pair[0].split(".") if part])
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


def _paired(first: Job, second: Job) -> tuple[dict[str, str], int]:
    """Each process of ``first`` with its own in ``second``, and how many have none."""

    @cache
    def distance(role: str, other: str) -> float:
        try:
            largest = compared(first.processes[role], second.processes[other]).largest
        except TraceError:
            return math.inf
        return 0.0 if largest is None else largest.relative

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
    return replace(whole[0], other_ranks=tuple(whole[1:]))


def _joined(comparisons: Mapping[str, Comparison], unpaired: int) -> Comparison:
    """One answer for all processes."""
    every: list[Comparison] = []
    for role, comparison in comparisons.items():
        process = f"{_CHILD}{role}" if role else ""
        several, single = (comparison.significant, comparison.unequal), (comparison.largest, comparison.first)
        significant, unequal = (tuple(replace(place, process=process) for place in places) for places in several)
        largest, first = (place and replace(place, process=process) for place in single)
        every.append(replace(comparison, largest=largest, first=first, significant=significant, unequal=unequal))
    # A process comes to differ by step, then by how likely it received the difference.
    received = {PlaceKind.GRADIENT: 2, PlaceKind.PARAMETER: 3, PlaceKind.STATE: 3}
    by_stage = defaultdict[tuple[int, int], list[PlaceDifference]](list)
    for comparison in every:
        for place in comparison.significant:
            by_stage[place.step, 1 if comparison.is_given else received.get(place.kind, 0)].append(place)
    causing = by_stage[min(by_stage)] if by_stage else []
    first = causing[0] if causing else None
    of_first = [comparison for comparison in every if first in comparison.significant]
    widest = max(every, key=_size_of_largest)
    shown = of_first[0] if of_first else widest
    reason = "the configurations started different numbers of processes" if unpaired else ""
    parting = next((comparison for comparison in every if comparison.parts_in), shown)
    return replace(
        shown,
        verdict=max((comparison.verdict for comparison in every), key=_IN_ORDER.index),
        **summed(every, "places", "compared", "rows", "differing", "only_count", "unjudged"),
        **{name: any(getattr(one, name) for one in every) for name in ("lacks_ends", "second_is_narrower")},
        not_finite=next((comparison.not_finite for comparison in every if comparison.not_finite), ""),
        unequal=next((comparison.unequal for comparison in every if comparison.unequal), ()),
        draws=next((comparison.draws for comparison in (*of_first, *every) if comparison.draws), None),
        parts_in=parting.parts_in,
        agreeing=parting.agreeing,
        largest=widest.largest,
        first=first,
        significant=tuple(causing[:MOST_LISTED]),
        following=sum(one.following + len(one.significant) for one in every) - len(causing),
        split_steps=tuple(sorted({step for comparison in every for step in comparison.split_steps})),
        only=tuple(place for comparison in every for place in comparison.only)[:MOST_LISTED],
        partial=next((comparison.partial for comparison in every if comparison.partial), reason),
        processes=len(every),
    )


def _size_of_largest(comparison: Comparison) -> tuple[float, float]:
    largest = comparison.largest
    if largest is None:
        return -1.0, 0.0
    ratio = largest.ratio if largest.ratio is not None else math.inf if comparison.yardstick.runs else 0.0
    return ratio, largest.relative


# --- the first call inside a faulty module that differs ----------------------------------------------------


def first_call(
    first: Magnitudes, second: Magnitudes, shaken: Magnitudes, place: PlaceDifference
) -> CallDifference | None:
    """The first call inside the module of ``place`` whose result differs by more than rounding, or that only one makes.
    The recordings hold single calls of that module (``PlaceKind.CALL``). Calls correspond one by one as long as their
    results agree, and by their ops from there. ``None``: no call stands out."""
    sides = [JoinedRanks(one) for one in (first, second, shaken)]
    with sides[0], sides[1], sides[2]:
        calls: list[list[int]] = []
        for side in sides:
            of_step = [key for key in side.rows if key.kind is PlaceKind.CALL and key.step == place.step]
            own = [key for key in of_step if (key.phase is Phase.BACKWARD) == (place.phase is Phase.BACKWARD)]
            calls.append([side.rows[key] for key in own])
        ops = [[side.name(row).name for row in rows] for side, rows in zip(sides, calls, strict=True)]
        yards = dict(zip(calls[0], calls[2], strict=False)) if ops[0] == ops[2] else {}

        def difference(row: int, other: int) -> CallDifference | None:
            """``None``: no more than rounding."""
            one, two = Whole([sides[0].at(row)]), Whole([sides[1].at(other)])
            distance = distance_of([one], [two]).whole if one.form.size == two.form.size else math.inf
            moved = distance_of([one], [Whole([sides[2].at(yards[row])])]).whole if row in yards else 0.0
            yard = max(moved, half_unit(one.form.dtype), half_unit(two.form.dtype))
            if distance <= SIGNIFICANT * yard:
                return None
            ratio = distance / yard if yard and math.isfinite(distance) else None
            return _at(sides[0], row, op=sides[0].name(row).name, second_op=sides[1].name(other).name, ratio=ratio)

        shorter = min(map(len, calls[:2]))
        both = zip(*ops[:2], *calls[:2], strict=False)
        unlike = (op != second_op or difference(row, other) is not None for op, second_op, row, other in both)
        start = next((number for number, is_unlike in enumerate(unlike) if is_unlike), shorter)
        otherwise: CallDifference | None = None
        matcher = SequenceMatcher(None, ops[0][start:], ops[1][start:], autojunk=False)
        for tag, *ends in matcher.get_opcodes():
            begin, end, other_begin, other_end = (start + number for number in ends)
            if tag != "equal":
                side, row = (sides[0], calls[0][begin]) if begin < end else (sides[1], calls[1][other_begin])
                op, second_op = ops[0][begin:end][:1], ops[1][other_begin:other_end][:1]
                otherwise = otherwise or _at(side, row, op="".join(op), second_op="".join(second_op))
                continue
            pairs = zip(calls[0][begin:end], calls[1][other_begin:other_end], strict=True)
            found = next(filter(None, (difference(row, other) for row, other in pairs)), None)
            if found is not None:
                return otherwise or found
        return otherwise


def _at(side: JoinedRanks, row: int, *, op: str, second_op: str, ratio: float | None = None) -> CallDifference:
    name = side.name(row)
    where = {"location": name.location, "called_from": name.called_from}
    return CallDifference(op=op, second_op=second_op, ratio=ratio, **where)
