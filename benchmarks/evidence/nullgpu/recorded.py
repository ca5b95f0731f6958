"""The same samples as a user has them: recorded by the tracer on a CPU, to be judged for CUDA.

Kept beside what the CUDA builds did, so that a test can hold the tables against all of it in seconds; made again by
``python -m benchmarks.evidence.refusals --keep`` when the recorder learns a new fact.
"""

from __future__ import annotations

import lzma
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import torch

from benchmarks.evidence.nullgpu.recording import FOLDER
from benchmarks.evidence.nullgpu.suites import fingerprint
from tests.support.measured import MeasuredCall
from tests.support.samples import Sample
from tracer import DeterminismTracer
from tracer.names import Phase
from tracer.tables.versions import release
from tracer.trace.records import CallGroup

SCHEMA = 1


class RecordedSample(msgspec.Struct, frozen=True, array_like=True):
    """One sample that ran on a CPU; calls by place in ``RecordedSuite.calls``."""

    entry: str
    number: int
    dtype: str
    inputs: str
    calls: tuple[int, ...]


class RecordedSuite(msgspec.Struct, frozen=True, kw_only=True):
    """A suite as the tracer recorded it on a CPU, with deterministic mode off."""

    schema: int
    torch: str
    suite: str
    calls: tuple[MeasuredCall, ...]
    samples: tuple[RecordedSample, ...]
    failing: int
    """Samples that do not run on a CPU, and are left out."""

    def groups_of(self, sample: RecordedSample) -> tuple[CallGroup, ...]:
        """The sample's calls as a trace has them, at a place of their own."""
        place = f"{sample.entry}:{sample.number}"
        return tuple(
            CallGroup(
                op=call.op, phase=call.phase, node=call.node, facts=call.facts, location=place, module=sample.dtype
            )
            for call in (self.calls[number] for number in sample.calls)
        )


def record(suite: str, samples: Iterable[Sample]) -> RecordedSuite:
    """Run each sample once on this CPU, under the tracer."""
    calls: dict[bytes, int] = {}
    kept: list[MeasuredCall] = []
    recorded: list[RecordedSample] = []
    failing = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples:
            groups = _calls_of(sample)
            if groups is None:
                failing += 1
                continue
            places = []
            for call in groups:
                key = msgspec.json.encode(call)
                if key not in calls:
                    calls[key] = len(kept)
                    kept.append(call)
                places.append(calls[key])
            key_of = (sample.entry, sample.number, sample.dtype)
            recorded.append(RecordedSample(*key_of, fingerprint(sample), tuple(dict.fromkeys(places))))
    return RecordedSuite(
        schema=SCHEMA,
        torch=release(torch.__version__),
        suite=suite,
        calls=tuple(kept),
        samples=tuple(recorded),
        failing=failing,
    )


def _calls_of(sample: Sample) -> tuple[MeasuredCall, ...] | None:
    """The sample's groups of calls; ``None`` where it fails here."""
    run = sample.prepared()
    tracer = DeterminismTracer()
    with tracer:
        try:
            run()
        except Exception:
            return None
    return tuple(_call(group) for group in tracer.trace.calls)


def _call(group: CallGroup) -> MeasuredCall:
    node = group.node if group.phase is Phase.BACKWARD else ""
    return MeasuredCall(op=group.op, phase=group.phase, node=node, facts=dict(sorted(group.facts.items())))


def kept_file(suite: str, folder: Path = FOLDER) -> Path:
    """Where a suite's recording on a CPU is kept."""
    return folder / f"cpu-{suite}.json.xz"


def keep(recorded: RecordedSuite, folder: Path = FOLDER) -> Path:
    """Write a suite's recording."""
    path = kept_file(recorded.suite, folder)
    path.write_bytes(lzma.compress(msgspec.json.encode(recorded), preset=9 | lzma.PRESET_EXTREME))
    return path


def load(suite: str, folder: Path = FOLDER) -> RecordedSuite:
    """Read a suite's recording; ``ValueError`` for another schema."""
    path = kept_file(suite, folder)
    found = msgspec.json.decode(lzma.decompress(path.read_bytes()), type=RecordedSuite)
    if found.schema != SCHEMA:
        raise ValueError(f"{path.name}: schema {found.schema} is not {SCHEMA}; record it again")
    return found


def kept_suites(folder: Path = FOLDER) -> Iterator[str]:
    """Suites that are kept, by name."""
    return (path.name.removeprefix("cpu-").removesuffix(".json.xz") for path in sorted(folder.glob("cpu-*.json.xz")))
