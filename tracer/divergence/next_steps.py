"""Runs that diverged -> what to change next: for each root, each hold that explains, each input that differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.model import Root
from tracer.divergence.repeated import Repeated
from tracer.findings import Finding, PlannedChange
from tracer.names import About
from tracer.tables.sources import source_by_id
from tracer.trace.values import ValueKind

#: Causes that the tables speak of, so that the remedy of a finding at a root is the root's.
_OF_TABLES = (
    RootCause.KERNEL,
    RootCause.SETTING,
    RootCause.DRAW,
    RootCause.UNWRITTEN_MEMORY,
    RootCause.COLLECTIVE,
)
_ORDER = (
    "Give it a seeded generator, `generator=torch.Generator().manual_seed(0)`, seed what its sampler draws from, and"
    " sort what it indexes."
)
_SAMPLES = (
    "The samples themselves differ: draw in its data set for each sample by its index, from a seed in the code; give"
    " the loader `generator=torch.Generator().manual_seed(0)`, from which its workers' seeds are drawn; and read no"
    " clock, entropy or changing file there."
)


def next_steps(
    repeated: Repeated, plan: Sequence[PlannedChange] = (), findings: Sequence[Finding] = ()
) -> tuple[PlannedChange, ...]:
    """Return the changes that diverged runs ask for, then ``plan``, a judgement's; ``plan`` alone if they agree."""
    if repeated.agrees:
        return tuple(plan)
    spoken: dict[int, list[int]] = {}
    steps: dict[tuple[str, str, str], list[int]] = {}
    # A change whose settings were made did not help.
    unmade = [change for change in plan if not (change.sets and change.sets.items() <= repeated.sets.items())]
    for number, root in enumerate(repeated.numbered, 1):
        closing = (change for change in unmade if any(_speaks_of(findings[at], root) for at in change.findings))
        if (change := next(closing, None)) is not None:
            spoken.setdefault(change.number, []).append(number)
        else:
            steps.setdefault(_step(root), []).append(number)
    told = [replace(change, roots=tuple(spoken.get(change.number, ()))) for change in plan]
    # What hangs on another change keeps its place behind it.
    leading = [change for change in told if change.roots and not change.needs]
    ordered = [
        *_lines(repeated),
        *_held(repeated),
        *leading,
        *(
            PlannedChange(number=0, title=title, remedy=remedy, where=where, roots=tuple(numbers))
            for (title, remedy, where), numbers in steps.items()
        ),
        *_left(repeated),
        *(change for change in told if change not in leading),
    ]
    moved = {change.number: number for number, change in enumerate(ordered, 1)}
    numbered = []
    for number, change in enumerate(ordered, 1):
        needs = (replace(need, changes=tuple(sorted(moved[other] for other in need.changes))) for need in change.needs)
        numbered.append(replace(change, number=number, needs=tuple(needs)))
    return tuple(numbered)


def _speaks_of(finding: Finding, root: Root) -> bool:
    """Return whether the finding is about the call, or about what the root was seen to come from."""
    if finding.about is not About.CALL:
        seed = root.seed.location if root.seed is not None else ""
        is_its_generator = root.cause is RootCause.DRAW and finding.name == f"generator {root.name}"
        if (seed and finding.location == seed) or is_its_generator:
            return True
    at = (finding.op, finding.phase, finding.location)
    return root.cause in _OF_TABLES and at == (root.op, root.phase, root.location)


def _lines(repeated: Repeated) -> Iterator[PlannedChange]:
    """Yield the change of the first line at which the runs begin to differ."""
    source = next((source for source in repeated.sources if source.reaches), None)
    if source is None:
        return
    row = source_by_id(source.source)
    remedy = "make what it gives the same in every run" if row is None else row.remedy
    yield PlannedChange(
        number=0,
        title=f"Change the line at which the runs begin to differ{f': it {row.name}' if row is not None else ''}",
        remedy=f"{remedy[:1].upper()}{remedy[1:]}.",
        where=f"{source.location} (called from {source.called_from})" if source.called_from else source.location,
        roots=tuple(range(1, len(repeated.numbered) + 1)),
    )


def _held(repeated: Repeated) -> Iterator[PlannedChange]:
    """Yield the changes that make permanent what made the runs agree."""
    cause = repeated.cause
    if cause is not None and cause.remedy:
        first = repeated.first
        yield PlannedChange(
            number=0,
            title=f"Remove what differs: runs agree when {cause.clause}",
            remedy=f"{cause.remedy[:1].upper()}{cause.remedy[1:]}.",
            where=_line(first) if first is not None else "the whole process",
            roots=tuple(range(1, len(repeated.numbered) + 1)),
        )


def _line(root: Root) -> str:
    return root.called_from or root.location or root.module or "place not recorded"


def _step(root: Root) -> tuple[str, str, str]:
    """The next step for one root, its cause's or its evidence's: title, remedy and line."""
    where, (title, remedy) = _line(root), (root.shows and root.shows.step) or root.cause.step
    is_moved = root.cause in (RootCause.STRUCTURE, RootCause.UNWRITTEN_MEMORY)
    if root.cause is RootCause.DRAW and root.seed is not None and root.seed.first != root.seed.second:
        title, where = "Change the line that seeds generator {name}", root.seed.location or where
        remedy = "Seed with a number that stands in the code or the configuration."
    elif root.cause is RootCause.DRAW and root.earlier is not None:
        title, is_moved = f"Leave generator {{name}} alone after {root.earlier.op}", True
        remedy = "Between this draw and the one before it something that is no recorded call seeded or moved it."
    elif root.loading is not None:
        is_elsewhere = root.shows is Shows.BATCH and root.second
        is_order = is_elsewhere or root.loading.indices_agree is False
        title, remedy = ("Fix the order of {loader}", _ORDER) if is_order else ("Fix the samples of {loader}", _SAMPLES)
    if is_moved and root.earlier is not None:
        where = root.earlier.called_from or root.earlier.location or where
    words = {
        "call": root.region or root.op.removesuffix(".default"),
        "op": root.op,
        "name": root.name,
        "named": f" ({root.name})" if root.name else "",
        "loader": (root.loading.loader if root.loading is not None else "") or "the loader",
        "kind": root.kind.value.replace("-", " ") if root.kind is not None else "state",
    }
    return title.format_map(words).strip(), remedy.format_map(words), where


def _left(repeated: Repeated) -> Iterator[PlannedChange]:
    """Yield changes where all calls agree, the runs leave other results, and nothing that was held explains it."""
    cause = repeated.cause
    if repeated.numbered or not repeated.ends or (cause is not None and cause.is_certain):
        return
    end = repeated.ends[0]
    of_training = end.kind not in (ValueKind.FILE, ValueKind.OUTPUT)
    how = "Every recorded call agrees, so something else writes it: a process, a thread, a foreign kernel, `numpy`"
    if not of_training:
        how = (
            "No recorded call differs: look for a clock, a name, an order or a number of the machine in what is written"
        )
    yield PlannedChange(
        number=0,
        title=f"Find what makes {end.kind.value.replace('-', ' ')} {end.name} another one",
        remedy=f"{how}.",
        where="beside the recorded calls" if of_training else "where it is written",
    )
