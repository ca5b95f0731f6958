"""What two configurations are given: initial parameters, whole numbers, and what was compared of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import tracer
from tests.support.configurations import ALIKE, begins, compared
from tracer.divergence.magnitudes import CompareVerdict
from tracer.names import PlaceKind
from tracer.report.compared import UNDECIDED, code_of, comparison_json
from tracer.report.sections.configurations import headline


class Scaled(nn.Linear):
    factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.factor


class MakesItsLoss(nn.Module):
    """``made`` makes a module, and returns its loss of logits and labels."""

    def __init__(self, made: Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.lin, self.head = Scaled(8, 8), nn.Linear(8, 3)
        self.made = made
        self.averaged: Any = None

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.made(self, self.head(self.lin(x).relu()), y)


def _by_a_loss(model: MakesItsLoss, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.CrossEntropyLoss()(logits, y)  # type: ignore[no-any-return]


def _by_a_copy(model: MakesItsLoss, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    copied = copy.deepcopy(model.head)
    with torch.no_grad():
        return nn.functional.cross_entropy(logits + copied(torch.ones(8)), y)


def _by_an_average_that_begins_late(model: MakesItsLoss, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    model.__dict__["calls"] = model.__dict__.get("calls", 0) + 1
    if model.__dict__["calls"] == 2:
        model.averaged = copy.deepcopy(model.head)
    loss = nn.functional.cross_entropy(logits, y)
    return loss if model.averaged is None else loss + model.averaged(torch.ones(8)).sum() * 0.1


def _steps(made: Any, factor: float, offset: float = 0.0) -> Callable[[], None]:
    torch.manual_seed(0)
    x, y = torch.randn(16, 8), torch.randint(0, 3, (16,))
    model = MakesItsLoss(made)
    model.lin.factor = factor
    with torch.no_grad():
        model.lin.weight[0, 0] += offset
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def run() -> None:
        model.averaged, model.__dict__["calls"] = None, 0
        for _ in range(2):
            loss = model(x, y)
            if loss.requires_grad:
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


@pytest.mark.parametrize("made", [_by_a_loss, _by_a_copy, _by_an_average_that_begins_late])
def test_a_module_that_forward_makes_begins_nothing(made: Any) -> None:
    comparison = compared(_steps(made, 1.0), _steps(made, 1.5))
    first = begins(comparison)
    assert (first.module, first.kind, first.step) == ("MakesItsLoss.lin", PlaceKind.OUTPUT, 0)
    assert not comparison.is_given


def test_parameters_that_differ_before_the_first_step_are_the_answer() -> None:
    comparison = compared(_steps(_by_a_loss, 1.0), _steps(_by_a_loss, 1.0, offset=1.0))
    assert (comparison.is_given, begins(comparison).kind) == (True, PlaceKind.INITIAL)


class Positions(nn.Module):
    """Gives ``rotary`` positions of its own, or those that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.rotary, self.lin = Rotary(), nn.Linear(8, 8)
        self.shift = 0
        self.mask: Any = None

    def forward(self, x: torch.Tensor, pos: Any) -> torch.Tensor:
        mask = () if self.mask is None else (self.mask,)
        return self.lin(x * self.rotary(pos + self.shift, *mask))  # type: ignore[no-any-return]


class Rotary(nn.Module):
    def forward(self, pos: Any, mask: Any = None) -> torch.Tensor:
        if isinstance(pos, int):
            pos = torch.arange(6) + pos
        out = torch.cos(pos.reshape(6, -1).sum(1, keepdim=True).float() * 0.1)
        return out if mask is None else out * mask.reshape(6, 1)


