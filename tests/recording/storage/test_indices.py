"""What is known of indices and of added values: distinct where the step made them so, exact in any order."""

# ruff: noqa: E501  (a line a case reads as the table that it is)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.lines import record
from tracer import DeterminismTracer, judge
from tracer.recording.storage.known_numbers import Indices
from tracer.recording.storage.registry import MOST_TENSORS

N = 6


def is_distinct(step: Callable[[], Any], op: str) -> bool:
    """Was each call of ``op`` in ``step`` noted as one that writes every slot once?"""
    said = {group.facts.get("index.distinct", False) for group in record(step).trace.calls if group.op.startswith(op)}
    assert len(said) == 1, said
    return bool(said.pop())


def known(make: Callable[[], torch.Tensor]) -> Any:
    """What is known of the tensor that ``make`` returns."""
    tracer = DeterminismTracer()
    with tracer:
        made = make()
        return tracer._session.recorder.storages.indices.of(made)


ROWS = torch.randn(4, N, generator=torch.Generator().manual_seed(0))

MADE: list[tuple[str, Callable[[], torch.Tensor], bool]] = [
    ("arange", lambda: torch.arange(N), True),
    ("arange backwards", lambda: torch.arange(N - 1, -1, -1), True),
    ("randperm", lambda: torch.randperm(N), True),
    ("argsort", lambda: ROWS[0].argsort(), True),
    ("sort", lambda: ROWS[0].sort(descending=True).indices, True),
    ("topk", lambda: ROWS[0].topk(3).indices, True),
    ("nonzero", lambda: (ROWS[0] > 0).nonzero().squeeze(1), True),
    ("where", lambda: torch.where(ROWS[0] > -9)[0], True),
    ("multinomial", lambda: torch.ones(N).multinomial(3), True),
    ("unique", lambda: torch.tensor([3, 3, 1]).unique(), True),
    ("a slice", lambda: torch.randperm(N)[:3], True),
    ("flipped", lambda: torch.arange(N).flip(0), True),
    ("a permutation of another", lambda: torch.randperm(N)[torch.randperm(N)], True),
    ("inverted by scatter_", lambda: inverted(torch.randperm(N)), True),
    ("inverted by indexing", lambda: inverted_by_indexing(torch.randperm(N)), True),
    # And what only looks like it.
    ("given", lambda: torch.tensor([0, 1, 2]), False),
    ("randint", lambda: torch.randint(0, N, (3,)), False),
    ("taken modulo", lambda: torch.arange(N) % 2, False),
    ("repeated", lambda: torch.arange(3).repeat(2), False),
    ("joined", lambda: torch.cat([torch.arange(3), torch.arange(3)]), False),
    ("expanded and flattened", lambda: torch.arange(3).unsqueeze(1).expand(3, 2).flatten(), False),
    ("picked twice", lambda: torch.randperm(N)[torch.tensor([1, 1])], False),
    ("written to", lambda: torch.randperm(N).fill_(1), False),
    ("written to through data", lambda: written(torch.randperm(N), lambda x: x.data.zero_()), False),
    ("written to through numpy", lambda: written(torch.randperm(N), lambda x: x.numpy().fill(0)), False),
    ("written to as out", lambda: written(torch.randperm(N), lambda x: torch.zeros(N, dtype=x.dtype, out=x)), False),
    ("in eight bits", lambda: torch.arange(300).to(torch.int8), False),
    ("of an uneven inverse", lambda: uneven(torch.randperm(N)), False),
]


