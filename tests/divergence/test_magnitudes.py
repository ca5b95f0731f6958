"""Two configurations of one small model: what differs by rounding is said to, and a fault is found where it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from tests.support.configurations import ALIKE, begins
from tracer.divergence.jobs import first_call
from tracer.divergence.joined_ranks import SIGNIFICANT
from tracer.divergence.magnitudes import CompareVerdict, Comparison, Lack, compared
from tracer.errors import TraceError
from tracer.names import Phase, PlaceKind
from tracer.recording.magnitudes import sketched
from tracer.recording.options import PlaceOptions, RecordOptions
from tracer.report.sections.configurations import headline
from tracer.session import Session
from tracer.trace.values import Form, Header, Magnitudes, PlaceName, ValuesWriter, read_magnitudes

Change = Callable[[torch.nn.Module], object]


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.act, self.down = torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.act(self.up(x)))  # type: ignore[no-any-return]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(32) for _ in range(3))
        self.layers = torch.nn.ModuleList(Mlp() for _ in range(3))
        self.head = torch.nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x))
        out: torch.Tensor = self.head(x)
        return out


def record(
    path: Path,
    change: Change | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    parts: int = 1,
    steps: int = 2,
    **options: Any,
) -> Magnitudes:
    model = Net().to(dtype)
    if change is not None:
        change(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    numbers = torch.Generator().manual_seed(1)
    session = Session(model, RecordOptions(magnitudes=str(path), places=PlaceOptions(**options)))
    session.enter()
    for _ in range(steps):
        x = torch.randn(16, 32, generator=numbers).to(dtype)
        y = torch.randint(0, 10, (16,), generator=numbers)
        for part, labels in zip(x.chunk(parts), y.chunk(parts), strict=True):
            (torch.nn.functional.cross_entropy(model(part).float(), labels) / parts).backward()
        optimizer.step()
        optimizer.zero_grad()
    session.leave()
    return read_magnitudes(path)


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
    "another activation": (lambda model: setattr(model.layers[1], "act", torch.nn.GELU("tanh")), "layers.1.act"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_the_module_that_has_it(tmp_path: Path, base: Any, fault: str) -> None:
    change, place = FAULTS[fault]
    comparison = against(base, record(tmp_path / "b.values", change))
    first = begins(comparison)
    assert (first.module, first.kind, first.step) == (place, PlaceKind.OUTPUT, 0)
    assert comparison.significant == (first,)
    assert first.ratio is not None
    assert first.ratio > SIGNIFICANT
    assert (first.stretch == "[14:16]") == (fault == "last row lost")


class Own(torch.nn.Module):
    """Calls a pooling and a layer; ``fault`` says what its own code does before that."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.pool, self.layer = Mean(), torch.nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.view(4, 4, 32)
        rows = rows[:, :-1] if "lost" in self.fault else rows * 1.5 if "scaled" in self.fault else rows
        pooled = self.pool(rows) if "order" not in self.fault else self.pool(rows.flip(1))
        if "unpadded" in self.fault:
            kept = torch.ones(16, 1, dtype=torch.bool)
            out: torch.Tensor = self.layer(torch.cat((x, x[:4]))[torch.cat((kept, ~kept[:4])).squeeze(1)])
        else:
            out = self.layer(torch.cat((x, x[:4])))[:16]
        return out + pooled.repeat(4, 1)


