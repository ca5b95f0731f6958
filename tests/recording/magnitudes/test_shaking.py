"""A shaken run: results move by rounding, and draws, integers and everything without a gradient do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tracer.recording.magnitudes.changed_runs import Shaking


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


STATISTICS: dict[str, Callable[[], torch.nn.Module]] = {
    "batch norm": lambda: torch.nn.Sequential(torch.nn.Conv1d(4, 4, 1), torch.nn.BatchNorm1d(4)),
    "cumulative average": lambda: torch.nn.BatchNorm1d(4, momentum=None),
    "instance norm": lambda: torch.nn.InstanceNorm1d(4, track_running_stats=True, affine=True),
    "spectral norm": lambda: torch.nn.utils.parametrizations.spectral_norm(torch.nn.Conv1d(4, 4, 1)),
}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("recomputes", [False, True])
def test_what_a_kernel_writes_without_saying_so_is_kept(name: str, recomputes: bool) -> None:
    x = torch.randn(6, 4, 8, generator=torch.Generator().manual_seed(0))

    def buffers(shake: bool) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        model = STATISTICS[name]()
        mode = Shaking(1)
        if shake:
            mode.start()
        for _ in range(3):
            if recomputes:
                out = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
            else:
                out = model(x)
            out.square().sum().backward()
        with torch.no_grad():
            model(x)
        if shake:
            mode.stop()
        return {key: buffer.double() for key, buffer in model.named_buffers()}

    plain, shaken = buffers(shake=False), buffers(shake=True)
    assert plain
    for key, buffer in plain.items():
        assert torch.allclose(shaken[key], buffer, rtol=1e-5, atol=1e-6), key


LEAST = torch.finfo(torch.float32).min
MASKS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "added": lambda scores, hidden: scores + torch.zeros(hidden.shape).masked_fill(hidden, LEAST),
    "added, -1e9": lambda scores, hidden: scores + hidden.float() * -1e9,
    "filled": lambda scores, hidden: scores.masked_fill(hidden, -1e9),
    "chosen, then added": lambda scores, hidden: (
        torch.where(hidden, torch.tensor(LEAST), scores) + torch.zeros(hidden.shape)
    ),
    "with distances": lambda scores, hidden: (
        scores + torch.where(hidden, -1e9 - 64.0 * (torch.arange(8) // 2), torch.zeros(()))
    ),
    "in bfloat16": lambda scores, hidden: scores.bfloat16().masked_fill(hidden, -1e9).float(),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_row_that_is_masked_as_a_whole_moves_by_rounding_alone(name: str) -> None:
    numbers = torch.Generator().manual_seed(0)
    query, key = (torch.randn(2, 8, 4, generator=numbers) for _ in range(2))
    hidden = torch.ones(2, 8, 8).triu(1).bool()
    hidden[0, :2] = True

    def attend(seed: int | None) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = query.clone().requires_grad_()
        mode = Shaking(seed or 0)
        if seed is not None:
            mode.start()
        scores = MASKS[name](leaf @ key.transpose(1, 2), hidden)
        out = scores.softmax(-1) @ key
        out.square().sum().backward()
        if seed is not None:
            mode.stop()
        assert leaf.grad is not None
        return out.detach(), leaf.grad

    out, gradient = attend(None)
    for seed in range(3):
        moved, moved_gradient = attend(seed)
        limit = 0.05 if "bfloat16" in name else 1e-5
        assert 0 < float((moved - out).abs().max()) < limit
        assert torch.allclose(moved[0, :2], out[0, :2], rtol=1e-5)
        assert float((moved_gradient - gradient).norm() / gradient.norm()) < limit


def test_a_mask_is_known_in_the_backward_of_attention() -> None:
    query = torch.randn(1, 1, 8, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    mask = torch.zeros(8, 8)
    mask[:2] = LEAST
    attend = torch.nn.functional.scaled_dot_product_attention

    def gradient() -> torch.Tensor:
        return torch.autograd.grad(attend(query, query, query, attn_mask=mask).square().sum(), query)[0]

    with Shaking(1):
        moved = gradient()
    assert torch.allclose(moved, gradient(), rtol=1e-4, atol=1e-5)


def test_what_is_finite_stays_finite() -> None:
    edge = torch.full((1000,), torch.finfo(torch.float32).max).requires_grad_()
    with Shaking(1):
        assert bool((edge * 1.0).isfinite().all())


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 1.7e-5])
def test_sums_of_equal_gradients_move_by_what_adding_them_one_by_one_is_off(
    memory_format: torch.memory_format, value: float
) -> None:
    norm = torch.nn.BatchNorm2d(6)
    x = torch.randn(8, 6, 40, 40, generator=torch.Generator().manual_seed(0)).to(memory_format=memory_format)
    gradient = torch.full_like(x, value) * torch.arange(1, 9).view(8, 1, 1, 1)
    exact = float(gradient[:, 0].double().sum())
    one_by_one = torch.zeros(())
    for term in gradient[:, 0].flatten():
        one_by_one += term
    off = abs(float(one_by_one) - exact)

    def summed() -> torch.Tensor:
        return torch.autograd.grad(norm(x), norm.bias, gradient)[0]

    shaken = []
    for seed in range(3):
        with Shaking(seed):
            shaken.append((summed().double() - exact).abs().max().item())
    assert off / 2 < max(shaken) < 3 * off
