"""Configurations that draw random numbers: what draws otherwise is told, and what does not repeat is no yardstick."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.command import tracer_process
from tests.support.configurations import begins, compared
from tracer.divergence.magnitudes import CompareVerdict
from tracer.names import PlaceKind
from tracer.report.compared import UNDECIDED, code_of, comparison_json
from tracer.report.sections.configurations import headline

Drop = Callable[[torch.Tensor], torch.Tensor]


def by_torch(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.dropout(x, 0.3)


def by_hand(x: torch.Tensor) -> torch.Tensor:
    return x * (torch.rand(x.shape) > 0.3) / 0.7


def not_at_all(x: torch.Tensor) -> torch.Tensor:
    return x


def after_a_draw_that_nobody_uses(x: torch.Tensor) -> torch.Tensor:
    torch.randn(3)
    return x


class Two(nn.Module):
    def __init__(self, drop: Drop, factor: float) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 1)
        self.drop, self.factor = drop, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.drop(torch.relu(self.a(x)))) * self.factor  # type: ignore[no-any-return]


def step(drop: Drop = by_torch, *, factor: float = 1.0, compiles: str = "", before: Any = None) -> Callable[[], None]:
    torch.manual_seed(0)
    model = Two(drop, factor)
    called: Any = torch.compile(model, backend=compiles) if compiles else model
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def run() -> None:
        torch.manual_seed(1)
        if before is not None:
            before()
        for _ in range(2):
            called(torch.ones(8, 16)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


@pytest.mark.parametrize(("one", "other"), [(by_torch, by_hand), (by_hand, by_torch)])
def test_two_ways_of_drawing_are_not_comparable(one: Drop, other: Drop) -> None:
    comparison = compared(step(one), step(other))
    assert (comparison.verdict, code_of(comparison)) == (CompareVerdict.UNDECIDED, UNDECIDED)
    assert comparison.draws is not None
    assert comparison.draws.in_another_way
    assert {comparison.draws.op, comparison.draws.second_op} == {"aten.bernoulli_.float", "aten.rand.default"}
    assert "test_draws.py" in comparison.draws.location
    assert "p = 0" in headline(comparison)
    assert comparison_json(comparison)["draws"]["op"] == comparison.draws.op


@pytest.mark.slow
def test_compiled_dropout_is_not_comparable_with_eager_dropout(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import sys\nimport torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
        "if '--same-draws' in sys.argv:\n    import torch._inductor.config as c\n    c.fallback_random = True\n"
        "model = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.3), nn.Linear(16, 1))\n"
        "f = torch.compile(model) if '--compile' in sys.argv else model\n"
        "for _ in range(2):\n    f(torch.ones(8, 16)).square().mean().backward()\n"
    )
    done = tracer_process("compare", "--b", "--compile", "--yardstick-runs", "1", "train.py", cwd=tmp_path)
    assert done.code == 3, done.out + done.err
    assert "compiled code at train.py:" in " ".join(done.out.split())
    assert "only the first" not in done.out.lower()
    same = ("compare", "--b", "--compile --same-draws", "--yardstick-runs", "1", "train.py")
    assert tracer_process(*same, cwd=tmp_path).code == 0


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_compiled_code_that_draws_what_eager_code_does_is_compared(factor: float) -> None:
    comparison = compared(step(), step(factor=factor, compiles="aot_eager"))
    assert comparison.draws is None
    assert (comparison.verdict is CompareVerdict.SIGNIFICANT) is (factor != 1)


def test_a_side_that_alone_draws_is_told_with_its_line() -> None:
    comparison = compared(step(not_at_all), step(by_torch))
    assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert comparison.draws is not None
    assert (comparison.draws.op, comparison.draws.second_op) == ("", "aten.bernoulli_.float")
    assert headline(comparison).startswith("Only the second draws random numbers by `aten.bernoulli_.float` at tests/")


def test_a_draw_before_that_nobody_uses_is_no_excuse_for_a_fault() -> None:
    comparison = compared(step(not_at_all), step(after_a_draw_that_nobody_uses, factor=1.5))
    assert begins(comparison).module == "Two"


def test_a_fault_before_the_draws_is_the_answer() -> None:
    second = step(by_hand)
    model = next(cell.cell_contents for cell in second.__closure__ or () if isinstance(cell.cell_contents, Two))
    model.a.register_forward_hook(lambda module, inputs, out: out * 1.5)
    comparison = compared(step(by_torch), second)
    assert begins(comparison).module == "Two.a"
    assert comparison.draws is None


def test_another_rate_of_dropout_draws_the_same_numbers() -> None:
    comparison = compared(step(by_torch), step(lambda x: nn.functional.dropout(x, 0.5)))
    assert (comparison.verdict, comparison.draws) == (CompareVerdict.SIGNIFICANT, None)


def test_other_seeds_are_told_at_the_first_draw() -> None:
    comparison = compared(step(), step(before=lambda: torch.manual_seed(2)))
    assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert comparison.draws is not None
    assert (comparison.draws.op, "test_draws.py" in comparison.draws.changes) == ("", True)
    assert "seed both alike" in headline(comparison)


class Bag(nn.Module):
    """The mean of tokens, without padding."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.tokens, self.out, self.factor = nn.Embedding(30, 8), nn.Linear(8, 4), factor

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        sums = (self.tokens(ids) * mask[..., None]).sum(1)
        return self.out(sums / mask.sum(1, keepdim=True)) * self.factor  # type: ignore[no-any-return]