def inverted(permutation: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(permutation).scatter_(0, permutation, torch.arange(permutation.numel()))


def inverted_by_indexing(permutation: torch.Tensor) -> torch.Tensor:
    inverse = torch.empty_like(permutation)
    inverse[permutation] = torch.arange(permutation.numel())
    return inverse


def uneven(permutation: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(permutation).scatter_(0, permutation[:3], torch.arange(3))


def written(index: torch.Tensor, write: Callable[[torch.Tensor], object]) -> torch.Tensor:
    write(index)
    return index


@pytest.mark.parametrize(("make", "expected"), (pytest.param(*one[1:], id=one[0]) for one in MADE))
def test_an_index_is_known_where_the_step_made_it_of_distinct_numbers(
    make: Callable[[], torch.Tensor], expected: bool
) -> None:
    assert (known(make) is not None) is expected
    if expected:
        made = make()
        assert made.unique().numel() == made.numel()


def test_along_a_dimension_alone() -> None:
    assert known(lambda: ROWS.argsort(dim=0)).dim == 0
    assert known(lambda: ROWS.argsort(dim=1)).dim == 1
    assert known(lambda: ROWS.argsort(dim=1).t()).dim == 0
    assert known(lambda: ROWS.argsort(dim=1)[:, :3]).extent == 0
    assert known(lambda: ROWS.argsort(dim=1)[1:3]).extent == N
    assert known(lambda: ROWS.argsort(dim=1).flatten()) is None
    assert known(lambda: ROWS.argsort(dim=1)[:, 0]) is None
    assert known(lambda: torch.arange(N).unsqueeze(1).expand(N, 3)).dim == 0


OUT = torch.zeros(N, N)


def put(target: torch.Tensor, *indices: torch.Tensor) -> torch.Tensor:
    shape = torch.broadcast_shapes(*(index.shape for index in indices))
    return target.clone().index_put_(indices, torch.randn(shape))


def apart(pairs: torch.Tensor) -> torch.Tensor:
    return put(OUT, pairs[0, :5], pairs[1, 1:6])


USED: list[tuple[str, str, Callable[[], Any], bool]] = [
    ("a row of one", "aten.index_add", lambda: torch.zeros(4, 2).index_add(0, torch.tensor([3]), torch.ones(1, 2)), True),
    ("two given rows", "aten.index_add", lambda: torch.zeros(4, 2).index_add(0, torch.tensor([3, 1]), torch.ones(2, 2)), False),
    ("rows by randperm", "aten.index_add", lambda: OUT.index_add(1, torch.randperm(N)[:4], torch.ones(N, 4)), True),
    ("one row, added along the other", "aten.scatter_add", lambda: OUT.scatter_add(1, torch.zeros(1, N).long(), torch.ones(1, N)), False),
    ("sorted along", "aten.scatter_add", lambda: OUT.scatter_add(1, torch.rand(N, N).argsort(1), torch.ones(N, N)), True),
    ("sorted across", "aten.scatter_add", lambda: OUT.scatter_add(1, torch.rand(N, N).argsort(0), torch.ones(N, N)), False),
    ("both coordinates", "aten.index_put_", lambda: OUT.clone().index_put_((torch.arange(N), torch.randint(N, (N,))), torch.randn(N)), True),
    ("a grid", "aten.index_put_", lambda: OUT.clone().index_put_((torch.arange(N)[:, None], torch.randperm(N)[None]), torch.randn(N, N)), True),
    ("from the end", "aten.index_put_", lambda: OUT.clone().index_put_((torch.arange(-N, N),), torch.randn(2 * N, N)), False),
    ("unique", "aten.index_put_", lambda: put(OUT[0], torch.randint(0, N, (20,)).unique()), True),
    ("unique from either end", "aten.index_put_", lambda: put(OUT[0], torch.randint(-1, N, (200,)).unique()), False),
    ("unique bytes", "aten.index_put_", lambda: put(OUT[0], torch.randint(0, N, (20,), dtype=torch.uint8).unique().long()), False),
    ("one after another", "aten.index_put_", lambda: put(OUT[0], torch.randint(0, N, (20,)).unique_consecutive()), False),
    ("an upper triangle", "aten.index_put_", lambda: put(OUT, *torch.triu_indices(N, N, 1)), True),
    ("a lower triangle, to and from another number of bits", "aten.index_put_", lambda: put(OUT, *torch.tril_indices(N, N).int().long()), True),
    ("a triangle, swapped", "aten.index_put_", lambda: put(OUT, *torch.triu_indices(N, N).flip(0)), False),
    ("rows of a triangle alone", "aten.index_put_", lambda: put(OUT[0], torch.triu_indices(N, N)[0]), False),
    ("shifted against each other", "aten.index_put_", lambda: apart(torch.triu_indices(N, N)), False),
    ("pairs of a mask", "aten.index_put_", lambda: put(OUT, *torch.where(ROWS > 0)), True),
    ("pairs and a further index", "aten.index_put_", lambda: put(torch.zeros(N, N, 2), *torch.where(ROWS > 0), torch.tensor(1)), True),
    ("half of the coordinates of a mask", "aten.index_put_", lambda: put(torch.zeros(4, N), *torch.where(torch.ones(4, N, N) > 0)[:2]), False),
    ("pairs, each once", "aten.index_put_", lambda: put(OUT, *torch.randint(0, N, (20, 2)).unique(dim=0).t()), True),
    ("a triangle that was written to", "aten.index_put_", lambda: put(OUT, *written(torch.triu_indices(N, N), lambda k: k[0].zero_())), False),
    ("put", "aten.put_", lambda: OUT.clone().put_(torch.randperm(N), torch.ones(N), accumulate=True), True),
]  # fmt: skip


@pytest.mark.parametrize(("op", "step", "expected"), (pytest.param(*one[1:], id=one[0]) for one in USED))
def test_a_write_is_noted_as_single_where_it_is(op: str, step: Callable[[], Any], expected: bool) -> None:
    assert is_distinct(step, op) is expected


@given(st.data())
def test_whatever_view_is_taken_what_is_known_is_true(data: st.DataObject) -> None:
    tracer = DeterminismTracer()
    with tracer:
        base = torch.rand(4, 6).argsort(data.draw(st.integers(0, 1)))
        view = base
        for _ in range(data.draw(st.integers(0, 3))):
            how = data.draw(st.sampled_from(["slice", "step", "transpose", "unsqueeze", "select", "flat", "expand"]))
            dim = data.draw(st.integers(0, max(0, view.dim() - 1)))
            if how == "unsqueeze" or not view.dim():
                view = view.unsqueeze(0)
            elif how == "expand":
                view = view.unsqueeze(-1).expand(*view.shape, 2)
            elif how == "transpose":
                view = view.transpose(0, dim)
            elif how == "select":
                view = view.select(dim, data.draw(st.integers(0, view.shape[dim] - 1)))
            elif how == "flat":
                view = view.reshape(-1)
            else:
                start = data.draw(st.integers(0, view.shape[dim] - 1))
                view = view.movedim(dim, 0)[start :: 2 if how == "step" else 1].movedim(0, dim)
        numbers = tracer._session.recorder.storages.indices.of(view)
    if numbers is not None:
        lines = view.movedim(numbers.dim, -1).reshape(-1, view.shape[numbers.dim])
        assert all(line.unique().numel() == line.numel() for line in lines)
        if numbers.extent:
            assert all(line.sort().values.tolist() == list(range(numbers.extent)) for line in lines)


def test_no_tensor_is_kept_and_no_more_indices_than_there_may_be() -> None:
    tracer = DeterminismTracer()
    with tracer:
        indices: Indices = tracer._session.recorder.storages.indices
        held = [torch.arange(3) for _ in range(MOST_TENSORS + 10)]
        assert len(indices.live) == MOST_TENSORS
        del held
        indices.prune()
        assert not indices.live
        kept = torch.arange(3)
    assert not indices.live
    assert kept.numel() == 3


BACKENDS = ("cuda", "rocm", "xpu", "mps")


def test_log_prob_of_a_category_is_deterministic_backwards_and_two_samples_of_it_are_not() -> None:
    def step(samples: int) -> None:
        index = torch.randint(0, 7, (5, samples))
        torch.randn(5, 7, requires_grad=True).gather(1, index).exp().sum().backward()

    traces = [record(lambda samples=samples: step(samples)).trace for samples in (1, 2)]
    for backend in BACKENDS:
        rule = "rocm-cuda-scatter-add" if backend == "rocm" else f"{backend}-scatter-add"
        one, two = (judge(trace, backend=backend, settings="default").findings for trace in traces)
        assert {found.verdict.value for found in one if found.rule == rule} <= {"deterministic"}, backend
        assert {found.verdict.value for found in two if found.rule == rule} == {"nondeterministic"}, backend


def test_a_packed_sequence_of_any_order_reads_nothing_unwritten() -> None:
    def step() -> None:
        x = torch.randn(3, 5, 4, requires_grad=True)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 5, 2]), True, enforce_sorted=False)
        padded, _ = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        padded.sum().backward()

    trace = record(step).trace
    assert not trace.unwritten_reads
    rules = {one.rule for one in judge(trace, backend="cuda", settings="default").findings}
    assert not rules & {"cuda-index-add", "cuda-scatter-src", "environment-unwritten-memory"}


