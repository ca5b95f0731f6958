"""Settings that were made too late, and those and seeds that changed in the middle of the recorded region."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tracer.findings import Finding
from tracer.judging.process.bound_rows import BoundRows
from tracer.names import About, EventKind, Subsystem
from tracer.tables.settings.declared import variable_line
from tracer.tables.vocabulary import Value
from tracer.trace.records import Event

#: What reads its settings when CUDA starts or soon after, and whose own first use may go unseen.
_BEHIND_CUDA = (Subsystem.CUBLAS, Subsystem.CUDNN)

#: Readers that code outside torch shares with it.
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
    """How sure it is that a setting came too late, and for what."""

    word: str
    reader: Subsystem
    used: Event | None


def late_findings(rows: BoundRows) -> Iterator[Finding]:
    """Settings that were made after what reads them had read them; of the recorded settings only."""
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
            reader = _READERS[late.reader]
            place = f" at {late.used.location}" if late.used is not None and late.used.location else ""
            what = f"{event.name} = {event.value}" if event.value else f"{event.name} removed"
            verb = "may have read it" if late.used is None or late.word == "possible" else "had read it"
            verb = "had read it" if late.reader is Subsystem.PYTHON else verb
            fields: dict[str, Any] = {}
            if of_variables:
                fields["sets"] = {event.name: event.value} if event.value else {}
                fields["code"] = variable_line(event.name, event.value) if event.value else row.code
            yield from rows.finding(
                row,
                {"late": late.word},
                subject=f"{what}, after {reader} {verb}{place}",
                name=event.name,
                at=event,
                phase=event.phase,
                count=event.count,
                **fields,
            )


def changed_findings(rows: BoundRows) -> Iterator[Finding]:
    """Settings and seeds that took another value after calls of the region had run."""
    scene = rows.scene
    if not scene.is_recorded:
        return
    kept = list(rows.about(About.CHANGED))
    own = {name for row in kept for name in row.events}
    for row in kept:
        ops = rows.ops_for(row)
        for event in scene.trace.events if ops is not None else ():
            if event.kind is not (row.watches or EventKind.SETTING) or not _is_in_the_middle(event):
                continue
            if event.name not in row.events if row.events else event.name in own:
                continue
            if event.kind is EventKind.SETTING and not _took_effect(event):
                continue
            counted: dict[str, Any] = {} if ops else {"count": event.count}
            yield from rows.finding(
                row,
                _facts_of(event),
                subject=_change(event),
                name=f"generator {event.name}" if event.kind is EventKind.SEED else event.name,
                ops=ops,
                at=event,
                phase=event.phase,
                **counted,
            )


def _facts_of(event: Event) -> dict[str, Value]:
    """What conditions may ask of a change: of a seed, how it was made."""
    if event.kind is EventKind.SEED:
        return {"origin": event.value}
    return {"change": "between-phases" if event.parts_phases else "within"}


def _change(event: Event) -> str:
    if event.kind is EventKind.SEED:
        return f"generator {event.name}, seeded again"
    after = f"{event.value} and others" if event.values_differ else event.value
    return f"{event.name}: {event.before} to {after}" if event.before else f"{event.name} = {after}"


def _is_in_the_middle(event: Event) -> bool:
    """Did it come after something of the region that hung on it?"""
    return (
        event.after_draws
        if event.kind is EventKind.SEED
        else event.while_recording and event.after_calls and event.is_followed
    )


def _took_effect(event: Event) -> bool:
    return event.values_differ or event.before != event.value


def _readers_of(variable: str, rows: BoundRows, *, needed: bool = True) -> tuple[Subsystem, ...]:
    """What reads ``variable`` once; ``needed``: only where something that was recorded depends on it.

    Otherwise only what code that no recorder sees reads too: other libraries call cuBLAS and NCCL.
    """
    found: dict[Subsystem, None] = {}
    for about in (About.SETTING, About.LATE, About.COMPILED):
        for row in rows.about(about):
            if row.variable == variable and (rows.matters_unset(row) if needed else True):
                found.update((reader, None) for reader in row.read_by if needed or reader in _SHARED)
    return tuple(found)


def _how_late(event: Event, readers: Iterable[Subsystem], uses: dict[str, Event]) -> _Late | None:
    """The first reader that had read, or may have, before ``event``; ``None`` where it came in time."""
    possible: _Late | None = None
    for reader in readers:
        used = uses.get(reader.value)
        if reader is Subsystem.PYTHON:
            return _Late("certain", reader, None)
        if used is not None:
            if used.first < event.first:
                return _Late("certain", reader, used)
            continue
        started = uses.get(Subsystem.CUDA.value)
        if reader in _BEHIND_CUDA and started is not None and started.first < event.first and possible is None:
            possible = _Late("possible", reader, started)
    return possible