class Mean(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


def own(fault: str = "") -> Change:
    def change(model: torch.nn.Module) -> None:
        torch.manual_seed(1)
        model.layers[1] = Own(fault)  # type: ignore[index, operator]

    return change


@pytest.mark.parametrize(
    ("fault", "place", "shapes"),
    [("scaled", "layers.1.pool", ()), ("lost", "layers.1.pool", ((4, 4, 32), (4, 3, 32)))],
)
def test_a_fault_in_the_code_before_a_module_is_that_of_the_module_around(
    tmp_path: Path, fault: str, place: str, shapes: object
) -> None:
    first = record(tmp_path / "a.values", own())
    second, shaken = record(tmp_path / "b.values", own(fault)), record(tmp_path / "s.values", own(), shake=1)
    comparison = compared(first, second, [shaken])
    found = begins(comparison)
    assert (found.module, found.place, found.kind, found.step) == ("layers.1", place, PlaceKind.INPUT, 0)
    assert (found.is_own_code, found.shapes) == (True, shapes)
    assert comparison.significant == (found,)
    sides = [
        record(tmp_path / f"{name}.values", own(how), calls_of="layers.1.", steps=1, shake=shake)
        for name, how, shake in (("c", "", None), ("d", fault, None), ("e", "", 1))
    ]
    call = first_call(sides[0], sides[1], sides[2], found)
    assert call is not None
    assert call.second_op == {"scaled": "aten.mul.Tensor", "lost": "aten.slice.Tensor"}[fault]
    assert {name.module for name in sides[1].places.names if name.kind is PlaceKind.CALL} == {"layers.1"}


def test_another_shape_of_which_nothing_comes_accuses_nobody(tmp_path: Path) -> None:
    first, shaken = record(tmp_path / "a.values", own()), record(tmp_path / "s.values", own(), shake=1)
    unpadded = compared(first, record(tmp_path / "b.values", own("unpadded")), [shaken])
    assert unpadded.verdict in ALIKE
    assert ("layers.1.layer", Lack.OTHER_SHAPE) in {(one.place, one.lack) for one in unpadded.only}

    def elsewhere(model: torch.nn.Module) -> None:
        own("unpadded")(model)
        hook("layers.2.act", lambda out: out * 1.01)(model)

    faulty = compared(first, record(tmp_path / "c.values", elsewhere), [shaken])
    assert [one.module for one in faulty.significant] == ["layers.2.act"]


class Scaled(torch.nn.Module):
    """Calls a layer that works on rows of its own, and scales what it returns."""

    def __init__(self, fault: str, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = Own(fault), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x) * self.factor
        return out


def around_own(*layers: tuple[str, float]) -> Change:
    def change(model: torch.nn.Module) -> None:
        torch.manual_seed(1)
        for number, (fault, factor) in enumerate(layers, 1):
            model.layers[number] = Scaled(fault, factor)  # type: ignore[index, operator]

    return change


@pytest.mark.parametrize(
    ("layers", "place"),
    [
        ([("unpadded", 1.5), ("", 1.0)], ("layers.1", "layers.1", PlaceKind.OUTPUT)),
        ([("unpadded", 1.0), ("lost", 1.0)], ("layers.2.inner", "layers.2.inner.pool", PlaceKind.INPUT)),
    ],
    ids=["in the module around", "in another one that changes a shape"],
)
def test_a_fault_behind_another_shape_of_which_nothing_comes_is_found(
    tmp_path: Path, layers: list[tuple[str, float]], place: tuple[str, str, PlaceKind]
) -> None:
    sound = around_own(("", 1.0), ("", 1.0))
    first, shaken = record(tmp_path / "a.values", sound), record(tmp_path / "s.values", sound, shake=1)
    found = begins(compared(first, record(tmp_path / "b.values", around_own(*layers)), [shaken]))
    assert (found.module, found.place, found.kind) == place


def test_a_lost_gradient_is_that_of_the_code_which_loses_it(tmp_path: Path, base: Any) -> None:
    change = hook("layers.1", lambda out: out * 0.5 + out.detach() * 0.5)
    comparison = against(base, record(tmp_path / "b.values", change))
    first = begins(comparison)
    assert (first.module, first.place, first.kind) == ("layers.1", "layers.1.down", PlaceKind.OUTPUT_GRADIENT)
    assert (first.phase, first.is_own_code, first.factor) == (Phase.BACKWARD, True, pytest.approx(0.5))


def test_sums_in_another_order_are_rounding(tmp_path: Path, base: Any) -> None:
    comparison = against(base, record(tmp_path / "b.values", one_thread))
    assert comparison.verdict is CompareVerdict.ROUNDING
    assert comparison.differing > 20
    orders = [place.order for place in comparison.unequal]
    assert orders == sorted(orders)
    assert len(orders) == 10
    assert all(place.ratio is not None and place.relative > 0 for place in comparison.unequal)


def test_what_the_dtype_cannot_show_is_not_looked_at_more_closely(tmp_path: Path, base: Any) -> None:
    second = record(tmp_path / "b.values", hook("layers.2.act", lambda out: out * 1.02), dtype=torch.bfloat16)
    comparison = against(base, second, torch.bfloat16)
    assert comparison.parts_in == ""
    assert not comparison.significant


def place_of(
    path: Path,
    values: torch.Tensor,
    shaken: int | None = None,
    *,
    has_region: bool = False,
    shaken_in: str = "",
    dtype: str = "float32",
) -> Magnitudes:
    """A recording of one output of ``values``, and of a compiled region."""
    writer = ValuesWriter(path, Header(magnitudes=True, digests=False, shaken=shaken, shaken_in=shaken_in))
    for kind in (PlaceKind.OUTPUT, PlaceKind.REGION) if has_region else (PlaceKind.OUTPUT,):
        sketch = sketched(values if kind is PlaceKind.OUTPUT else torch.ones(8))
        name = PlaceName(kind=kind, module="layer", phase=Phase.FORWARD)
        form = Form(dtype, tuple(values.shape))
        writer.place(name, form, 0, sums=sketch.sums.tobytes(), magnitudes=(*sketch.extent, 0))
    writer.close()
    return read_magnitudes(path)


@pytest.mark.parametrize(
    ("second_is", "verdict"),
    [
        ("off by the same each time", CompareVerdict.SIGNIFICANT),
        ("noisier", CompareVerdict.ROUNDING),
        ("noisier and compiled", CompareVerdict.UNDECIDED),
        ("not shaken there", CompareVerdict.UNDECIDED),
    ],
)
def test_means_of_shaken_runs_decide_what_is_undecided(tmp_path: Path, second_is: str, verdict: CompareVerdict) -> None:
    numbers = torch.Generator().manual_seed(0)
    unit = 1e-3

    def noise(times: float) -> torch.Tensor:
        return unit * times * torch.randn(64, 64, generator=numbers, dtype=torch.float64)

    values = torch.randn(64, 64, generator=numbers, dtype=torch.float64)
    offset = noise(6.0) if "off" in second_is else torch.zeros(())
    times = 6.0 if "noisier" in second_is else 1.0
    frozen = noise(6.0)
    has_region = "compiled" in second_is
    first = place_of(tmp_path / "a", values + noise(1))
    others = [values + (frozen if "not shaken" in second_is else offset + noise(times)) for _ in range(7)]
    second = place_of(tmp_path / "b", others[0], has_region=has_region)
    shaken = [place_of(tmp_path / f"a{seed}", values + noise(1), seed) for seed in range(6)]
    of_second = [place_of(tmp_path / f"b{seed}", other, seed) for seed, other in enumerate(others[1:])]
    assert compared(first, second, shaken).verdict is CompareVerdict.UNDECIDED
    comparison = compared(first, second, shaken, of_second, by_means=True)
    assert comparison.verdict is verdict
    assert comparison.largest is not None
    assert comparison.largest.of_means == (verdict is not CompareVerdict.UNDECIDED)


@pytest.mark.parametrize(
    ("second_moves", "verdict"), [(1.0, CompareVerdict.SIGNIFICANT), (15.0, CompareVerdict.ROUNDING)]
)
def test_what_the_second_configuration_rounds_inside_the_module_counts_too(
    tmp_path: Path, second_moves: float, verdict: CompareVerdict
) -> None:
    numbers = torch.Generator().manual_seed(0)
    values = torch.randn(64, 64, generator=numbers, dtype=torch.float64)

    def noise(units: float) -> torch.Tensor:
        return units * 2.0**-8 * torch.randn(64, 64, generator=numbers, dtype=torch.float64)

    def place(name: str, at: torch.Tensor, seed: int | None = None, shaken_in: str = "") -> Magnitudes:
        return place_of(tmp_path / name, at, seed, shaken_in=shaken_in, dtype="bfloat16")

    other = values + noise(15)
    first, second = place("a", values), place("b", other)
    shaken = [place("a1", values + noise(6), 1)]
    assert compared(first, second, shaken).parts_in == "layer"
    shaken.append(place("a1-inside", values + noise(1), 1, "layer"))
    of_second = [place("b1-inside", other + noise(second_moves), 1, "layer")]
    assert compared(first, second, shaken, of_second).verdict is verdict


@pytest.mark.parametrize("name", ["weight", "_flat_param"])
def test_flat_parameters_of_ranks_are_not_passed_over(tmp_path: Path, name: str) -> None:
    def held(path: Path, own: str, shape: tuple[int, ...], rank: int | None = None) -> Magnitudes:
        world_size = None if rank is None else 2
        writer = ValuesWriter(path, Header(magnitudes=True, digests=False, rank=rank, world_size=world_size))
        for kind, place, form in ((PlaceKind.GRADIENT, own, shape), (PlaceKind.PARAMETER, "bias", (4,))):
            sketch = sketched(torch.ones(form))
            place_name = PlaceName(kind=kind, module="Net.layer", name=place, phase=Phase.FORWARD)
            magnitudes = (*sketch.extent, 1)
            writer.place(place_name, Form("float32", form), 0, sums=sketch.sums.tobytes(), magnitudes=magnitudes)
        writer.close()
        return read_magnitudes(path)

    first = held(tmp_path / "a", "weight", (4, 4))
    ranks = [held(tmp_path / f"b{rank}", name, (8,), rank) for rank in range(2)]
    comparison = compared(first, msgspec.structs.replace(ranks[0], other_ranks=(ranks[1],)))
    assert "fully_shard" in comparison.partial
    assert "fully_shard" not in compared(first, first).partial


def test_outputs_of_parts_of_a_batch_are_rows_of_the_whole(tmp_path: Path, base: Any) -> None:
    first = base[torch.float32][0]
    comparison = against(base, record(tmp_path / "b.values", parts=4, rows_of=str(first)))
    assert comparison.verdict is CompareVerdict.ROUNDING
    assert comparison.row_steps == comparison.split_steps == (0, 1)
    assert comparison.compared == against(base, read_magnitudes(first)).compared


def test_a_gradient_that_one_side_alone_has_is_a_fault(tmp_path: Path, base: Any) -> None:
    change = hook("layers.1.up", lambda out: out.detach())
    second = record(tmp_path / "b.values", change)
    comparison = against(base, second)
    first = begins(comparison)
    assert (first.module, first.kind, first.dtypes[1]) == ("layers.1.up", PlaceKind.GRADIENT, "")
    assert "only the optimizer of the first is given a gradient there" in headline(comparison)
    shaken = record(tmp_path / "s.values", change, shake=1)
    other_way = begins(compared(second, read_magnitudes(base[torch.float32][0]), [shaken]))
    assert (other_way.module, other_way.dtypes[0]) == ("layers.1.up", "")


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
    assert comparison.verdict in ALIKE
    reordered = {one.place for one in comparison.only if one.lack is Lack.OTHER_ORDER}
    assert reordered == {f"layers.1.{name}" for name in ("up", "act", "down")}


def test_another_order_that_leaves_its_module_is_a_fault(tmp_path: Path, base: Any) -> None:
    comparison = against(base, record(tmp_path / "b.values", sorting(is_undone=False)))
    assert begins(comparison).module.startswith("layers.1")
    assert begins(comparison).step == 0


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
    assert comparison.parts_in == ""
    assert (begins(comparison).module, begins(comparison).place) == ("layers.1", "layers.1.up")


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
    assert begins(comparison).module == "layers.1.act"


def test_places_that_one_run_has_alone_are_told(tmp_path: Path, base: Any) -> None:
    def wraps(model: Any) -> None:
        model.layers[0].act = torch.nn.Sequential(torch.nn.GELU())

    comparison = against(base, record(tmp_path / "b.values", wraps))
    assert comparison.verdict is CompareVerdict.EQUAL
    alone = {(only.place, only.lack) for only in comparison.only if only.kind is PlaceKind.OUTPUT}
    assert alone == {("layers.0.act.0", Lack.NOT_IN_FIRST)}


def test_a_wrapped_model_is_the_model(tmp_path: Path, base: Any) -> None:
    def wrapped(model: torch.nn.Module) -> None:
        model.__class__ = type("Other", (Net,), {})

    comparison = against(base, record(tmp_path / "b.values", wrapped))
    assert (comparison.verdict, comparison.only) == (CompareVerdict.EQUAL, ())


def test_fewer_steps_are_told(tmp_path: Path, base: Any) -> None:
    assert against(base, record(tmp_path / "b.values", steps=1)).steps == (2, 1)


def test_elements_that_are_not_finite_in_one_alone_are_significant(tmp_path: Path, base: Any) -> None:
    change = hook("layers.1", lambda out: out.index_fill(0, torch.tensor([3]), float("nan")))
    comparison = against(base, record(tmp_path / "b.values", change))
    assert (begins(comparison).module, begins(comparison).ratio) == ("layers.1", None)


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
    assert (short.verdict, short.partial) == (CompareVerdict.UNDECIDED, "the yardstick has no step 1")
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
    assert comparison.unjudged == len(comparison.only) > comparison.differing
    assert comparison.verdict is CompareVerdict.UNDECIDED
    assert headline(comparison).endswith(f"{comparison.unjudged} places where they differ have no yardstick")


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
        torch.nn.Linear(2, 2),
        RecordOptions(
            magnitudes=str(tmp_path / "other.values"), places=PlaceOptions(shake=1 if "program" in wrong else None)
        ),
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
