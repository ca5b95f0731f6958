"""What is said of compiled code on the CPU, against what it does: calls that add at indices, run again and again.

Each program is the body of one entry of OpInfo, with work enough for two threads: the entries' own samples are so small
that Inductor gives them one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F

from tests.support import build
from tracer import DeterminismTracer, judge
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Recording
from tracer.findings import Finding
from tracer.names import DeterministicMode, EvidenceKind, Shown, Untried, Verdict
from tracer.report import Report
from tracer.trace.values import read_values

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
#: Both that the facts name, in one region forward and one backward, of rows that are not alike.
TWINS = Entry("twins", lambda x, i: slots().index_add(0, i.flip(0), F.embedding(i, x)), (SLOTS, WIDTH))


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


def test_compiled_twins_are_findings_with_line_region_and_kernel_and_eager_ones_are_not(two_threads: None) -> None:
    torch._dynamo.reset()
    with DeterminismTracer() as tracer:
        once(torch.compile(TWINS.body, fullgraph=True), *inputs(TWINS))
        once(TWINS.body, *inputs(TWINS))
    report = judge(tracer.trace, backend="cpu")
    assert not calls_of(report, compiled=False)
    found = {one.kernels: one for one in calls_of(report, compiled=True)}
    assert len(found) == 2
    for (kernel,), one in found.items():
        assert (one.verdict, one.deterministic_mode) == (Verdict.CONDITIONAL, Verdict.DETERMINISTIC)
        assert one.shown is Shown.ADDS_ATOMICALLY
        assert one.evidence[0].kind is EvidenceKind.GENERATED
        assert one.why.startswith(f"`{kernel}` adds atomically.")
        assert one.location.partition(":")[0].endswith("test_what_varies.py")
        (region,) = (region for region in tracer.trace.regions if region.id == one.regions[0])
        assert kernel in {known.name for known in region.kernels}
    assert not calls_of(judge(tracer.trace, settings="deterministic"), compiled=True)


def recorded(entry: Entry, path: Path, *, whole: bool) -> Recording:
    """A run with values, of the program compiled anew; ``whole``: of numbers whose sums are exact in every order."""
    torch._dynamo.reset()
    x, i, weights = inputs(entry)
    if whole:
        x, weights = x.sign(), weights.sign()
    compiled = torch.compile(entry.body, fullgraph=True)
    with DeterminismTracer(values=path) as tracer:
        for _ in range(4):  # threads of a busy machine may miss each other once
            once(compiled, x, i, weights)
    return Recording(name=path.stem, values=read_values(path), trace=tracer.trace)


def test_compiled_twins_that_part_are_roots_with_line_region_and_kernel_and_exact_ones_agree(
    two_threads: None, tmp_path: Path
) -> None:
    runs = [recorded(TWINS, tmp_path / f"{name}.values", whole=name[0] == "w") for name in ("w1", "w2", "n1", "n2")]
    exact = compare_recordings(runs[0], runs[1])
    assert exact.agrees, exact.roots
    assert exact.not_digested == 0
    assert len([group for group in runs[0].values.groups if group.region]) == 2
    assert runs[2].trace is not None
    found = compare_recordings(runs[2], runs[3], findings=judge(runs[2].trace).findings)
    assert [(root.cause, root.op) for root in found.roots] == [
        (RootCause.KERNEL, "compiled.forward"),
        (RootCause.KERNEL, "compiled.backward"),  # it reads nothing of the forward's sums
    ]
    line = f"test_what_varies.py:{TWINS.body.__code__.co_firstlineno}"
    for root in found.roots:
        region = next(one for one in runs[2].trace.regions if one.id == root.region)
        adding = [kernel.name for kernel in region.kernels if kernel.adds_in_any_order]
        assert f"suspected is its kernel {adding[0]}, which adds atomically" in root.why
        assert (root.verdict, root.contradicts) == (Verdict.CONDITIONAL, False)
        assert root.location.endswith(line)


def test_trials_do_not_reach_into_a_region_and_its_calls_at_risk_are_counted_as_not_tried(two_threads: None) -> None:
    torch._dynamo.reset()
    with DeterminismTracer(trials=6) as tracer:
        once(torch.compile(TWINS.body, fullgraph=True), *inputs(TWINS))
    report = judge(tracer.trace)
    found = calls_of(report, compiled=True)
    assert [one.verdict for one in found] == [Verdict.CONDITIONAL] * 2
    assert [one.tried and dict(one.tried.untried) for one in found] == [{Untried.COMPILED: 1}] * 2
    assert all(one.evidence[0].kind is EvidenceKind.GENERATED for one in found)
    assert any("Not tried: 2 in compiled code or of the program's own kernels." in banner for banner in report.banners)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_what_varies_was_called_so_and_what_is_called_deterministic_never_varies(
    entry: Entry, two_threads: None
) -> None:
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


def test_the_table_alone_says_so_where_nothing_was_generated() -> None:
    """For another device, and for a trace whose code was not seen."""
    facts = {"device": "cpu", "dtype": "float32", "arg.accumulate": True, "index.is_mask": False}
    unseen = build.region(kernels=(), deterministic_mode=DeterministicMode.OFF)
    call = build.call("aten.index_put.default", facts=facts, region=unseen.id)
    trace = build.trace(call, regions=(unseen,), environment=build.environment(num_threads=2))
    for backend in ("cpu", "cuda"):
        (found,) = calls_of(judge(trace, backend=backend), compiled=True)
        assert (found.verdict, found.shown) == (Verdict.NONDETERMINISTIC, None)
