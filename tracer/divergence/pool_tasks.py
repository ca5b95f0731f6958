"""What the workers of a pool did, task by task: which worker runs which task is another in each run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tracer.divergence.recordings import Family, Recording
from tracer.trace.values import ValueKind, Values

Parts = dict[int, list[tuple[str, Recording]]]
"""By task, the digest of what a worker was sent, each run of it: the worker's role and number of the task, from 1. 0 is
what a worker did before its first task."""


def parts_of(family: Family) -> Parts:
    """The tasks of all processes of a run that were sent some."""
    parts: Parts = defaultdict(list)
    for role, recording in family.items():
        values = recording.values
        rows = _rows_of_tasks(values)
        tasks = [0, *values.moments.digest[rows].tolist()]
        begins = [0, *values.moments.call[rows].tolist(), len(values)]
        told = [0, *rows, len(values.moments.call)]
        for number, task in enumerate(tasks if rows else ()):
            begin, end = begins[number : number + 2]
            if number or begin < end:
                part = _part(values, begin, end, np.arange(told[number], told[number + 1]))
                part_name = f"{role}, task {number}" if number else role
                parts[task].append((part_name, msgspec.structs.replace(recording, values=part)))
    return dict(parts)


def paired_parts(first: Parts, second: Parts) -> tuple[list[tuple[str, Recording, Recording]], bool]:
    """Each run of a task in the first run with that of the second, and whether both runs had the same tasks."""
    pairs = [
        (name, ours, theirs)
        for task, several in first.items()
        for (name, ours), (_, theirs) in zip(several, second.get(task, ()), strict=False)
    ]
    counts: Sequence[dict[int, int]] = [
        {task: len(several) for task, several in side.items() if task} for side in (first, second)
    ]
    return pairs, counts[0] == counts[1]


def _rows_of_tasks(values: Values) -> list[int]:
    """The moments at which the process began a task."""
    kinds = [number for number, name in enumerate(values.names) if name.kind is ValueKind.TASK]
    rows: list[int] = np.flatnonzero(np.isin(values.moments.name, kinds)).tolist()
    return rows


def _part(values: Values, begin: int, end: int, told: npt.NDArray[np.int64]) -> Values:
    """The calls from ``begin`` to ``end`` as a recording of their own, whose steps count from 0; ``told``: its moments.

    What earlier calls wrote has no origin in it; what a worker leaves in the end is of no task.
    """
    starts = values.origin_start[begin : end + 1]
    origins = values.origins[starts[0] : starts[-1]]
    is_inside = (origins < 0) | (origins >= begin)
    owners = np.repeat(np.arange(end - begin), np.diff(starts))[is_inside]
    counts = np.bincount(owners, minlength=end - begin)
    keeps = values.keeps[(values.keeps[:, 0] >= begin) & (values.keeps[:, 0] < end)]
    keeps = keeps[(keeps[:, 1] < 0) | (keeps[:, 1] >= begin)]
    draws = (values.draws[0] >= begin) & (values.draws[0] < end)
    moments, entries = values.moments, values.entries
    is_loss = np.array([name.kind is ValueKind.LOSS for name in values.names], np.bool_)
    told = told[(moments.call[told] < len(values)) | is_loss[moments.name[told]]]
    stepped = (values.steps[0] > begin) & (values.steps[0] < end)
    first_step = values.step_of(begin)
    entered = np.where(
        (entries.call >= begin) & (entries.call < end), entries.call.astype(np.int64) - begin, end - begin
    )
    return msgspec.structs.replace(
        values,
        **{name: getattr(values, name)[begin:end] for name in ("group", "inputs", "outputs", "numbers", "mark_bits")},
        origin_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        origins=np.where(origins >= begin, origins - begin, origins)[is_inside],
        keeps=np.where(keeps >= begin, keeps - begin, keeps),
        entries=msgspec.structs.replace(entries, call=entered.astype(np.uint32)),
        draws=(values.draws[0][draws] - np.uint32(begin), values.draws[1][draws], values.draws[2][draws]),
        moments=type(moments)(
            name=moments.name[told],
            position=moments.position[told],
            digest=moments.digest[told],
            call=moments.call[told] - np.uint32(begin),
            step=moments.step[told] - first_step,
        ),
        steps=(values.steps[0][stepped] - np.uint32(begin), values.steps[1][stepped] - first_step),
        partial=values.partial if end == len(values) else "",
    )
