"""A diagnosis, or two machines side by side, in a terminal: what is wrong first, with the lines that mend it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from tracer.doctor.diagnosis import Checked, Diagnosis, spelled
from tracer.doctor.two_machines import MachineComparison, MachineDifference, SharedFault
from tracer.names import Differs, Verdict
from tracer.plain import one_line
from tracer.report.render.terminal import Prose, heading, indented
from tracer.report.words import GUARANTEE, VERDICTS, by_severity, joined, plural
from tracer.tables.settings.rows import CATEGORIES

#: Columns from which a setting's value stands beside its name.
_GRID_FROM = 64


def diagnosis_parts(diagnosis: Diagnosis, width: int, *, all_settings: bool = False) -> Iterator[RenderableType]:
    """Yield the installation, each setting at fault, and with ``all_settings`` every other one."""
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
    for category, members in groupby(by_heading, key=lambda setting: setting.category):
        grid.add_row(Text(category, style="bold"), "")
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


# --- two machines -----------------------------------------------------------------------------------------

#: Characters of a value that are shown; JSON has all of it.
_LONGEST_VALUE = 120
#: Whether a difference matters, as a column says it.
_MATTERS = {Differs.RUNS: "runs", Differs.MACHINES: "machines", None: "not known"}


def comparison_parts(compared: MachineComparison, width: int) -> Iterator[RenderableType]:
    """Both values of whatever differs, in one table; then why each matters and what to do."""
    yield Prose(_verdict(compared), style="bold")
    for banner in compared.banners:
        yield Prose(f"Note: {one_line(banner)}", style="bold")
    if compared.differences:
        yield Text()
        yield from _table(compared, width)
    for difference in compared.differences:
        yield Text()
        yield from _difference(difference, compared)
    yield from _common_faults(compared.faults)
    yield Text()
    yield Prose(_COMPARED, style="dim")


_COMPARED = (
    "Compared: settings, versions and devices, as tracer doctor read them."
    " Not compared: code, data, what a script sets."
)


def _verdict(compared: MachineComparison) -> str:
    """Return the number of differences, and how much of them matters."""
    counts = Counter(difference.matters for difference in compared.differences)
    parts = (
        (counts[Differs.RUNS], "can make two runs on one machine differ"),
        (counts[Differs.MACHINES], "can make the two machines compute differently"),
        (counts[None], "may matter or not: the tables do not say"),
    )
    same = f"{plural(compared.same, 'setting or version is', 'settings and versions are')} the same"
    if not compared.differences:
        return f"No difference between the two machines: {same}. That is no proof that they compute the same bits."
    said = "; ".join(f"{count:,} {words}" for count, words in parts if count)
    return f"{plural(len(compared.differences), 'difference')}: {said}. {same}."


def _table(compared: MachineComparison, width: int) -> Iterator[RenderableType]:
    first, second = (one_line(name, _LONGEST_VALUE) for name in (compared.first, compared.second))
    if width < _GRID_FROM:
        for row in compared.differences:
            yield Prose(f"- {one_line(row.name)} (matters for: {_MATTERS[row.matters]})")
            for name, value in ((first, row.first), (second, row.second)):
                yield indented(f"{name}: {one_line(value, _LONGEST_VALUE)}", 4)
        return
    grid = Grid(box=box.SIMPLE, padding=(0, 1), pad_edge=False, show_edge=False)
    for head in ("", first, second, "matters for"):
        grid.add_column(Text(head), overflow="fold")
    for row in compared.differences:
        values = (one_line(value, _LONGEST_VALUE) for value in (row.name, row.first, row.second))
        grid.add_row(*map(Text, values), _MATTERS[row.matters])
    yield grid


def _difference(difference: MachineDifference, compared: MachineComparison) -> Iterator[RenderableType]:
    """Yield the reason why it matters, and the remedy."""
    sign, label = _sign(difference)
    yield Prose(f"{sign} ").append(one_line(difference.name), style="bold").append(f": {label}")
    if difference.matters is Differs.RUNS and difference.verdicts is not None:
        sides = zip((compared.first, compared.second), difference.verdicts, strict=True)
        where = [one_line(name, _LONGEST_VALUE) for name, verdict in sides if verdict is not Verdict.DETERMINISTIC]
        yield indented(f"On {joined(where)}.")
    if difference.why:
        yield indented(difference.why)
    if difference.remedy:
        yield indented(f"Remedy: {difference.remedy}")
    if difference.matters is Differs.RUNS:
        yield from (indented(Text(line), 6) for line in difference.code.rstrip().splitlines())
    if difference.row:
        yield indented(f"Row: {difference.row}", style="dim")


def _sign(difference: MachineDifference) -> tuple[str, str]:
    if difference.matters is Differs.RUNS and difference.verdicts is not None:
        worst = by_severity(Counter(difference.verdicts))[0][0]
        return VERDICTS[worst].sign, "two runs on one machine can differ"
    if difference.matters is Differs.MACHINES:
        return VERDICTS[Verdict.CONDITIONAL].sign, "each machine repeats itself, the two can compute differently"
    if difference.verdicts is not None and Verdict.UNKNOWN not in difference.verdicts:
        return VERDICTS[Verdict.UNKNOWN].sign, "each machine repeats itself; whether the two agree, no table says"
    return VERDICTS[Verdict.UNKNOWN].sign, "not known whether it matters"


def _common_faults(faults: Sequence[SharedFault]) -> Iterator[RenderableType]:
    if not faults:
        return
    yield heading("No difference, and can make two runs differ")
    for fault in faults:
        where = one_line(fault.machine, _LONGEST_VALUE) or "both"
        value = one_line(fault.value, _LONGEST_VALUE)
        yield Prose(f"- {VERDICTS[fault.verdict].sign} {fault.name} is {value} (on {where})")
    yield indented("tracer doctor says why, and what to do.", style="dim")
