"""What a call was called with: facts, the form of its arguments, how many addends meet in one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tests.support.lines import groups, record
from tracer.facts import MISSING
from tracer.facts.sizes import adaptive_windows_of_one, fractional_windows_of_one, windows_of_one
from tracer.recording import calls as facts
from tracer.recording.calls import asked_readers, named_arguments, tensor_form
from tracer.tables.rules import DOMAINS
from tracer.trace.records import Argument, NotKept, TensorForm, spelled

IMAGES = torch.ones(2, 3, 8, 8)


ZERO, ONE, ONES = torch.tensor([0]), torch.ones(1), torch.ones(3, 3)
QUANTIZED = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8)


def _bag(mode: str) -> Callable[[], object]:
    weight = torch.ones(5, 2, requires_grad=True)
    return lambda: F.embedding_bag(torch.tensor([[0, 1]]), weight, mode=mode).sum().backward()


@pytest.mark.parametrize(
    ("run", "op", "expected"),
    [
        (lambda: torch.ones(4).put_(ZERO, ONE), "aten.put_", {"arg.accumulate": False}),
        (lambda: torch.ones(4).put_(ZERO, ONE, accumulate=True), "aten.put_", {"arg.accumulate": True}),
        (lambda: torch.ones(4).scatter_reduce(0, ZERO, ONE, "amax"), "aten.scatter_reduce", {"arg.reduce": "amax"}),
        (lambda: torch.ones(4).cumsum(0, dtype=torch.int32), "aten.cumsum", {"dtype": "int32"}),
        (lambda: torch.ones(4, dtype=torch.int32).cumsum(0, dtype=torch.float32), "aten.cumsum", {"dtype": "float32"}),
        (_bag("max"), "aten._embedding_bag_backward", {"arg.mode": "max"}),
        (_bag("sum"), "aten._embedding_bag_backward", {"arg.mode": "sum"}),
        (lambda: torch.bincount(ZERO), "aten.bincount", {"given.weights": False}),
        (lambda: torch.bincount(ZERO, ONE), "aten.bincount", {"given.weights": True}),
        (lambda: torch.ones(4).index_put_((ZERO,), ONE), "aten.index_put_", {"index.is_mask": False}),
        (lambda: torch.ones(1).index_put_((ONE > 0,), ONE), "aten.index_put_", {"index.is_mask": True}),
        (
            lambda: torch.ones(4, 300).index_put_((ZERO.expand(200),), ONE, accumulate=True),
            "aten.index_put_",
            {"shape.numel_ge_32768": True},
        ),
        (
            lambda: torch.ones(90_000).index_put_((ZERO,), ONE, accumulate=True),
            "aten.index_put_",
            {"shape.numel_ge_32768": False},
        ),
        (lambda: torch.linalg.lstsq(torch.eye(3), ONES[0]), "aten.linalg_lstsq", {"arg.driver": "default"}),
        (lambda: torch.addmm(ONES, ONES.to_sparse(), ONES), "aten.addmm", {"layout": "sparse_coo"}),
        (lambda: torch.ones(5).cumsum(0), "aten.cumsum", {"shape.scan_is_whole": True}),
        (lambda: torch.ones(5, 2).cumsum(0), "aten.cumsum", {"shape.scan_is_whole": False}),
        (lambda: torch.ones((), dtype=torch.float64).cumsum(0), "aten.cumsum", {"shape.scan_is_whole": True}),
        (
            lambda: F.cross_entropy(IMAGES, torch.zeros(2, 8, 8, dtype=torch.int64), reduction="none"),
            "aten.nll_loss2d_forward",
            {"arg.reduction": "none"},
        ),
        (lambda: QUANTIZED.clone().resize_(2), "aten.resize_", {"dtype": "quantized"}),
    ],
)
def test_asked_facts(run: Callable[[], object], op: str, expected: dict[str, object]) -> None:
    tracer = record(run)
    # Up to torch 2.5 the composite falls apart before a mode sees it.
    found = groups(tracer, op) or groups(tracer, op.replace("_bag_", "_bag_dense_"))
    assert found
    for group in found:
        assert expected.items() <= group.facts.items(), group.facts


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16, torch.complex64, torch.uint16, torch.bool])
def test_every_dtype_has_a_word(dtype: torch.dtype) -> None:
    assert facts.dtype_word(dtype) in set(DOMAINS["dtype"]) - {"other"}


def test_every_recorded_fact_is_of_the_vocabulary() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.AdaptiveAvgPool2d(3))
    tracer = record(lambda: net(IMAGES).cumsum(0).sum().backward(), net)
    for group in tracer.trace.calls:
        for key, value in group.facts.items():
            assert value in DOMAINS[key], (group.op, key, value)
    assert facts.common_facts(None) == {"device": "none", "dtype": "none", "layout": "none", "ndim": -1}


def arguments(step: Callable[[], Any], op: str) -> list[str]:
    return [spelled(group.given) for group in record(step).trace.calls if group.op == op]


class Mute(torch.Tensor):
    """A tensor that answers no question of its shape."""

    def stride(self, dim: Any = None) -> Any:
        raise NotImplementedError(dim)


def test_a_parameter_that_has_no_shape_yet_is_left_out_and_its_module_runs_as_without_the_recorder() -> None:
    def step() -> None:
        lazy = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d()).double()
        lazy(torch.ones(4, 5, dtype=torch.float64)).sum().backward()

    calls = record(step).trace.calls
    assert any(group.op == "aten.addmm.default" for group in calls)
    assert any(group.given.get("self") == NotKept() for group in calls)


def test_a_text_that_may_be_a_path_is_not_kept() -> None:
    with torch.library._scoped_library("kept_forms", "DEF") as library:
        library.define("named(Tensor x, str name) -> Tensor")
        library.impl("named", lambda x, name: x + 1, "CompositeExplicitAutograd")
        step = torch.ops.kept_forms.named
        data = torch.zeros(2)
        assert arguments(lambda: step(data, "sum"), "kept_forms.named.default") == ["x=float32[2], name='sum'"]
        assert arguments(lambda: step(data, "/home/me/run"), "kept_forms.named.default") == ["x=float32[2], name=..."]


def test_a_tensor_that_answers_for_itself_is_not_asked() -> None:
    class Asks(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("nobody may ask")

    assert tensor_form(torch.Tensor._make_subclass(Asks, torch.zeros(2)), "cpu") == NotKept()


DATA = torch.zeros(3, 4)


@pytest.mark.parametrize(
    ("step", "op", "spelt"),
    [
        (
            lambda: torch.zeros(10, 4).index_add(0, torch.arange(5), torch.ones(5, 4), alpha=2),
            "index_add.default",
            "self=float32[10, 4], dim=0, index=int64[5], source=float32[5, 4], alpha=2",
        ),
        (lambda: DATA.t().abs(), "abs.default", "self=float32[4, 3][1, 4]"),
        (lambda: DATA[:, ZERO], "index.Tensor", "self=float32[3, 4], indices=[None, int64[1]]"),
        (lambda: DATA.sum(dtype=torch.float64), "sum.default", "self=float32[3, 4], dtype=torch.float64"),
        (
            lambda: ONE.masked_fill(ONE > 0, float("-inf")),
            "masked_fill.Scalar",
            "self=float32[1], mask=bool[1], value=-inf",
        ),
        (lambda: torch.empty(2).uniform_(0, 2), "uniform_.default", "self=float32[2], from=0.0, to=2.0"),
        (
            lambda: torch.empty(2).normal_(generator=torch.Generator()),
            "normal_.default",
            "self=float32[2], generator=torch.Generator",
        ),
        (lambda: torch.mm(ONES.to_sparse(), ONES), "mm.default", "self=float32[3, 3].sparse_coo, mat2=float32[3, 3]"),
        (
            lambda: F.gelu(DATA.clone().requires_grad_()).sum().backward(),
            "gelu_backward.default",
            "grad_output=float32[3, 4][0, 0], self=float32[3, 4]",
        ),
        (lambda: torch._foreach_abs([ONE] * 40), "_foreach_abs.default", f"self=[{'float32[1], ' * 32}...]"),
        (lambda: [torch.ones(size).abs() for size in (3, 5)], "abs.default", "self=float32[3]"),
        (lambda: torch.ones(2).as_subclass(Mute).mul(2.0), "mul.Tensor", "self=..., other=2.0"),
    ],
)
def test_an_argument_is_told_by_its_form_and_of_a_group_those_of_the_first_call(
    step: Callable[[], Any], op: str, spelt: str
) -> None:
    assert arguments(step, f"aten.{op}") == [spelt]


def test_lists_of_lists_survive_the_file_and_deeper_ones_are_left_out() -> None:
    data = torch.zeros(3)
    func = torch.ops.c10d.allgather_.default
    given = named_arguments(func, ([[data, data]], [data]), {}, "cpu")
    form = TensorForm("float32", (3,))
    assert given["output_tensors"] == [[form, form]]
    assert msgspec.json.decode(msgspec.json.encode(given), type=dict[str, Argument]) == given
    deeper = named_arguments(func, ([[[data]]], [data]), {}, "cpu")
    assert deeper["output_tensors"] == [[NotKept()]]


ATEN = torch.ops.aten

KEY = "shape.meets_at_most_twice"


def met(function: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> int:
    """How many outputs of ``function`` weigh on one input, for the input on which most do."""
    source = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    result = function(source)
    counts = torch.zeros(shape)
    for place in range(result.numel()):
        (gradient,) = torch.autograd.grad(result.flatten()[place], source, retain_graph=True)
        counts += gradient.abs() > 1e-12
    return int(counts.max())


def covered(total: int, starts: list[int], ends: list[int]) -> int:
    return max(sum(start <= at < end for start, end in zip(starts, ends, strict=True)) for at in range(total))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4), st.integers(1, 12))
def test_no_element_lies_in_more_windows_than_the_bound(size: int, step: int, gap: int, count: int) -> None:
    places = [start * step + inside * gap for start in range(count) for inside in range(size)]
    assert max(map(places.count, places)) <= windows_of_one(size, step, gap, count)


@pytest.mark.parametrize(
    ("size", "step", "gap", "count", "most"),
    [(3, 2, 1, 9, 2), (2, 2, 1, 9, 1), (3, 1, 1, 9, 3), (3, 1, 1, 2, 2), (2, 2, 2, 9, 2)],
)
def test_the_bound_is_met(size: int, step: int, gap: int, count: int, most: int) -> None:
    places = [start * step + inside * gap for start in range(count) for inside in range(size)]
    assert max(map(places.count, places)) == most == windows_of_one(size, step, gap, count)


@given(st.integers(1, 20), st.integers(1, 40))
def test_no_element_lies_in_more_adaptive_windows_than_the_bound(total: int, count: int) -> None:
    starts = [i * total // count for i in range(count)]
    ends = [-(-(i + 1) * total // count) for i in range(count)]
    most = covered(total, starts, ends)
    assert most <= adaptive_windows_of_one(total, count) <= most + 1
    if total >= count:
        assert most == adaptive_windows_of_one(total, count)


@given(st.integers(2, 20), st.integers(1, 5), st.integers(1, 12), st.floats(0, 0.999))
def test_no_element_lies_in_more_fractional_windows_than_the_bound(
    total: int, size: int, count: int, sample: float
) -> None:
    if size > total or count > total:
        return
    apart = (total - size) / (count - 1) if count > 1 else 0.0
    starts = [int((i + sample) * apart) - int(sample * apart) for i in range(count - 1)] + [total - size]
    assert covered(total, starts, [start + size for start in starts]) <= fractional_windows_of_one(total, size, count)


#: Function, the shape that it is given, the op of its backward, and whether two is the most that meet.
RESAMPLED = [
    ("linear", (1, 1, 8), 4, None, False, True),
    ("linear", (1, 1, 9), 7, None, True, True),
    ("linear", (1, 1, 6), 9, None, False, False),
    ("bilinear", (1, 1, 8, 8), (4, 4), None, False, True),
    ("bilinear", (1, 1, 9, 9), None, 0.5, False, True),
    ("bilinear", (1, 1, 9, 8), (3, 5), None, False, True),
    ("bilinear", (1, 1, 9, 9), (6, 6), None, False, False),
    ("bilinear", (1, 1, 9, 9), (5, 5), None, True, False),  # outputs fall on inputs, but for rounding
    ("trilinear", (1, 1, 4, 6, 4), (2, 2, 2), None, False, True),
    ("trilinear", (1, 1, 4, 4, 4), (3, 3, 3), None, False, False),
    ("bicubic", (1, 1, 8, 8), (2, 2), None, False, True),
    ("bicubic", (1, 1, 8, 8), (4, 4), None, False, False),
]


@pytest.mark.parametrize(("mode", "shape", "size", "scale", "aligned", "expected"), RESAMPLED)
def test_resampling_meets_twice_at_most_where_torch_shows_it(
    mode: str, shape: tuple[int, ...], size: Any, scale: float | None, aligned: bool, expected: bool
) -> None:
    def resample(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=size, scale_factor=scale, mode=mode, align_corners=aligned)

    spatial = len(shape) - 2
    op = getattr(ATEN, f"upsample_{mode}{spatial}d_backward").default
    output = list(resample(torch.zeros(shape)).shape[2:])
    args = (torch.zeros(1, 1, *output), output, list(shape), aligned, *[scale] * spatial)
    said = asked_readers(op, {KEY})[KEY](args, {})
    assert said is (True if expected else MISSING)
    if expected:
        assert met(resample, *shape) <= 2


@given(st.integers(1, 12), st.integers(1, 14), st.booleans())
def test_what_is_noted_of_linear_resampling_is_true(total: int, count: int, aligned: bool) -> None:
    op = ATEN.upsample_linear1d_backward.default
    args = (torch.zeros(1, 1, count), [count], [1, 1, total], aligned)
    if asked_readers(op, {KEY})[KEY](args, {}) is True:
        assert met(lambda x: F.interpolate(x, size=count, mode="linear", align_corners=aligned), 1, 1, total) <= 2


def test_one_dimensional_adaptive_pooling_meets_twice_at_most_and_two_uneven_dimensions_do_not() -> None:
    (read,) = asked_readers(ATEN._adaptive_avg_pool2d_backward.default, [KEY]).values()
    assert read((torch.empty(1, 1, 1, 3), torch.empty(1, 1, 1, 7)), {}) is True
    assert read((torch.empty(1, 1, 3, 3), torch.empty(1, 1, 7, 7)), {}) is MISSING
    assert met(lambda x: F.adaptive_avg_pool1d(x, 3), 1, 1, 7) == 2
    assert met(lambda x: F.adaptive_avg_pool2d(x, 3), 1, 1, 7, 7) == 4
