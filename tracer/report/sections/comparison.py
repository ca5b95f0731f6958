"""Two judgements side by side: what is new, gone, worse or better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracer.gate.comparing import Comparison, Difference, Kind
from tracer.report import blocks as said
from tracer.report.blocks import Words, first
from tracer.report.words import plural

#: Differences that are listed; JSON has them all.
_SHOWN = 60


def comparison_blocks(compared: Comparison) -> Iterator[said.Block]:
    """What changed, from the top."""
    counts: dict[str, int] = {}
    for difference in compared.differences:
        counts[difference.kind.value] = counts.get(difference.kind.value, 0) + 1
    as_told = {Kind.RECOUNTED.value: "with another count"}
    told = ", ".join(f"{count:,} {as_told.get(kind, kind)}" for kind, count in counts.items()) or "no finding changed"
    yield said.Paragraph(f"{told[0].upper()}{told[1:]}; {plural(compared.same, 'finding')} the same.", said.Tone.STRONG)
    for label, target in (("before", compared.before), ("after", compared.after)):
        yield said.Paragraph(f"{label}: {target.backend}, torch {target.torch}, settings {target.settings}")
    for kind in counts:
        members, left_out = first([one for one in compared.differences if one.kind.value == kind], _SHOWN)
        yield said.Heading(kind.capitalize())
        yield said.Bullets(tuple(_items(members)), left_out, "--format json has")
    if compared.settings:
        yield said.Heading("Settings and versions")
        yield said.Bullets(tuple(f"{one.name}: {one.before} -> {one.after}" for one in compared.settings))
    if compared.draws:
        yield said.Heading("Random draws")
        yield said.Bullets(tuple(compared.draws))


def _items(members: Sequence[Difference]) -> Iterator[Words]:
    """A sentence each; a remedy stands once, below the last that it is for."""
    for number, one in enumerate(members, 1):
        after = members[number] if number < len(members) else None
        is_last = after is None or after.remedy != one.remedy
        remedy = one.remedy if is_last and one.kind in (Kind.NEW, Kind.WORSENED) else ""
        yield (_told(one), said.Soft(remedy, " "))


def _told(one: Difference) -> str:
    """``train.py:10 aten.mm: deterministic -> raises, 12 calls``."""
    verdicts = f"{one.before or 'no finding'} -> {one.after or 'no finding'}"
    if one.mode_before is not one.mode_after and None not in (one.before, one.after):
        verdicts += f" (under the mode {one.mode_before} -> {one.mode_after})"
    calls = f"{one.calls_after or one.calls_before:,}"
    if one.calls_before and one.calls_after and one.calls_before != one.calls_after:
        calls = f"{one.calls_before:,} -> {one.calls_after:,}"
    place = f"{one.place} " if one.place else ""
    module = f" in {one.module}" if one.module else ""
    word = "call" if calls == "1" else "calls"
    return f"{place}{one.op} {one.phase}{module}: {verdicts}, {calls} {word}"
