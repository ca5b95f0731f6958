"""Findings about settings: their values, settings that came too late, settings and seeds that changed in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tracer.facts.fact import Value
from tracer.findings import Finding, Note
from tracer.judging.bound_rows import BoundRows
from tracer.names import About, BlindSpotKind, DeterministicMode, Differs, EventKind, RegionKind, Subsystem
from tracer.tables.settings.declared import MODE, variable_line
from tracer.tables.settings.rows import SettingRow
from tracer.trace.file import Trace
from tracer.trace.records import Environment, Event

#: The heading of rows that affect only compiled code.
_COMPILED = "torch.compile"


class ReadSetting(NamedTuple):
    """A setting's value, as a row reads it."""

    value: Value | None
    """``None`` if not set."""
    word: str
    """``unset``, ``safe`` or ``other``."""


def setting_findings(rows: BoundRows) -> Iterator[Finding | Note]:
    """Findings about settings that affect a recorded call, and notes on those that make machines differ."""
    compiled = compiled_how(rows.scene.trace)
    for row in rows.about(About.SETTING):
        if row.category == _COMPILED and not compiled:
            continue
        ops = rows.ops_for(row)
        read = read_setting(row, rows.scene.environment)
        if ops is None or read is None:
            continue
        subject = subject_of(row, read)
        if row.differs is Differs.MACHINES:
            if is_worth_a_note(row, read):
                yield rows.note(row, subject=subject, ops=ops)
            continue
        for settings, calls in rows.ops_by_settings(row) if ops else [({}, ops)]:
            yield from rows.finding(
                row,
                {"value": read.word},
                # Deterministic mode changes the value of a row about the mode itself.
                facts_in_mode={"value": _word(row, DeterministicMode.ON.value) if row.field == MODE else read.word},
                settings=settings,
                subject=subject,
                name=row.name,
                ops=calls,
                at=_made_at(row, rows),
            )


def compiled_how(trace: Trace) -> frozenset[str]:
    """Return ``ran`` if Inductor compiled here, and ``would`` if it would have without an active dispatch mode."""
    kinds = {spot.kind for spot in trace.blind_spots}
    first_uses = {event.name for event in trace.events if event.kind is EventKind.FIRST_USE}
    # Code compiled before recording may be Inductor's; if recording began with the process, it is another backend's.
    compilers = {region.backend or "inductor" for region in trace.regions if region.kind is RegionKind.COMPILED}
    is_others = bool(compilers) and "inductor" not in compilers
    may_be = BlindSpotKind.COMPILED in kinds and not trace.watched_from_start and not is_others
    ran = Subsystem.INDUCTOR.value in first_uses or may_be
    would = BlindSpotKind.COMPILE_FELL_BACK in kinds
    return frozenset(word for word, holds in (("ran", ran), ("would", would and not ran)) if holds)


def read_setting(row: SettingRow, environment: Environment) -> ReadSetting | None:
    """The value that ``row`` reads; ``None`` if a process cannot read it or did not."""
    value: Value | None = None
    if row.field:
        field = getattr(environment, row.field, None)
        plain = ",".join(field) if isinstance(field, tuple) else field
        value = plain if plain is None or isinstance(plain, (bool, int)) else str(plain)
    elif row.variable:
        value = environment.variables.get(row.variable)
        if value is None:
            return ReadSetting(None, "unset")
    elif row.read:
        value = environment.settings.get(row.read, environment.settings.get(row.read.removesuffix("()")))
    if value is None:
        return None
    word = _word(row, value)
    return ReadSetting(None if word == "unset" else value, word)


def _word(row: SettingRow, value: Value) -> str:
    if _same(value, row.default):
        return "unset"
    return "safe" if any(_same(value, safe) for safe in row.safe) else "other"


def is_worth_a_note(row: SettingRow, read: ReadSetting) -> bool:
    """Return whether the value is neither unset nor safe, or unset with a default that is not safe."""
    if read.word == "unset":
        return row.default is not None and not any(_same(row.default, safe) for safe in row.safe)
    return read.word == "other"


def subject_of(row: SettingRow, read: ReadSetting) -> str:
    """The setting and its value."""
    if read.value is not None:
        return f"{row.name} = {read.value}"
    return f"{row.name} = {row.default}" if row.default is not None else f"{row.name} is not set"


def _same(value: Value, other: Value | None) -> bool:
    return value == other and type(value) is type(other)


def _made_at(row: SettingRow, rows: BoundRows) -> Event | None:
    """The line that gave the setting its value when recording began, if recorded."""
    scene = rows.scene
    names = {row.name, row.variable, row.read, row.read.removesuffix("()"), *row.events} - {""}
    names |= {name.removesuffix("()") for name in names}
    if not scene.is_recorded or (names | {row.field}) & scene.sets.keys():
        return None
    kinds = (EventKind.SETTING, EventKind.VARIABLE)
    before = (event for event in scene.trace.events if event.kind in kinds and not event.while_recording)
    return max((event for event in before if event.name in names), key=lambda event: event.last, default=None)


#: Readers that read their settings when CUDA starts or soon after, and whose first use may not be recorded.
_BEHIND_CUDA = (Subsystem.CUBLAS, Subsystem.CUDNN)

#: Readers that code outside torch uses too.
_SHARED = frozenset({Subsystem.CUBLAS, Subsystem.NCCL, Subsystem.HCCL})

