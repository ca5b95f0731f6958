"""``tracer.compare`` where rounding makes a decision otherwise: the sign of a number, the index of the largest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tracer
from tests.support.configurations import begins, compared, line_in
from tests.support.slow import slow_unless
from tracer.divergence.magnitudes import CompareVerdict, Comparison
from tracer.names import Phase
from tracer.report.sections.configurations import headline


class Product(nn.Linear):
    """A product whose terms are summed in one of two orders."""

    by_parts = False
    factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = (slice(0, 100), slice(100, None)) if self.by_parts else (slice(None),)
        return (sum(x[:, part] @ self.weight[:, part].T for part in parts) + self.bias) * self.factor


class Scaling(torch.autograd.Function):
    """Multiplies the gradient alone."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0] * ctx.factor, None


class Scaled(nn.Module):
    factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = Scaling.apply(x, self.factor)
        return out


class Decides(nn.Module):
    def __init__(self, decide: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.decide = decide

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decide(x)


class Experts(nn.Module):
    """One of four experts for each row, whose weights are one tensor: no expert is a module."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(4, 256, 256) / 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = x[:, :4].topk(1)[1]
        weight = x[:, :4].softmax(-1).gather(1, chosen)
        return x + weight * torch.einsum("ri,rij->rj", x, self.weights[chosen[:, 0]]).tanh()


DECIDING: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu, in place": lambda: nn.ReLU(inplace=True),
    "leaky relu": lambda: nn.LeakyReLU(0.1),
    "hardtanh": lambda: nn.Hardtanh(0.0, 6.0),
    "maximum": lambda: Decides(lambda x: torch.maximum(x, torch.zeros_like(x))),
    "clamp": lambda: Decides(lambda x: x.clamp(min=0)),
    "mask": lambda: Decides(lambda x: x * (x.detach() > 0)),
    "threshold": lambda: Decides(lambda x: F.threshold(x, 0.0, -1.0)),
    "rounding to whole numbers": lambda: Decides(lambda x: x + x.detach().floor()),
    "argmax": lambda: Decides(lambda x: x + F.one_hot(x[:, :2].argmax(-1), 256)),
    "sort": lambda: Decides(lambda x: x + torch.cat((x[:, :2].sort(-1)[0], x[:, 2:]), -1)),
    "experts": Experts,
}


def step(deciding: str, *, by_parts: bool, **factors: float) -> Callable[[], None]:
    """A network in which summing in another order changes what one call decides; ``factors`` are faults, by layer."""
    torch.manual_seed(0)
    parts = Product(256, 256), nn.Tanh(), Scaled(), Product(256, 256), DECIDING[deciding](), Scaled(), Product(256, 8)
    model = nn.Sequential(*parts)
    x, y = torch.randn(32, 256), torch.randint(0, 8, (32,))

    def before(*, by_parts: bool) -> torch.Tensor:
        for layer in (model[0], model[3]):
            layer.by_parts = by_parts
        out: torch.Tensor = model[:4](x)
        return out - out[:, :1] if deciding in PAIRS else out

    with torch.no_grad():
        bias = model[3].bias
        for row in range(32):
            for column in range(1, 2 if deciding in PAIRS else 256):
                if deciding == "experts":  # between two of them
                    bias[2:4] = -9.0
                bias[column] -= sum(before(by_parts=one)[row, column] for one in (False, True)) / 2
                signs = [before(by_parts=one)[row, column] > 0 for one in (False, True)]
                if signs[0] != signs[1]:
                    break
            else:
                continue
            break
        else:
            raise AssertionError("no sign changes")
    before(by_parts=by_parts)
    for layer, factor in factors.items():
        model[int(layer.removeprefix("layer"))].factor = factor

    def run() -> None:
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()

    return run


SLOW = pytest.mark.slow
#: Those that decide between the first two numbers of a row.
PAIRS = ("argmax", "sort", "experts")


def decided(deciding: str, **factors: float) -> Comparison:
    return compared(step(deciding, by_parts=False), step(deciding, by_parts=True, **factors))


@pytest.mark.parametrize("deciding", DECIDING)
def test_a_decision_that_rounding_makes_otherwise_is_told_and_is_rounding(deciding: str) -> None:
    comparison = decided(deciding)
    assert comparison.verdict is CompareVerdict.ROUNDING, headline(comparison)
    assert all(flip.module == "Sequential.4" for flip in comparison.flips)
    assert comparison.flips or deciding == "sort"  # whose values hardly change


def test_the_sentence_says_how_many_values_changed_their_sign() -> None:
    comparison = decided("relu")
    flip = comparison.flips[0]
    assert (flip.op, flip.phase, flip.of) == ("relu", Phase.FORWARD, 32 * 256)
    assert 1 <= flip.count <= 3
    words = "values changed their sign" if flip.count > 1 else "values changed its sign"
    assert f"{flip.count} of 8,192 {words} within rounding" in headline(comparison)


@pytest.mark.parametrize("deciding", ["relu", "experts", pytest.param("mask", marks=SLOW)])
@pytest.mark.parametrize("layer", slow_unless({3}, [0, 2, 3, 5, 6]))
def test_a_fault_before_or_after_such_a_decision_is_found(deciding: str, layer: int) -> None:
    comparison = decided(deciding, **{f"layer{layer}": 1.01})
    assert begins(comparison).module == f"Sequential.{layer}"


def masked(decide: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], None]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 256), Decides(decide), nn.Linear(256, 8))
    x, y = torch.randn(64, 256), torch.randint(0, 8, (64,))
    return lambda: F.cross_entropy(model(x), y).backward()


@pytest.mark.parametrize("threshold", [1e-3, -1e-3])
def test_another_threshold_is_no_rounding(threshold: float) -> None:
    comparison = compared(masked(lambda x: x * (x > 0)), masked(lambda x: x * (x > threshold)))
    assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert not comparison.flips


def test_a_number_that_is_compared_is_judged_where_nothing_else_shows_it() -> None:
    first = begins(compared(masked(lambda x: x + (x > 0.5)), masked(lambda x: x + (x * 1.01 > 0.5))))
    assert (first.module, first.is_own_code) == ("Sequential.1", True)


# --- batch norm, whose channels are summed in the order in which they lie ---


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2, self.relu = nn.BatchNorm2d(8), nn.BatchNorm2d(8), nn.ReLU()
        self.scaled = Scaled()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.norm1(self.conv1(x)))
        return self.relu(x + self.norm2(self.scaled(self.conv2(out))))  # type: ignore[no-any-return]


def residual(*, is_last: bool, factor: float = 1.0) -> Callable[[], None]:
    """A step of a net whose last gradients are constant over an image; ``factor``: of gradients, a fault."""
    torch.manual_seed(0)
    parts = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), Block(), Block()
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    x, y = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    model[4].scaled.factor = factor
    if is_last:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)

    def run() -> None:
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()

    return run


def test_constant_gradients_that_are_added_in_another_order_are_rounding() -> None:
    comparison = tracer.compare(residual(is_last=False), residual(is_last=True), yardstick_runs=2)
    assert comparison.verdict is CompareVerdict.ROUNDING, headline(comparison)


def test_a_fault_behind_batch_norm_is_found_in_another_memory_format() -> None:
    first = begins(tracer.compare(residual(is_last=False), residual(is_last=True, factor=1.01), yardstick_runs=2))
    assert first.module.startswith("Sequential.4")
    assert first.phase is Phase.BACKWARD


# --- a mixture of experts in bfloat16 ---


WHOLE, PARTS = slice(None), (slice(0, 7), slice(7, None))


class Mixture(nn.Module):
    """Two of four experts for each token, whose chances are summed in one of two orders."""

    def __init__(self, kind: str, *parts: slice) -> None:
        super().__init__()
        self.router, self.kind, self.parts = nn.Linear(16, 4, bias=False), kind, parts
        self.experts = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(4))
        if kind == "scattered":
            self.weights = nn.Parameter(torch.stack([expert.weight.detach() for expert in self.experts]))
            del self.experts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chances = torch.stack([x[:, part] @ self.router.weight[:, part].T for part in self.parts]).sum(0)
        weights, chosen = chances.softmax(-1).topk(2, -1)  # routes
        if self.kind == "scattered":
            gates = torch.zeros_like(chances).scatter(1, chosen, weights)
            return x + torch.einsum("te,td,eod->to", gates, x, self.weights)
        out = x
        for expert in range(4):
            rows, ranks = (chosen == expert).nonzero(as_tuple=True)
            out = out.index_add(0, rows, self.experts[expert](x[rows]) * weights[rows, ranks, None])
        return out


def mixture(kind: str, *parts: slice) -> Callable[[], None]:
    torch.manual_seed(0)
    layers = nn.Embedding(1024, 16), Mixture(kind, *parts), Mixture(kind, *parts), nn.Linear(16, 16)
    model = nn.Sequential(*layers).to(torch.bfloat16)
    tokens = torch.arange(1024)

    def run() -> None:
        model.zero_grad()
        F.cross_entropy(model(tokens).float(), tokens % 16).backward()

    return run


@pytest.mark.parametrize("kind", ["modules", "scattered"])
def test_tokens_that_rounding_sends_to_other_experts_are_told_at_the_router(kind: str) -> None:
    comparison = tracer.compare(mixture(kind, WHOLE), mixture(kind, *PARTS), yardstick_runs=2)
    assert comparison.verdict is CompareVerdict.ROUNDING, headline(comparison)
    flip = comparison.flips[0]
    assert (flip.module, flip.op, flip.phase, flip.of) == ("Sequential.1", "topk", Phase.FORWARD, 2048)
    assert flip.location.endswith(line_in(__file__, "# routes"))
    assert {one.op for one in comparison.flips} == {"topk"}


def test_a_router_that_is_wrong_is_no_rounding() -> None:
    lacks_one = mixture("scattered", PARTS[0], slice(7, 15))
    comparison = tracer.compare(mixture("scattered", WHOLE), lacks_one, yardstick_runs=2)
    assert begins(comparison).module.startswith("Sequential.1")
