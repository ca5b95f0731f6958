"""Machines as ``tracer doctor --save`` writes them, and two side by side: what differs, and what the tables know of it.

A file holds what was read and no verdict: whoever compares two machines judges both by the same tables.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tracer.doctor.diagnosis import DRIVER, PLATFORM, PROCESSOR, Checked, Diagnosis, Outlook, diagnose, spelled
from tracer.errors import TraceError, of_another_schema, reason_of
from tracer.files import open_plain, read_text, write_whole
from tracer.names import SEVERITY, Backend, Differs, Verdict
from tracer.plain import json_text
from tracer.tables.settings.rows import CATEGORIES, EnvironmentTable, SettingRow
from tracer.tables.versions import release
from tracer.trace.records import CudaDevice, Environment

#: Number of the file format. It has a name of its own, so that no reader takes such a file for a trace.
FILE_SCHEMA = 1
#: How such files are called.
SUFFIX = ".doctor.json"
#: Bytes of such a file: some hundred settings and versions. Anything larger is none.
MAX_BYTES = 4 * 1024 * 1024

_AGAIN = f"save it again with `tracer doctor --save NAME{SUFFIX}`"
_HEAD = re.compile(rb'\s*\{\s*"doctor"\s*:')


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's description by one of its processes; no host name, no user name."""

    doctor: int
    """Number of the file format."""
    tracer_version: str = ""
    """The release that saved it."""
    environment: Environment
    """Versions and settings; without seeds, which are a program's."""
    outlook: Outlook


class _Header(msgspec.Struct):
    doctor: int


_header_decoder = msgspec.json.Decoder(_Header)
_decoder = msgspec.json.Decoder(Machine)


def save_machine(path: str | os.PathLike[str], environment: Environment, outlook: Outlook, *, version: str) -> None:
    """Write what ``read_process`` gave to ``path``, whole or not at all; ``version`` is this release's.

    Raises ``TraceError`` if it cannot be written.
    """
    environment = msgspec.structs.replace(environment, torch_seed=None, cuda_seed=None)
    machine = Machine(doctor=FILE_SCHEMA, tracer_version=version, environment=environment, outlook=outlook)
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
    try:
        text = read_text(path, limit=MAX_BYTES)
    except FileNotFoundError as problem:
        hint = f"save one with `tracer doctor --save NAME{SUFFIX}`"
        raise TraceError(f"there is no file {Path(path)}", hint=hint) from problem
    except (OSError, ValueError) as problem:
        hint = "check the file and its permissions"
        raise TraceError(f"cannot read {Path(path)}: {reason_of(problem)}", hint=hint) from problem
    try:
        schema = _header_decoder.decode(text).doctor
        if schema != FILE_SCHEMA:
            raise of_another_schema(f"{path} is a doctor file", schema, FILE_SCHEMA)
        machine = _decoder.decode(text)
        if machine.outlook.has_torch:
            release(machine.environment.torch)
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        what = f"{path} is not what `tracer doctor --save` wrote: {problem}"
        raise TraceError(what, hint=_AGAIN) from problem
    return machine


# --- two of them ---------------------------------------------------------------------------------------------

#: Number of the comparison's JSON format.
SCHEMA = 1

_LIBRARIES = "environment-library-versions"
_DEVICES = "environment-gpu-model"
_DEVICE_COUNT = "environment-world-size"
#: The rows that speak of what is no setting; every other version is a library's. The processor's row speaks of MKL,
#: which chooses its kernels by the model.
_ROWS = {PLATFORM: _LIBRARIES, PROCESSOR: "environment-mkl-cbwr", DRIVER: _DEVICES}
#: Versions of which no row speaks.
_NO_ROW = frozenset({"Python"})

_ABSENT = "not installed"
_UNREAD = "could not be read"
_NO_DEVICE = "none listed"


class MachineDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One setting, version or device that is not the same on both machines."""

    name: str
    first: str
    """The value on the first machine, in words."""
    second: str
    matters: Differs | None
    """``runs``: with one of the two values, two runs on that machine can differ. ``machines``: each machine repeats
    itself, and the two can compute differently. ``None``: the tables do not say."""
    verdicts: tuple[Verdict, Verdict] | None = None
    """The table's verdict on two runs on each machine; ``None`` for a version or a device."""
    row: str = ""
    """The row that speaks of it; empty where none does."""
    why: str = ""
    remedy: str = ""
    code: str = ""
    where: str = ""