def _with_positions(pos: Any, **attributes: Any) -> Callable[[], None]:
    torch.manual_seed(0)
    model, x = Positions(), torch.randn(6, 8)
    for name, value in attributes.items():
        setattr(model, name, value)

    def run() -> None:
        model(x, pos).square().mean().backward()

    return run


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.arange(6), torch.arange(6) - 1),
        (torch.arange(6, dtype=torch.uint8), torch.arange(6, dtype=torch.uint8).flip(0)),
        (torch.tensor([True] * 6), torch.tensor([True] * 5 + [False])),
        (torch.arange(6), torch.tensor([0, 1, 2, 3, 4, 6])),
    ],
)
def test_whole_numbers_that_are_given_are_judged_without_a_yardstick(one: torch.Tensor, other: torch.Tensor) -> None:
    comparison = compared(_with_positions(one), _with_positions(other))
    assert comparison.is_given
    assert (begins(comparison).place, begins(comparison).ratio) == ("Positions[1]", None)


def test_whole_numbers_that_a_module_gives_another_are_its_own_code() -> None:
    comparison = compared(_with_positions(torch.arange(6)), _with_positions(torch.arange(6), shift=1))
    assert (begins(comparison).place, begins(comparison).kind) == ("Positions.rotary", PlaceKind.INPUT)


def test_a_mask_that_the_second_alone_gives_was_not_compared() -> None:
    kept = torch.tensor([True] * 4 + [False] * 2)
    comparison = compared(_with_positions(torch.arange(6)), _with_positions(torch.arange(6), mask=kept))
    assert (begins(comparison).module, begins(comparison).inputs_agree) == ("Positions.rotary", False)


def test_tokens_that_rounding_chooses_otherwise_are_told_where_they_are_chosen() -> None:
    def generate(is_flipped: bool) -> Callable[[], None]:
        torch.manual_seed(0)
        model = nn.Embedding(2, 64)
        with torch.no_grad():
            model.weight[1] = model.weight[0].roll(7)  # other numbers, of one sum

        def run() -> None:
            token = torch.arange(32) % 2
            for _ in range(3):
                hidden = model(token)
                sums = hidden.sum(-1), hidden.flip(-1).sum(-1)
                token = torch.stack(sums[::-1] if is_flipped else sums).argmax(0)

        return run

    comparison = tracer.compare(generate(is_flipped=False), generate(is_flipped=True))
    assert comparison.verdict is CompareVerdict.ROUNDING
    assert {(flip.op, flip.of) for flip in comparison.flips} == {("argmax", 32)}


class Masked(nn.Module):
    """Attention that is given its mask as truth values or as numbers to add."""

    factor = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        attended = nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), attn_mask=mask)
        return attended * self.factor


class Masks(nn.Module):
    def __init__(self, as_numbers: bool) -> None:
        super().__init__()
        self.as_numbers, self.attention, self.head = as_numbers, Masked(), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril().expand(x.shape[0], -1, -1)
        added = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
        return self.head(self.attention(x, added if self.as_numbers else mask))  # type: ignore[no-any-return]


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_two_kinds_of_masks_are_not_held_against_each_other(factor: float) -> None:
    def steps(as_numbers: bool, factor: float) -> Callable[[], None]:
        torch.manual_seed(0)
        model, x = Masks(as_numbers), torch.randn(3, 5, 8)
        model.attention.factor = factor
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step() -> None:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        return step

    comparison = compared(steps(True, 1.0), steps(False, factor))
    assert "other-kind" in {one.lack.value for one in comparison.only}
    if factor == 1.0:
        assert comparison.verdict in ALIKE
    else:
        assert begins(comparison).module.endswith("attention")


# --- what was compared ---


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


@pytest.mark.parametrize(
    ("first", "second"),
    [("alone", second) for second in RETURNS if second != "alone"]
    + [("and another", "alone"), ("of a mapping", "alone in a mapping")],
)
def test_results_are_paired_whatever_else_one_side_returns(first: str, second: str) -> None:
    fault = compared(training(RETURNS[first]), training(RETURNS[second], scale=0.3))
    assert (begins(fault).module, begins(fault).step) == ("Block.attn", 0)
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
