"""A view that changes the order of memory alone is digested as it lies there, and memory that was digested once is not
digested again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.recording.values.reading import Row, entries, recorded, rows
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Recording
from tracer.recording.values import digests
from tracer.recording.values.digest_table import DigestTable
from tracer.trace.values import Mark, ValueKind, Values
from tracer.trace.values.columns import TURN_SHIFT

SIZE = (64, 96)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were brought into order, a number a time."""
    found: list[int] = []
    content = digests.Layout.content

    def counted(self: Any, address: int) -> Any:
        if not self.is_ordered:
            found.append(self.size)
        return content(self, address)

    monkeypatch.setattr(digests.Layout, "content", counted)
    return found


def of(step: Callable[[], Any], path: Path, op: str) -> list[Row]:
    return [row for row in rows(recorded(path, step)) if row.op == op]


def test_it_is_not_brought_into_order_and_its_digest_tells_bytes_and_order_apart(
    tmp_path: Path, copied: list[int]
) -> None:
    one, two = torch.randn(SIZE), torch.randn(SIZE)

    def read(start: torch.Tensor, turn: Callable[[torch.Tensor], torch.Tensor]) -> Row:
        (row,) = of(lambda: turn(start.exp()).sum(), tmp_path / "run.values", "sum.default")
        return row

    cube: Any = lambda tensor: tensor.view(64, 12, 8).permute(1, 0, 2)  # noqa: E731
    found = [read(start, turn) for start in (one, two) for turn in (torch.t, cube)]
    assert copied == []
    assert len({row.inputs for row in found}) == 4
    assert read(one, torch.t) == found[0]
    assert all(Mark.TURNED in row.mark_bits and row.mark_bits >> TURN_SHIFT for row in found)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(SIZE).exp()[:, 1:].t(),  # part of what lies there
        lambda: torch.ones(SIZE).exp().expand(3, *SIZE).transpose(0, 2),  # elements that lie there once
        lambda: torch.ones(4, 4).exp().t(),  # little
        lambda: torch.ones(SIZE, dtype=torch.complex64).exp().t().conj(),  # a sign that is not in memory
    ],
)
def test_what_is_not_all_of_the_memory_in_another_order_is_read_in_its_own(
    tmp_path: Path, make: Callable[[], torch.Tensor]
) -> None:
    (row,) = of(lambda: make().sum(), tmp_path / "run.values", "sum.default")
    assert Mark.TURNED not in row.mark_bits


def test_what_steps_before_wrote_is_read_in_its_own_order(tmp_path: Path) -> None:
    """A resumed run has it from its checkpoint, where no recorded call wrote it."""
    weight = torch.nn.Parameter(torch.ones(SIZE))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step() -> None:
        for _ in range(3):
            weight.t().exp().sum().backward()
            optimizer.step()

    assert not any(row.mark_bits & Mark.TURNED for row in of(step, tmp_path / "run.values", "exp.default"))


def test_bytes_that_changed_while_no_op_wrote_are_told(tmp_path: Path) -> None:
    def step(noise: float) -> Values:
        def run() -> None:
            made = torch.ones(SIZE).exp()
            made.numpy()[3, 5] += np.float32(noise)
            made.t().sum()

        return recorded(tmp_path / f"{noise}.values", run)

    changed, same = step(1.0), step(0.0)
    assert entries(changed) == [(ValueKind.OUTSIDE_CHANGE, "", -1)]
    found = compare_recordings(Recording(name="first", values=changed), Recording(name="second", values=same))
    assert [root.cause for root in found.roots] == [RootCause.OUTSIDE_CHANGE]


def test_tensors_that_lie_otherwise_are_compared_by_who_wrote_them(tmp_path: Path) -> None:
    def run(name: str, turn: bool, seed: int, read: Callable[[torch.Tensor], Any]) -> Recording:
        torch.manual_seed(seed)
        start = torch.randn(SIZE)

        def step() -> None:
            made = start.exp()
            read(made.as_strided((96, 64), (1, 96)) if turn else made.view(96, 64))

        return Recording(name=name, values=recorded(tmp_path / f"{name}.values", step))

    def roots(first: Recording, second: Recording) -> list[tuple[str, str, int]]:
        found = compare_recordings(first, second)
        return [(root.op.removeprefix("aten."), root.cause, root.follows) for root in found.roots]

    most, whole = (lambda tensor: tensor.max()), (lambda tensor: tensor * 2)
    turned, plain = run("turned", True, 1, most), run("plain", False, 1, most)
    assert Mark.TURNED in rows(turned.values)[-1].mark_bits
    assert Mark.TURNED not in rows(plain.values)[-1].mark_bits
    assert roots(turned, plain) == []  # the largest of the same elements
    assert roots(run("t", True, 1, whole), run("p", False, 1, whole)) == [("mul.Tensor", RootCause.ARGUMENT, 0)]
    assert roots(turned, run("other", False, 2, most)) == [("exp.default", RootCause.INPUT_DATA, 1)]


def test_what_an_op_changed_in_place_is_digested_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Autograd counts the write when the op is over, which is after it was digested."""
    digested: list[int] = []
    of_memory = DigestTable._digested

    def counted(self: Any, known: Any, layout: Any) -> Any:
        digested.append(layout.size)
        return of_memory(self, known, layout)

    monkeypatch.setattr(DigestTable, "_digested", counted)

    def step() -> None:
        mask = torch.empty(SIZE).bernoulli_(0.5)
        mask.div_(0.5)
        mask.mul(2.0)

    recorded(tmp_path / "run.values", step)
    assert digested == 3 * [4 * 64 * 96]
