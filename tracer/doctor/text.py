"""A diagnosis in a terminal: what is wrong first, with the lines that mend it.

Colour only repeats what a sign and a word already say; in a pipe there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from tracer.doctor.diagnosis import Checked, Diagnosis, spelled
from tracer.names import Verdict
from tracer.report.render.terminal import Prose
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
    faults = diagnosis.faults
    for fault in faults:
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
    names = joined([str(backend) for backend in outlook.backends])
    yield Prose(f"Checked for {names}, as if every op that a setting bears on had run.", style="dim")


def _fault(fault: Checked) -> Iterator[RenderableType]:
    words = VERDICTS[fault.verdict]
    head = Prose(f"{words.sign} {words.label}: ", style=words.style)
    head.append(f"{fault.name}", style="bold")
    yield head
    yield _indented(f"It is {spelled(fault.value)}{_should_be(fault)}{_bears_on(fault)}.")
    if fault.missing:
        yield _indented(f"Not known without {joined(fault.missing)}.")
    yield _indented(fault.why)
    yield _indented(f"Remedy: {fault.remedy}")
    for line in fault.code.rstrip().splitlines():
        yield Padding(Text(line), (0, 0, 0, 6))
    if fault.code and fault.where:
        yield _indented(f"Where: {fault.where}.")
    yield _indented(f"Row: {fault.row}", style="dim")


def _should_be(fault: Checked) -> str:
    return f", and should be {fault.wanted}" if fault.wanted else ""


def _bears_on(fault: Checked) -> str:
    return f" (for {joined([str(backend) for backend in fault.backends])})" if fault.backends else ""


def _notes(notes: Sequence[Checked]) -> Iterator[RenderableType]:
    """Settings that make machines differ, not runs."""
    if not notes:
        return
    yield Prose("Other machines or versions may answer otherwise; two runs here agree", style="bold underline")
    for note in notes:
        yield Prose(f"- {note.name} is {spelled(note.value)}{_should_be(note)}{_bears_on(note)}")
        yield _indented(note.why)
        yield _indented(f"Remedy: {note.remedy}")
    yield Text()


def _harmless(settings: Sequence[Checked], width: int) -> Iterator[RenderableType]:
    """Every other setting with its value, by heading."""
    grid = Grid(box=box.SIMPLE, padding=(0, 1), pad_edge=False, show_header=False, show_edge=False)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    by_heading = sorted(settings, key=lambda one: CATEGORIES.index(one.category))
    for heading, ones in groupby(by_heading, key=lambda one: one.category):
        grid.add_row(Text(heading, style="bold"), "")
        for item in ones:
            grid.add_row(f"= {item.name}", spelled(item.value))
            if width < _GRID_FROM:
                yield Prose(f"= {item.name}: {spelled(item.value)}")
    if settings and width >= _GRID_FROM:
        yield grid
    if settings:
        yield Text()


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


def _indented(text: str, style: str = "") -> RenderableType:
    return Padding(Prose(text, style=style), (0, 0, 0, 2))
