"""All sections of a report in the order in which people read them; adding one is one row here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

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

_DEPTHS = tuple(Detail)


class Listed(NamedTuple):
    """A section of a report."""

    make: Callable[[Report, Reader], Section | None]
    """The section for a reader; ``None`` where there is nothing to say."""
    depth: Detail
    """The detail from which a reader is shown it."""


def runs(report: Report, reader: Reader) -> Section | None:
    """Return the section on several runs; a report on one run loads none of what reads their values."""
    if report.repeated is None:
        return None
    from tracer.report.sections.runs import happened_blocks

    return Section(anchor="parting", title="What happened", blocks=tuple(happened_blocks(report.repeated, reader)))


SECTIONS: tuple[Listed, ...] = (
    Listed(runs, Detail.USUAL),
    Listed(refuted, Detail.BRIEF),
    Listed(plan, Detail.BRIEF),
    Listed(questions, Detail.BRIEF),
    Listed(hints, Detail.USUAL),
    Listed(calls, Detail.WHOLE),
    Listed(own_lines, Detail.WHOLE),
    Listed(findings, Detail.BRIEF),
    Listed(settled, Detail.USUAL),
    Listed(compiled, Detail.USUAL),
    Listed(rows, Detail.USUAL),
    Listed(settings, Detail.WHOLE),
    Listed(draws, Detail.USUAL),
    Listed(memory, Detail.WHOLE),
    Listed(loading, Detail.USUAL),
    Listed(collectives, Detail.USUAL),
    Listed(ranks, Detail.USUAL),
    Listed(processes, Detail.USUAL),
    Listed(unknown, Detail.WHOLE),
    Listed(not_seen, Detail.USUAL),
    Listed(environment, Detail.WHOLE),
)


def sections_of(report: Report, reader: Reader) -> Iterator[Section]:
    """The sections that have something to say to ``reader``."""
    for listed in SECTIONS:
        if _DEPTHS.index(listed.depth) <= _DEPTHS.index(reader.detail):
            section = listed.make(report, reader)
            if section is not None:
                yield section
