"""What no op shows, in a terminal: one line a generator, one for memory, one a loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType

from tracer.plain import one_line
from tracer.report.terminal.terminal import heading, indented
from tracer.report.wording.process import (
    GeneratorRow,
    LoaderRow,
    fill_words,
    generator_rows,
    loader_rows,
    unseen_generators,
    untouched_generators,
)
from tracer.report.wording.words import VERDICTS, joined, plural

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Lines of one section that are shown.
_LINES = 12
_LONGEST = 240


def process_parts(report: ReportView) -> Iterator[RenderableType]:
    """The sections, each only where there is something to say."""
    generators, unseen = generator_rows(report.judgement), unseen_generators(report.judgement)
    if generators or unseen:
        yield heading("Random draws")
        yield from _lines([_generator(row) for row in generators])
        untouched = untouched_generators(report.judgement)
        if untouched:
            yield indented(f"Not drawn from: {one_line(joined(untouched), _LONGEST)}.", style="dim")
        if unseen:
            yield indented(unseen, style="dim")
    if report.fill is not None:
        yield heading("Memory")
        yield indented(fill_words(report.fill))
    if report.loaders:
        yield heading("Data loading")
        yield from _lines([_loader(row) for row in loader_rows(report.loaders)])
    if report.notes:
        many = plural(len(report.notes), "setting")
        yield heading("Between machines")
        yield indented(
            f"{many} may give other results on other machines, not between runs: "
            f"{one_line(joined([note.subject for note in report.notes[:_LINES]]), 2 * _LONGEST)}.",
            style="dim",
        )


def _lines(lines: list[str]) -> Iterator[RenderableType]:
    for line in lines[:_LINES]:
        yield indented(one_line(line, 2 * _LONGEST))
    if len(lines) > _LINES:
        yield indented(f"and {len(lines) - _LINES:,} more; the HTML and JSON reports have them.", style="dim")


def _generator(row: GeneratorRow) -> str:
    return f"{VERDICTS[row.verdict].sign} {row.name}: {row.draws}; {row.start}"


def _loader(row: LoaderRow) -> str:
    parts = [f"workers {row.workers}", f"order {row.order}", row.drawn_from, *row.further]
    return f"{row.place}: {'; '.join(parts)}"
