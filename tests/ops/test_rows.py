"""The tables of ops: their names are torch's, what they call row-wise is, and every undeclared write is in them."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.rows import otherwise
from tests.support.samples import operator_database, samples_of, tensors
from tracer import DeterminismTracer
from tracer.names import RowOutcome
from tracer.ops import Op, bare_name, row_of, rows
from tracer.ops.row_wise import _TABLE, row_wise
from tracer.recording.storage import argument_at, is_written, positions_of

#: Names that the dispatcher does not have: what torch.ops.prim and torch.ops.prims add, higher-order ops, and kernels
#: that Inductor calls by a name of its own.
_ELSEWHERE = {
    *("bias_addmm", "mm_plus_mm", "prepare_softmax_online", "flex_attention", "flex_attention_backward"),
    *("triton_kernel_wrapper_functional", "triton_kernel_wrapper_mutation", "device", "layout", "prim_device"),
    *("prim_dtype", "is_non_overlapping_and_dense", "is_strides_like_format"),
}


def _dispatched() -> set[str]:
    names = (name.partition("::")[2] for name in torch._C._dispatch_get_all_op_names())
    return {form for name in names for form in (name, name.partition(".")[0])}


def test_every_name_is_an_op_of_torch() -> None:
    unknown = {row.name for row in rows()} - _dispatched() - _ELSEWHERE
    assert not unknown or torch.__version__ < "2.13", unknown


def test_a_row_says_something_and_an_op_without_one_nothing() -> None:
    assert [row.name for row in rows() if row == Op(row.name)] == []
    assert row_of("tanh") == Op("tanh")


@pytest.mark.parametrize(
    ("overload", "packet"),
    [("aten.index_add_.default", "index_add_"), ("aten.index_add_", "index_add_"), ("cond", "cond")],
)
def test_an_overload_is_looked_up_by_its_packet(overload: str, packet: str) -> None:
    assert bare_name(overload) == packet


def overloads(name: str) -> Iterator[Any]:
    packet = getattr(torch.ops.aten, name)
    for each in packet.overloads():
        schema = getattr(packet, each)._schema
        if all(argument.alias_info is None for argument in schema.arguments) or name.endswith("_"):
            yield schema


def is_of_an_overload(name: str) -> bool:
    """Whether the arguments that a row-wise op's row names are those of an overload."""
    known = row_wise(name)
    assert known is not None
    named = [{argument.name for argument in schema.arguments} for schema in overloads(name)]
    wanted = {known.along, known.last, known.sizes} - {""}
    return any(wanted <= names and (known.is_pointwise or set(known.arguments) & names) for names in named)


def test_arguments_are_those_of_an_overload() -> None:
    here = [name for name in _TABLE if hasattr(torch.ops.aten, name)]
    assert len(here) > 0.9 * len(_TABLE)
    assert [name for name in here if not is_of_an_overload(name)] == []


@pytest.mark.slow
def test_nothing_that_is_called_row_wise_mixes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over torch's own samples, differentiable ones backward too: rows differ by rounding, if at all."""
    found = otherwise(monkeypatch)

    class Called(torch.nn.Module):
        def forward(self, op: Any, sample: Any, *args: Any, **kwargs: Any) -> Any:
            return op(sample, *args, **kwargs)

    outcomes: Counter[RowOutcome] = Counter()
    for op in operator_database():
        if torch.float32 not in op.dtypes:
            continue
        for sample in list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd))[:8]:
            with suppress(RuntimeError, TypeError, NotImplementedError, AssertionError):
                with DeterminismTracer(rows=True) as tracer:
                    for result in tensors(Called()(op.op, sample.input, *sample.args, **sample.kwargs)):
                        if result.requires_grad:
                            result.backward(torch.rand_like(result), retain_graph=True)
                for trial in tracer.trace.rows:
                    outcomes[trial.outcome] += trial.count
    assert not found
    assert outcomes[RowOutcome.EQUAL] > 100 * outcomes[RowOutcome.ROUNDING] > 0


class _Writes(TorchDispatchMode):
    """Compares the bytes of every argument before and after each call."""

    def __init__(self) -> None:
        super().__init__()
        self.undeclared: set[tuple[str, str]] = set()
        self.ops: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        op = bare_name(str(func))
        self.ops.add(op)
        before, written = [], set()
        for position, argument in positions_of(func._schema):
            for tensor in tensors(argument_at(position, argument.name, args, kwargs)):
                if tensor.layout is torch.strided and tensor.is_cpu and tensor.nbytes < 2**16:
                    if is_written(argument):
                        written.add(tensor.untyped_storage().data_ptr())
                    before.append((argument.name, tensor, bytes(tensor.untyped_storage())))
        result = func(*args, **kwargs)
        for name, tensor, content in before:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in written and bytes(storage) != content:
                self.undeclared.add((op, name))
        return result


@pytest.mark.parametrize("share", [0, *(pytest.param(share, marks=pytest.mark.slow) for share in range(1, 24))])
def test_ops_write_no_argument_that_neither_their_schema_nor_the_table_says(share: int) -> None:
    writes = _Writes()
    chosen = {entry.name: entry for entry in itertools.islice(operator_database(), share, None, 24)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in chosen.values():
            for dtype in {torch.float32, torch.int64} & entry.supported_dtypes("cpu"):
                for sample in samples_of(entry, "cpu", dtype, 3):
                    run = sample.prepared()
                    with suppress(Exception), writes:
                        run()
    with writes:
        torch.native_batch_norm(torch.randn(4, 3), None, None, torch.zeros(3), torch.ones(3), True, 0.1, 1e-5)
    assert len(writes.ops) > 20
    assert {("native_batch_norm", "running_mean"), ("native_batch_norm", "running_var")} <= writes.undeclared
    assert {(op, name) for op, name in writes.undeclared if name not in row_of(op).undeclared} == set()


def test_every_row_names_arguments_of_its_schema_that_are_not_declared_written() -> None:
    names = {row_of(bare_name(str(name))).name for name in dir(torch.ops.aten)}
    for name in names:
        for argument in row_of(name).undeclared:
            packet = getattr(torch.ops.aten, name)
            schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
            found = [one for schema in schemas for one in schema.arguments if one.name == argument]
            assert found
            assert not any(is_written(one) for one in found)


#: Statistics that a backward or an op for inference reads, and that functional forms return.
_READ = ("_backward", "_no_update", "_functional", "_no_training")


def test_every_op_that_is_given_running_statistics_as_inputs_has_a_row_or_reads_them() -> None:
    given = {
        schema.name.partition("::")[2]
        for schema in torch._C._jit_get_all_schemas()
        for argument in schema.arguments
        if schema.name.startswith("aten::")
        and argument.name in ("running_mean", "running_var")
        and not is_written(argument)
    }
    assert {name for name in given if not row_of(name).undeclared and not name.endswith(_READ)} == set()