I = torch.randint(0, 5, (100,), generator=torch.Generator().manual_seed(0))  # noqa: E741

X = torch.randn(100, generator=torch.Generator().manual_seed(0))


def zeros(count: int = 5, **how: Any) -> torch.Tensor:
    return torch.zeros(count, **how)


def verdicts(step: Callable[[], Any], backend: str = "cuda") -> set[str]:
    """Of the indexed additions of ``step``, with deterministic mode off."""
    report = judge(record(step).trace, backend=backend, torch="2.13", settings="default")
    words = ("index_add", "scatter", "bincount", "put", "index_reduce")
    return {str(call.ruling.verdict) for call in report.judged_calls if any(word in call.group.op for word in words)}


EXACT: list[tuple[str, Callable[[], Any]]] = [
    ("ones", lambda: zeros().index_add(0, I, torch.ones(100))),
    ("new_ones onto new_zeros", lambda: X.new_zeros(5).scatter_add_(0, I, X.new_ones(100))),
    ("a mask", lambda: zeros().scatter_add(0, I, (I > 2).float())),
    ("not a mask", lambda: zeros().scatter_add(0, I, 1 - (I > 2).float())),
    ("a mask times a mask", lambda: zeros().scatter_add(0, I, (I > 2).float() * (I < 4))),
    ("a chosen number", lambda: zeros().scatter_add(0, I, torch.where(I > 2, 0.3, 0.0))),
    ("one constant", lambda: torch.rand(5).index_add(0, I, torch.full((100,), 0.1))),
    ("a scaled mask", lambda: zeros().scatter_add(0, I, (I > 2).float() * 0.1)),
    ("ones, then ones again", lambda: zeros().index_add_(0, I, torch.ones(100)).index_add_(0, I, torch.ones(100))),
    ("filled by hand", lambda: zeros().scatter_add(0, I, torch.empty(100).fill_(1))),
    ("a drawn mask", lambda: zeros().scatter_add(0, I, torch.bernoulli(torch.full((100,), 0.5)))),
    ("gradient of a sum", lambda: torch.zeros(5, requires_grad=True).gather(0, I).sum().backward()),
    ("counts of extremes", lambda: torch.zeros(5).scatter_reduce(0, I, X.clone().requires_grad_(), "amax").exp().sum().backward()),
    ("into half precision", lambda: torch.zeros(5, dtype=torch.bfloat16).index_add(0, I, torch.ones(100, dtype=torch.bfloat16))),
]  # fmt: skip

