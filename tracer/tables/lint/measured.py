"""What was measured: runs of ops on a device, kept as data, and held against the tables.

``measured/<device>-torch-<version>.json`` is written by ``threads.py`` and ``measure_cuda.py`` in
``benchmarks/evidence``. A rule may cite a run as evidence of grade ``measured``:
``measured/cpu-torch-2.13.json: index_put accumulate``. A run that a table's verdict cannot be true of is a
contradiction, which the lint reports until one of the two is mended, or until an entry under ``explained`` says why
both stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from tracer.errors import TableError
from tracer.names import Backend, DeterministicMode, EvidenceKind, Phase, Verdict
from tracer.tables.rules import Table
from tracer.tables.ruling.target_tables import TargetTables
from tracer.trace.records import CallGroup, FactValue

#: The schema that this release reads and writes.
SCHEMA = 1

FOLDER = Path(__file__).parent.parent / "measured"

_CITED = re.compile(r"measured/(?P<file>[\w.+-]+\.json)(?:: (?P<what>.+))?")
#: Verdicts under which two runs of one input, seeded alike, must agree.
_SAME = frozenset({Verdict.DETERMINISTIC, Verdict.SEEDED})


class MeasuredCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An op that a run dispatched, as a trace has it; recorded with deterministic mode off."""

    op: str
    phase: Phase = Phase.FORWARD
    node: str = ""
    facts: dict[str, FactValue] = {}


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One input run several times under one state of deterministic mode."""

    what: str
    """The input, in words: ``index_put accumulate``; of the operator database its entry and sample."""
    mode: DeterministicMode
    runs: int
    distinct: int
    """Different results, compared bit by bit over outputs, gradients and inputs; 0 where torch refused."""
    refused: bool = False
    """torch raised under deterministic mode, in whatever words, what runs without it."""
    warned: bool = False
    """torch warned because of deterministic mode."""
    calls: tuple[MeasuredCall, ...] = ()


class Explained(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run and a table that seem to contradict each other are both right."""

    what: str
    mode: DeterministicMode
    why: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one device showed; only runs that refused, warned, differed, or were expected to are kept one by one."""

    schema: int
    backend: Backend
    torch: str
    """Without its local part: ``2.13.0``."""
    device: str = ""
    """The accelerator's name; empty for a CPU, whose model is left out."""
    threads: int | None = None
    """Intra-op threads."""
    settings: dict[str, FactValue] = {}
    """Every setting that conditions may read, but deterministic mode."""
    samples: int = 0
    """Inputs tried, in each mode."""
    alike: int = 0
    """Runs not kept: every result the same bits, nothing refused or warned of, and no table expecting either."""
    run: tuple[Run, ...] = ()
    explained: tuple[Explained, ...] = ()


def measurement_files() -> tuple[Path, ...]:
    """Measurements that ship, by name."""
    return tuple(sorted(FOLDER.glob("*.json")))


def load_measurement(path: Path) -> Measurement:
    """Read one file; ``TableError`` in one line for what it may not hold."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Measurement)
    except (OSError, msgspec.DecodeError) as problem:
        raise TableError(f"{path.name}: {problem}", hint="measure it again") from problem
    if found.schema != SCHEMA:
        raise TableError(f"{path.name}: schema {found.schema} is not {SCHEMA}", hint="measure again")
    return found


def dump_measurement(measurement: Measurement) -> bytes:
    """The file's bytes: a line a field, and in lists of records a line a record, so that a change can be reviewed."""
    fields = msgspec.json.decode(msgspec.json.encode(measurement), type=dict[str, msgspec.Raw])
    return (
        b"{\n" + b",\n".join(b' "%s": %s' % (name.encode(), _lines(value)) for name, value in fields.items()) + b"\n}\n"
    )


def _lines(value: msgspec.Raw) -> bytes:
    """JSON in one line; a list of records in a line each."""
    text = bytes(value)
    if not text.startswith(b"[{"):
        return msgspec.json.format(text, indent=0)
    records = msgspec.json.decode(text, type=list[msgspec.Raw])
    return b"[\n" + b",\n".join(b"  " + msgspec.json.format(bytes(one), indent=0) for one in records) + b"\n ]"


def verdicts_of(run: Run, measurement: Measurement, tables: Mapping[Backend, Table]) -> tuple[Verdict, ...]:
    """What the tables say of each call of ``run``, under the settings that it was measured with."""
    settings = {**measurement.settings, "deterministic_mode": str(run.mode)}
    bench = TargetTables(tables, measurement.backend, measurement.torch, settings)
    return tuple(
        bench.rule_on(CallGroup(op=call.op, phase=call.phase, node=call.node, facts=call.facts)).verdict
        for call in run.calls
    )


def contradictions(measurement: Measurement, tables: Mapping[Backend, Table]) -> Iterator[str]:
    """Runs that a table's verdicts cannot be true of, and explanations that explain none of them."""
    explained = {(difference.what, difference.mode) for difference in measurement.explained}
    met = set()
    for run in measurement.run:
        fault = _contradiction(run, verdicts_of(run, measurement, tables))
        if fault:
            met.add((run.what, run.mode))
            if (run.what, run.mode) not in explained:
                yield f"{run.what}, mode {run.mode}: {fault}"
    for what, mode in sorted(explained - met):
        yield f"{what}, mode {mode}: explained, but nothing contradicts it"


def _contradiction(run: Run, verdicts: tuple[Verdict, ...]) -> str:
    said = set(verdicts)
    if run.refused:
        if said & {Verdict.RAISES, Verdict.UNKNOWN}:
            return ""
        return "torch refused it, and by the table no call raises"
    if Verdict.RAISES in said:
        return "by the table a call raises, and it ran"
    if run.distinct > 1 and said <= _SAME:
        return f"{run.distinct} distinct results in {run.runs} runs, and by the table every call repeats"
    return ""


def faults_of_measurements(tables: Mapping[Backend, Table], paths: Iterable[Path] | None = None) -> list[str]:
    """Everything that is wrong between the measurements that ship and the tables, one line each, led by the file."""
    faults = []
    known: dict[str, Measurement] = {}
    for path in measurement_files() if paths is None else paths:
        try:
            known[path.name] = load_measurement(path)
        except TableError as problem:
            faults.append(str(problem))
    for name, measurement in known.items():
        faults += [f"{name}: {fault}" for fault in contradictions(measurement, tables)]
    for table in tables.values():
        for rule in table.rule:
            for row in rule.evidence:
                if row.kind is EvidenceKind.MEASURED and (fault := _unfounded(row.ref, known)):
                    faults.append(f"{rule.id}: evidence {row.ref!r} {fault}")
    return faults


def _unfounded(ref: str, known: Mapping[str, Measurement]) -> str:
    """What is wrong with a reference to a measurement; empty for one that cites none."""
    cited = _CITED.search(ref)
    if cited is None:
        return ""
    measurement = known.get(cited["file"])
    if measurement is None:
        return "cites a file that does not exist"
    if cited["what"] and cited["what"] not in {run.what for run in measurement.run}:
        return "cites a run that the file does not hold"
    return ""
