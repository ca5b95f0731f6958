"""torch's operator database, forward and backward: no entry reads unwritten memory, none writes over itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.recording.test_opinfo import run, samples_of
from tracer import DeterminismTracer

CHUNKS = 16


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def op_db() -> list[Any]:
    """torch's operator database. Loading it forbids this process to set backend flags; that is taken back."""
    pytest.importorskip("expecttest", reason="torch's operator database needs the package expecttest")
    from torch.testing._internal.common_methods_invocations import op_db as entries

    torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True
    return list(entries)


def check(entries: list[Any], count: int) -> None:
    said = []
    for op in entries:
        tracer = DeterminismTracer()
        for sample in samples_of(op, count):
            run(op, sample, tracer)
        trace = tracer.trace
        said += [f"{op.formatted_name}: {one}" for one in (*trace.unwritten_reads, *trace.overlaps)]
        if tracer._recorder.tracking.failures:
            said.append(f"{op.formatted_name}: could not be followed")
    assert not said, "\n".join(said)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_op_is_blamed_for_its_memory(op_db: list[Any], chunk: int) -> None:
    check(op_db[chunk::CHUNKS], count=1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_op_is_blamed_for_its_memory_in_any_sample(op_db: list[Any], chunk: int) -> None:
    check(op_db[chunk::CHUNKS], count=10_000)