ROUNDED: list[tuple[str, Callable[[], Any]]] = [
    ("random numbers", lambda: zeros().index_add(0, I, torch.randn(100))),
    ("two constants", lambda: zeros().scatter_add(0, I, torch.where(I > 2, 0.3, 0.7))),
    ("one constant of two dtypes", lambda: zeros().scatter_add(0, I, torch.cat([torch.full((50,), 0.1, dtype=torch.float16), torch.full((50,), 0.1)]))),
    ("one constant of either sign", lambda: zeros().scatter_add(0, I, torch.cat([torch.full((50,), 0.1), -torch.full((50,), 0.1)]))),
    ("a constant, partly overwritten", lambda: zeros().scatter_add(0, I, partly(torch.ones(100)))),
    ("a constant, written through data", lambda: zeros().scatter_add(0, I, through_data(torch.ones(100)))),
    ("a constant, written by NumPy", lambda: zeros().scatter_add(0, I, by_numpy(torch.ones(100)))),
    ("statistics that batch norm wrote", lambda: zeros().scatter_add(0, torch.zeros(5, dtype=torch.int64), statistics())),
    ("an infinity where a mask is", lambda: zeros().scatter_add(0, I, (I > 2).float() * float("inf"))),
    ("a product of a mask", lambda: zeros().scatter_add(0, I, (I > 2) * X)),
    ("a mask in turn with another share", lambda: zeros().scatter_add(0, I, (I > 2).float() * 0.1 + 0.2)),
    ("a product", lambda: torch.rand(5).scatter_reduce(0, I, torch.full((100,), 0.1), "prod")),
    ("one constant, in parts of a block", lambda: torch.bincount(I, torch.full((100,), 0.1))),
]  # fmt: skip


