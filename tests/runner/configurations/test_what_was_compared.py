"""What could not be compared is not equal: how much of what the program computes the answer rests on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tracer.divergence.magnitudes import CompareVerdict
from tracer.report.compared import UNDECIDED, code_of, comparison_json
from tracer.report.sections.configurations import headline

Entries = Callable[[torch.Tensor, torch.Tensor], Any]


class Attention(torch.nn.Module):
    """Returns its result and, as ``entries`` says, its probabilities."""

    def __init__(self, entries: Entries, scale: float = 0.25) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(16, 48)
        self.entries, self.scale = entries, scale

    def forward(self, x: torch.Tensor) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = (q @ k.mT * self.scale).softmax(-1)
        return self.entries(weights @ v, weights)


class Block(torch.nn.Module):
    def __init__(self, entries: Entries, scale: float = 0.25) -> None:
        super().__init__()
        self.attn, self.head = Attention(entries, scale), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.attn(x)
        if isinstance(result, dict):
            result = result["out"]
        out: torch.Tensor = self.head(result if isinstance(result, torch.Tensor) else result[0])
        return out


def training(entries: Entries, scale: float = 0.25) -> Callable[[], None]:
    torch.manual_seed(0)
    model = Block(entries, scale)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(2, 5, 16)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


RETURNS: dict[str, Entries] = {
    "alone": lambda out, weights: out,
    "and None": lambda out, weights: (out, None),
    "and another": lambda out, weights: (out, weights),
    "and several": lambda out, weights: [out, (weights, out * 2)],
    "of a mapping": lambda out, weights: {"out": out, "weights": weights},
    "alone in a mapping": lambda out, weights: {"out": out, "weights": None},
}


@pytest.mark.parametrize("first", ["alone", "and another", "of a mapping"])
@pytest.mark.parametrize("second", RETURNS)
def test_results_are_paired_whatever_else_one_side_returns(first: str, second: str) -> None:
    fault = tracer.compare(training(RETURNS[first]), training(RETURNS[second], scale=0.3), yardstick_runs=1)
    assert fault.first is not None
    assert (fault.first.module, fault.first.step) == ("Block.attn", 0)
    clean = tracer.compare(training(RETURNS[first]), training(RETURNS[second]))
    assert clean.verdict is CompareVerdict.EQUAL
    of_one_side = [one.place for one in clean.only]
    assert clean.compared == (clean.compared[1] - len(of_one_side), clean.compared[1])
    assert all(place.startswith("Block.attn") for place in of_one_side)


def inference(model: torch.nn.Module, *inputs: torch.Tensor) -> Callable[[], None]:
    def run() -> None:
        with torch.no_grad():
            for x in inputs:
                model(x)

    return run


def test_unchanged_parameters_alone_are_not_equal() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    comparison = tracer.compare(inference(net, torch.ones(1, 3, 4)), inference(net, torch.full((1, 6, 4), 2.0)))
    assert (comparison.verdict, comparison.compared) == (CompareVerdict.UNDECIDED, (0, 3))
    assert code_of(comparison) == UNDECIDED
    assert comparison_json(comparison)["compared"] == [0, 3]
    assert comparison.places == 4  # the parameters
    assert comparison.yardstick.runs == 0  # which could decide nothing


def test_a_frozen_parameter_in_an_optimizer_is_no_result() -> None:
    def step(rows: int) -> Callable[[], None]:
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)

        def run() -> None:
            net(torch.full((rows, 4), float(rows)))
            optimizer.step()

        return run

    comparison = tracer.compare(step(3), step(5))
    assert (comparison.verdict, comparison.compared) == (CompareVerdict.UNDECIDED, (0, 1))


class Pooled(torch.nn.Module):
    """Agrees inside, and returns something of another size."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body, self.width = torch.nn.Linear(4, 4), width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.body(x)
        return out[:, : self.width]


def test_a_share_of_inner_results_does_not_make_two_equal() -> None:
    torch.manual_seed(0)
    first = Pooled(3)
    second = Pooled(2)
    second.load_state_dict(first.state_dict())
    comparison = tracer.compare(inference(first, torch.ones(5, 4)), inference(second, torch.ones(5, 4)))
    assert (comparison.verdict, comparison.compared) == (CompareVerdict.UNDECIDED, (1, 2))


def test_a_share_is_said_in_the_sentence() -> None:
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 2)
    more = inference(net, torch.ones(5, 4), torch.zeros(5, 4))
    comparison = tracer.compare(inference(net, torch.ones(5, 4)), more)
    assert (comparison.verdict, comparison.compared) == (CompareVerdict.EQUAL, (1, 2))
    assert "1 of 2 results was compared" in headline(comparison)
