"""Places of a step, whose magnitudes are taken without a trace; and a shaken run, which moves by rounding alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
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
    with nullcontext() if path is None else DeterminismTracer(model, magnitudes=path, **options):
        for _ in range(steps):
            loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,)))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return {**model.state_dict(), "generator": torch.get_rng_state()}


@pytest.mark.parametrize("values", [False, True])
def test_training_is_bit_identical_and_values_and_magnitudes_share_one_file(tmp_path: Path, values: bool) -> None:
    path = tmp_path / "run.values"
    alone, watched = train(None), train(path, **({"values": path} if values else {}))
    assert alone.keys() == watched.keys()
    assert all(torch.equal(alone[name], watched[name]) for name in alone)
    assert len(read_magnitudes(path).places) > 50
    if values:
        assert len(read_values(path)) > 50


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


def test_an_output_that_a_hook_replaces_is_the_new_one_and_a_module_that_raises_leaves_nothing(tmp_path: Path) -> None:
    linear = torch.nn.Linear(4, 4)
    linear.register_forward_hook(lambda module, inputs, output: torch.ones_like(output))
    with DeterminismTracer(linear, magnitudes=tmp_path / "run.values"):
        with pytest.raises(RuntimeError):
            linear(torch.zeros(2, 5))
        linear(torch.zeros(2, 4))
    places = read_magnitudes(tmp_path / "run.values").places
    (norm,) = (row["norm"] for row in places.rows if places.names[row["name"]].kind is PlaceKind.OUTPUT)
    assert norm == pytest.approx(8**0.5)
    assert len(linear._forward_hooks) == 1


def test_a_file_that_was_cut_off_gives_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "run.values"
    train(path, steps=3)
    whole = path.read_bytes()
    for part in (0.3, 0.6, 0.99):
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

    first = session("a.values", keeps_decisions=True)
    second = session("b.values", decides_as=str(decisions_beside(tmp_path / "a.values")))
    first.enter()
    decide(1)
    first.leave()
    second.enter()
    child = os.fork()
    if child == 0:
        try:
            decide(-1)
        except BaseException:
            os._exit(1)
        os._exit(0)
    decide(-1)
    second.leave()
    assert os.waitpid(child, 0)[1] == 0
    assert rows(read_magnitudes(tmp_path / "b.values"), PlaceKind.FLIP)


def shaken(call: Callable[[], Any], seed: int | None = 1) -> Any:
    """What ``call`` gives from the same seed, shaken or, of ``None``, as it is."""
    torch.manual_seed(0)
    if seed is None:
        return call()
    with Shaking(seed):
        return call()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_an_element_moves_to_a_neighbour_at_most(dtype: torch.dtype) -> None:
    value = torch.rand(5000, generator=torch.Generator().manual_seed(0)).to(dtype).add_(1).requires_grad_()
    difference = (shaken(value.neg).detach() + value.detach()).abs()
    assert 0 < int((difference > 0).sum()) < 5000
    assert float(difference.max()) <= torch.finfo(dtype).eps


WEIGHT = torch.full((1 << 12,), 1.7, requires_grad=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.rand(100) * 2 + 1,
        lambda: torch.arange(100).cumsum(0),
        lambda: torch.rand(10, 10) @ torch.rand(10, 10),
        lambda: torch.rand(100).sort().indices,
        lambda: WEIGHT.view(64, 64),
        lambda: WEIGHT.detach().clone().mul_(1.5),  # written in place
        lambda: torch.full((9,), torch.finfo(torch.float32).max).requires_grad_().mul(1.0).isfinite(),
    ],
)
def test_what_no_parameter_has_a_part_in_stays_as_draws_views_and_what_is_finite_do(call: Callable[[], Any]) -> None:
    assert torch.equal(shaken(call, None), shaken(call))


def test_draws_and_masks_of_dropout_stay() -> None:
    call = lambda: (torch.nn.functional.dropout(WEIGHT, 0.5), torch.get_rng_state())  # noqa: E731
    (alone, state), (moved, after) = shaken(call, None), shaken(call)
    assert torch.equal(alone == 0, moved == 0)
    assert torch.equal(state, after)


def test_inputs_of_reductions_are_shaken_too_and_one_seed_shakes_one_way() -> None:
    sums = [float(shaken(WEIGHT.sum, seed).detach()) for seed in range(4)]
    assert len(set(sums)) > 1
    assert [float(shaken(WEIGHT.sum, seed).detach()) for seed in range(4)] == sums


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

    def buffers() -> dict[str, torch.Tensor]:
        model = STATISTICS[name]()
        for _ in range(2):
            (checkpoint(model, x, use_reentrant=False) if recomputes else model(x)).square().sum().backward()
        with torch.no_grad():
            model(x)
        return {key: buffer.double() for key, buffer in model.named_buffers()}

    plain, moved = shaken(buffers, None), shaken(buffers)
    assert plain
    for key, buffer in plain.items():
        assert torch.allclose(moved[key], buffer, rtol=1e-5, atol=1e-6), key


LEAST = torch.finfo(torch.float32).min

MASKS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "added": lambda scores, hidden: scores + torch.zeros(hidden.shape).masked_fill(hidden, LEAST),
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

    def attend() -> tuple[torch.Tensor, torch.Tensor]:
        leaf = query.clone().requires_grad_()
        out = MASKS[name](leaf @ key.transpose(1, 2), hidden).softmax(-1) @ key
        return out.detach(), torch.autograd.grad(out.square().sum(), leaf)[0]

    out, gradient = shaken(attend, None)
    limit = 0.05 if "bfloat16" in name else 1e-5
    for seed in range(3):
        moved, moved_gradient = shaken(attend, seed)
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

    assert torch.allclose(shaken(gradient), gradient(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("value", [1 / 3, 1.7e-5])
def test_sums_of_equal_gradients_move_as_adding_one_by_one_does(
    memory_format: torch.memory_format, value: float
) -> None:
    norm = torch.nn.BatchNorm2d(6)
    x = torch.randn(8, 6, 40, 40, generator=torch.Generator().manual_seed(0)).to(memory_format=memory_format)
    gradient = torch.full_like(x, value) * torch.arange(1, 9).view(8, 1, 1, 1)
    exact = float(gradient[:, 0].double().sum())
    one_by_one = np.cumsum(gradient[:, 0].flatten().numpy())[-1]  # adds in float32, each to the sum before it
    off = abs(float(one_by_one) - exact)
    sums = [shaken(lambda: torch.autograd.grad(norm(x), norm.bias, gradient)[0], seed) for seed in range(3)]
    assert off / 2 < max(float((each.double() - exact).abs().max()) for each in sums) < 3 * off
