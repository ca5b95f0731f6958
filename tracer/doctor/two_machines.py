"""Machines as ``tracer doctor --save`` writes them, and two side by side: what differs, and what the tables know of it.

A file holds what was read and no verdict: whoever compares two machines judges both by the same tables.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tracer.doctor import DRIVER, PLATFORM, PROCESSOR, Advice, Checked, Outlook, diagnose, spelled, what_to_do
from tracer.errors import TraceError, of_another_schema, reason_of
from tracer.files import open_plain, read_text, write_whole
from tracer.names import SEVERITY, Backend, Differs, Verdict
from tracer.plain import json_text
from tracer.report import blocks as said
from tracer.report.words import by_severity, joined, plural
from tracer.tables.rules import CATEGORIES, EnvironmentTable, SettingRow
from tracer.tables.versions import release
from tracer.trace.records import Environment

#: Number of the format of such a file, and of a comparison's JSON.
SCHEMA = 1
#: How such files are called.
SUFFIX = ".doctor.json"
#: Bytes of such a file: some hundred settings and versions. Anything larger is none.
MAX_BYTES = 4 * 1024 * 1024
_HEAD = re.compile(rb'\s*\{\s*"doctor"\s*:')


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's description by one of its processes; no host name, no user name."""

    doctor: int
    """Number of the file format: a name of its own, so that no reader takes such a file for a trace."""
    tracer_version: str = ""
    """The release that saved it."""
    environment: Environment
    """Versions and settings; without seeds, which are a program's."""
    outlook: Outlook

    def bears(self, row: SettingRow) -> bool:
        """Whether calls that the row's setting affects can be made there."""
        return not row.backends or not set(row.backends).isdisjoint(self.outlook.backends)


class _MachineHeader(msgspec.Struct):
    doctor: int


def save_machine(path: str | os.PathLike[str], environment: Environment, outlook: Outlook, *, version: str) -> None:
    """Write what ``read_process`` gave, whole or not at all. Raises ``TraceError`` if ``path`` cannot be written."""
    environment = msgspec.structs.replace(environment, torch_seed=None, cuda_seed=None)
    machine = Machine(doctor=SCHEMA, tracer_version=version, environment=environment, outlook=outlook)
    write_whole(path, f"{json_text(machine)}\n".encode(), error=TraceError)


