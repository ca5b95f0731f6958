"""What plain repetition shows to vary, trials find; what cannot vary, they do not accuse. Two threads of a CPU."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch

from tests.recording.trials.test_call_trials import define
from tests.support.racing import MANY, additions
from tests.support.samples import UNWRITTEN, Sample, operator_database, samples_of
from tracer import DeterminismTracer, Trials
from tracer.recording.values.digests import digest
from tracer.trace.records import Tried

#: As often as a call is made again, and as often as it is repeated without.
TIMES = 30


class Planted(NamedTuple):
    op: str
    program: Callable[[], torch.Tensor]
    can_vary: bool


def race(x: torch.Tensor) -> torch.Tensor:
    """Two threads write one number, in whichever order they come."""
    result = torch.zeros(1)

    def write(value: float) -> None:
        time.sleep(torch.empty(()).uniform_(0, 1e-4, generator=FREE).item())
        result.fill_(value)

    threads = [threading.Thread(target=write, args=(float(number),)) for number in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return x + result


FREE = torch.Generator()
FREE.seed()
RARE = {"calls": 0}


def rare(x: torch.Tensor) -> torch.Tensor:
    """Another answer once in twenty times."""
    RARE["calls"] += 1
    return x + float(RARE["calls"] % 20 == 10)


def planted() -> Iterator[Planted]:
    torch.manual_seed(0)
    index, values = additions()
    unique = torch.randperm(MANY)
    wide = torch.randn(MANY)
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    races = define("races(Tensor x) -> Tensor", race)
    yield Planted("index_put", lambda: torch.zeros(100).index_put((index,), values, accumulate=True), True)
    yield Planted("index_put", lambda: torch.zeros(100).index_put((index,), values), True)
    yield Planted("put", lambda: torch.zeros(100).put(index, values, accumulate=True), True)
    yield Planted("races", lambda: races(torch.zeros(1)), True)
    yield Planted("index_put", lambda: torch.zeros(MANY).index_put((unique,), values, accumulate=True), False)
    yield Planted("index_add", lambda: torch.zeros(100).index_add(0, index, values), False)
    yield Planted("scatter_add", lambda: torch.zeros(100).scatter_add(0, index, values), False)
    yield Planted("mm", lambda: torch.mm(a, b), False)
    yield Planted("sum", lambda: wide.sum(), False)
    yield Planted("sort", lambda: wide.sort().values, False)
    yield Planted("dropout", lambda: torch.nn.functional.dropout(wide, 0.5), False)


def repeated(program: Callable[[], torch.Tensor]) -> int:
    """How many different results plain repetition gives."""
    found = set()
    for _ in range(TIMES):
        torch.manual_seed(1)
        found.add(digest(program()))
    return len(found)


def tried(program: Callable[[], Any], times: int = TIMES) -> list[tuple[str, Tried]]:
    with DeterminismTracer(trials=Trials(times, all=True)) as tracer:
        torch.manual_seed(1)
        program()
    return [(group.op, group.tried) for group in tracer.trace.calls if group.tried is not None]


@pytest.mark.slow
def test_whatever_thirty_repetitions_show_to_vary_thirty_trials_find(two_threads: None) -> None:
    missed, accused, found = [], [], 0
    for one in planted():
        results = repeated(one.program)
        varied = [name.split(".")[1] for name, seen in tried(one.program) if seen.varied]
        if results > 1:
            assert one.can_vary, one.op
            found += 1
            if one.op not in varied:
                missed.append((one.op, results))
        if not one.can_vary:
            accused += varied
    assert found >= 2, "nothing varied on this machine: the test shows nothing"
    assert missed == []
    assert accused == []


def test_what_varies_rarely_is_told_apart() -> None:
    op = define("rarely(Tensor x) -> Tensor", rare)
    RARE["calls"] = 0
    ((_, seen),) = [one for one in tried(lambda: op(torch.zeros(1)), 40) if "rarely" in one[0]]
    assert (seen.trials, seen.varied) == (40, 2)
    assert seen.is_rare


def _outcome(sample: Sample) -> list[Any]:
    """Digests of what a sample gives and of what it was given, and the generator's state; nothing where it raises."""
    run = sample.prepared()
    try:
        given = run()
    except Exception:  # some entries have no kernel here
        return []
    return [*(digest(one) for one in given), torch.get_rng_state().tolist()]


def _varied(sample: Sample) -> bool:
    """Do plain repetitions of it differ?"""
    first = _outcome(sample)
    return any(_outcome(sample) != first for _ in range(TIMES - 1))


@pytest.mark.slow
def test_over_torchs_operator_database_what_varies_is_found_nothing_else_is_accused_and_nothing_is_felt(
    two_threads: None,
) -> None:
    missed, accused, felt, samples, trials = set(), set(), set(), 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in operator_database():
            if torch.float32 not in entry.dtypes:
                continue
            for sample in samples_of(entry, "cpu", torch.float32, 2):
                samples += 1
                varies = _varied(sample) and entry.name not in UNWRITTEN
                with DeterminismTracer():  # any mode makes torch take other ways to some results
                    plain = _outcome(sample)
                with DeterminismTracer(trials=Trials(TIMES, all=True)) as tracer:
                    recorded = _outcome(sample)
                tried = [(group.op, group.tried) for group in tracer.trace.calls if group.tried is not None]
                found = {(entry.name, op) for op, seen in tried if seen.varied}
                trials += sum(seen.trials for _, seen in tried)
                if varies and not found:
                    missed.add(entry.name)
                if not varies:
                    accused |= found
                    if plain != recorded and entry.name not in UNWRITTEN:
                        felt.add(entry.name)
    assert trials > 30 * samples > 20_000
    assert missed == set()
    assert accused == set()
    assert felt == set()
