"""A diagnosis, or two machines side by side, as blocks: what is wrong first, with the lines that mend it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

import msgspec

from tracer.doctor.diagnosis import Checked, Diagnosis, spelled
from tracer.doctor.two_machines import MachineComparison, MachineDifference
from tracer.names import Differs, Verdict
from tracer.report import blocks as said
from tracer.report.words import GUARANTEE, VERDICTS, by_severity, joined, plural
from tracer.tables.settings.rows import CATEGORIES


def diagnosis_blocks(diagnosis: Diagnosis, *, all_settings: bool = False) -> Iterator[said.Block]:
    """Yield the installation, each setting at fault, and with ``all_settings`` every other one."""
    outlook = diagnosis.outlook
    yield said.Paragraph(", ".join(f"{name} {version}" for name, version in outlook.versions.items()))
    for device in outlook.devices:
        capability = f" (compute capability {device.capability})" if device.capability else ""
        yield said.Paragraph(f"Device: {device.name}{capability}")
    yield said.quiet(f"Checked for {joined(outlook.backends)}, as if every op that a setting bears on had run.")
    yield from said.paragraphs(*diagnosis.banners, tone=said.Tone.STRONG)
    yield said.Rows(tuple(map(_fault, diagnosis.faults)), is_spaced=True)
    if all_settings:
        if diagnosis.notes:
            yield said.Heading("Other machines or versions may answer otherwise; two runs here agree")
            yield said.Rows(tuple(map(_fault, diagnosis.notes)))
        harmless = [setting for setting in diagnosis.of((Verdict.DETERMINISTIC,)) if not setting.is_note]
        harmless.sort(key=lambda setting: CATEGORIES.index(setting.category))
        for category, members in groupby(harmless, key=lambda setting: setting.category):
            yield said.Pairs(tuple((f"= {setting.name}", spelled(setting.value)) for setting in members), category)
    yield from _summary(diagnosis, all_settings=all_settings)


def _fault(fault: Checked) -> said.Row:
    key: said.Words = fault.name if fault.is_note else (said.Badge(fault.verdict), f": {fault.name}")
    standing = said.Paragraph(f"It is {_standing(fault)}.")
    return said.Row(key, blocks=(standing, *_what_to_do(fault), said.quiet(f"Row: {fault.row}")))


def _what_to_do(fault: Checked | MachineDifference) -> Iterator[said.Block]:
    """Why it matters, and the lines that mend it."""
    missing = f"Not known without {joined(fault.missing)}." if isinstance(fault, Checked) and fault.missing else ""
    yield from said.paragraphs(missing, fault.why, f"Remedy: {fault.remedy}" if fault.remedy else "")
    if fault.code:
        yield said.Sample(fault.code.rstrip(), "the code")
        yield from said.paragraphs(f"Where: {fault.where}." if fault.where else "")


def _standing(setting: Checked) -> str:
    """``True, and should be False (for cuda)``."""
    should = f", and should be {setting.wanted}" if setting.wanted else ""
    return f"{spelled(setting.value)}{should}{f' (for {joined(setting.backends)})' if setting.backends else ''}"


def _summary(diagnosis: Diagnosis, *, all_settings: bool) -> Iterator[said.Block]:
    counts = {verdict: len(diagnosis.of((verdict,))) for verdict in Verdict}
    by_verdict = ", ".join(f"{count} {VERDICTS[verdict].label}" for verdict, count in by_severity(counts))
    settings = f"{plural(len(diagnosis.settings), 'setting')}: {by_verdict or 'none'}."
    yield said.Heading(settings)
    if diagnosis.unread:
        yield said.Paragraph(f"{plural(diagnosis.unread, 'setting')} could not be read here.")
    if not all_settings and len(diagnosis.settings) > len(diagnosis.faults):
        notes = len(diagnosis.notes)
        between = f", {notes} of which other machines may answer otherwise" if notes else ""
        yield said.quiet(f"--all lists the rest{between}.")
    yield said.quiet(GUARANTEE)


# --- two machines -----------------------------------------------------------------------------------------

_COMPARED = (
    "Compared: settings, versions and devices, as tracer doctor read them."
    " Not compared: code, data, what a script sets."
)


def comparison_blocks(compared: MachineComparison) -> Iterator[said.Block]:
    """Whatever differs, with both values, why it matters and what to do."""
    yield said.Paragraph(_verdict(compared), said.Tone.STRONG)
    yield from said.paragraphs(*(f"Note: {banner}" for banner in compared.banners), tone=said.Tone.STRONG)
    yield said.Rows(tuple(_difference(difference, compared) for difference in compared.differences), is_spaced=True)
    if compared.faults:
        yield said.Heading("No difference, and can make two runs differ")
        yield said.Bullets(
            tuple(
                (said.Badge(fault.verdict), f" {fault.name} is {fault.value} (on {fault.machine or 'both'})")
                for fault in compared.faults
            )
        )
        yield said.quiet("tracer doctor says why, and what to do.")
    yield said.quiet(_COMPARED)


def _verdict(compared: MachineComparison) -> str:
    """The number of differences, and how much of them matters."""
    counts = Counter(difference.matters for difference in compared.differences)
    parts = (
        (counts[Differs.RUNS], "can make two runs on one machine differ"),
        (counts[Differs.MACHINES], "can make the two machines compute differently"),
        (counts[None], "may matter or not: the tables do not say"),
    )
    same = f"{plural(compared.same, 'setting or version is', 'settings and versions are')} the same"
    if not compared.differences:
        return f"No difference between the two machines: {same}. That is no proof that they compute the same bits."
    told = "; ".join(f"{count:,} {words}" for count, words in parts if count)
    return f"{plural(len(compared.differences), 'difference')}: {told}. {same}."


def _difference(difference: MachineDifference, compared: MachineComparison) -> said.Row:
    """Both values, the reason why it matters, and the remedy."""
    verdict, label = _sign(difference)
    where = ""
    if difference.matters is Differs.RUNS and difference.verdicts is not None:
        sides = zip((compared.first, compared.second), difference.verdicts, strict=True)
        where = f" On {joined([name for name, verdict in sides if verdict is not Verdict.DETERMINISTIC])}."
    else:
        difference = msgspec.structs.replace(difference, code="")
    return said.Row(
        (said.Badge(verdict, difference.name), f": {label}"),
        blocks=(
            said.Paragraph(f"{compared.first}: {difference.first}; {compared.second}: {difference.second}.{where}"),
            *_what_to_do(difference),
            *((said.quiet(f"Row: {difference.row}"),) if difference.row else ()),
        ),
    )


def _sign(difference: MachineDifference) -> tuple[Verdict, str]:
    if difference.matters is Differs.RUNS and difference.verdicts is not None:
        return by_severity(Counter(difference.verdicts))[0][0], "two runs on one machine can differ"
    if difference.matters is Differs.MACHINES:
        return Verdict.CONDITIONAL, "each machine repeats itself, the two can compute differently"
    if difference.verdicts is not None and Verdict.UNKNOWN not in difference.verdicts:
        return Verdict.UNKNOWN, "each machine repeats itself; whether the two agree, no table says"
    return Verdict.UNKNOWN, "not known whether it matters"
