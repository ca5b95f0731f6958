"""Measurements: runs of ops on a device, stored as data and compared with the tables.

``threads.py`` and ``measure_cuda.py`` in ``benchmarks/evidence`` write them, a rule may cite one. A run that
contradicts a table's verdict is a fault, unless an entry under ``explained`` says why both are right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from tracer import tables
from tracer.errors import TableError
from tracer.names import SAFE, Backend, DeterministicMode, EvidenceKind, Phase, Verdict
from tracer.tables.rules import RuleTable
from tracer.tables.settings import MODE
from tracer.tables.target_tables import TargetTables
from tracer.trace.records import CallGroup, FactValue

#: The schema that this release reads and writes.
SCHEMA = 1

FOLDER = Path(tables.__file__).parent / "measured"

_CITED = re.compile(r"measured/(?P<file>[\w.+-]+\.json)(?:: (?P<what>.+))?")


class MeasuredCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call that a run dispatched, as in a trace; recorded with deterministic mode off."""

    op: str
    phase: Phase = Phase.FORWARD
    node: str = ""
    facts: dict[str, FactValue] = {}


class MeasuredRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One input run several times under one state of deterministic mode."""

    what: str
    """The input, in words: ``index_put accumulate``; for the operator database, entry and sample."""
    mode: DeterministicMode
    runs: int
    distinct: int
    """Number of distinct results, by the bits of outputs, gradients and inputs; 0 if torch raised."""
    refused: bool = False
    """Whether torch raised under deterministic mode, though the call runs without it."""
    warned: bool = False
    """Whether torch warned because of deterministic mode."""
    calls: tuple[MeasuredCall, ...] = ()


class Explained(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason why a run and a table are both right although they seem to contradict each other."""

    what: str
    mode: DeterministicMode
    why: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Measurements on one device. Lists only runs that raised, warned, differed, or were expected to."""

    schema: int
    backend: Backend
    torch: str
    """torch's version without its local part: ``2.13.0``."""
    device: str = ""
    """Name of the accelerator; empty for a CPU."""
    threads: int | None = None
    """Intra-op threads."""
    settings: dict[str, FactValue] = {}
    """All settings that conditions may read, except deterministic mode."""
    samples: int = 0
    """Number of inputs tried, in each mode."""
    alike: int = 0
    """Number of runs not listed: equal results, no error, no warning, and no table that predicts either."""
    run: tuple[MeasuredRun, ...] = ()
    explained: tuple[Explained, ...] = ()


def measurement_files() -> tuple[Path, ...]:
    """Measurements that ship, by name."""
    return tuple(sorted(FOLDER.glob("*.json")))


def load_measurement(path: Path) -> Measurement:
    """Read one file. Raises ``TableError`` if it is invalid."""
    try:
        measurement = msgspec.json.decode(path.read_bytes(), type=Measurement)
    except (OSError, msgspec.DecodeError) as problem:
        raise TableError(f"{path.name}: {problem}", hint="measure it again") from problem
    if measurement.schema != SCHEMA:
        raise TableError(f"{path.name}: schema {measurement.schema} is not {SCHEMA}", hint="measure again")
    return measurement


def verdicts_of(run: MeasuredRun, measurement: Measurement, tables: Mapping[Backend, RuleTable]) -> tuple[Verdict, ...]:
    """The tables' verdicts on each call of ``run``, under the settings that it was measured with."""
    settings = {**measurement.settings, MODE: str(run.mode)}
    bench = TargetTables(tables, measurement.backend, measurement.torch, settings)
    return tuple(
        bench.rule_on(CallGroup(op=call.op, phase=call.phase, node=call.node, facts=call.facts)).verdict
        for call in run.calls
    )


def contradictions(measurement: Measurement, tables: Mapping[Backend, RuleTable]) -> Iterator[str]:
    """Runs that contradict a table's verdicts, and explanations that explain none of them."""
    explained = {(difference.what, difference.mode) for difference in measurement.explained}
    contradicted = set()
    for run in measurement.run:
        if fault := _contradiction(run, set(verdicts_of(run, measurement, tables))):
            contradicted.add((run.what, run.mode))
            if (run.what, run.mode) not in explained:
                yield f"{run.what}, mode {run.mode}: {fault}"
    for what, mode in sorted(explained - contradicted):
        yield f"{what}, mode {mode}: explained, but it contradicts no verdict"


def _contradiction(run: MeasuredRun, verdicts: set[Verdict]) -> str:
    if run.refused:
        explains = verdicts & {Verdict.RAISES, Verdict.UNKNOWN}
        return "" if explains else "torch raised, but no call raises by the table"
    if Verdict.RAISES in verdicts:
        return "a call raises by the table, but torch did not raise"
    if run.distinct > 1 and verdicts <= SAFE:
        return f"{run.distinct} distinct results in {run.runs} runs, but all calls are deterministic by the table"
    return ""


def faults_of_measurements(tables: Mapping[Backend, RuleTable], paths: Iterable[Path] | None = None) -> list[str]:
    """Every contradiction between the packaged measurements and the tables, one line each, led by the file."""
    faults: list[str] = []
    measurements: dict[str, Measurement] = {}
    for path in measurement_files() if paths is None else paths:
        try:
            measurements[path.name] = load_measurement(path)
        except TableError as problem:
            faults.append(str(problem))
    for name, measurement in measurements.items():
        faults += [f"{name}: {fault}" for fault in contradictions(measurement, tables)]
    cited = [(r.id, row) for table in tables.values() for r in table.rule for row in r.evidence]
    for id, row in cited:
        if row.kind is EvidenceKind.MEASURED and (fault := _unfounded(row.ref, measurements)):
            faults.append(f"{id}: evidence {row.ref!r} {fault}")
    return faults


def _unfounded(ref: str, measurements: Mapping[str, Measurement]) -> str:
    """Return the fault of a reference to a measurement; empty if it cites none."""
    cited = _CITED.search(ref)
    if cited is None:
        return ""
    measurement = measurements.get(cited["file"])
    if measurement is None:
        return "cites a file that does not exist"
    is_held = not cited["what"] or any(run.what == cited["what"] for run in measurement.run)
    return "" if is_held else "cites a run that the file does not contain"
