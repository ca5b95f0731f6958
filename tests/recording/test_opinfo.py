"""Every entry of torch's own operator database, forward and backward: recording changes and misses nothing.

Nor is an entry blamed for its memory: one walk answers both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.bits import bits, random_state, shape_of
from tests.support.modes import CountingMode, EmptyMode
from tests.support.samples import UNWRITTEN, Sample, dtypes_of, operator_database, samples_of
from tests.support.slow import slow_unless
from tracer import DeterminismTracer

CHUNKS = 32


@dataclass
class Outcome:
    """What one run of a sample left behind."""

    raised: type[Exception] | None = None
    results: list[Any] = field(default_factory=list)
    """The bits of outputs, gradients and inputs (an op may write into them)."""
    random_state: Any = None


def run(sample: Sample, *observers: AbstractContextManager[Any]) -> Outcome:
    """Run a copy of ``sample`` forward and backward, seeded, with ``observers`` entered from the left."""
    call = sample.prepared()
    outcome = Outcome()
    read = shape_of if sample.entry in UNWRITTEN else bits
    try:
        with ExitStack() as stack:
            for observer in observers:
                stack.enter_context(observer)
            results = call()
    except Exception as error:
        outcome.raised = type(error)
    else:
        outcome.results = [read(tensor) for tensor in results]
    outcome.random_state = random_state()
    return outcome


def first_samples(op: Any, count: int) -> Iterator[Sample]:
    """The first samples of ``op`` on the CPU, of the first dtype that it takes."""
    for dtype in dtypes_of(op, "cpu")[:1]:
        yield from samples_of(op, "cpu", dtype, count)


def complaints(op: Any, count: int, tracer: DeterminismTracer) -> Iterator[str]:
    """What recording ``op`` with ``tracer`` changed or missed, one sentence each."""
    # A plain counter in the tracer's place says what it must see; one around both, that it makes no call of its own.
    around_tracer, around_counter, in_its_place = CountingMode(), CountingMode(), CountingMode()
    for sample in first_samples(op, count):
        untouched = run(sample)
        traced = run(sample, around_tracer, tracer)
        run(sample, around_counter, in_its_place)
        if traced.raised is not untouched.raised:
            yield f"{sample.name}: raised {traced.raised} under the tracer, {untouched.raised} without"
        elif traced.results != untouched.results and not differs_anyway(sample, untouched, traced):
            yield f"{sample.name}: results differ"
        if traced.random_state != untouched.random_state:
            yield f"{sample.name}: the state of a random generator differs"
    found: Counter[str] = Counter()
    for group in tracer.trace.calls:
        found[group.op] += group.count
    seen = in_its_place.counts
    if found != seen:
        yield f"{op.formatted_name}: dispatched but not recorded {seen - found}, the reverse {found - seen}"
    if around_tracer.counts != around_counter.counts:
        yield f"{op.formatted_name}: the tracer makes calls {around_tracer.counts - around_counter.counts}"


def differs_anyway(sample: Sample, untouched: Outcome, traced: Outcome) -> bool:
    """Is the difference that of an empty mode too, or does the op differ from itself?

    ``linalg.lstsq`` does once in some runs, by where in memory its operands happen to lie: so what ran is kept, and
    the next run lies elsewhere.
    """
    kept = []
    for _ in range(40):
        kept += [run(sample), run(sample, EmptyMode())]
        if kept[-1].results == traced.results or kept[-2].results != untouched.results:
            return True
    return False


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads of several test processes would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def op_db() -> list[Any]:
    """torch's operator database. Loading it forbids this process to set backend flags; that is taken back."""
    pytest.importorskip("expecttest", reason="torch's operator database needs the package expecttest")
    entries = operator_database()
    assert not torch.backends.flags_frozen()
    return entries


def blamed(op: Any, tracer: DeterminismTracer) -> Iterator[str]:
    """Reads of unwritten memory and writes over itself, of which torch has none."""
    for one in (*tracer.trace.unwritten_reads, *tracer.trace.overlaps):
        yield f"{op.formatted_name}: {one}"
    if tracer._session.recorder.storages.writes.failures:
        yield f"{op.formatted_name}: could not be followed"


#: A chunk of the entries, how many samples of each are walked, and whether all are recorded.
CHUNKED = [
    *slow_unless(lambda case: case[0] % 8 == 3, ((chunk, 1, False) for chunk in range(CHUNKS))),
    *(pytest.param(chunk, 10, True, marks=pytest.mark.slow) for chunk in range(CHUNKS)),
]


@pytest.mark.usefixtures("op_db")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("chunk", "count", "records_all"), CHUNKED)
def test_recording_an_op_changes_misses_and_blames_nothing(chunk: int, count: int, records_all: bool) -> None:
    said: list[str] = []
    for op in operator_database()[chunk::CHUNKS]:
        tracer = DeterminismTracer()
        said += complaints(op, count, tracer)
        for sample in first_samples(op, 10_000) if records_all else ():
            run(sample, tracer)
        said += blamed(op, tracer)
    assert not said, "\n".join(said)


@pytest.mark.slow
@pytest.mark.usefixtures("op_db")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_digests_of_what_an_op_reads_and_writes_change_nothing_and_miss_no_call(chunk: int, tmp_path: Path) -> None:
    said: list[str] = []
    for number, op in enumerate(operator_database()[chunk::CHUNKS]):
        tracer = DeterminismTracer(values=tmp_path / f"{number}.values")
        said += complaints(op, 1, tracer)
        assert tracer._session.recorder.values is not None
        if tracer._session.recorder.values.calls.failures:
            said.append(f"{op.formatted_name}: could not be digested")
    assert not said, "\n".join(said)
