"""Sequences of calls are aligned, whatever is in between; what Python chose otherwise is no foreign write or kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.divergence.recorded import Recorder, Run, Tensor
from tests.support.lines import line_of
from tracer import DeterminismTracer
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Divergence, read_recording
from tracer.divergence.pairing import Gap, Match, align, gaps_of
from tracer.report.sections.runs import divergence_headline
from tracer.trace.values import ValueKind

KEYS = st.lists(st.integers(0, 4), max_size=40)


def of(first: list[int], second: list[int], steps: tuple[list[int], list[int]] = ([], [])) -> list[Match]:
    return align(np.array(first, np.int64), np.array(second, np.int64), *steps)


def matched(matches: list[Match]) -> int:
    return sum(match.length for match in matches)


def check(matches: list[Match], first: list[int], second: list[int]) -> None:
    at = at2 = 0
    for one, two, length in matches:
        assert one >= at
        assert two >= at2
        assert length > 0
        assert first[one : one + length] == second[two : two + length]
        at, at2 = one + length, two + length
    covered = gaps_of(matches, len(first), len(second))
    assert matched(matches) + sum(gap.first_end - gap.first for gap in covered) == len(first)
    assert matched(matches) + sum(gap.second_end - gap.second for gap in covered) == len(second)


@given(KEYS)
def test_a_sequence_is_one_match_with_itself(keys: list[int]) -> None:
    assert of(keys, keys) == ([Match(0, 0, len(keys))] if keys else [])
    assert gaps_of(of(keys, keys), len(keys), len(keys)) == []


@given(KEYS, KEYS)
def test_no_key_is_left_on_both_sides_of_a_gap(first: list[int], second: list[int]) -> None:
    matches = of(first, second)
    check(matches, first, second)
    for lo, hi, lo2, hi2 in gaps_of(matches, len(first), len(second)):
        assert not set(first[lo:hi]) & set(second[lo2:hi2])


@given(KEYS, KEYS, st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_steps_never_make_a_wrong_match(first: list[int], second: list[int], ours: set[int], theirs: set[int]) -> None:
    check(of(first, second, (sorted(ours), sorted(theirs))), first, second)


@given(KEYS, st.data())
def test_a_call_too_many_is_one_gap_at_its_place(keys: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(keys)))
    second = [*keys[:place], 9, *keys[place:]]
    assert gaps_of(of(keys, second), len(keys), len(second)) == [Gap(place, place, place, place + 1)]
    assert gaps_of(of(second, keys), len(second), len(keys)) == [Gap(place, place + 1, place, place)]


def test_a_call_too_many_in_each_of_many_steps_is_found_in_each() -> None:
    step, more = list(range(50)), [*range(20), 99, *range(20, 50)]
    first, second = step * 600, more * 600
    starts = [50 * n for n in range(600)], [51 * n for n in range(600)]
    matches = of(first, second, starts)
    check(matches, first, second)
    assert matched(matches) == len(first)


# --- calls in any order ---
def branches(run: Run, order: str = "ab", *, is_shared: bool = False, is_forked: bool = True) -> None:
    """Branches of ``torch.jit.fork``, each of two calls, in this order; they may add to one tensor as they end."""
    shared = run.enter(ValueKind.OUTSIDE, "shared", 0)
    weights = {name: run.enter(ValueKind.PARAMETER, name, name) for name in "ab"}
    results = {}
    for name in order:
        hidden = run.call("mm.default", weights[name], line=7, is_forked=is_forked)
        results[name] = run.call("tanh.default", hidden, line=7, is_forked=is_forked)
        if is_shared:
            shared = run.call("add_.Tensor", shared, results[name], line=7, is_forked=is_forked)
    run.call("add.Tensor", results["a"], results["b"], shared, line=8)


def test_branches_in_another_order_agree(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    compared = compare_recordings(record(branches), record(branches, order="ba"))
    assert compared.agrees
    assert (compared.reordered, compared.calls_compared, compared.only) == (2, 5, (0, 0))
    assert "in all 5 compared calls, 2 of them in another order" in divergence_headline(compared)


def test_what_branches_add_to_in_the_order_in_which_they_come_differs_by_the_order_of_threads(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    compared = compare_recordings(record(branches, is_shared=True), record(branches, order="ba", is_shared=True))
    (root,) = compared.roots
    assert (root.cause, root.op, root.location) == (RootCause.THREAD_ORDER, "aten.add_.Tensor", "train.py:7")


@pytest.mark.parametrize("order", ["ba", "aab"])
def test_calls_of_one_thread_have_their_order(tmp_path: Path, order: str) -> None:
    record = Recorder(tmp_path)
    compared = compare_recordings(record(branches, is_forked=False), record(branches, order=order, is_forked=False))
    assert not compared.agrees
    assert compared.reordered == 0


# --- properties ---


#: One call: which op, how far back its inputs were made, and whether a step begins before it.
STEP = st.tuples(st.integers(0, 3), st.sets(st.integers(1, 6), max_size=3), st.booleans(), st.booleans())

PROGRAMS = st.lists(STEP, min_size=1, max_size=25)


def run_program(run: Run, calls: list[Any], noise: dict[int, int] | None = None, extra: int | None = None) -> None:
    made: list[Tensor] = [run.enter(ValueKind.PARAMETER, "w", 0)]
    step = 0
    for index, (op, back, begins, fresh) in enumerate(calls):
        if begins:
            step += 1
            run.writer.step(step)
        if index == extra:
            run.call("extra.default", line=999)
        read = [made[-way] for way in sorted(back) if way <= len(made)]
        if fresh:
            read.append(run.enter(ValueKind.BATCH, "loader", index, index))
        made.append(run.call(f"op{op}.default", *read, line=op, numbers=str(op), noise=(noise or {}).get(index)))
    if extra == len(calls):
        run.call("extra.default", line=999)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@given(calls=PROGRAMS)
def test_a_recording_agrees_with_itself(folder: Path, calls: list[Any]) -> None:
    record = Recorder(folder)
    found = compare_recordings(record(run_program, calls=calls), record(run_program, calls=calls))
    assert found.agrees
    assert found.calls_compared == len(calls)
    assert (found.roots, found.follows, found.not_digested) == ((), 0, 0)


@given(calls=PROGRAMS, data=st.data())
def test_one_result_that_differs_is_one_root_there(folder: Path, calls: list[Any], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(calls) - 1))
    record = Recorder(folder)
    first = record(run_program, calls=calls)
    second = record(run_program, calls=calls, noise={place: 1})
    found = compare_recordings(first, second)
    (root,) = found.roots
    assert (root.cause, root.call, root.other_call) == (RootCause.KERNEL, place, place)
    differing = (first.values.inputs != second.values.inputs) | (first.values.outputs != second.values.outputs)
    assert root.follows == found.follows == int(differing.sum()) - 1


@given(calls=PROGRAMS, data=st.data())
def test_one_call_too_many_is_one_root_there(folder: Path, calls: list[Any], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(calls)))
    record = Recorder(folder)
    plain, more = record(run_program, calls=calls), record(run_program, calls=calls, extra=place)
    for first, second, only in ((plain, more, (0, 1)), (more, plain, (1, 0))):
        found = compare_recordings(first, second)
        (root,) = found.roots
        assert (root.cause, root.op, root.call) == (RootCause.STRUCTURE, "aten.extra.default", place)
        assert (found.only, found.calls_compared) == (only, len(calls))


@given(calls=PROGRAMS, places=st.sets(st.integers(0, 24), min_size=1, max_size=4))
def test_whatever_differs_is_told(folder: Path, calls: list[Any], places: set[int]) -> None:
    """No difference goes unmentioned: each is a root, or follows from one that comes before it."""
    record = Recorder(folder)
    first = record(run_program, calls=calls)
    second = record(run_program, calls=calls, noise=dict.fromkeys(places, 1))
    found = compare_recordings(first, second)
    differing = int((first.values.outputs != second.values.outputs).sum())
    told = sum(1 + root.same_cause + root.follows for root in found.roots)
    assert told == differing
    assert found.agrees == (not differing)


@pytest.fixture
def compared(tmp_path: Path) -> Callable[..., Divergence]:
    def compare(step: Callable[..., object], first: object, second: object) -> Divergence:
        recordings = []
        for name, case in (("first", first), ("second", second)):
            path = tmp_path / f"{name}.values"
            torch.manual_seed(0)
            with DeterminismTracer(values=path):
                step(case)
            recordings.append(read_recording(path))
        return compare_recordings(*recordings, may_resume=False)

    return compare


def reads_a_part(place: int) -> None:
    data = torch.randn(12, 4)
    part = data[place : place + 4]
    part.exp().sum()  # the root


def reads_more_of_it(size: int) -> None:
    data = torch.randn(12, 4)
    for part in data.split(size)[:1]:
        part.exp().sum()  # the root


def writes_to_a_part(place: int) -> None:
    target = torch.zeros(6)
    target[place] = 1.0  # the root
    (target * 2).sum()


def writes_a_number_to_a_part(place: int) -> None:
    target = torch.zeros(6)
    target[place].fill_(1.0)  # the root
    (target * 2).sum()


def draws_like_another(size: int) -> None:
    like = torch.zeros(9)[:size]
    torch.ones_like(like)  # the root


@pytest.mark.parametrize(
    "step", [reads_a_part, reads_more_of_it, writes_to_a_part, writes_a_number_to_a_part, draws_like_another]
)
def test_another_part_of_a_tensor_is_an_argument(
    step: Callable[[int], None], compared: Callable[..., Divergence]
) -> None:
    found = compared(step, 3, 5)
    (root,) = found.roots
    assert root.cause is RootCause.ARGUMENT
    assert root.location.endswith(f":{line_of(step, '# the root')}")
    assert root.why.startswith("it is given different parts of a tensor: ")
    assert root.follows >= 0
    assert compared(step, 3, 3).agrees


def test_the_same_bytes_of_another_part_are_no_difference(compared: Callable[..., Divergence]) -> None:
    def step(place: int) -> None:
        torch.ones(12, 4)[place : place + 4].exp().sum()

    assert compared(step, 3, 5).agrees


def test_other_numbers_beside_another_part_are_told_as_numbers(compared: Callable[..., Divergence]) -> None:
    def step(place: int) -> None:
        torch.randn(12)[place].mul(place)

    (root,) = compared(step, 3, 5).roots
    assert root.why == "one of its arguments differs: other=3 and other=5"


@pytest.mark.parametrize("together", [False, True])
def test_another_order_of_tensors_is_what_came_in(together: bool, compared: Callable[..., Divergence]) -> None:
    def step(order: list[int]) -> None:
        made = [torch.randn(3) for _ in range(3)]
        chosen = [made[at] for at in order]
        if together:
            torch.stack(chosen)
        else:
            [one.exp() for one in chosen]

    (root,) = compared(step, [0, 1, 2], [0, 2, 1]).roots
    assert root.cause is RootCause.INPUT_DATA
    assert root.why.startswith(
        "it is given different tensors in the second run, or the same ones in another order: call "
    )


def test_memory_that_others_filled_is_not_unwritten(compared: Callable[..., Divergence]) -> None:
    def step(value: float) -> None:
        buffer = torch.empty(3)
        buffer.numpy()[:] = value
        buffer.exp()

    (root,) = compared(step, 1.0, 2.0).roots
    assert root.cause is RootCause.INPUT_DATA


@pytest.mark.parametrize("rest", [0, 1], ids=["last", "before another"])
@pytest.mark.parametrize("add", [torch.Tensor.add_, lambda part, _: part.mul_(0).add_(1), torch.Tensor.fill_])
def test_what_reads_a_whole_tensor_follows_from_an_op_on_another_part_of_it(
    add: Callable[[torch.Tensor, int], object], rest: int, compared: Callable[..., Divergence]
) -> None:
    def step(places: Sequence[int]) -> None:
        made = torch.zeros(2, 8)
        for place in places:
            add(made[1, place], 1)
        for row in range(rest):
            made[row, 0].add_(1)
        made.log1p()

    (root,) = compared(step, [3, 5], [2, 6]).roots
    assert root.cause is RootCause.ARGUMENT
    assert root.first != root.second


def test_every_root_of_which_something_is_trained_reaches_training(compared: Callable[..., Divergence]) -> None:
    def step(number: float) -> None:
        weight = torch.ones(2, requires_grad=True)
        first = torch.full((2,), number)
        second = torch.full((2,), number + 0.5)
        third = torch.full((2,), 2 * number)
        (weight * (first + second)).sum().backward()
        third.exp()

    found = compared(step, 1.0, 2.0)
    assert [root.reaches_training for root in found.roots] == [True, True, False]


def test_what_is_chosen_by_a_draw_that_differs_follows_from_it(compared: Callable[..., Divergence]) -> None:
    def step(seed: int) -> None:
        made = [torch.randn(3) for _ in range(8)]
        order = torch.randperm(8, generator=torch.Generator().manual_seed(seed)).tolist()
        torch.stack([made[at] for at in order])

    (root,) = compared(step, 1, 2).roots
    assert root.cause is RootCause.DRAW


@pytest.mark.parametrize("differing", [0, 2])
def test_a_row_of_data_that_differs_is_input_data_whichever_is_read_first(
    differing: int, compared: Callable[..., Divergence]
) -> None:
    def step(rows: torch.Tensor) -> None:
        for row in rows:
            row.exp()

    other = torch.ones(4, 3)
    other[differing] = 2
    root = compared(step, torch.ones(4, 3), other).first
    assert root is not None
    assert root.cause is RootCause.INPUT_DATA


def test_a_row_that_was_read_before_changed_while_no_op_wrote(compared: Callable[..., Divergence]) -> None:
    def step(late: tuple[torch.Tensor, float]) -> None:
        late[0][0].exp()
        late[0].numpy()[0] += late[1]
        late[0][0].exp()

    root = compared(step, (torch.ones(4, 3), 0.0), (torch.ones(4, 3), 1.0)).first
    assert root is not None
    assert root.cause is RootCause.OUTSIDE_CHANGE
