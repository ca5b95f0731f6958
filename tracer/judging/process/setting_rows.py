"""Settings as they stood: each held against its row, with the calls that depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tracer.findings import Finding, Note
from tracer.judging.process.bound_rows import BoundRows
from tracer.names import About, BlindSpotKind, DeterministicMode, Differs, EventKind, Subsystem
from tracer.tables.settings.declared import CUBLAS_VARIABLE
from tracer.tables.settings.rows import Row
from tracer.tables.vocabulary import Value
from tracer.trace.file import Trace
from tracer.trace.records import Environment, Event

#: The heading of rows that matter only to compiled code.
_COMPILED = "torch.compile"


class Read(NamedTuple):
    """A setting's value, as a row reads it."""

    value: Value | None
    """``None``: not made."""
    word: str
    """``unset``, ``safe`` or ``other``."""


def setting_findings(rows: BoundRows) -> Iterator[Finding | Note]:
    """Findings about settings that matter to some recorded call, and notes on those that matter between machines."""
    compiled = compiled_how(rows.scene.trace)
    for row in rows.about(About.SETTING):
        if row.category == _COMPILED and not compiled:
            continue
        ops = rows.ops_for(row)
        read = read_setting(row, rows.scene.environment, is_complete=rows.scene.trace.schema > 1)
        if ops is None or read is None:
            continue
        subject = subject_of(row, read)
        if row.differs is Differs.MACHINES:
            if is_worth_a_note(row, read):
                yield rows.note(row, subject=subject, ops=ops)
            continue
        yield from rows.finding(
            row,
            {"value": read.word},
            facts_in_mode={"value": _in_mode(row, read)},
            subject=subject,
            name=row.name,
            ops=ops,
            at=_made_at(row, rows),
        )


def compiled_how(trace: Trace) -> frozenset[str]:
    """Did Inductor compile here (``ran``), or would it have, had no dispatch mode been active (``would``)?"""
    kinds = {spot.kind for spot in trace.blind_spots}
    compiled = any(
        event.kind is EventKind.FIRST_USE and event.name == Subsystem.INDUCTOR.value for event in trace.events
    )
    # Code that was compiled before anybody watched may be Inductor's; where all was watched, it is another backend's.
    ran = compiled or (BlindSpotKind.COMPILED in kinds and not trace.watched_from_start)
    would = BlindSpotKind.COMPILE_FELL_BACK in kinds
    return frozenset(word for word, holds in (("ran", ran), ("would", would and not ran)) if holds)


def read_setting(row: Row, environment: Environment, *, is_complete: bool = True) -> Read | None:
    """The value that ``row`` asks for; ``None`` where a process cannot read it or did not.

    ``is_complete``: were all the variables noted that the table names? An older trace holds fewer.
    """
    value: Value | None
    if row.field:
        field = getattr(environment, row.field, None)
        if field is None:
            return None
        value = ",".join(field) if isinstance(field, tuple) else field if isinstance(field, (bool, int)) else str(field)
    elif row.variable:
        if not is_complete and row.variable not in environment.variables and row.variable != CUBLAS_VARIABLE:
            return None
        value = environment.variables.get(row.variable)
    elif row.read:
        found = environment.settings.get(row.read)
        if found is None:
            found = environment.settings.get(row.read.removesuffix("()"))
        if found is None:
            return None
        value = found
    else:
        return None
    if value is None:
        return Read(None, "unset")
    word = _word(row, value)
    return Read(None if word == "unset" else value, word)


def _in_mode(row: Row, read: Read) -> str:
    """What the value is once deterministic mode is on: another one where the row is about the mode itself."""
    if row.field != "deterministic_mode":
        return read.word
    return _word(row, DeterministicMode.ON.value)


def _word(row: Row, value: Value) -> str:
    if _same(value, row.default):
        return "unset"
    return "safe" if any(_same(value, safe) for safe in row.safe) else "other"


def is_worth_a_note(row: Row, read: Read) -> bool:
    """Is the value neither unset nor safe, or unset with a default that is not safe?"""
    if read.word == "unset":
        return row.default is not None and not any(_same(row.default, safe) for safe in row.safe)
    return read.word == "other"


def subject_of(row: Row, read: Read) -> str:
    """The setting and its value."""
    if read.value is not None:
        return f"{row.name} = {read.value}"
    return f"{row.name} = {row.default}" if row.default is not None else f"{row.name} is not set"


def _same(value: Value, other: Value | None) -> bool:
    return value == other and type(value) is type(other)


def _made_at(row: Row, rows: BoundRows) -> Event | None:
    """The line that made the setting what it was when recording began, where it was seen."""
    scene = rows.scene
    names = {row.name, row.variable, row.read, row.read.removesuffix("()"), *row.events} - {""}
    names |= {name.removesuffix("()") for name in names}
    if not scene.is_recorded or (names | {row.field}) & scene.sets.keys():
        return None
    made = [
        event
        for event in scene.trace.events
        if event.kind in (EventKind.SETTING, EventKind.VARIABLE) and event.name in names and not event.while_recording
    ]
    return max(made, key=lambda event: event.last, default=None)
