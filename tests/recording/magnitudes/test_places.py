"""Places of a step: which there are, that taking magnitudes changes nothing, and what is left when a run is killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tracer import DeterminismTracer
from tracer.errors import TraceError
from tracer.names import Phase, PlaceKind
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
