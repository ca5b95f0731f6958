"""What Python chose otherwise (a part of a tensor, another tensor, an order) is no foreign write and no kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.support.lines import line_of
from tracer import DeterminismTracer
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Divergence, read_recording


@pytest.fixture
def compared(tmp_path: Path) -> Callable[..., Divergence]:
    def compare(step: Callable[..., object], first: object, second: object) -> Divergence:
        recordings = []
        for name, given in (("first", first), ("second", second)):
            path = tmp_path / f"{name}.values"
            torch.manual_seed(0)
            with DeterminismTracer(values=path):
                step(given)
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


def test_another_dtype_is_an_argument(compared: Callable[..., Divergence]) -> None:
    def step(dtype: torch.dtype) -> None:
        torch.ones(3).to(dtype)

    (root,) = compared(step, torch.float16, torch.float64).roots
    assert root.why == "one of its arguments differs: dtype=torch.float16 and dtype=torch.float64"


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


def test_a_write_of_numpys_stays_one(compared: Callable[..., Divergence]) -> None:
    def step(value: float) -> None:
        made = torch.randn(3)
        made.numpy()[1] = value
        made[1:].exp()

    (root,) = compared(step, 1.0, 2.0).roots
    assert root.cause is RootCause.OUTSIDE_CHANGE


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
