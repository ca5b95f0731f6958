"""A shaken run: results move by rounding, and draws, integers and everything without a gradient do not."""

from __future__ import annotations

import pytest
import torch

from tracer.recording.magnitudes.shaking import Shaking


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_an_element_moves_to_a_neighbour_at_most(dtype: torch.dtype) -> None:
    value = torch.rand(5000, generator=torch.Generator().manual_seed(0)).to(dtype).add_(1).requires_grad_()
    with Shaking(1):
        moved = value.neg()
    unit = torch.finfo(dtype).eps
    difference = (moved.detach() + value.detach()).abs()
    assert 0 < int((difference > 0).sum()) < 5000
    assert float(difference.max()) <= unit


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.rand(100),
        lambda: torch.rand(100) * 2 + 1,
        lambda: torch.arange(100).cumsum(0),
        lambda: torch.rand(10, 10) @ torch.rand(10, 10),
        lambda: torch.rand(100).sort().indices,
    ],
)
def test_what_no_parameter_has_a_part_in_stays(call: object) -> None:
    torch.manual_seed(0)
    alone = call()  # type: ignore[operator]
    torch.manual_seed(0)
    with Shaking(1):
        shaken = call()  # type: ignore[operator]
    assert torch.equal(alone, shaken)


def test_draws_and_masks_of_dropout_stay() -> None:
    weight = torch.ones(1000, requires_grad=True)
    torch.manual_seed(0)
    alone = torch.nn.functional.dropout(weight, 0.5)
    after = torch.get_rng_state()
    torch.manual_seed(0)
    with Shaking(1):
        shaken = torch.nn.functional.dropout(weight, 0.5)
    assert torch.equal(alone == 0, shaken == 0)
    assert torch.equal(after, torch.get_rng_state())


def test_inputs_of_reductions_are_shaken_too() -> None:
    weight = torch.full((1 << 12,), 1.7, requires_grad=True)
    sums = set()
    for seed in range(4):
        with Shaking(seed):
            sums.add(float(weight.sum().detach()))
    assert len(sums) > 1


def test_results_written_in_place_and_views_stay() -> None:
    weight = torch.full((1000,), 1.7, requires_grad=True)
    buffer = torch.full((1000,), 1.7)
    with Shaking(1):
        view = weight.view(10, 100)
        buffer.mul_(1.5)
    assert torch.equal(view.detach().view(-1), weight.detach())
    assert torch.equal(buffer, torch.full((1000,), 1.7).mul_(1.5))


def test_one_seed_shakes_one_way() -> None:
    weight = torch.rand(1000, generator=torch.Generator().manual_seed(0)).add_(1).requires_grad_()
    results = []
    for seed in (3, 3, 4):
        with Shaking(seed):
            results.append((weight * 1.5).detach())
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
