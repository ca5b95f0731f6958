"""Two judgements side by side: what is new, gone, worse or better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from tracer.gate.comparing import Comparison, Difference, Kind
from tracer.report import blocks as said
from tracer.report.blocks import Words, first
from tracer.report.words import plural

#: Differences that are listed; JSON has them all.
_SHOWN = 60


def comparison_blocks(compared: Comparison) -> Iterator[said.Block]:
    """Yield the changes, from the top."""
    counts = Counter(change.kind for change in compared.differences)
    words = {kind: "with another count" if kind is Kind.RECOUNTED else kind.value for kind in Kind}
    changed = ", ".join(f"{count:,} {words[kind]}" for kind, count in counts.items()) or "No finding changed"
    yield said.Paragraph(f"{changed}; {plural(compared.same, 'finding')} the same.", said.Tone.STRONG)
    for label, target in (("before", compared.before), ("after", compared.after)):
        yield said.Paragraph(f"{label}: {target.backend}, torch {target.torch}, settings {target.settings}")
    for kind in counts:
        members, left_out = first([change for change in compared.differences if change.kind is kind], _SHOWN)
        yield said.Heading(kind.capitalize())
        yield said.Bullets(tuple(_items(members)), left_out, "--format json has")
    if compared.settings:
        yield said.Heading("Settings and versions")
        changes = (f"{setting.name}: {setting.before} -> {setting.after}" for setting in compared.settings)
        yield said.Bullets(tuple(changes))
    if compared.draws:
        yield said.Heading("Random draws")
        yield said.Bullets(tuple(compared.draws))


def _items(members: Sequence[Difference]) -> Iterator[Words]:
    """A sentence each; a remedy stands once, below the last that it is for."""
    for change, after in zip_longest(members, members[1:]):
        is_last = after is None or after.remedy != change.remedy
        remedy = change.remedy if is_last and change.kind in (Kind.NEW, Kind.WORSENED) else ""
        yield (_sentence(change), said.Soft(remedy, " "))


def _sentence(change: Difference) -> str:
    """``train.py:10 aten.mm: deterministic -> raises, 12 calls``."""
    before, after = change.calls_before, change.calls_after
    verdicts = f"{change.before or 'no finding'} -> {change.after or 'no finding'}"
    if change.mode_before is not change.mode_after and None not in (change.before, change.after):
        verdicts += f" (under the mode {change.mode_before} -> {change.mode_after})"
    moved = before and after and before != after
    calls = f"{before:,} -> {after:,} calls" if moved else plural(after or before, "call")
    place = f"{change.place} " if change.place else ""
    module = f" in {change.module}" if change.module else ""
    return f"{place}{change.op} {change.phase}{module}: {verdicts}, {calls}"
