"""Two configurations of one small model: what differs by rounding is said to, and a fault is found where it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tracer.divergence.magnitudes import SIGNIFICANT, CompareVerdict, Comparison, Lack, compared, first_call
from tracer.errors import TraceError
from tracer.names import PlaceKind
from tracer.report.sections.configurations import headline
from tracer.session import Session
from tracer.trace.values import Magnitudes, read_magnitudes

Change = Callable[[torch.nn.Module], object]


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.act, self.down = torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)
        self.factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down(self.act(self.up(x)))
        return out if self.factor == 1 else out * self.factor


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(32) for _ in range(3))
        self.layers = torch.nn.ModuleList(Mlp() for _ in range(3))
        self.head = torch.nn.Linear(32, 10)
        self.between: Callable[[torch.Tensor], torch.Tensor] = lambda x: x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, (norm, layer) in enumerate(zip(self.norms, self.layers, strict=True)):
            x = x + layer(norm(self.between(x) if number == 1 else x))
        out: torch.Tensor = self.head(x)
        return out


def record(
    path: Path,
    change: Change | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    parts: int = 1,
    steps: int = 2,
    seed: int = 1,
    is_divided: bool = True,
    **options: Any,
) -> Magnitudes:
    model = Net().to(dtype)
    if change is not None:
        change(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    numbers = torch.Generator().manual_seed(seed)
    session = Session(model, magnitudes=path, **options)
    session.enter()
    for _ in range(steps):
        x = torch.randn(16, 32, generator=numbers).to(dtype)
        y = torch.randint(0, 10, (16,), generator=numbers)
        for part, labels in zip(x.chunk(parts), y.chunk(parts), strict=True):
            (torch.nn.functional.cross_entropy(model(part).float(), labels) / (parts if is_divided else 1)).backward()
        optimizer.step()
        optimizer.zero_grad()
    session.leave()
    return read_magnitudes(path)


Recorded = Callable[..., Magnitudes]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[torch.dtype, tuple[Path, list[Path]]]:
    folder = tmp_path_factory.mktemp("base")
    recordings = {}
    for dtype in (torch.float32, torch.bfloat16):
        paths = [folder / f"{dtype}-{seed}.values" for seed in range(4)]
        record(paths[0], dtype=dtype)
        for seed, path in enumerate(paths[1:], 1):
            record(path, dtype=dtype, shake=seed)
        recordings[dtype] = (paths[0], paths[1:])
    return recordings


def against(base: Any, second: Magnitudes, dtype: torch.dtype = torch.float32) -> Comparison:
    first, shaken = base[dtype]
    return compared(read_magnitudes(first), second, [read_magnitudes(path) for path in shaken])


def hook(path: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda model: model.get_submodule(path).register_forward_hook(lambda module, inputs, out: change(out))


def changed(path: str, **fields: Any) -> Change:
    def change(model: torch.nn.Module) -> None:
        for name, value in fields.items():
            setattr(model.get_submodule(path), name, value)

    return change


def one_thread(model: torch.nn.Module) -> None:
    """Multiplies by blocks: the sums are made in another order."""
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.forward = lambda x, layer=layer: sum(  # type: ignore[method-assign]
                (part @ weight.t() for part, weight in zip(x.chunk(4, -1), layer.weight.chunk(4, -1), strict=True)),
                layer.bias,
            )


FAULTS = {
    "rotated": (hook("layers.1.down", lambda out: out.roll(1, -1)), "layers.1.down"),
    "scaled": (hook("layers.2", lambda out: out * 1.001), "layers.2"),
    "last row lost": (hook("norms.0", lambda out: torch.cat((out[:-1], out[-1:] * 0))), "norms.0"),
    "bfloat16 in the middle": (hook("layers.0.up", lambda out: out.bfloat16().to(out.dtype)), "layers.0.up"),
    "another epsilon": (changed("norms.1", eps=1e-3), "norms.1"),
    "another activation": (lambda model: setattr(model.layers[1], "act", torch.nn.GELU("tanh")), "layers.1.act"),
    "code of the parent's own": (changed("layers.1", factor=1.001), "layers.1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_the_module_that_has_it(tmp_path: Path, base: Any, fault: str) -> None:
    change, place = FAULTS[fault]
    comparison = against(base, record(tmp_path / "b.values", change))
    assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert comparison.first is not None
    assert (comparison.first.module, comparison.first.kind) == (place, PlaceKind.OUTPUT)
    assert comparison.first.step == 0
    assert [root.module for root in comparison.significant] == [place]
    assert comparison.first.ratio is not None
    assert comparison.first.ratio > SIGNIFICANT


def test_what_every_module_loses_is_found_where_it_begins(tmp_path: Path, base: Any) -> None:
    comparison = against(base, record(tmp_path / "b.values", hook("norms.0", lambda out: out[:-1].repeat(2, 1)[:16])))
    assert comparison.first is not None
    assert comparison.first.stretch.startswith("[1") or comparison.first.stretch == ""


def test_code_between_two_modules_is_named_by_what_the_next_one_is_given(tmp_path: Path, base: Any) -> None:
    comparison = against(base, record(tmp_path / "b.values", changed("", between=lambda x: x * 1.001)))
    assert comparison.first is not None
    assert (comparison.first.module, comparison.first.kind) == ("norms.1", PlaceKind.INPUT)


def test_a_lost_gradient_is_found_at_the_first_parameter_that_misses_it(tmp_path: Path, base: Any) -> None:
    change = hook("layers.1", lambda out: out * 0.5 + out.detach() * 0.5)
    comparison = against(base, record(tmp_path / "b.values", change))
    assert comparison.first is not None
    assert (comparison.first.module, comparison.first.kind) == ("layers.1.down", PlaceKind.GRADIENT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_in_another_order_are_rounding(tmp_path: Path, base: Any, dtype: torch.dtype) -> None:
    comparison = against(base, record(tmp_path / "b.values", one_thread, dtype=dtype), dtype)
    assert comparison.verdict is CompareVerdict.ROUNDING
    assert comparison.differing > 20


def test_the_same_run_is_equal(tmp_path: Path, base: Any) -> None:
    comparison = against(base, record(tmp_path / "b.values"))
    assert comparison.verdict is CompareVerdict.EQUAL
    assert comparison.differing == 0


def test_an_accumulated_batch_is_compared_by_gradients_and_parameters(tmp_path: Path, base: Any) -> None:
    comparison = against(base, record(tmp_path / "b.values", parts=4))
    assert comparison.verdict is CompareVerdict.ROUNDING
    assert comparison.split_steps == (0, 1)


def test_an_accumulated_loss_that_is_not_divided_is_found_at_the_last_modules_gradients(
    tmp_path: Path, base: Any
) -> None:
    comparison = against(base, record(tmp_path / "b.values", parts=4, is_divided=False))
    assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert comparison.first is not None
    assert (comparison.first.kind, comparison.first.module) == (PlaceKind.GRADIENT, "head")


def test_a_narrower_dtype_is_rounding_by_its_own_yardstick(tmp_path: Path, base: Any) -> None:
    first, shaken = base[torch.float32]
    second, of_second = base[torch.bfloat16]
    both = (read_magnitudes(first), read_magnitudes(second))
    alone = compared(*both, list(map(read_magnitudes, shaken)))
    assert alone.second_is_narrower
    fair = compared(*both, list(map(read_magnitudes, shaken)), list(map(read_magnitudes, of_second)))
    assert fair.verdict is CompareVerdict.ROUNDING


def test_other_parameters_are_the_answer_before_anything_else(tmp_path: Path, base: Any) -> None:
    comparison = against(base, record(tmp_path / "b.values", lambda model: model.head.weight.data.mul_(1.01)))
    assert comparison.is_given
    assert comparison.first is not None
    assert (comparison.first.kind, comparison.first.place) == (PlaceKind.INITIAL, "head.weight")


def test_other_data_are_the_answer_before_anything_else(tmp_path: Path, base: Any) -> None:
    comparison = against(base, record(tmp_path / "b.values", seed=2))
    assert comparison.is_given
    assert comparison.first is not None
    assert comparison.first.kind is PlaceKind.INPUT


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_gradient_that_one_side_alone_has_is_a_fault(tmp_path: Path, base: Any, dtype: torch.dtype) -> None:
    def detached(model: Any) -> None:
        model.layers[1].up.register_forward_hook(lambda module, inputs, out: out.detach())

    second = record(tmp_path / "b.values", detached, dtype=dtype)
    comparison = against(base, second, dtype)
    assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert comparison.first is not None
    assert (comparison.first.module, comparison.first.kind) == ("layers.1.up", PlaceKind.GRADIENT)
    assert comparison.first.dtypes[1] == ""
    assert "only the first configuration has a gradient there" in headline(comparison)
    first, _ = base[dtype]
    other_way = compared(
        second, read_magnitudes(first), [record(tmp_path / "s.values", detached, dtype=dtype, shake=1)]
    )
    assert other_way.first is not None
    assert (other_way.first.module, other_way.first.dtypes[0]) == ("layers.1.up", "")


def test_a_gradient_of_zeros_is_none(tmp_path: Path, base: Any) -> None:
    def unused(*, has_zeros: bool) -> Change:
        def change(model: Any) -> None:
            model.unused = torch.nn.Parameter(torch.zeros(3))  # which decays to nothing else
            if has_zeros:
                model.unused.grad = torch.zeros(3)

        return change

    names = ("a", "b", "s")
    first, second, shaken = (
        record(tmp_path / f"{name}.values", unused(has_zeros=name != "b"), steps=1, shake=1 if name == "s" else None)
        for name in names
    )
    comparison = compared(first, second, [shaken])
    assert comparison.verdict is CompareVerdict.EQUAL
    assert [(one.kind, one.lack) for one in comparison.only if one.kind is PlaceKind.GRADIENT] == [
        (PlaceKind.GRADIENT, Lack.NOT_IN_SECOND)
    ]


def sorting(*, is_undone: bool) -> Change:
    """The layer works on its rows in another order."""

    def change(model: Any) -> None:
        layer = model.layers[1]
        order = torch.arange(16).roll(5)

        def forward(x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = Mlp.forward(layer, x[order])
            return out[order.argsort()] if is_undone else out

        layer.forward = forward

    return change


def test_the_same_numbers_in_another_order_inside_a_module_are_no_fault(tmp_path: Path, base: Any) -> None:
    comparison = against(base, record(tmp_path / "b.values", sorting(is_undone=True)))
    assert comparison.verdict in (CompareVerdict.EQUAL, CompareVerdict.ROUNDING)
    reordered = {one.place for one in comparison.only if one.lack is Lack.OTHER_ORDER}
    assert reordered == {f"layers.1.{name}" for name in ("up", "act", "down")}


def test_another_order_that_leaves_its_module_is_a_fault(tmp_path: Path, base: Any) -> None:
    comparison = against(base, record(tmp_path / "b.values", sorting(is_undone=False)))
    assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert comparison.first is not None
    assert comparison.first.module.startswith("layers.1")
    assert comparison.first.step == 0


def test_another_order_whose_result_is_scaled_away_is_found_by_its_gradients(tmp_path: Path) -> None:
    def scaled(*, is_sorted: bool) -> Change:
        def change(model: Any) -> None:
            layer = model.layers[1]
            layer.scale = torch.nn.Parameter(torch.full((32,), 1e-9))
            order = torch.arange(16).roll(5)
            layer.forward = lambda x: x + layer.scale * Mlp.forward(layer, x[order] if is_sorted else x)

        return change

    first, second = (record(tmp_path / f"{name}.values", scaled(is_sorted=name == "b"), steps=1) for name in "ab")
    comparison = compared(first, second, [record(tmp_path / "s.values", scaled(is_sorted=False), steps=1, shake=1)])
    assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert comparison.first is not None
    assert (comparison.first.module, comparison.first.kind) == ("layers.1.up", PlaceKind.INPUT)


def test_numbers_that_are_lost_are_no_other_order_where_rounding_is_coarse(tmp_path: Path) -> None:
    def lose(out: torch.Tensor) -> torch.Tensor:
        lost = out.clone()
        lost[-1, :16] = 0
        return lost

    def scaled(*, is_lost: bool) -> Change:
        def change(model: Any) -> None:
            layer = model.layers[1].requires_grad_(requires_grad=False)
            layer.forward = lambda x: x + 1e-9 * Mlp.forward(layer, x)
            if is_lost:
                layer.act.register_forward_hook(lambda module, inputs, out: lose(out))

        return change

    first, second, shaken = (
        record(tmp_path / f"{name}.values", scaled(is_lost=name == "b"), steps=1, dtype=torch.bfloat16, **options)
        for name, options in (("a", {}), ("b", {}), ("s", {"shake": 1}))
    )
    comparison = compared(first, second, [shaken])
    assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert comparison.first is not None
    assert comparison.first.module == "layers.1.act"


def test_places_that_one_run_has_alone_are_told(tmp_path: Path, base: Any) -> None:
    comparison = against(
        base,
        record(
            tmp_path / "b.values", lambda model: model.layers[0].add_module("act", torch.nn.Sequential(torch.nn.GELU()))
        ),
    )
    assert comparison.verdict is CompareVerdict.EQUAL
    assert {(only.place, only.lack) for only in comparison.only if only.kind is PlaceKind.OUTPUT} == {
        ("layers.0.act.0", Lack.NOT_IN_FIRST)
    }


def test_a_wrapped_model_is_the_model(tmp_path: Path) -> None:
    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.fc(x)
            return out

    recordings = []
    for kind in (Wrapped, type("Other", (Wrapped,), {})):
        model = kind()
        path = tmp_path / f"{kind.__name__}.values"
        session = Session(magnitudes=path)
        session.enter()
        model(torch.ones(2, 4)).sum().backward()
        session.leave()
        recordings.append(read_magnitudes(path))
    comparison = compared(*recordings)
    assert (comparison.verdict, comparison.only) == (CompareVerdict.EQUAL, ())


def test_fewer_steps_are_told(tmp_path: Path, base: Any) -> None:
    assert against(base, record(tmp_path / "b.values", steps=1)).steps == (2, 1)


def test_elements_that_are_not_finite_in_one_alone_are_significant(tmp_path: Path, base: Any) -> None:
    change = hook("layers.1", lambda out: out.index_fill(0, torch.tensor([3]), float("nan")))
    comparison = against(base, record(tmp_path / "b.values", change))
    assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert comparison.first is not None
    assert (comparison.first.module, comparison.first.ratio) == ("layers.1", None)


def test_without_a_yardstick_nothing_is_judged(tmp_path: Path, base: Any) -> None:
    comparison = compared(read_magnitudes(base[torch.float32][0]), record(tmp_path / "b.values", FAULTS["scaled"][0]))
    assert comparison.verdict is CompareVerdict.NOT_JUDGED
    assert comparison.significant == ()
    assert comparison.largest is not None


def test_what_no_shaken_run_has_is_not_judged(tmp_path: Path) -> None:
    first, second = record(tmp_path / "a.values"), record(tmp_path / "b.values", one_thread)
    whole = compared(first, second, [record(tmp_path / "s.values", shake=1)])
    assert (whole.verdict, whole.partial) == (CompareVerdict.ROUNDING, "")
    short = compared(first, second, [record(tmp_path / "short.values", shake=1, steps=1)])
    assert (short.verdict, short.partial) == (CompareVerdict.ROUNDING, "the yardstick has no step 1")
    assert short.largest is not None
    assert short.largest.step == 0
    assert {(one.step, one.lack) for one in short.only} == {(1, Lack.NO_YARDSTICK)}
    assert short.places + short.only_count == whole.places


def test_where_shaking_overflows_nothing_is_judged(tmp_path: Path) -> None:
    overflowing = hook("layers.1", lambda out: out * float("inf"))
    first, second = record(tmp_path / "a.values", steps=1), record(tmp_path / "b.values", one_thread, steps=1)
    comparison = compared(first, second, [record(tmp_path / "s.values", overflowing, shake=1, steps=1)])
    unjudged = {one.place for one in comparison.only if one.lack is Lack.NO_YARDSTICK}
    assert {"layers.1", "head"} <= unjudged
    assert comparison.verdict is CompareVerdict.ROUNDING


def test_the_first_call_inside_a_faulty_module_is_named(tmp_path: Path) -> None:
    def calls(name: str, change: Change | None = None, shake: int | None = None) -> Magnitudes:
        return record(tmp_path / f"{name}.values", change, calls_of="layers.1", shake=shake, steps=1)

    change, _ = FAULTS["another activation"]
    first, second, shaken = calls("a"), calls("b", change), calls("s", shake=1)
    comparison = compared(read_magnitudes(first.places.path), read_magnitudes(second.places.path), [shaken])
    assert comparison.first is not None
    call = first_call(first, second, shaken, comparison.first)
    assert call is not None
    assert (call.op, call.second_op) == ("aten.gelu.default", "aten.gelu.default")
    assert "test_magnitudes.py" in call.location


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("shaken as first", "is a shaken recording"),
        ("unshaken as yardstick", "was not shaken"),
        ("another program's yardstick", "yardstick of another program"),
        ("another model", "no place in common"),
        ("not finite from the start", "not finite in its first step"),
        ("nothing that calls a module", "recorded no place"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(tmp_path: Path, base: Any, wrong: str, says: str) -> None:
    first, (shaken, *_) = (read_magnitudes(base[torch.float32][0]), base[torch.float32][1])
    session = Session(
        torch.nn.Linear(2, 2), magnitudes=tmp_path / "other.values", shake=1 if "program" in wrong else None
    )
    session.enter()
    torch.nn.Bilinear(2, 2, 2)(torch.ones(1, 2), torch.ones(1, 2))
    session.leave()
    other = read_magnitudes(tmp_path / "other.values")
    calls: dict[str, Callable[[], object]] = {
        "shaken as first": lambda: compared(read_magnitudes(shaken), first),
        "unshaken as yardstick": lambda: compared(first, read_magnitudes(base[torch.float32][0]), [first]),
        "another program's yardstick": lambda: compared(first, read_magnitudes(base[torch.float32][0]), [other]),
        "another model": lambda: compared(first, other),
        "not finite from the start": lambda: compared(
            record(tmp_path / "nan.values", hook("head", lambda out: out * float("nan"))), first
        ),
        "nothing that calls a module": lambda: compared(first, record(tmp_path / "empty.values", steps=0)),
    }
    with pytest.raises(TraceError, match=says):
        calls[wrong]()
