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
    """What runs took in otherwise; in one line each what is another one in any case, and what they took in alike."""
    if not inputs:
        return
    yield said.Heading("What came from outside")
    differing = [one for one in inputs if one.differs and not is_always_another(one)]
    if differing:
        shown, left_out = first(differing, min(_MOST, reader.rows))
        yield said.Rows(tuple(map(_row, shown)), left_out=left_out)
    if always := [one for one in inputs if one.differs and is_always_another(one)]:
        named = dict.fromkeys(f"{one.name} at {one.called_from or one.location}" for one in always)
        places = list(named)[:_PLACES]
        more = f" and {len(named) - _PLACES:,} more" if len(named) > _PLACES else ""
        yield said.quiet(f"Another one in every run: {', '.join(places)}{more}.")
    if alike := list(_counts(one for one in inputs if not one.differs)):
        yield said.quiet(f"Not seen to differ: {', '.join(alike)}.")


def _counts(inputs: Iterable[Outside]) -> Iterator[str]:
    kinds = Counter(one.kind for one in inputs)
    for kind in OutsideKind:
        if kinds[kind]:
            yield plural(kinds[kind], *kind.counted)


def _row(one: Outside) -> said.Row:
    place = one.location or "place not recorded"
    called = f" (called from {one.called_from})" if one.called_from else ""
    return said.Row(
        (f"{one.kind.verb} ", said.Code(input_named(one))),
        aside=said.Code(f"{place}{called}"),
        blocks=(
            said.Paragraph(f"{how_it_differs(one)}."),
            said.Paragraph(f"The first run: {one.first}. The second: {one.second}."),
        ),
    )
