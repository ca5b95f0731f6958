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


DISTINCT, DUPLICATES, EXACT, ONTO_ZEROS = (
    DataShown.DISTINCT,
    DataShown.DUPLICATES,
    DataShown.EXACT,
    DataShown.TWICE_ONTO_ZEROS,
)
TIES, NO_TIES, NAN = DataShown.TIES, DataShown.NO_TIES, float("nan")
grid, zeros, full = torch.tensor, torch.zeros, torch.full


def embedded(index: list[int], **options: int) -> None:
    F.embedding(grid(index), torch.randn(3, 2, requires_grad=True), **options).mul(0.1).sum().backward()


#: Each op's name stands before the comma.
CALLS: dict[str, tuple[Callable[[], Any], DataShown]] = {
    "index_add, each once": (lambda: torch.randn(4).index_add_(0, UNIQUE, HALVES), DISTINCT),
    "index_add, twice onto zeros": (lambda: zeros(4).index_add_(0, TWICE, HALVES), ONTO_ZEROS),
    "index_add, twice onto numbers": (lambda: full((4,), 0.1).index_add_(0, TWICE, HALVES), DUPLICATES),
    "index_add, twice, a NaN": (lambda: zeros(4).index_add_(0, TWICE, grid([0.5, NAN, 0.1])), DUPLICATES),
    "index_add, thrice onto zeros": (lambda: zeros(4).index_add_(0, THRICE, HALVES), DUPLICATES),
    "index_add, counts": (lambda: zeros(4).index_add_(0, THRICE, ONES), EXACT),
    "index_add, counts times a half": (lambda: zeros(4).index_add_(0, THRICE, ONES, alpha=0.5), DUPLICATES),
    "index_add, counts beyond what is exact": (lambda: full((4,), 2.0**24).index_add_(0, THRICE, ONES), DUPLICATES),
    "index_add, counts in half precision beyond it": (
        lambda: zeros(4, dtype=torch.float16).index_add_(0, THRICE, full((3,), 1000.0).half()),
        DUPLICATES,
    ),
    "index_add, each once of many places": (lambda: zeros(99_999).index_add_(0, UNIQUE, HALVES), DISTINCT),
    "index_add, twice onto zeros of many places": (lambda: zeros(99_999).index_add_(0, TWICE, HALVES), ONTO_ZEROS),
    "index_add, thrice onto zeros of many places": (lambda: zeros(99_999).index_add_(0, THRICE, HALVES), DUPLICATES),
    "scatter, each once": (lambda: zeros(2, 3).scatter_(1, grid([[0, 1], [0, 2]]), torch.randn(2, 2)), DISTINCT),
    "scatter, twice in a row": (lambda: zeros(2, 3).scatter_(1, grid([[0, 1], [2, 2]]), torch.randn(2, 2)), DUPLICATES),
    "scatter_add, each once": (
        lambda: torch.randn(3, 2).scatter_add_(0, grid([[0, 1], [1, 0]]), torch.randn(2, 2)),
        DISTINCT,
    ),
    "scatter_reduce, mean of several": (lambda: zeros(3).scatter_reduce_(0, THRICE, ONES, "mean"), DUPLICATES),
    "scatter_reduce, counts without what stood there": (
        lambda: full((3,), 0.1).scatter_reduce_(0, THRICE, ONES, "sum", include_self=False),
        EXACT,
    ),
    "index_put, by two indices each once": (
        lambda: torch.randn(3, 3).index_put_((grid([0, 0, 1]), grid([0, 1, -1])), HALVES, accumulate=True),
        DISTINCT,
    ),
    "index_put, named from the end and from the start": (
        lambda: torch.randn(3, 3).index_put_((grid([0, 0, 0]), grid([2, 1, -1])), HALVES),
        DUPLICATES,
    ),
    "put, each once": (lambda: zeros(2, 2).put_(UNIQUE, HALVES, accumulate=True), DISTINCT),
    "put, twice": (lambda: torch.ones(2, 2).put_(TWICE, HALVES, accumulate=True), DUPLICATES),
    "index_copy, each once": (lambda: zeros(4).index_copy_(0, UNIQUE, HALVES), DISTINCT),
    "index_copy, twice": (lambda: zeros(4).index_copy_(0, TWICE, HALVES), DUPLICATES),
    "topk, a tie at the edge": (lambda: grid([3.0, 2.0, 2.0, 0.0]).topk(2), TIES),
    "topk, a tie among the chosen": (lambda: grid([3.0, 3.0, 2.0, 0.0]).topk(3), TIES),
    "topk, a tie below the edge": (lambda: grid([3.0, 2.0, 0.0, 0.0]).topk(2), NO_TIES),
    "topk, a NaN": (lambda: grid([3.0, NAN, 0.0]).topk(2), DataShown.NAN),
    "kthvalue, without ties": (lambda: grid([[3.0, 1.0], [2.0, 0.0]]).kthvalue(1), NO_TIES),
    "kthvalue, tied in one row": (lambda: grid([[3.0, 1.0], [2.0, 2.0]]).kthvalue(1), TIES),
    "median, without ties": (lambda: grid([3.0, 1.0, 2.0]).median(0), NO_TIES),
    "median, tied": (lambda: grid([2.0, 1.0, 2.0]).median(0), TIES),
    "embedding_dense_backward, no row thrice": (lambda: embedded([0, 1, 1]), ONTO_ZEROS),
    "embedding_dense_backward, a row thrice": (lambda: embedded([1, 1, 1]), DUPLICATES),
    "embedding_dense_backward, one that pads": (lambda: embedded([1, 1, 1, 0], padding_idx=1), DISTINCT),
}


@pytest.mark.parametrize("what", CALLS)
def test_data_show_what_falls_together(what: str) -> None:
    program, expected = CALLS[what]
    assert shown(program, what.partition(",")[0]) == {expected}


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
def test_idioms_that_write_each_slot_once_are_let_off_and_their_twins_are_not(program: Callable[[bool], None]) -> None:
    assert verdicts(lambda: program(False)) == {}
    assert verdicts(lambda: program(True))


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


def test_one_call_with_duplicates_keeps_the_group_and_ends_the_looking_and_what_sizes_settle_is_not_read() -> None:
    with DeterminismTracer(data_facts=True) as tracer:
        for index in (UNIQUE, TWICE, UNIQUE):
            torch.ones(4).index_add_(0, index, HALVES)
        zeros(2, 4).scatter_(1, grid([[1], [2]]), torch.rand(2, 1))
    (group,) = (one for one in tracer.trace.calls if "index_add" in one.op)
    assert (group.count, group.data) == (3, {DISTINCT: 1, DUPLICATES: 1})
    (found,) = (one for one in tracer.report(backend="cuda").findings if "index_add" in one.op)
    assert (found.verdict, found.data) == (Verdict.NONDETERMINISTIC, group.data)
    assert [other.op for other in tracer.trace.calls if other.data] == [group.op]