class SharedFault(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that can make two runs on one machine differ, and that is no difference between the two."""

    name: str
    value: str
    verdict: Verdict
    machine: str = ""
    """The machine on which it bears; empty: both, with one value."""
    row: str


class MachineComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two machines side by side."""

    schema: int = SCHEMA
    first: str
    """The name of the first machine's file."""
    second: str
    differences: tuple[MachineDifference, ...]
    """What can make two runs differ, worst first; what makes machines differ: devices, versions, settings; the rest."""
    same: int
    """Settings and versions that are the same on both."""
    faults: tuple[SharedFault, ...] = ()
    """Settings that can make runs differ on either machine, beside the differences."""
    without_torch: tuple[str, ...] = ()
    """Machines where torch could not be imported: its settings were not compared."""
    banners: tuple[str, ...] = ()
    """Warnings that every reader must see first."""


def compare_machines(
    table: EnvironmentTable,
    first: Machine,
    second: Machine,
    *,
    names: tuple[str, str],
    backend: Backend | None = None,
) -> MachineComparison:
    """Compare two machines, ordered by what ``table`` knows of a difference; ``names`` are shown.

    ``backend``: compared for it alone, in place of the backends that each machine's torch was built for.
    """
    machines = [_for(machine, (backend,)) if backend else machine for machine in (first, second)]
    diagnoses = [diagnose(table, machine.environment, machine.outlook) for machine in machines]
    rows = {row.id: row for row in table.row}
    versions = [machine.outlook.versions for machine in machines]
    of_versions = tuple(_versions(versions[0], versions[1], rows))
    of_devices = tuple(_devices(machines, rows))
    of_settings, same = _settings(table, machines, diagnoses)
    differences = sorted((*of_devices, *of_versions, *of_settings.values()), key=_order)  # stable
    return MachineComparison(
        first=names[0],
        second=names[1],
        differences=tuple(differences),
        same=same + len({*versions[0], *versions[1]}) - len(of_versions),
        faults=tuple(_faults(diagnoses, {row.id for row in table.row if _source(row) in of_settings}, names)),
        without_torch=tuple(
            name for name, machine in zip(names, machines, strict=True) if not machine.outlook.has_torch
        ),
        banners=tuple(_banners(machines, diagnoses, names)),
    )


def _for(machine: Machine, backends: tuple[Backend, ...]) -> Machine:
    outlook = msgspec.structs.replace(machine.outlook, backends=backends)
    return msgspec.structs.replace(machine, outlook=outlook)


def _order(difference: MachineDifference) -> tuple[int, int]:
    weight = (Differs.RUNS, Differs.MACHINES, None).index(difference.matters)
    return weight, min(map(SEVERITY.index, difference.verdicts), default=0) if difference.verdicts and not weight else 0


# --- versions and devices ---------------------------------------------------------------------------------


def _versions(
    ours: Mapping[str, str], theirs: Mapping[str, str], rows: Mapping[str, SettingRow]
) -> Iterator[MachineDifference]:
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) == theirs.get(name):
            continue
        absent = _UNREAD if name in _ROWS else _ABSENT
        both = name in ours and name in theirs
        row = None if name in _NO_ROW or (not both and name in _ROWS) else rows.get(_ROWS.get(name, _LIBRARIES))
        difference = _by_row(name, ours.get(name, absent), theirs.get(name, absent), row)
        if name == "torch" and both and row is not None:
            remedy = f"{row.remedy} `tracer diff TRACE --torch A,B` says which ops of a trace the releases differ in."
            difference = msgspec.structs.replace(difference, remedy=remedy)
        yield difference


def _devices(machines: Sequence[Machine], rows: Mapping[str, SettingRow]) -> Iterator[MachineDifference]:
    counts = [Counter(map(_in_words, machine.outlook.devices)) for machine in machines]
    if counts[0] == counts[1]:
        return
    row = rows.get(_DEVICES if {*counts[0]} != {*counts[1]} else _DEVICE_COUNT)
    # A machine without a device cannot be told from one whose driver lists none before it is started.
    is_known = all(counts) and all({Backend.CUDA, Backend.ROCM} & {*machine.outlook.backends} for machine in machines)
    ours, theirs = (
        ", ".join(f"{count} x {name}" for name, count in sorted(side.items())) or _NO_DEVICE for side in counts
    )
    yield _by_row("devices", ours, theirs, row if is_known else None)


def _in_words(device: CudaDevice) -> str:
    return f"{device.name} ({device.capability})" if device.capability else device.name


def _by_row(name: str, first: str, second: str, row: SettingRow | None) -> MachineDifference:
    """Return a difference that is no setting; without a row: the tables do not say whether it matters."""
    if row is None:
        return MachineDifference(name=name, first=first, second=second, matters=None)
    return MachineDifference(
        name=name,
        first=first,
        second=second,
        matters=row.differs,
        row=row.id,
        why=row.why,
        remedy=row.remedy,
        code=row.code,
        where=row.where,
    )


