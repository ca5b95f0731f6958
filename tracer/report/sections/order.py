"""All sections of a report in the order in which people read them; adding one is one row here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tracer.names import Detail
from tracer.report import Report
from tracer.report.blocks import Reader, Section
from tracer.report.sections.answers import questions
from tracer.report.sections.calls import calls, compiled, rows
from tracer.report.sections.findings import findings, own_lines, refuted, settled, unknown
from tracer.report.sections.plan import plan
from tracer.report.sections.process import (
    collectives,
    draws,
    environment,
    hints,
    loading,
    memory,
    not_seen,
    processes,
    ranks,
    settings,
)


def runs(report: Report, reader: Reader) -> Section | None:
    """Return the section on several runs; a report on one run loads none of what reads their values."""
    if report.repeated is None:
        return None
    from tracer.report.sections.runs import happened_blocks

    return Section(anchor="parting", title="What happened", blocks=tuple(happened_blocks(report.repeated, reader)))


#: Makes a section for a reader; ``None`` where there is nothing to say.
Make = Callable[[Report, Reader], Section | None]
#: Each with the detail from which a reader is shown it.
SECTIONS: tuple[tuple[Make, Detail], ...] = (
    (runs, Detail.USUAL),
    (refuted, Detail.BRIEF),
    (plan, Detail.BRIEF),
    (questions, Detail.BRIEF),
    (hints, Detail.USUAL),
    (calls, Detail.WHOLE),
    (own_lines, Detail.WHOLE),
    (findings, Detail.BRIEF),
    (settled, Detail.USUAL),
    (compiled, Detail.USUAL),
    (rows, Detail.USUAL),
    (settings, Detail.WHOLE),
    (draws, Detail.USUAL),
    (memory, Detail.WHOLE),
    (loading, Detail.USUAL),
    (collectives, Detail.USUAL),
    (ranks, Detail.USUAL),
    (processes, Detail.USUAL),
    (unknown, Detail.WHOLE),
    (not_seen, Detail.USUAL),
    (environment, Detail.WHOLE),
)


def sections_of(report: Report, reader: Reader) -> Iterator[Section]:
    """The sections that have something to say to ``reader``."""
    depths = [*Detail]
    for make, depth in SECTIONS:
        if depths.index(depth) <= depths.index(reader.detail) and (section := make(report, reader)) is not None:
            yield section
