"""A diagnosis in a terminal: what is wrong first, with the lines that mend it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from tracer.doctor.diagnosis import Checked, Diagnosis, spelled
from tracer.names import Verdict
from tracer.report.render.terminal import Prose, indented
from tracer.report.words import GUARANTEE, VERDICTS, by_severity, joined, plural
from tracer.tables.settings.rows import CATEGORIES

#: Columns from which a setting's value stands beside its name.
_GRID_FROM = 64


def diagnosis_parts(diagnosis: Diagnosis, width: int, *, all_settings: bool = False) -> Iterator[RenderableType]:
    """What is installed, each setting at fault, and with ``all_settings`` every other one."""
    yield from _installation(diagnosis)
    for banner in diagnosis.banners:
        yield Prose(banner, style="bold")
    yield Text()
    for fault in diagnosis.faults:
        yield from _fault(fault)
        yield Text()
    if all_settings:
        yield from _notes(diagnosis.notes)
        yield from _harmless([item for item in diagnosis.of((Verdict.DETERMINISTIC,)) if not item.is_note], width)
    yield from _summary(diagnosis, all_settings=all_settings)


def _installation(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    outlook = diagnosis.outlook
    yield Prose(", ".join(f"{name} {version}" for name, version in outlook.versions.items()))
    for device in outlook.devices:
        capability = f" (compute capability {device.capability})" if device.capability else ""
        yield Prose(f"Device: {device.name}{capability}")
    yield Prose(f"Checked for {joined(outlook.backends)}, as if every op that a setting bears on had run.", style="dim")


def _fault(fault: Checked) -> Iterator[RenderableType]:
    words = VERDICTS[fault.verdict]
    yield Prose(f"{words.sign} {words.label}: ", style=words.style).append(fault.name, style="bold")
    yield indented(f"It is {_standing(fault)}.")
    if fault.missing:
        yield indented(f"Not known without {joined(fault.missing)}.")
    yield indented(fault.why)
    yield indented(f"Remedy: {fault.remedy}")
    yield from (indented(Text(line), 6) for line in fault.code.rstrip().splitlines())
    if fault.code and fault.where:
        yield indented(f"Where: {fault.where}.")
    yield indented(f"Row: {fault.row}", style="dim")


def _standing(setting: Checked) -> str:
    """``True, and should be False (for cuda)``."""
    should = f", and should be {setting.wanted}" if setting.wanted else ""
    return f"{spelled(setting.value)}{should}{f' (for {joined(setting.backends)})' if setting.backends else ''}"


def _notes(notes: Sequence[Checked]) -> Iterator[RenderableType]:
    """Settings that make machines differ, not runs."""
    if not notes:
        return
    yield Prose("Other machines or versions may answer otherwise; two runs here agree", style="bold underline")
    for note in notes:
        yield Prose(f"- {note.name} is {_standing(note)}")
        yield indented(note.why)
        yield indented(f"Remedy: {note.remedy}")
    yield Text()


def _harmless(settings: Sequence[Checked], width: int) -> Iterator[RenderableType]:
    """Every other setting with its value, by heading."""
    grid = Grid(box=box.SIMPLE, padding=(0, 1), pad_edge=False, show_header=False, show_edge=False)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    by_heading = sorted(settings, key=lambda setting: CATEGORIES.index(setting.category))
    for heading, members in groupby(by_heading, key=lambda setting: setting.category):
        grid.add_row(Text(heading, style="bold"), "")
        for setting in members:
            grid.add_row(f"= {setting.name}", spelled(setting.value))
            if width < _GRID_FROM:
                yield Prose(f"= {setting.name}: {spelled(setting.value)}")
    if settings:
        yield from (grid, Text()) if width >= _GRID_FROM else (Text(),)


def _summary(diagnosis: Diagnosis, *, all_settings: bool) -> Iterator[RenderableType]:
    counts = {verdict: len(diagnosis.of((verdict,))) for verdict in Verdict}
    said = ", ".join(f"{count} {VERDICTS[verdict].label}" for verdict, count in by_severity(counts))
    yield Prose(f"{plural(len(diagnosis.settings), 'setting')}: {said or 'none'}.", style="bold")
    if diagnosis.unread:
        yield Prose(f"{plural(diagnosis.unread, 'setting')} could not be read here.")
    if not all_settings and len(diagnosis.settings) > len(diagnosis.faults):
        notes = len(diagnosis.notes)
        between = f", {notes} of which other machines may answer otherwise" if notes else ""
        yield Prose(f"--all lists the rest{between}.", style="dim")
    yield Prose(GUARANTEE, style="dim")
