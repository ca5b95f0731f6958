"""What no op shows, as the page's template reads it: settings, random draws, memory, data loading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from tracer.findings import Finding
from tracer.names import About
from tracer.plan import name_of, place_of
from tracer.report.wording.naming import calls_by_op, ops_behind, subject_of
from tracer.report.wording.process import (
    fill_words,
    generator_rows,
    loader_rows,
    unseen_generators,
    untouched_generators,
)
from tracer.report.wording.words import ABOUT, SEED_ORIGINS, size

if TYPE_CHECKING:
    from tracer.report.view import ReportView
    from tracer.trace.records import Allocation, Draw

#: Rows of a section's table: those that stand open, and all that are listed.
OPEN_ROWS = 12
MOST_ROWS = 200

#: The findings that each section bears.
_SECTIONS = {
    "settings": (About.SETTING, About.LATE, About.CHANGED, About.COMPILED),
    "draws": (About.GENERATOR,),
    "memory": (About.MEMORY, About.OVERLAP),
    "loading": (About.LOADER,),
}


class ProcessFinding(NamedTuple):
    """A finding about the process, in its section."""

    number: int
    """Its row in the findings table, from 1."""
    finding: Finding
    subject: str
    kind: str
    place: str
    matters_for: str
    """The ops that make it matter, with their calls."""


class Listed(NamedTuple):
    """Rows of a long table: open, folded, and how many are left out."""

    open: tuple[tuple[Any, ...], ...]
    folded: tuple[tuple[Any, ...], ...]
    left_out: int


def process_context(report: ReportView) -> dict[str, Any]:
    """What the sections name; each is empty where there is nothing to say."""
    found = {name: _findings(report, about) for name, about in _SECTIONS.items()}
    generators = generator_rows(report.judgement)
    return {
        "process_findings": {name: rows[:MOST_ROWS] for name, rows in found.items()},
        "process_more": {name: max(0, len(rows) - MOST_ROWS) for name, rows in found.items()},
        "notes": [(note, calls_by_op(note.ops)) for note in report.notes],
        "generators": generators[:MOST_ROWS],
        "generators_more": max(0, len(generators) - MOST_ROWS),
        "untouched": untouched_generators(report.judgement),
        "unseen": unseen_generators(report.judgement),
        "draws": _listed(_draws(report.draws)),
        "fill": fill_words(report.fill) if report.fill is not None else "",
        "allocations": _listed(
            [_allocation(allocation) for allocation in sorted(report.allocations, key=lambda one: -one.bytes)]
        ),
        "loaders": loader_rows(report.loaders)[:MOST_ROWS],
        "loaders_more": max(0, len(report.loaders) - MOST_ROWS),
        "origins": SEED_ORIGINS,
        "has_settings": bool(found["settings"] or report.notes),
        "has_draws": bool(found["draws"] or generators or unseen_generators(report.judgement)),
        "has_memory": bool(found["memory"] or report.fill is not None or report.allocations),
        "has_loading": bool(found["loading"] or report.loaders),
    }


def _findings(report: ReportView, about: tuple[About, ...]) -> list[ProcessFinding]:
    return [
        ProcessFinding(
            number, one, subject_of(one), ABOUT[one.about].label, place_of(one), calls_by_op(ops_behind(one))
        )
        for number, one in enumerate(report.findings, 1)
        if one.about in about
    ]


def _listed(rows: list[tuple[Any, ...]]) -> Listed:
    return Listed(tuple(rows[:OPEN_ROWS]), tuple(rows[OPEN_ROWS:MOST_ROWS]), max(0, len(rows) - MOST_ROWS))


def _draws(draws: Iterable[Draw]) -> list[tuple[Any, ...]]:
    """The ledger by generator, op, phase, module and place, in the order of the first draw; calls of one place that
    differ in their facts alone are one row."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for draw in draws:
        counts[(name_of(draw.op), draw.phase, draw.module, _place(draw), draw.generator, draw.origin)] += draw.count
    return [(*row, SEED_ORIGINS[origin], calls) for (*row, origin), calls in counts.items()]


def _allocation(one: Allocation) -> tuple[Any, ...]:
    followed = one.count - one.unfollowed
    return (name_of(one.op), one.phase, one.module, _place(one), one.count, followed, size(one.bytes))


def _place(one: Draw | Allocation) -> str:
    if one.called_from:
        return f"{one.location} (called from {one.called_from})" if one.location else f"called from {one.called_from}"
    return one.location or "place not recorded"
