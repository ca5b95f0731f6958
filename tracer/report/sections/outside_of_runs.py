"""What runs took in from outside otherwise, and what alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tracer.divergence.model import Outside
from tracer.divergence.outside import is_always_another
from tracer.names import OutsideKind
from tracer.report import blocks as said
from tracer.report.blocks import Reader, first
from tracer.report.sections.reasons import how_it_differs, input_named
from tracer.report.words import plural

#: Rows of what differs between runs; the JSON has them all.
_MOST = 60
#: So many places of inputs that are always others are named.
_PLACES = 6


def between_runs(inputs: Sequence[Outside], reader: Reader) -> Iterator[said.Block]:
    """Inputs that differ between runs; in one line each, those that always differ and those that agree."""
    if not inputs:
        return
    yield said.Heading("Inputs from outside")
    differing = [outside for outside in inputs if outside.differs and not is_always_another(outside)]
    if differing:
        shown, left_out = first(differing, min(_MOST, reader.rows))
        yield said.Rows(tuple(map(_row, shown)), left_out=left_out)
    if always := [outside for outside in inputs if outside.differs and is_always_another(outside)]:
        named = dict.fromkeys(f"{outside.name} at {outside.called_from or outside.location}" for outside in always)
        places = list(named)[:_PLACES]
        more = f" and {len(named) - _PLACES:,} more" if len(named) > _PLACES else ""
        yield said.quiet(f"Different in every run: {', '.join(places)}{more}.")
    if alike := list(_counts(outside for outside in inputs if not outside.differs)):
        yield said.quiet(f"Not seen to differ: {', '.join(alike)}.")


def _counts(inputs: Iterable[Outside]) -> Iterator[str]:
    kinds = Counter(outside.kind for outside in inputs)
    for kind in OutsideKind:
        if kinds[kind] and all(kind.counted):
            yield plural(kinds[kind], *kind.counted)


def _row(outside: Outside) -> said.Row:
    place = outside.location or "place not recorded"
    called = f" (called from {outside.called_from})" if outside.called_from else ""
    return said.Row(
        (f"{outside.kind.verb} ", said.Code(input_named(outside))),
        aside=said.Code(f"{place}{called}"),
        blocks=(
            said.Paragraph(f"{how_it_differs(outside)}."),
            said.Paragraph(f"The first run: {outside.first}. The second: {outside.second}."),
        ),
    )
