"""Numbers that are other ones in every process: entropy, generators made without a seed, seeds that are clocks."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.findings import Finding
from tracer.judging.process.bound_rows import BoundRows
from tracer.names import NumberSource, NumberUse, SeedOrigin
from tracer.tables.vocabulary import Value
from tracer.trace import Trace
from tracer.trace.records import MachineNumber

_ROWS = {
    NumberUse.PYTHON_OBJECT: "environment-python-generator-objects",
    NumberUse.NUMPY_OBJECT: "environment-numpy-generator-objects",
    NumberUse.SYSTEM_OBJECT: "environment-system-random",
    NumberUse.VALUE: "environment-machine-number",
}
_OBJECTS = (NumberUse.PYTHON_OBJECT, NumberUse.NUMPY_OBJECT)
_KINDS = {NumberUse.PYTHON_OBJECT: "a random.Random", NumberUse.NUMPY_OBJECT: "a generator of NumPy's"}
#: What a seed was made from, in words.
MADE_FROM = {
    NumberSource.CLOCK: "a clock",
    NumberSource.PROCESS_ID: "a process id",
    NumberSource.ENTROPY: "the machine's entropy",
    NumberSource.HASH: "the hash of a text",
    NumberSource.ADDRESS: "an address",
}
_HASH_SEED = "PYTHONHASHSEED"


def seed_number(trace: Trace, seeded_at: str) -> NumberSource | None:
    """What the seed was made from that the line ``seeded_at`` gave; ``None`` for a number of the program's own."""
    if not seeded_at:
        return None
    at = (number for number in trace.machine_numbers if number.use is NumberUse.SEED and number.location == seeded_at)
    return next((number.source for number in at), None)


def machine_numbers(rows: BoundRows) -> Iterator[Finding]:
    """What the program took from the machine itself, at the line that took it."""
    for number in rows.scene.trace.machine_numbers:
        if number.is_read_in_text or (number.source is NumberSource.HASH and rows.scene.has(_HASH_SEED, "0")):
            continue
        for row in rows.named(_ROWS.get(number.use, "")):
            facts: dict[str, Value] = {}
            if number.use in _OBJECTS:
                facts = {"origin": SeedOrigin.MACHINE.value, "by.library": number.by_library}
            yield from rows.finding(
                row,
                facts,
                subject=_subject(number),
                name=_KINDS.get(number.use, number.what),
                at=number,
                phase=number.phase,
                count=number.count,
            )


def _subject(number: MachineNumber) -> str:
    if number.use not in _OBJECTS:
        return f"{number.what}: another number in every run"
    if number.source is NumberSource.ENTROPY:
        return f"{_KINDS[number.use]}, made without a seed"
    return f"{_KINDS[number.use]}, seeded with {MADE_FROM[number.source]}"
