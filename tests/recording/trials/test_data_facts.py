"""What data settle, each with a twin that they do not; one call with duplicates keeps its group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.support.bits import bits
from tracer import DeterminismTracer
from tracer.names import About, Cause, DataShown, Verdict

ONES = torch.ones(3)
UNIQUE, TWICE, THRICE = torch.tensor([0, 2, 1]), torch.tensor([0, 2, 0]), torch.tensor([1, 1, 1])
HALVES = torch.tensor([0.5, 0.25, 0.1])


def shown(program: Callable[[], Any], op: str) -> set[DataShown]:
    with DeterminismTracer(data_facts=True) as tracer:
        program()
    groups = [group for group in tracer.trace.calls if group.op.split(".")[1].rstrip("_") == op]
    assert groups, [group.op for group in tracer.trace.calls]
    return {fact for group in groups for fact in group.data}


def grid(values: Any) -> torch.Tensor:
    return torch.tensor(values)


CALLS: dict[str, tuple[str, Callable[[], Any], DataShown]] = {
    "index_add, each once": ("index_add", lambda: torch.randn(4).index_add_(0, UNIQUE, HALVES), DataShown.DISTINCT),
    "index_add, twice onto zeros": (
        "index_add",
        lambda: torch.zeros(4).index_add_(0, TWICE, HALVES),
        DataShown.TWICE_ONTO_ZEROS,
    ),
    "index_add, twice onto numbers": (
        "index_add",
        lambda: torch.full((4,), 0.1).index_add_(0, TWICE, HALVES),
        DataShown.DUPLICATES,
    ),
    "index_add, twice, a NaN": (
        "index_add",
        lambda: torch.zeros(4).index_add_(0, TWICE, grid([0.5, float("nan"), 0.1])),
        DataShown.DUPLICATES,
    ),
    "index_add, thrice onto zeros": (
        "index_add",
        lambda: torch.zeros(4).index_add_(0, THRICE, HALVES),
        DataShown.DUPLICATES,
    ),
    "index_add, counts": ("index_add", lambda: torch.zeros(4).index_add_(0, THRICE, ONES), DataShown.EXACT),
    "index_add, counts times a half": (
        "index_add",
        lambda: torch.zeros(4).index_add_(0, THRICE, ONES, alpha=0.5),
        DataShown.DUPLICATES,
    ),
    "index_add, counts that grow past what is exact": (
        "index_add",
        lambda: torch.full((4,), 2.0**24).index_add_(0, THRICE, ONES),
        DataShown.DUPLICATES,
    ),
    "index_add, counts in half precision past what is exact": (
        "index_add",
        lambda: torch.zeros(4, dtype=torch.float16).index_add_(0, THRICE, torch.full((3,), 1000.0).half()),
        DataShown.DUPLICATES,
    ),
    "scatter, each once": (
        "scatter",
        lambda: torch.zeros(2, 3).scatter_(1, grid([[0, 1], [0, 2]]), torch.randn(2, 2)),
        DataShown.DISTINCT,
    ),
    "scatter, one slot twice in one row": (
        "scatter",
        lambda: torch.zeros(2, 3).scatter_(1, grid([[0, 1], [2, 2]]), torch.randn(2, 2)),
        DataShown.DUPLICATES,
    ),
    "scatter_add, each once": (
        "scatter_add",
        lambda: torch.randn(3, 2).scatter_add_(0, grid([[0, 1], [1, 0]]), torch.randn(2, 2)),
        DataShown.DISTINCT,
    ),
    "scatter_reduce, mean of several": (
        "scatter_reduce",
        lambda: torch.zeros(3).scatter_reduce_(0, THRICE, ONES, "mean"),
        DataShown.DUPLICATES,
    ),
    "scatter_reduce, counts without what stood there": (
        "scatter_reduce",
        lambda: torch.full((3,), 0.1).scatter_reduce_(0, THRICE, ONES, "sum", include_self=False),
        DataShown.EXACT,
    ),
    "index_put by two indices, each once": (
        "index_put",
        lambda: torch.randn(3, 3).index_put_((grid([0, 0, 1]), grid([0, 1, -1])), HALVES, accumulate=True),
        DataShown.DISTINCT,
    ),
    "index_put, one name from the end and one from the start": (
        "index_put",
        lambda: torch.randn(3, 3).index_put_((grid([0, 0, 0]), grid([2, 1, -1])), HALVES),
        DataShown.DUPLICATES,
    ),
    "put, each once": ("put", lambda: torch.zeros(2, 2).put_(UNIQUE, HALVES, accumulate=True), DataShown.DISTINCT),
    "put, twice": ("put", lambda: torch.ones(2, 2).put_(TWICE, HALVES, accumulate=True), DataShown.DUPLICATES),
    "index_copy, each once": ("index_copy", lambda: torch.zeros(4).index_copy_(0, UNIQUE, HALVES), DataShown.DISTINCT),
    "index_copy, twice": ("index_copy", lambda: torch.zeros(4).index_copy_(0, TWICE, HALVES), DataShown.DUPLICATES),
    "topk without ties": ("topk", lambda: grid([3.0, 1.0, 2.0, 0.0]).topk(2), DataShown.NO_TIES),
    "topk, a tie at the edge": ("topk", lambda: grid([3.0, 2.0, 2.0, 0.0]).topk(2), DataShown.TIES),
    "topk, a tie among the chosen": ("topk", lambda: grid([3.0, 3.0, 2.0, 0.0]).topk(3), DataShown.TIES),
    "topk, a tie below the edge": ("topk", lambda: grid([3.0, 2.0, 0.0, 0.0]).topk(2), DataShown.NO_TIES),
    "topk, a NaN": ("topk", lambda: grid([3.0, float("nan"), 0.0]).topk(2), DataShown.NAN),
    "kthvalue without ties": ("kthvalue", lambda: grid([[3.0, 1.0], [2.0, 0.0]]).kthvalue(1), DataShown.NO_TIES),
    "kthvalue, tied in one row": ("kthvalue", lambda: grid([[3.0, 1.0], [2.0, 2.0]]).kthvalue(1), DataShown.TIES),
    "median without ties": ("median", lambda: grid([3.0, 1.0, 2.0]).median(0), DataShown.NO_TIES),
    "median, tied": ("median", lambda: grid([2.0, 1.0, 2.0]).median(0), DataShown.TIES),
    "embedding, no row thrice": (
        "embedding_dense_backward",
        lambda: F.embedding(grid([0, 1, 1]), torch.randn(3, 2, requires_grad=True)).mul(0.1).sum().backward(),
        DataShown.TWICE_ONTO_ZEROS,
    ),
    "embedding, a row thrice": (
        "embedding_dense_backward",
        lambda: F.embedding(grid([1, 1, 1]), torch.randn(3, 2, requires_grad=True)).mul(0.1).sum().backward(),
        DataShown.DUPLICATES,
    ),
    "embedding, a row thrice that pads": (
        "embedding_dense_backward",
        lambda: (
            F.embedding(grid([1, 1, 1, 0]), torch.randn(3, 2, requires_grad=True), padding_idx=1)
            .mul(0.1)
            .sum()
            .backward()
        ),
        DataShown.DISTINCT,
    ),
}


@pytest.mark.parametrize("what", CALLS)
def test_data_show_what_falls_together(what: str) -> None:
    op, program, expected = CALLS[what]
    assert shown(program, op) == {expected}


def verdicts(program: Callable[[], Any]) -> dict[str, Verdict]:
    """What a report for CUDA says of the calls that it accuses, those that data settle left out."""
    with DeterminismTracer(data_facts=True) as tracer:
        program()
    found = (one for one in tracer.report(backend="cuda").findings if one.about is About.CALL)
    return {one.op: one.verdict for one in found if one.verdict in ACCUSED and one.cause is not Cause.RNG}


ACCUSED = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)


def log_prob(several: bool) -> None:
    logits = torch.randn(5, 4, requires_grad=True)
    if several:  # the same gather by hand, of several entries a row
        picked = torch.tensor([[0, 0, 0], [1, 2, 3], [1, 1, 2], [3, 3, 3], [0, 1, 2]])
        logits.log_softmax(-1).gather(1, picked).square().sum().backward()
    else:
        torch.distributions.Categorical(logits=logits).log_prob(torch.tensor([0, 1, 1, 3, 2])).sum().backward()


def one_hot(several: bool) -> None:
    index = torch.tensor([[1], [2]]) if not several else torch.tensor([[1, 1], [2, 0]])
    torch.zeros(2, 4).scatter_(1, index, torch.rand(2, index.shape[1]))


def packed(several: bool) -> None:
    batch = torch.randn(3, 4, 2, requires_grad=True)
    if several:
        batch.index_select(0, torch.tensor([0, 0, 0, 1])).square().sum().backward()
    else:
        lengths = torch.tensor([2, 4, 3])
        packed = torch.nn.utils.rnn.pack_padded_sequence(batch, lengths, batch_first=True, enforce_sorted=False)
        packed.data.mul(0.1).sum().backward()


def added(several: bool) -> None:
    index = torch.tensor([0, 1, 1, 1]) if several else torch.tensor([3, 1, 0, 2])
    torch.randn(4).index_add_(0, index, torch.randn(4))


@pytest.mark.parametrize("program", [log_prob, one_hot, packed, added])
def test_idioms_that_write_each_slot_once_are_let_off_and_their_twins_are_not(
    program: Callable[[bool], None],
) -> None:
    assert verdicts(lambda: program(False)) == {}
    assert verdicts(lambda: program(True))


def test_one_call_with_duplicates_keeps_the_group_and_ends_the_looking() -> None:
    def program() -> None:
        for index in (UNIQUE, TWICE, UNIQUE):
            torch.ones(4).index_add_(0, index, HALVES)

    with DeterminismTracer(data_facts=True) as tracer:
        program()
    (group,) = (one for one in tracer.trace.calls if "index_add" in one.op)
    assert group.count == 3
    assert group.data == {DataShown.DISTINCT: 1, DataShown.DUPLICATES: 1}
    (found,) = (one for one in tracer.report(backend="cuda").findings if "index_add" in one.op)
    assert found.verdict is Verdict.NONDETERMINISTIC
    assert found.data == group.data


def test_what_sizes_settle_is_not_read() -> None:
    with DeterminismTracer(data_facts=True) as tracer:
        torch.zeros(2, 4).scatter_(1, torch.tensor([[1], [2]]), torch.rand(2, 1))
        torch.zeros(4).index_add_(0, torch.randperm(4), torch.rand(4))
    assert not any(group.data for group in tracer.trace.calls)


def test_looking_changes_nothing_and_nobody_sees_it() -> None:
    def program() -> list[Any]:
        torch.manual_seed(0)
        w = torch.randn(5, 3, requires_grad=True)
        loss = w[torch.tensor([0, 0, 4])].pow(2).sum() + w.topk(2, dim=0).values.sum()
        loss.backward()
        return [bits(w.grad), loss.item(), torch.get_rng_state().tolist()]

    with DeterminismTracer() as plain:
        expected = program()
    with DeterminismTracer(data_facts=True) as looked:
        assert program() == expected
    assert [(one.op, one.count) for one in plain.trace.calls] == [(one.op, one.count) for one in looked.trace.calls]


def test_a_call_that_fails_is_the_programs_own_affair() -> None:
    with DeterminismTracer(data_facts=True), pytest.raises((IndexError, RuntimeError)):
        torch.zeros(3).index_add_(0, torch.tensor([7]), torch.ones(1))
