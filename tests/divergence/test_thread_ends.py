"""What other threads trained is compared by what it is, in whatever order they came."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.recording.values.reading import recorded
from tracer import DeterminismTracer
from tracer.divergence.comparing import compare_ends
from tracer.recording.memory_observers import MemoryObserver
from tracer.recording.storage import native_code
from tracer.trace.values import ValueKind, Values

SHARED, PLAIN, BUFFERS = "one model of all", "a tensor of no module", "buffers and momentum"


def _trainer(kind: str, seed: int) -> Callable[[], None]:
    """Two steps of a member that draws from its own generator alone."""
    generator = torch.Generator().manual_seed(seed)
    if kind == PLAIN:
        weight = torch.randn(3, 2, generator=generator).requires_grad_()
        parameters, model = [weight], lambda batch: batch @ weight
    else:
        net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        for parameter in net.parameters():
            torch.nn.init.uniform_(parameter, generator=generator)
        parameters, model = [*net.parameters()], net
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9 if kind == BUFFERS else 0.0)

    def train() -> None:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.rand(4, 3, generator=generator)).square().sum().backward()
            optimizer.step()

    return train


def ends_of(path: Path, kind: str, order: Sequence[int], seeds: Sequence[int] = (0, 1, 2)) -> Values:
    """The values of a program whose threads train in ``order``, each after the one before."""
    members = [_trainer(kind, seed) for seed in seeds]

    def program() -> None:
        torch.ones(2).add(1)
        for number in order:
            thread = threading.Thread(target=members[number])
            thread.start()
            thread.join()

    gc.collect()  # models of earlier runs and tests
    return recorded(path, program)


@pytest.mark.parametrize("kind", [SHARED, PLAIN, BUFFERS])
def test_equal_members_that_came_in_another_order_are_no_difference(kind: str, tmp_path: Path) -> None:
    first, second = ends_of(tmp_path / "1.values", kind, (0, 1, 2)), ends_of(tmp_path / "2.values", kind, (2, 0, 1))
    compared = compare_ends(first, second)
    assert (compared.ends, compared.ends_compared > 0) == ((), True)
    other = compare_ends(first, ends_of(tmp_path / "3.values", kind, (0, 1, 2), (0, 1, 7))).ends
    assert {end.kind for end in other} >= {ValueKind.PARAMETER}


def test_a_model_that_the_recorded_thread_stepped_first_is_compared_by_its_name(tmp_path: Path) -> None:
    def program(more: int) -> None:
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def train() -> None:
            net(torch.ones(1, 3)).sum().backward()
            optimizer.step()

        train()
        for _ in range(more):
            thread = threading.Thread(target=train)
            thread.start()
            thread.join()

    values = []
    for run, more in enumerate((1, 1, 2)):
        gc.collect()  # models of earlier runs and tests
        values.append(recorded(tmp_path / f"{run}.values", partial(program, more)))
    assert not compare_ends(values[0], values[1]).ends
    assert {end.name for end in compare_ends(values[0], values[2]).ends} == {"Linear.weight", "Linear.bias"}


@pytest.mark.parametrize("is_thread", [True, False])
def test_a_step_that_cannot_be_followed_is_no_error_of_the_program(
    is_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    raised: list[BaseException] = []

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("dictionary changed size during iteration")

    def train() -> None:
        try:
            weight.sum().backward()
            optimizer.step()
        except RuntimeError as error:
            raised.append(error)

    monkeypatch.setattr(MemoryObserver, "optimizer_steps", fails)
    tracer = DeterminismTracer()
    with tracer:
        if is_thread:
            thread = threading.Thread(target=train)
            thread.start()
            thread.join()
        else:
            train()
    assert not raised
    assert weight.tolist() == pytest.approx([0.9, 0.9])
    assert tracer.trace.sources[0].partial == "RuntimeError"


def test_modules_are_looked_through_while_others_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Growing(dict[str, Any]):
        """Looked at one by one, it is another one after the first."""

        def items(self) -> Any:
            for pair in super().items():
                self[f"module {len(self)}"] = None
                yield pair

    monkeypatch.setattr(native_code, "sys", SimpleNamespace(modules=Growing({"this": native_code})))
    assert native_code.is_new(afresh=True)
