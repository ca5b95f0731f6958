"""What a group keeps of its first call: enough to make the call again, and no value of any tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch

from tests.support.bits import bits
from tracer import DeterminismTracer, Trace
from tracer.recording.calls.fact_readers import form_of, named_arguments
from tracer.trace.records import Argument, NotKept, TensorForm, spelled


def recorded(step: Callable[[], Any]) -> Trace:
    with DeterminismTracer() as tracer:
        step()
    return tracer.trace


def arguments(step: Callable[[], Any], op: str) -> list[str]:
    return [spelled(group.given) for group in recorded(step).calls if group.op == op]


def test_a_tensor_is_its_dtype_and_shape_and_a_number_is_itself() -> None:
    target, index, source = torch.zeros(10, 4), torch.arange(5), torch.ones(5, 4, dtype=torch.float32)
    assert arguments(lambda: target.index_add(0, index, source, alpha=2), "aten.index_add.default") == [
        "self=float32[10, 4], dim=0, index=int64[5], source=float32[5, 4], alpha=2"
    ]


def test_strides_are_kept_where_they_are_not_the_usual_ones() -> None:
    matrix = torch.zeros(3, 4).t()
    assert arguments(lambda: matrix.abs(), "aten.abs.default") == ["self=float32[4, 3][1, 4]"]


def test_a_parameter_that_has_no_shape_yet_is_left_out_and_its_module_runs_as_without_the_recorder() -> None:
    def step() -> None:
        lazy = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d()).double()
        lazy(torch.ones(4, 5, dtype=torch.float64)).sum().backward()

    calls = recorded(step).calls
    assert any(group.op == "aten.addmm.default" for group in calls)
    assert any(group.given.get("self") == NotKept() for group in calls)


def test_a_list_keeps_what_is_none_and_a_dtype_is_spelled_by_name() -> None:
    data, index = torch.zeros(3, 4), torch.tensor([1, 1])
    assert arguments(lambda: data[:, index], "aten.index.Tensor") == ["self=float32[3, 4], indices=[None, int64[2]]"]
    assert arguments(lambda: data.sum(dtype=torch.float64), "aten.sum.default") == [
        "self=float32[3, 4], dtype=torch.float64"
    ]


def test_a_number_that_no_literal_spells_is_read_back_by_its_name() -> None:
    data = torch.zeros(3)
    assert arguments(lambda: data.masked_fill(data > 0, float("-inf")), "aten.masked_fill.Scalar") == [
        "self=float32[3], mask=bool[3], value=-inf"
    ]


def test_a_generator_and_a_sparse_tensor_are_named_as_such() -> None:
    generator = torch.Generator()
    assert arguments(lambda: torch.empty(2).uniform_(0, 2), "aten.uniform_.default") == [
        "self=float32[2], from=0.0, to=2.0"
    ]
    assert arguments(lambda: torch.empty(2).normal_(generator=generator), "aten.normal_.default") == [
        "self=float32[2], generator=torch.Generator"
    ]
    sparse, dense = torch.eye(3).to_sparse(), torch.ones(3, 2)
    (product,) = (spelled(group.given) for group in recorded(lambda: sparse @ dense).calls if "mm" in group.op)
    assert "float32[3, 3].sparse_coo" in product


def test_a_long_list_is_cut_and_says_so() -> None:
    many = [torch.zeros(2) for _ in range(40)]
    (text,) = arguments(lambda: torch._foreach_abs(many), "aten._foreach_abs.default")
    assert text.count("float32[2]") == 32
    assert text.endswith(", ...]")


def test_a_text_that_may_be_a_path_is_not_kept() -> None:
    with torch.library._scoped_library("kept_forms", "DEF") as library:
        library.define("named(Tensor x, str name) -> Tensor")
        library.impl("named", lambda x, name: x + 1, "CompositeExplicitAutograd")
        step = torch.ops.kept_forms.named
        data = torch.zeros(2)
        assert arguments(lambda: step(data, "sum"), "kept_forms.named.default") == ["x=float32[2], name='sum'"]
        assert arguments(lambda: step(data, "/home/me/run"), "kept_forms.named.default") == ["x=float32[2], name=..."]


def test_backward_calls_and_factories_have_theirs() -> None:
    weights = torch.ones(3, 4, requires_grad=True)
    trace = recorded(lambda: torch.nn.functional.gelu(weights).sum().backward())
    kept = {group.op: spelled(group.given) for group in trace.calls}
    assert kept["aten.gelu_backward.default"] == "grad_output=float32[3, 4][0, 0], self=float32[3, 4]"
    assert kept["aten.ones_like.default"].startswith("self=float32[()]")


def test_the_first_call_of_a_group_stands_for_it() -> None:
    def step() -> None:
        for size in (3, 5):
            torch.ones(size).abs()

    assert arguments(step, "aten.abs.default") == ["self=float32[3]"]


def test_a_tensor_that_answers_for_itself_is_not_asked() -> None:
    class Asks(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("nobody may ask")

    from tracer.recording.calls.fact_readers import tensor_form

    assert tensor_form(torch.Tensor._make_subclass(Asks, torch.zeros(2))) is ...


def test_no_bit_changes_while_forms_are_kept() -> None:
    weights = torch.randn(4, 4, requires_grad=True)

    def step() -> torch.Tensor:
        weights.grad = None
        (weights @ weights.t()).relu().sum().backward()
        assert weights.grad is not None
        return weights.grad

    plain = bits(step())
    with DeterminismTracer():
        kept = bits(step())
    assert kept == plain


class Mute(torch.Tensor):
    """A tensor that answers no question of its shape."""

    def stride(self, dim: Any = None) -> Any:
        raise NotImplementedError(dim)


def test_a_tensor_that_does_not_answer_is_left_open_and_stops_nothing() -> None:
    made = arguments(lambda: torch.ones(2).as_subclass(Mute).mul(2.0), "aten.mul.Tensor")
    assert made == ["self=..., other=2.0"]


def test_lists_of_lists_survive_the_file_and_deeper_ones_are_left_out() -> None:
    data = torch.zeros(3)
    func = torch.ops.c10d.allgather_.default
    given = named_arguments(func, form_of(([[data, data]], [data]), {}), "cpu")
    form = TensorForm("float32", (3,))
    assert given["output_tensors"] == [[form, form]]
    assert msgspec.json.decode(msgspec.json.encode(given), type=dict[str, Argument]) == given
    deeper = named_arguments(func, form_of(([[[data]]], [data]), {}), "cpu")
    assert deeper["output_tensors"] == [[NotKept()]]
