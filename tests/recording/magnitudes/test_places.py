"""Places of a step, whose magnitudes are taken without a trace; and a shaken run, which moves by rounding alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tracer import DeterminismTracer
from tracer.errors import TraceError
from tracer.names import Phase, PlaceKind
from tracer.recording.magnitudes.changed_runs import Shaking
from tracer.recording.options import PlaceOptions, RecordOptions
from tracer.session import Session
from tracer.trace.values import Magnitudes, read_magnitudes, read_values
from tracer.trace.values.places import decisions_beside


class Block(torch.nn.Module):
    def __init__(self, checkpointed: bool = False) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(16)
        self.up = torch.nn.Linear(16, 16)
        self.checkpointed = checkpointed

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        if self.checkpointed:
            inner: torch.Tensor = checkpoint(lambda y: self.up(y).exp(), self.norm(x), use_reentrant=False)
            return x + inner * scale
        return x + torch.relu(self.up(self.norm(x))) * scale


class Net(torch.nn.Module):
    def __init__(self, checkpointed: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = Block(checkpointed)
        self.drop = torch.nn.Dropout(0.5)
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(self.first(x, scale=0.5))
        out: torch.Tensor = self.head(self.drop(x))
        return out


def train(path: Path | None, steps: int = 2, checkpointed: bool = False, **options: Any) -> dict[str, torch.Tensor]:
    model = Net(checkpointed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(1)
    options = {"magnitudes": path} | options if path is not None else options

    def step() -> None:
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    if options:
        with DeterminismTracer(model, **options):
            for _ in range(steps):
                step()
    else:
        for _ in range(steps):
            step()
    return {**model.state_dict(), "generator": torch.get_rng_state()}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Magnitudes:
    path = tmp_path_factory.mktemp("places") / "run.values"
    train(path)
    return read_magnitudes(path)


def rows(magnitudes: Magnitudes, kind: PlaceKind, step: int = 0) -> list[tuple[str, int]]:
    places = magnitudes.places
    return [
        (str(places.names[row["name"]]), int(row["occurrence"]))
        for row in places.rows
        if places.names[row["name"]].kind is kind and row["step"] == step
    ]


@pytest.mark.parametrize("options", [{}, {"values": True}])
def test_training_is_bit_identical(tmp_path: Path, options: dict[str, Any]) -> None:
    alone = train(None)
    watched = train(tmp_path / "run.values", **options)
    assert alone.keys() == watched.keys()
    assert all(torch.equal(alone[name], watched[name]) for name in alone)


def test_each_module_call_has_its_outputs_in_order(recorded: Magnitudes) -> None:
    inside = [(f"first.{name}", call) for call in range(2) for name in ("norm", "up")]
    first, second = inside[:2], inside[2:]
    outputs = [*first, ("first", 0), *second, ("first", 1), ("drop", 0), ("head", 0), ("the program", 0)]
    assert rows(recorded, PlaceKind.OUTPUT) == outputs


def test_gradients_parameters_and_states_go_by_the_parameters_names(recorded: Magnitudes) -> None:
    names = [name for name, _ in Net().named_parameters()]
    gradients = [name for name, _ in rows(recorded, PlaceKind.GRADIENT)]
    assert gradients[::2] == gradients[1::2] == names  # as backward leaves it, and as the optimizer reads it
    assert [name for name, _ in rows(recorded, PlaceKind.PARAMETER, 1)] == names
    assert ("head.exp_avg of weight", 0) in rows(recorded, PlaceKind.STATE)
    assert {name for name, _ in rows(recorded, PlaceKind.INITIAL)} >= set(names)
    assert rows(recorded, PlaceKind.LOSS, 1) == [("the program", 0)]


def test_a_tensor_that_two_places_share_is_summed_once(recorded: Magnitudes) -> None:
    places = recorded.places
    shared = {str(places.names[row["name"]]) for row in places.rows if row["same"] >= 0}
    assert {"first.norm", "the program"} <= shared
    assert not any(row["sums"] for row in places.rows if row["same"] >= 0)


def test_a_place_names_the_line_that_called_its_module(recorded: Magnitudes) -> None:
    (head,) = {
        name.location for name in recorded.places.names if name.kind is PlaceKind.OUTPUT and name.module == "head"
    }
    source = Path(__file__).read_text().splitlines()
    assert "self.head(self.drop(x))" in source[int(head.rpartition(":")[2]) - 1]


def test_recomputed_outputs_stand_apart(tmp_path: Path) -> None:
    train(tmp_path / "run.values", checkpointed=True)
    names = read_magnitudes(tmp_path / "run.values").places.names
    phases = {name.phase for name in names if name.kind is PlaceKind.OUTPUT and name.module == "first.up"}
    assert phases == {Phase.FORWARD, Phase.RECOMPUTE}


def test_an_output_that_a_hook_replaces_is_the_replaced_one(tmp_path: Path) -> None:
    linear = torch.nn.Linear(4, 4)
    linear.register_forward_hook(lambda module, inputs, output: torch.ones_like(output))
    with DeterminismTracer(linear, magnitudes=tmp_path / "run.values"):
        linear(torch.zeros(2, 4))
    places = read_magnitudes(tmp_path / "run.values").places
    (norm,) = (row["norm"] for row in places.rows if places.names[row["name"]].kind is PlaceKind.OUTPUT)
    assert norm == pytest.approx(8**0.5)
    assert len(linear._forward_hooks) == 1


def test_a_module_that_raises_leaves_nothing_behind(tmp_path: Path) -> None:
    linear = torch.nn.Linear(4, 4)
    linear.register_forward_hook(lambda module, inputs, output: None)
    with DeterminismTracer(linear, magnitudes=tmp_path / "run.values"):
        with pytest.raises(RuntimeError):
            linear(torch.zeros(2, 5))
        linear(torch.zeros(2, 4))
    assert len(linear._forward_hooks) == 1
    assert len(rows(read_magnitudes(tmp_path / "run.values"), PlaceKind.OUTPUT)) == 1


def test_values_and_magnitudes_share_one_file(tmp_path: Path) -> None:
    train(tmp_path / "run.values", values=tmp_path / "run.values")
    assert len(read_values(tmp_path / "run.values")) > 50
    assert len(read_magnitudes(tmp_path / "run.values").places) > 50


@pytest.mark.parametrize("part", [0.3, 0.6, 0.99])
def test_a_file_that_was_cut_off_gives_what_it_has(tmp_path: Path, part: float) -> None:
    path = tmp_path / "run.values"
    train(path, steps=4)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    try:
        cut = read_magnitudes(path)
    except TraceError as problem:
        assert "holds no recording" in str(problem) or "no magnitudes" in str(problem)  # noqa: PT017
    else:
        assert "cut off" in cut.partial


def test_values_without_magnitudes_are_refused_in_one_line(tmp_path: Path) -> None:
    with DeterminismTracer(values=tmp_path / "run.values"):
        torch.ones(2) + 1
    with pytest.raises(TraceError, match="has no magnitudes"):
        read_magnitudes(tmp_path / "run.values")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_whose_decisions_fall_otherwise_goes_on(tmp_path: Path) -> None:
    def decide(sign: float) -> None:
        torch.relu(torch.tensor([1.0, -1.0, 2.0]) * sign)

    def session(name: str, **places: Any) -> Session:
        return Session(None, RecordOptions(magnitudes=str(tmp_path / name), places=PlaceOptions(**places)))

    first, second = (
        session("a.values", keeps_decisions=True),
        session("b.values", decides_as=str(decisions_beside(tmp_path / "a.values"))),
    )
    first.enter()
    decide(1)
    first.leave()
    second.enter()
    try:
        if (child := os.fork()) == 0:
            code = 1
            try:
                decide(-1)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        decide(-1)
    finally:
        second.leave()
    assert rows(read_magnitudes(tmp_path / "b.values"), PlaceKind.FLIP)


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
