"""What is said of compiled code on the CPU, against what it does: calls that add at indices, run again and again.

Each program is the body of one entry of OpInfo, with work enough for two threads: the entries' own samples are so small
that Inductor gives them one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F

from tracer import DeterminismTracer, judge
from tracer.findings import Finding
from tracer.names import DeterministicMode, Verdict
from tracer.report import Report

ROWS, SLOTS, WIDTH = 250_000, 8, 8  # work for tens of milliseconds, as in tests.support.racing
RUNS = 30


class Entry(NamedTuple):
    """One program: what it computes of ``x``, whose gradient is asked for too, and of indices that fall together."""

    name: str
    body: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    sizes: tuple[int, ...] = (ROWS, WIDTH)
    varies: bool = True
    """Does it vary in thirty runs, compiled with the mode off?"""


def wide(i: torch.Tensor) -> torch.Tensor:
    """The indices for every column."""
    return i[:, None].expand(-1, WIDTH)


def slots(*sizes: int) -> torch.Tensor:
    """What is added onto."""
    return torch.zeros(sizes or (SLOTS, WIDTH))


ENTRIES = (
    Entry("index_add", lambda x, i: slots().index_add(0, i, x)),
    Entry("index_put", lambda x, i: slots().index_put((i,), x, accumulate=True)),
    Entry("nn.functional.embedding", lambda x, i: F.embedding(i, x), (SLOTS, WIDTH)),
    Entry("__getitem__", lambda x, i: x[i], (SLOTS, WIDTH)),
    Entry("index_select", lambda x, i: x.index_select(0, i), (SLOTS, WIDTH)),
    Entry("put", lambda x, i: slots(SLOTS).put(i, x[:, 0], accumulate=True)),
    Entry("scatter_add", lambda x, i: slots().scatter_add(0, wide(i), x), varies=False),
    Entry("gather", lambda x, i: x.gather(0, wide(i)), (SLOTS, WIDTH), varies=False),
    Entry("scatter_reduce", lambda x, i: slots().scatter_reduce(0, wide(i), x, "sum"), varies=False),
    Entry("unfold", lambda x, i: x.unfold(0, 4, 1), (ROWS,), varies=False),
    Entry("nn.functional.fold", lambda x, i: F.fold(x, (64, 64), 3, padding=1), (8, 9 * 8, 64 * 64), varies=False),
    Entry("mul", lambda x, i: x * 3 + 1, varies=False),
    Entry("softmax", lambda x, i: x.softmax(-1), varies=False),
    Entry("sum", lambda x, i: x.sum(0), varies=False),
)


@pytest.fixture
def two_threads(inductor: None) -> Iterator[None]:
    """As many threads as a laptop has, so that additions meet."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
    torch.use_deterministic_algorithms(False)


def inputs(entry: Entry) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """``x``, indices that fall together, and the numbers by which the result is weighed."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(*entry.sizes, generator=generator)
    i = torch.randint(0, SLOTS, (ROWS,), generator=generator)
    with torch.no_grad():
        weights = torch.randn(*entry.body(x, i).shape, generator=generator)
    return x, i, weights


def once(function: Callable[..., Any], x: torch.Tensor, i: torch.Tensor, weights: torch.Tensor) -> bytes:
    """The bits of one run: the result and the gradient of ``x``."""
    x = x.detach().requires_grad_()
    result = function(x, i)
    (result * weights).sum().backward()
    assert x.grad is not None
    return bytes(result.detach().numpy().tobytes() + x.grad.numpy().tobytes())


def judged(entry: Entry) -> Report:
    """The program compiled anew and recorded, judged as it ran."""
    torch._dynamo.reset()
    compiled, given = torch.compile(entry.body, fullgraph=True), inputs(entry)
    with DeterminismTracer() as tracer:
        once(compiled, *given)
    return judge(tracer.trace)


def calls_of(report: Report, *, compiled: bool) -> list[Finding]:
    """Findings about calls that let runs differ."""
    risky = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL, Verdict.RAISES)
    return [one for one in report.findings if one.op and one.verdict in risky and bool(one.regions) is compiled]


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_what_varies_was_called_so_and_what_is_called_deterministic_agrees(entry: Entry, two_threads: None) -> None:
    given = inputs(entry)
    for mode in (DeterministicMode.OFF, DeterministicMode.ON):
        torch.use_deterministic_algorithms(mode is DeterministicMode.ON)
        report = judged(entry)
        torch._dynamo.reset()
        compiled = torch.compile(entry.body, fullgraph=True)
        results = {once(compiled, *given) for _ in range(RUNS)}
        if mode is DeterministicMode.OFF and entry.varies:
            assert len(results) > 1
        if len(results) > 1:
            assert calls_of(report, compiled=True), f"{len(results)} results of {RUNS}"
        else:
            assert mode is DeterministicMode.ON or not entry.varies
        if mode is DeterministicMode.ON:
            assert not calls_of(report, compiled=True)
    torch.use_deterministic_algorithms(False)
    assert len({once(entry.body, *given) for _ in range(RUNS)}) == 1 or calls_of(eager(entry), compiled=False)


def eager(entry: Entry) -> Report:
    """The same program, run as it was written."""
    with DeterminismTracer() as tracer:
        once(entry.body, *inputs(entry))
    return judge(tracer.trace)