def is_machine(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` begins as such a file does, or is called so. A trace is not read for that."""
    if os.fspath(path).endswith(SUFFIX):
        return True
    try:
        with open_plain(path) as stream:
            return _HEAD.match(stream.read(64)) is not None
    except (OSError, ValueError):
        return False


def load_machine(path: str | os.PathLike[str]) -> Machine:
    """Read and check such a file. Raises ``TraceError`` in one line for anything else."""
    save = f"`tracer doctor --save NAME{SUFFIX}`"
    try:
        text = read_text(path, limit=MAX_BYTES)
    except FileNotFoundError as problem:
        raise TraceError(f"there is no file {Path(path)}", hint=f"save one with {save}") from problem
    except (OSError, ValueError) as problem:
        hint = "check the file and its permissions"
        raise TraceError(f"cannot read {Path(path)}: {reason_of(problem)}", hint=hint) from problem
    try:
        schema = msgspec.json.decode(text, type=_MachineHeader).doctor
        if schema != SCHEMA:
            raise of_another_schema(f"{path} is a doctor file", schema, SCHEMA)
        machine = msgspec.json.decode(text, type=Machine)
        if machine.outlook.has_torch:
            release(machine.environment.torch)
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        what = f"{path} is not what `tracer doctor --save` wrote: {problem}"
        raise TraceError(what, hint=f"save it again with {save}") from problem
    return machine


# --- two of them ---------------------------------------------------------------------------------------------

_LIBRARIES = "environment-library-versions"
_DEVICES = "environment-gpu-model"
_DEVICE_COUNT = "environment-world-size"
#: The rows that speak of what is no setting; every other version is a library's. The processor's row speaks of MKL,
#: which chooses its kernels by the model.
_ROWS = {PLATFORM: _LIBRARIES, PROCESSOR: "environment-mkl-cbwr", DRIVER: _DEVICES}

_UNREAD = "could not be read"


class MachineDifference(Advice, frozen=True, kw_only=True):
    """One setting, version or device that is not the same on both machines; ``row`` is empty if none speaks of it."""

    name: str
    first: str
    """The value on the first machine, in words."""
    second: str
    matters: Differs | None = None
    """``runs``: with one of the two values, two runs on that machine can differ. ``machines``: each machine repeats
    itself, and the two can compute differently. ``None``: the tables do not say."""
    verdicts: tuple[Verdict, Verdict] | None = None
    """The table's verdict on two runs on each machine; ``None`` for a version or a device."""

    @property
    def order(self) -> tuple[int, int]:
        """What can make two runs differ, worst first; what makes machines differ; the rest."""
        weight = (Differs.RUNS, Differs.MACHINES, None).index(self.matters)
        return weight, min(map(SEVERITY.index, self.verdicts or ()), default=0) if not weight else 0


class MachineComparison(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = SCHEMA
    first: str
    """The name of the first machine's file."""
    second: str
    differences: tuple[MachineDifference, ...]
    """In their ``order``: devices, versions, settings."""
    same: int
    """Settings and versions that are the same on both."""
    without_torch: tuple[str, ...] = ()
    """Machines where torch could not be imported: its settings were not compared."""
    banners: tuple[str, ...] = ()
    """Warnings that every reader must see first."""


def compare_machines(
    table: EnvironmentTable, first: Machine, second: Machine, *, names: tuple[str, str], backend: Backend | None = None
) -> MachineComparison:
    """Compare two machines, ordered by what ``table`` knows of a difference; ``names`` are shown.

    ``backend``: compared for it alone, in place of the backends that each machine's torch was built for.
    """
    machines = [_for(machine, (backend,)) if backend else machine for machine in (first, second)]
    wide = [diagnose(table, machine.environment, _for(machine, tuple(Backend)).outlook) for machine in machines]
    rows = {row.id: row for row in table.row}
    versions = [machine.outlook.versions for machine in machines]
    of_versions = tuple(_versions(versions[0], versions[1], rows))
    # Several rows may speak of one setting: the one that tells most of it stands.
    of_settings: dict[str, MachineDifference] = {}
    same = set()
    settings = [{setting.row: setting for setting in diagnosis.settings} for diagnosis in wide]
    unread = [diagnosis.unread for diagnosis in wide]
    bearing_on = {row.id: [machine.bears(row) for machine in machines] for row in table.row}
    for row in sorted(table.row, key=lambda row: (not all(bearing_on[row.id]), CATEGORIES.index(row.category))):
        source, bearing = row.field or row.variable or row.read, bearing_on[row.id]
        difference = _setting(row, [side.get(row.id) for side in settings], [row.id in side for side in unread])
        if difference is None:
            same |= {source} if all(bearing) and row.id in settings[0] else set()
            continue
        if not all(bearing):
            where = " or ".join(sorted({backend for machine in machines for backend in machine.outlook.backends}))
            why = f"No row says that it matters on {where}; on another backend it can."
            difference = MachineDifference(
                name=row.variable or difference.name,
                first=difference.first,
                second=difference.second,
                row=row.id,
                why=f"It bears on {names[bearing.index(True)]} alone." if any(bearing) else why,
            )
        if source not in of_settings or difference.order < of_settings[source].order:
            of_settings[source] = difference
    differences = sorted((*_devices(machines, rows), *of_versions, *of_settings.values()), key=lambda one: one.order)
    return MachineComparison(
        first=names[0],
        second=names[1],
        differences=tuple(differences),
        same=len(same - of_settings.keys()) + len({*versions[0], *versions[1]}) - len(of_versions),
        without_torch=tuple(
            name for name, machine in zip(names, machines, strict=True) if not machine.outlook.has_torch
        ),
        banners=tuple(
            f"{name}: {banner}" for name, diagnosis in zip(names, wide, strict=True) for banner in diagnosis.banners
        ),
    )


def _for(machine: Machine, backends: tuple[Backend, ...]) -> Machine:
    outlook = msgspec.structs.replace(machine.outlook, backends=backends)
    return msgspec.structs.replace(machine, outlook=outlook)


def _versions(
    ours: Mapping[str, str], theirs: Mapping[str, str], rows: Mapping[str, SettingRow]
) -> Iterator[MachineDifference]:
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) == theirs.get(name):
            continue
        both = name in ours and name in theirs
        absent = _UNREAD if name in _ROWS else "not installed"
        row = None if name == "Python" or (not both and name in _ROWS) else rows.get(_ROWS.get(name, _LIBRARIES))
        told = {}
        if name == "torch" and both and row is not None:
            more = "`tracer diff TRACE --torch A,B` says which ops of a trace the releases differ in."
            told = {"remedy": f"{row.remedy} {more}"}
        yield _by_row(name, (ours.get(name, absent), theirs.get(name, absent)), row, **told)


def _devices(machines: Sequence[Machine], rows: Mapping[str, SettingRow]) -> Iterator[MachineDifference]:
    counts = [
        Counter(f"{one.name} ({one.capability})" if one.capability else one.name for one in machine.outlook.devices)
        for machine in machines
    ]
    if counts[0] == counts[1]:
        return
    row = rows.get(_DEVICES if {*counts[0]} != {*counts[1]} else _DEVICE_COUNT)
    # A machine without a device cannot be told from one whose driver lists none before it is started.
    is_known = all(counts) and all({Backend.CUDA, Backend.ROCM} & {*machine.outlook.backends} for machine in machines)
    ours, theirs = (
        ", ".join(f"{count} x {name}" for name, count in sorted(side.items())) or "none listed" for side in counts
    )
    yield _by_row("devices", (ours, theirs), row if is_known else None)


def _by_row(name: str, values: tuple[str, str], row: SettingRow | None, **told: Any) -> MachineDifference:
    """Return a difference of which ``row`` speaks; without one the tables do not say whether it matters."""
    if row is not None:
        of_row = {"why": row.why, "remedy": row.remedy, "code": row.code, "where": row.where}
        told = {"matters": row.differs, "row": row.id, **of_row, **told}
    return MachineDifference(name=name, first=values[0], second=values[1], **told)


def _setting(row: SettingRow, sides: Sequence[Checked | None], unread: Sequence[bool]) -> MachineDifference | None:
    """Return the difference of one row's setting; ``None`` where both have one value, or one has none to compare."""
    first, second = sides
    values = ["" if side is None else spelled(side.value) for side in sides]
    if first is not None and second is not None:
        if values[0] == values[1]:
            return None
        verdicts = (first.verdict, second.verdict)
        worse = min((first, second), key=lambda setting: SEVERITY.index(setting.verdict))
        told: dict[str, Any] = {name: getattr(worse, name) for name in ("why", "remedy", "code", "where")}
        if row.differs is Differs.RUNS and {*verdicts} <= {Verdict.DETERMINISTIC, Verdict.UNKNOWN}:
            told["matters"] = None  # each repeats itself; no row says whether two such values agree with each other
        return _by_row(row.name, (values[0], values[1]), row, verdicts=verdicts, **told)
    only = first or second
    if only is None or not only.is_set or not unread[first is not None]:
        return None
    values[first is not None] = _UNREAD
    return MachineDifference(name=only.name, first=values[0], second=values[1], row=row.id, remedy=only.remedy)


# --- as blocks ---------------------------------------------------------------------------------------------------


def comparison_blocks(compared: MachineComparison) -> Iterator[said.Block]:
    """Whatever differs, with both values, why it matters and what to do."""
    counts = Counter(difference.matters for difference in compared.differences)
    parts = (
        (counts[Differs.RUNS], "can make two runs on one machine differ"),
        (counts[Differs.MACHINES], "can make the two machines compute differently"),
        (counts[None], "may matter or not: the tables do not say"),
    )
    told = "; ".join(f"{count:,} {words}" for count, words in parts if count)
    same = f"{plural(compared.same, 'setting or version is', 'settings and versions are')} the same"
    verdict = f"No difference between the two machines: {same}. That is no proof that they compute the same bits."
    if compared.differences:
        verdict = f"{plural(len(compared.differences), 'difference')}: {told}. {same}."
    yield said.Paragraph(verdict, said.Tone.STRONG)
    yield from said.paragraphs(*(f"Note: {banner}" for banner in compared.banners), tone=said.Tone.STRONG)
    yield said.Rows(tuple(_difference(difference, compared) for difference in compared.differences), is_spaced=True)
    yield said.quiet(
        "Compared: settings, versions and devices, as tracer doctor read them. Not compared: code, data, what a script"
        " sets."
    )


def _difference(difference: MachineDifference, compared: MachineComparison) -> said.Row:
    verdict, label, where = Verdict.UNKNOWN, "not known whether it matters", ""
    if difference.matters is Differs.RUNS and difference.verdicts is not None:
        verdict, label = by_severity(Counter(difference.verdicts))[0][0], "two runs on one machine can differ"
        sides = zip((compared.first, compared.second), difference.verdicts, strict=True)
        where = f" On {joined([name for name, of_side in sides if of_side is not Verdict.DETERMINISTIC])}."
    elif difference.matters is Differs.MACHINES:
        verdict, label = Verdict.CONDITIONAL, "each machine repeats itself, the two can compute differently"
    elif difference.verdicts is not None and Verdict.UNKNOWN not in difference.verdicts:
        label = "each machine repeats itself; whether the two agree, no table says"
    return said.Row(
        (said.Badge(verdict, difference.name), f": {label}"),
        blocks=(
            said.Paragraph(f"{compared.first}: {difference.first}; {compared.second}: {difference.second}.{where}"),
            *what_to_do(difference if where else msgspec.structs.replace(difference, code="")),
            *((said.quiet(f"Row: {difference.row}"),) if difference.row else ()),
        ),
    )
