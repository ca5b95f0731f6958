"""Torch's whole operator database under digests, twice, with other bytes in fresh memory."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.recording.test_opinfo import _one_thread as _one_thread  # an autouse fixture
from tests.recording.values.reading import Row, recorded, rows
from tests.support.samples import UNWRITTEN, Sample, dtypes_of, operator_database, samples_of, tensors
from tracer.recording.values import digest
from tracer.recording.values.call_values import CallValues
from tracer.trace.values import Mark

CHUNKS = 32
#: glibc's option that fills memory as it is given, ``M_PERTURB``.
FILLS_MEMORY = -6


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The overloads that changed an argument of which they do not say that they write it."""
    found: set[str] = set()
    before, after = CallValues.before, CallValues.after
    held: dict[int, list[tuple[torch.Tensor, int | None]]] = {}

    def looks(self: CallValues, info: Any, counter: Any, asked: Any, args: Any, kwargs: Any) -> Any:
        reading = before(self, info, counter, asked, args, kwargs)
        if not self._plans[info].written:
            held[id(reading)] = [(tensor, digest(tensor)) for tensor in tensors((args, kwargs))]
        return reading

    def looks_again(self: CallValues, reading: Any, info: Any, *rest: Any) -> None:
        if any(digest(tensor) != was for tensor, was in held.pop(id(reading), ())):
            found.add(info.name)
        after(self, reading, info, *rest)

    monkeypatch.setattr(CallValues, "before", looks)
    monkeypatch.setattr(CallValues, "after", looks_again)
    return found


def samples(chunk: int) -> Iterator[Sample]:
    """The first sample of each entry and dtype."""
    for op in operator_database()[chunk::CHUNKS]:
        for dtype in dtypes_of(op, "cpu") if op.name not in UNWRITTEN else ():
            with contextlib.suppress(Exception):
                yield from samples_of(op, "cpu", dtype, 1)


def digested(sample: Sample, path: Path, fill: int) -> list[Row]:
    """The calls of ``sample``, run while each byte of fresh memory is ``fill``."""
    run = sample.prepared()

    def step() -> None:
        with contextlib.suppress(Exception):  # a refusal is no business of digests
            run()

    ctypes.CDLL(None).mallopt(FILLS_MEMORY, fill)
    try:
        return rows(recorded(path, step))
    finally:
        ctypes.CDLL(None).mallopt(FILLS_MEMORY, 0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only glibc fills memory as it is given")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_op_is_digested_whole_and_unwritten_memory_is_no_noise(
    chunk: int, tmp_path: Path, untold: set[str]
) -> None:
    lost = Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED
    looked_at, wrong = 0, set()
    for sample in samples(chunk):
        one, other = (digested(sample, tmp_path / "run.values", fill) for fill in (85, 170))
        for first, second in zip(one, other, strict=True):
            is_same = (first.op, first.inputs, first.outputs) == (second.op, second.inputs, second.outputs)
            if first.mark_bits & lost or not (is_same or first.mark_bits & Mark.READ_UNWRITTEN):
                wrong.add((sample.name, first.op))
        looked_at += len(one)
    assert (wrong, untold) == (set(), set())
    assert looked_at > 50
