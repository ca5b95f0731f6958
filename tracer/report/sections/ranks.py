"""What differs between the ranks of one job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tracer.plan import name_of
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, first
from tracer.report.words import joined, plural
from tracer.trace.differences import RankCalls, RankComparison, RankDraws, RankSetting

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Rows of one kind; the JSON report has them all.
ROWS = 50


def ranks(report: ReportView, reader: Reader) -> Section | None:
    """The section, where several ranks were compared."""
    if report.ranks is None:
        return None
    blocks: list[said.Block] = [said.lead(agreement(report.ranks))]
    for title, rows in differences(report.ranks):
        shown, left_out = first(rows, min(ROWS, reader.rows))
        blocks += [said.Heading(title), said.Bullets(shown, left_out)]
    return Section(anchor="ranks", title="Ranks", blocks=tuple(blocks))


def differences(compared: RankComparison) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each kind in which the ranks differ, with a sentence a difference."""
    kinds = (("Settings", setting_rows), ("Calls", call_rows), ("Random draws", draw_rows))
    for title, rows_of in kinds:
        if rows := tuple(rows_of(compared)):
            yield title, rows


def agreement(compared: RankComparison) -> str:
    """Which ranks agree, in one sentence."""
    if compared.are_identical:
        return f"All {len(compared.ranks):,} ranks agree in settings, calls and random draws."
    if len(compared.alike) == len(compared.ranks):
        return f"No two ranks agree: {ranks_named(compared.ranks)} differ."
    groups = [f"{ranks_named(group)} {'agree' if len(group) > 1 else 'is alone'}" for group in compared.alike]
    return f"The ranks differ: {'; '.join(groups)}."


def setting_rows(compared: RankComparison) -> Iterator[str]:
    """A sentence a setting that differs."""
    for setting in compared.settings:
        yield f"{setting.name}: {_spread(compared.ranks, setting)}"


def _spread(ranks: Sequence[int], one: RankSetting) -> str:
    holders: dict[str, list[int]] = {}
    for rank, value in zip(ranks, one.values, strict=True):
        holders.setdefault(value, []).append(rank)
    return "; ".join(f"{value} on {ranks_named(holding)}" for value, holding in holders.items())


def call_rows(compared: RankComparison) -> Iterator[str]:
    """A sentence an op and place that is not called alike."""
    for call in compared.calls:
        yield f"{_called(call)}: {_counts(compared.ranks, call)}"


def _called(one: RankCalls) -> str:
    place = one.location or one.called_from
    at = f" at {place}" if place else ""
    module = f" ({one.module})" if one.module else ""
    return f"{name_of(one.op)} {one.phase}{at}{module}"


def _counts(ranks: Sequence[int], one: RankCalls) -> str:
    if one.facts:
        return f"{plural(one.counts[0], 'call')} on each, with other {joined(one.facts)}"
    holders: dict[int, list[int]] = {}
    for rank, count in zip(ranks, one.counts, strict=True):
        holders.setdefault(count, []).append(rank)
    return "; ".join(f"{plural(count, 'call')} on {ranks_named(holding)}" for count, holding in holders.items())


def draw_rows(compared: RankComparison) -> Iterator[str]:
    """A sentence a rank and generator that it drew from otherwise than the first rank."""
    for draw in compared.draws:
        yield f"rank {draw.rank}, generator {draw.generator}: {_ahead(draw, compared.ranks[0])}"


def _ahead(one: RankDraws, first: int) -> str:
    place = one.location or one.module
    where = f", first in {name_of(one.op)}{f' at {place}' if place else ''}" if one.op else ""
    if not one.ahead:
        return f"as many draws as on rank {first}, elsewhere{where}"
    return f"{plural(abs(one.ahead), 'draw')} {'more' if one.ahead > 0 else 'fewer'} than on rank {first}{where}"


def ranks_named(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0 and 1``, ``ranks 0-6 and 8``; three in a row and more are a span."""
    ordered = sorted(ranks)
    spans: list[list[int]] = []
    for rank in ordered:
        if spans and spans[-1][-1] == rank - 1:
            spans[-1].append(rank)
        else:
            spans.append([rank])
    parts = [part for span in spans for part in ([f"{span[0]}-{span[-1]}"] if len(span) > 2 else map(str, span))]
    return f"rank{'s' if len(ordered) > 1 else ''} {joined(parts)}"