def partly(ones: torch.Tensor) -> torch.Tensor:
    ones[3:60] = X[3:60]
    return ones


def statistics() -> torch.Tensor:
    """``native_batch_norm`` writes them, which its schema does not say."""
    variance = torch.ones(5)
    torch.nn.functional.batch_norm(X.view(20, 5), torch.zeros(5), variance, training=True)
    return variance


def through_data(ones: torch.Tensor) -> torch.Tensor:
    ones.data.mul_(X)
    return ones


def by_numpy(ones: torch.Tensor) -> torch.Tensor:
    ones.numpy()[:] = X.numpy()
    return ones


@pytest.mark.parametrize(
    ("step", "verdict"),
    [pytest.param(step, "deterministic", id=name) for name, step in EXACT]
    + [pytest.param(step, "nondeterministic", id=name) for name, step in ROUNDED],
)
def test_what_adds_up_without_rounding_is_deterministic_and_what_may_be_rounded_is_not(
    step: Callable[[], Any], verdict: str
) -> None:
    assert verdicts(step) == {verdict}


@pytest.mark.parametrize("count", [256, 257])
def test_counts_are_whole_as_far_as_the_dtype_goes(count: int) -> None:
    """Two masks together reach 2, so that one more would be rounded."""
    index = torch.zeros(count // 2, dtype=torch.int64)

    def step() -> None:
        numbers = (X[0] > -9).to(torch.bfloat16).expand(count // 2) + torch.ones(count // 2, dtype=torch.bfloat16)
        torch.zeros(1, dtype=torch.bfloat16).index_add(0, index, numbers + (count % 2))

    assert verdicts(step) == {"deterministic" if count == 256 else "nondeterministic"}


def test_numbers_of_tensors_that_are_gone_are_forgotten_and_only_so_many_are_known() -> None:
    tracer, x = DeterminismTracer(), torch.randn(3)
    with tracer:
        known = tracer._session.recorder.storages.indices.values
        kept = [torch.ones(1) for _ in range(MOST_TENSORS + 9)]
        assert len(known.live) == MOST_TENSORS
        assert (known.of(kept[0]).one, known.of(kept[-1]).one) == (None, 1)
        del kept[:-1]
        for _ in range(MOST_TENSORS):
            x = x + 1.5
        assert len(known.live) == 1, "while others are computed"
        assert known.of(kept[0]).one == 1
