"""Two judgements side by side, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from tracer.gate.comparing import Comparison, Difference, Kind
from tracer.plain import one_line
from tracer.report.terminal.terminal import Prose, hanging, heading, indented
from tracer.report.wording.words import plural

#: Differences that are printed; JSON has them all.
_SHOWN = 60


def comparison_parts(compared: Comparison) -> Iterator[RenderableType]:
    """What is printed, from the top."""
    counts: dict[str, int] = {}
    for difference in compared.differences:
        counts[difference.kind.value] = counts.get(difference.kind.value, 0) + 1
    as_told = {Kind.RECOUNTED.value: "with another count"}
    told = ", ".join(f"{count:,} {as_told.get(kind, kind)}" for kind, count in counts.items()) or "no finding changed"
    yield Prose(f"{told[0].upper()}{told[1:]}; {plural(compared.same, 'finding')} the same.", style="bold")
    for label, target in (("before", compared.before), ("after", compared.after)):
        yield Prose(f"{label}: {target.backend}, torch {target.torch}, settings {target.settings}")
    for kind in counts:
        yield heading(kind.capitalize())
        members = [difference for difference in compared.differences if difference.kind.value == kind]
        for number, one in enumerate(members[:_SHOWN], 1):
            yield hanging("-", one_line(_told(one), 400))
            after = members[number] if number < min(len(members), _SHOWN) else None
            if one.remedy and one.kind in (Kind.NEW, Kind.WORSENED) and (after is None or after.remedy != one.remedy):
                # once below all that it is for: another backend's remedy is often the same for each op
                yield indented(one_line(one.remedy, 400), 4, style="dim")
        if len(members) > _SHOWN:
            yield indented(f"and {len(members) - _SHOWN:,} more; --format json has them all")
    if compared.settings:
        yield heading("Settings and versions")
        for setting in compared.settings:
            yield indented(one_line(f"{setting.name}: {setting.before} -> {setting.after}", 400))
    if compared.draws:
        yield heading("Random draws")
        for sentence in compared.draws:
            yield indented(one_line(sentence, 400))


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