_READERS = {
    Subsystem.PYTHON: "the interpreter",
    Subsystem.TORCH: "torch",
    Subsystem.CUDA: "CUDA",
    Subsystem.CUBLAS: "cuBLAS",
    Subsystem.CUDNN: "cuDNN",
    Subsystem.NCCL: "NCCL",
    Subsystem.NPU: "the NPU's runtime",
    Subsystem.HCCL: "HCCL",
    Subsystem.INDUCTOR: "Inductor",
}


class _Late(NamedTuple):
    """The certainty that a setting came too late, and for which reader."""

    word: str
    reader: Subsystem
    first_use: Event | None


def late_findings(rows: BoundRows) -> Iterator[Finding | Note]:
    """Recorded settings that changed after their reader had read them; notes on those that no recorded call needs."""
    scene = rows.scene
    if not scene.is_recorded:
        return
    uses = {event.name: event for event in scene.trace.events if event.kind is EventKind.FIRST_USE}
    for row in rows.about(About.LATE):
        of_variables = row.watches is not EventKind.SETTING
        for event in scene.trace.events:
            if event.kind is not (EventKind.VARIABLE if of_variables else EventKind.SETTING) or not _took_effect(event):
                continue
            readers = _readers_of(event.name, rows) if of_variables else row.read_by
            if not of_variables and (event.name not in row.events or rows.ops_for(row) is None):
                continue
            late = _how_late(event, readers, uses)
            if late is None and of_variables:
                late = _how_late(event, _readers_of(event.name, rows, needed=False), uses)
                late = late and late._replace(word="spare")
            if late is None or (of_variables and event.name in scene.sets):
                continue
            used = late.first_use
            place = f" at {used.location}" if used is not None and used.location else ""
            is_sure = late.reader is Subsystem.PYTHON or (used is not None and late.word != "possible")
            verb = "had read it" if is_sure else "may have read it"
            what = f"{event.name} = {event.value}" if event.value else f"{event.name} removed"
            subject = f"{what}, after {_READERS[late.reader]} {verb}{place}"
            if late.word == "spare":
                yield rows.note(row, subject=subject, ops={}, facts={"late": late.word})
                continue
            fields: dict[str, Any] = {}
            if of_variables:
                fields["sets"] = {event.name: event.value} if event.value else {}
                fields["code"] = variable_line(event.name, event.value) if event.value else row.code
            yield from rows.finding(
                row,
                {"late": late.word},
                subject=subject,
                name=event.name,
                at=event,
                phase=event.phase,
                count=event.count,
                **fields,
            )


def changed_findings(rows: BoundRows) -> Iterator[Finding]:
    """Settings and seeds that changed after calls of the recording had run."""
    scene = rows.scene
    if not scene.is_recorded:
        return
    changed = list(rows.about(About.CHANGED))
    own = {name for row in changed for name in row.events}
    for row in changed:
        ops = rows.ops_for(row)
        for event in scene.trace.events if ops is not None else ():
            if event.kind is not (row.watches or EventKind.SETTING):
                continue
            in_the_middle = event.while_recording and event.after_calls and event.is_followed
            if not (event.after_draws if event.kind is EventKind.SEED else in_the_middle):
                continue
            if event.name not in row.events if row.events else event.name in own:
                continue
            if event.kind is EventKind.SETTING and not _took_effect(event):
                continue
            after = f"{event.value} and others" if event.values_differ else event.value
            name = event.name
            subject = f"{name}: {event.before} to {after}" if event.before else f"{name} = {after}"
            facts: dict[str, Value] = {"change": "between-phases" if event.parts_phases else "within"}
            if event.kind is EventKind.SEED:
                name, facts = f"generator {event.name}", {"origin": event.value}
                subject = f"{name}, reseeded"
            fields: dict[str, Any] = {"phase": event.phase} if ops else {"phase": event.phase, "count": event.count}
            yield from rows.finding(row, facts, subject=subject, name=name, ops=ops, at=event, **fields)


def _took_effect(event: Event) -> bool:
    return event.values_differ or event.before != event.value


def _readers_of(variable: str, rows: BoundRows, *, needed: bool = True) -> tuple[Subsystem, ...]:
    """Readers of ``variable``: those that a recorded call depends on, or, without ``needed``, libraries that no
    recorder sees (others call cuBLAS and NCCL too)."""
    readers: dict[Subsystem, None] = {}
    for row in (row for about in (About.SETTING, About.LATE, About.COMPILED) for row in rows.about(about)):
        if row.variable == variable and (not needed or rows.matters_unset(row)):
            readers.update(dict.fromkeys(reader for reader in row.read_by if needed or reader in _SHARED))
    return tuple(readers)


def _how_late(event: Event, readers: Iterable[Subsystem], uses: dict[str, Event]) -> _Late | None:
    """The first reader that read it, or may have, before ``event``; ``None`` if ``event`` came in time."""
    possible: _Late | None = None
    started = uses.get(Subsystem.CUDA.value)
    for reader in readers:
        used = uses.get(reader.value)
        if reader is Subsystem.PYTHON or (used is not None and used.first < event.first):
            return _Late("certain", reader, used if reader is not Subsystem.PYTHON else None)
        may_have = used is None and reader in _BEHIND_CUDA and started is not None and started.first < event.first
        if may_have and possible is None:
            possible = _Late("possible", reader, started)
    return possible
