"""``tracer.compare``: what backward makes of the same forward, and what changes gradients after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import tracer
from tests.support.configurations import ALIKE, begins, line_in
from tracer.divergence.magnitudes import CompareVerdict
from tracer.names import Phase, PlaceKind
from tracer.report.sections.configurations import headline

Change = Callable[[torch.Tensor], torch.Tensor]


# --- a backward that is wrong ---


class Product(torch.autograd.Function):
    """A product whose backward changes the gradient that enters it for the weight, and for the input."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, changes: Sequence[Change]) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.changes = changes
        return x @ weight.T

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        of_input, of_weight = ctx.changes
        return of_input(gradients[0] @ weight), of_weight(gradients[0].T @ x), None


class Wide(torch.nn.Module):
    """A layer in float32, whatever it is given."""

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(32, 32) / 6)
        self.changes = changes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = Product.apply(x.float(), self.weight, self.changes)
        return out.to(x.dtype)


def same(gradient: torch.Tensor) -> torch.Tensor:
    return gradient


def in_bfloat16(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.bfloat16().to(gradient.dtype)


def scaled(gradient: torch.Tensor) -> torch.Tensor:
    return gradient * 1.01


def step(*changes: Change, dtype: torch.dtype = torch.bfloat16) -> Callable[[], None]:
    torch.manual_seed(0)
    layers = torch.nn.Linear(32, 32), torch.nn.Tanh(), Wide(changes), torch.nn.Tanh(), torch.nn.Linear(32, 4)
    model = torch.nn.Sequential(*layers).to(dtype)
    model[2].float()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(8, 32, dtype=dtype), torch.randint(0, 4, (8,))

    def run() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x).float(), y).backward()
        optimizer.step()

    return run


@pytest.mark.parametrize("change", [in_bfloat16, scaled])
def test_a_backward_is_judged_by_its_own_rounding_where_all_before_it_agrees_bit_for_bit(change: Change) -> None:
    comparison = tracer.compare(step(same, same), step(same, change))
    first = begins(comparison)
    assert (first.place, first.kind, first.is_alone) == ("Sequential.2.weight", PlaceKind.GRADIENT, True)
    assert comparison.call is not None
    assert comparison.call.location.endswith(
        line_in(__file__, {in_bfloat16: "bfloat16().to(", scaled: "* 1.01"}[change])
    )


def test_sums_in_another_order_in_a_backward_are_rounding() -> None:
    def by_blocks(gradient: torch.Tensor) -> torch.Tensor:
        return gradient + (gradient * 3 - gradient * 2 - gradient)  # is off by a rounding or two

    comparison = tracer.compare(step(same, same), step(same, by_blocks))
    assert comparison.verdict is CompareVerdict.ROUNDING


def test_a_wrong_gradient_of_an_input_is_that_of_the_module_that_was_given_it() -> None:
    comparison = tracer.compare(step(same, same, dtype=torch.float32), step(scaled, same, dtype=torch.float32))
    first = begins(comparison)
    assert (first.module, first.place, first.phase) == ("Sequential.2", "Sequential.1", Phase.BACKWARD)
    assert first.factor == pytest.approx(1.01)
    assert comparison.call is not None
    assert comparison.call.location.endswith(line_in(__file__, "* 1.01"))


# --- gradients that are changed after backward ---


def by_parts(model: torch.nn.Module) -> None:
    for parameter in model[2].parameters():  # type: ignore[index]
        parameter.grad.mul_(0.5)  # of one layer


def clipped(model: torch.nn.Module) -> None:
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)


def divided(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = parameter.grad / 4  # another tensor


def divided_but_for_one(model: torch.nn.Module) -> None:
    for number, parameter in enumerate(model.parameters()):
        assert parameter.grad is not None
        parameter.grad.div_(4 if number != 1 else 3)  # one by another number


def nothing(model: torch.nn.Module) -> None:
    assert model


def changed(*changes: Callable[[torch.nn.Module], None], factor: float = 1.0) -> Callable[[], None]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))

    def run() -> None:
        optimizer.zero_grad()
        (torch.nn.functional.cross_entropy(model(x), y) * factor).backward()
        for change in changes:
            change(model)
        optimizer.step()

    return run


@pytest.mark.parametrize(
    ("change", "line", "factor", "scaled", "places"),
    [
        (clipped, "clip_grad_norm_(", None, 4, ["0.weight", "0.bias", "2.weight", "2.bias"]),
        (divided, "# another tensor", 0.25, 4, ["0.weight", "0.bias", "2.weight", "2.bias"]),
        (by_parts, "# of one layer", None, 0, ["2.weight", "2.bias"]),
        (divided_but_for_one, "# one by another", 0.25, 3, ["0.bias"]),
    ],
)
def test_what_changes_gradients_after_backward_is_named_at_its_line(
    change: Callable[[torch.nn.Module], None], line: str, factor: float | None, scaled: int, places: list[str]
) -> None:
    comparison = tracer.compare(changed(nothing), changed(change))
    assert (begins(comparison).kind, begins(comparison).phase) == (PlaceKind.GRADIENT, Phase.OPTIMIZER)
    assert begins(comparison).location.endswith(line_in(__file__, line))
    assert [one.place.removeprefix("Sequential.") for one in comparison.significant] == places
    if factor is not None:
        assert comparison.factor == pytest.approx(factor)
        assert "one factor" in headline(comparison)
    assert comparison.scaled[0] == scaled


def test_a_factor_of_all_gradients_that_the_loss_has_too_is_told() -> None:
    comparison = tracer.compare(changed(), changed(factor=1 / 16))
    assert (begins(comparison).kind, begins(comparison).is_own_code) == (PlaceKind.LOSS, True)
    assert begins(comparison).factor == pytest.approx(1 / 16)
    assert "0.0625 (1/16)" in headline(comparison)
    assert comparison.scaled == (4, 4)


@pytest.mark.parametrize("factor", [4.0, 65536.0, 3.0])
def test_a_scaled_loss_whose_gradients_are_unscaled_is_no_fault(factor: float) -> None:
    def unscale(model: torch.nn.Module) -> None:
        torch._foreach_mul_([parameter.grad for parameter in model.parameters()], 1 / factor)

    comparison = tracer.compare(changed(nothing), changed(unscale, factor=factor))
    assert comparison.verdict in ALIKE
    assert comparison.undone == pytest.approx(factor)


def test_clipping_before_unscaling_is_named_after_backward() -> None:
    def unscale(model: torch.nn.Module) -> None:
        torch._foreach_mul_([parameter.grad for parameter in model.parameters()], 1 / 1024)

    comparison = tracer.compare(changed(unscale, clipped, factor=1024), changed(clipped, unscale, factor=1024))
    assert (begins(comparison).kind, begins(comparison).phase) == (PlaceKind.GRADIENT, Phase.OPTIMIZER)
    assert comparison.scaled == (4, 4)
    assert comparison.factor == pytest.approx(1 / 1024, rel=1e-3)


def test_gradients_of_one_size_that_are_replaced_one_by_one_are_all_named() -> None:
    """The memory of one that is gone is given to the next one's successor."""

    def step(*changes: Callable[[torch.nn.Module], None]) -> Callable[[], None]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(4)))
        optimizer, x = torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(8, 16)

        def run() -> None:
            optimizer.zero_grad()
            model(x).square().sum().backward()
            for change in changes:
                change(model)
            optimizer.step()

        return run

    comparison = tracer.compare(step(), step(divided))
    assert {one.location for one in comparison.significant} == {comparison.significant[0].location}
    assert len(comparison.significant) == 8