def padded(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, ...]:
    ids = nn.utils.rnn.pad_sequence([ids for ids, _ in samples], batch_first=True)
    return ids, (ids > 0).long(), torch.stack([label for _, label in samples])


def shuffled(peeks: bool, *, factor: float = 1.0, without_model: bool = False, evaluates: bool = False) -> Any:
    """Two epochs over sequences of different lengths; ``peeks``: iterates another loader in between."""

    def run() -> None:
        torch.manual_seed(0)
        sequences = [torch.randint(1, 30, (int(length),)) for length in torch.randint(2, 7, (24,))]
        data: Any = list(zip(sequences, torch.randint(0, 4, (24,)), strict=True))
        model = Bag(factor)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        train = torch.utils.data.DataLoader(data, 8, shuffle=True, collate_fn=padded)
        test = torch.utils.data.DataLoader(data, 8, collate_fn=padded)
        for _ in range(2):
            for ids, mask, labels in train:
                if without_model:
                    logits = nn.functional.embedding(ids, model.tokens.weight).mean(1) @ model.out.weight.T
                else:
                    logits = model(ids, mask)
                nn.functional.cross_entropy(logits, labels).backward()
                optimizer.step()
                optimizer.zero_grad()
            with torch.no_grad():
                for ids, mask, _ in test if peeks else ():
                    assert not evaluates or len(model(ids, mask))

    return run


@pytest.mark.parametrize(("options", "place"), [({}, "Bag"), ({"without_model": True}, ""), ({"evaluates": True}, "")])
def test_what_follows_from_another_order_of_data_is_no_place(options: dict[str, Any], place: str) -> None:
    comparison = compared(shuffled(False, **options), shuffled(True, **options))
    assert (comparison.verdict, code_of(comparison)) == (CompareVerdict.SIGNIFICANT, 1)
    assert comparison.draws is not None
    assert (comparison.draws.op, comparison.draws.second_op) == ("", "aten.random_.default")
    assert [(one.kind, one.place, one.step) for one in comparison.significant] == (
        [(PlaceKind.INPUT, place, 3)] if place else []
    )
    assert "the loss" not in headline(comparison)


def test_a_fault_before_another_order_of_data_is_the_answer() -> None:
    comparison = compared(shuffled(False), shuffled(True, factor=1.1))
    assert (begins(comparison).place, begins(comparison).kind, begins(comparison).step) == ("Bag", PlaceKind.OUTPUT, 0)


# --- a configuration that does not repeat ---


def unseeded(by: Callable[[torch.Tensor], torch.Tensor], factor: float = 1.0) -> Callable[[], None]:
    torch.manual_seed(0)
    model = Two(by, factor)
    x = torch.randn(8, 16)

    def run() -> None:
        model(x).square().mean().backward()

    return run


def by_pythons_own_numbers(x: torch.Tensor) -> torch.Tensor:
    own = random.Random()
    return x * torch.tensor([own.random() for _ in range(16)])


def by_an_unseeded_generator(x: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator()
    generator.seed()
    return x * (torch.rand(x.shape, generator=generator) > 0.3)


@pytest.mark.parametrize(("by", "factor"), [(by_pythons_own_numbers, 1.0), (by_an_unseeded_generator, 1.5)])
def test_a_configuration_that_does_not_repeat_is_no_yardstick(by: Drop, factor: float) -> None:
    comparison = compared(unseeded(by), unseeded(by, factor))
    assert (comparison.verdict, comparison.yardstick.runs) == (CompareVerdict.UNDECIDED, 0)
    assert comparison.unrepeated is not None
    assert comparison.unrepeated.place == "Two.b"
    assert headline(comparison).startswith("The first configuration does not repeat")


def test_a_function_that_is_never_seeded_is_told_to_seed() -> None:
    def run() -> None:
        torch.seed()  # as a process of its own begins
        nn.Linear(8, 1)(torch.ones(2, 8)).sum().backward()

    comparison = compared(run, run)
    assert (comparison.verdict, code_of(comparison)) == (CompareVerdict.UNDECIDED, UNDECIDED)
    assert "two runs of it differ at `Linear.weight` (before the first call)" in headline(comparison)
    assert "it draws other random numbers from tests/" in headline(comparison)


def test_kernels_that_add_in_another_order_each_time_repeat_well_enough() -> None:
    def added(x: torch.Tensor) -> torch.Tensor:
        order = sorted(range(16), key=lambda _: os.urandom(4))
        total: Any = sum(x[:, index] for index in order)
        return x + total[:, None] * 0.1  # type: ignore[no-any-return]

    comparison = compared(unseeded(added), unseeded(added))
    assert comparison.unrepeated is None
    assert comparison.verdict is CompareVerdict.ROUNDING
    faulty = compared(unseeded(added), unseeded(added, 1.001))
    assert (faulty.verdict, faulty.first and begins(faulty).kind) == (CompareVerdict.SIGNIFICANT, PlaceKind.OUTPUT)