# --- settings ---------------------------------------------------------------------------------------------


def _settings(
    table: EnvironmentTable, machines: Sequence[Machine], diagnoses: Sequence[Diagnosis]
) -> tuple[dict[str, MachineDifference], int]:
    """Return the settings that differ, by what holds them, in the table's order, and the number of equal ones.

    One that bears on neither machine's backends differs too: a variable for CUDA, with a CPU build of torch.
    """
    wide = [diagnose(table, machine.environment, _for(machine, tuple(Backend)).outlook) for machine in machines]
    ours, theirs = ({setting.row: setting for setting in diagnosis.settings} for diagnosis in wide)
    bearing = [{*(setting.row for setting in each.settings), *each.unread_rows} for each in diagnoses]
    judged = {_source(row) for row in table.row if any(row.id in rows for rows in bearing)}
    backends = " or ".join(sorted({backend for machine in machines for backend in machine.outlook.backends}))
    differences: dict[str, MachineDifference] = {}
    same: set[str] = set()
    for row in sorted(table.row, key=lambda row: CATEGORIES.index(row.category)):
        first, second = ours.get(row.id), theirs.get(row.id)
        source = _source(row)
        bears = [row.id in rows for rows in bearing]
        if bears[0] is not bears[1] or (not any(bears) and source in judged):
            continue
        if first is not None and second is not None:
            if spelled(first.value) == spelled(second.value):
                same |= {source} if all(bears) else set()
                continue
            difference = _of_setting(first, second, row)
        elif (one := first or second) is not None and one.is_set and row.id in wide[first is not None].unread_rows:
            values = (spelled(one.value), _UNREAD) if first is not None else (_UNREAD, spelled(one.value))
            difference = MachineDifference(
                name=one.name, first=values[0], second=values[1], matters=None, row=one.row, remedy=one.remedy
            )
        else:
            continue
        if not any(bears):
            difference = MachineDifference(
                name=row.variable or difference.name,
                first=difference.first,
                second=difference.second,
                matters=None,
                row=difference.row,
                why=f"No row says that it matters on {backends}; on another backend it can.",
            )
        # Several rows may speak of one setting: the one that tells most of it stands.
        if source not in differences or _order(difference) < _order(differences[source]):
            differences[source] = difference
    return differences, len(same)


def _source(row: SettingRow) -> str:
    """Return the variable or function that holds the setting: several rows may be about one."""
    return row.field or row.variable or row.read


def _of_setting(first: Checked, second: Checked, row: SettingRow) -> MachineDifference:
    verdicts = (first.verdict, second.verdict)
    worse = min((first, second), key=lambda setting: SEVERITY.index(setting.verdict))
    matters: Differs | None = row.differs
    if row.differs is Differs.RUNS and {*verdicts} <= {Verdict.DETERMINISTIC, Verdict.UNKNOWN}:
        matters = None  # each repeats itself; no row says whether two such values agree with each other
    return msgspec.structs.replace(
        _by_row(row.name, spelled(first.value), spelled(second.value), row),
        matters=matters,
        verdicts=verdicts,
        why=worse.why,
        remedy=worse.remedy,
        code=worse.code,
        where=worse.where,
    )


def _faults(diagnoses: Sequence[Diagnosis], differing: set[str], names: tuple[str, str]) -> Iterator[SharedFault]:
    """Faults whose rows are not among ``differing``: on both machines with one value, or on one of them alone."""
    ours, theirs = ({fault.row: fault for fault in diagnosis.faults} for diagnosis in diagnoses)
    for row, fault in {**theirs, **ours}.items():
        if row not in differing:
            machine = "" if row in ours and row in theirs else names[row not in ours]
            value = spelled(fault.value)
            yield SharedFault(name=fault.name, value=value, verdict=fault.verdict, machine=machine, row=row)


def _banners(machines: Sequence[Machine], diagnoses: Sequence[Diagnosis], names: tuple[str, str]) -> Iterator[str]:
    for name, diagnosis in zip(names, diagnoses, strict=True):
        yield from (f"{name}: {banner}" for banner in diagnosis.banners)
    ours, theirs = (machine.outlook.backends for machine in machines)
    if all(machine.outlook.has_torch for machine in machines):
        for name, mine, others in ((names[0], ours, theirs), (names[1], theirs, ours)):
            if alone := [backend for backend in mine if backend not in others]:
                yield f"Settings of {', '.join(alone)} bear on {name} alone and were not compared."
