"""What came from outside into one run, and what a headline says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.names import OutsideKind
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words, first
from tracer.report.words import plural
from tracer.trace.file import Trace
from tracer.trace.records import OutsideInput

if TYPE_CHECKING:
    from tracer.report.view import ReportView

_LEAD = (
    "What the program took in that no op shows. Whether two runs take in the same is not judged here: `tracer repeat`"
    " holds them against each other."
)


def outside(report: ReportView, reader: Reader) -> Section | None:
    """What one run took in, with what imports opened in one line."""
    inputs = report.judgement.trace.outside
    if not inputs:
        return None
    own = [one for one in inputs if not one.by_import]
    blocks: list[said.Block] = [said.lead(_LEAD)] if reader.is_whole else []
    if own:
        shown, left_out = first(own, reader.rows)
        columns = said.columns("Input", "Name", "Place", "Times", brief="Place", figures=("Times",))
        blocks.append(said.Table(columns, tuple(map(_cells, shown)), noun="input", left_out=left_out))
    if by_import := len(inputs) - len(own):
        blocks.append(said.quiet(f"{plural(by_import, 'further input')} came in as modules were imported."))
    return Section(anchor="outside", title="What came from outside", blocks=tuple(blocks))


def _cells(one: OutsideInput) -> tuple[Words, ...]:
    place = one.location or "place not recorded"
    return (
        one.kind.value.replace("-", " "),
        said.Code(one.name) if one.name else "further ones",
        said.Code(f"{place} (called from {one.called_from})" if one.called_from else place),
        f"{one.count:,}",
    )


def counted(trace: Trace) -> Iterator[str]:
    """What a run took in before its last call, by kind: ``2 files read``. What an import took in is left out."""
    names: dict[OutsideKind, set[str]] = {}
    further: Counter[OutsideKind] = Counter()
    for one in trace.outside:
        if one.by_import or one.calls >= trace.call_count:
            continue
        if one.name:
            names.setdefault(one.kind, set()).add(one.name)
        else:
            further[one.kind] += one.count
    for kind in OutsideKind:
        if count := len(names.get(kind, ())) + further[kind]:
            yield plural(count, *kind.counted)
