"""What is kept of a call: what it reads before, what it wrote after, and where what it reads came from."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from tests.recording.values.reading import entries, recorded, rows
from tracer.recording.values import digest
from tracer.trace.values import Mark, fold

OUTSIDE = ("outside", "", -1)


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[Callable[[], Any]], Any]:
    return lambda step: rows(recorded(tmp_path / "run.values", step))


@pytest.mark.parametrize(
    "write",
    [
        lambda into: into.fill_(1.0),
        lambda into: into.zero_(),
        lambda into: into.normal_(),
        lambda into: into.copy_(torch.ones(3)),
        lambda into: torch.neg(torch.ones(3), out=into),
    ],
    ids=["fill_", "zero_", "normal_", "copy_", "out="],
)
def test_what_is_only_written_is_no_input(calls: Any, write: Callable[[torch.Tensor], Any]) -> None:
    def run(value: float) -> Any:
        torch.manual_seed(0)
        into = torch.full((3,), value)
        return calls(lambda: write(into))

    assert [(call.inputs, call.outputs) for call in run(3.0)] == [(call.inputs, call.outputs) for call in run(4.0)]


def test_views_are_no_calls_and_hand_the_origin_on(calls: Any) -> None:
    def step() -> None:
        made = torch.ones(2, 3).exp()
        made.t()[1:].unsqueeze(0).sum()

    assert [(call.op, call.origins) for call in calls(step)] == [
        ("ones.default", ()),
        ("exp.default", (0,)),
        ("sum.default", (1,)),
    ]


def test_a_call_that_draws_says_from_what_and_in_which_state(tmp_path: Path) -> None:
    def drawn(seed: int) -> Any:
        generator = torch.Generator().manual_seed(seed)

        def step() -> None:
            torch.manual_seed(0)
            torch.ones(4).mul(2)
            torch.rand(3, generator=generator)
            torch.rand(3)
            torch.nn.functional.dropout(torch.ones(4), 0.0)

        values = recorded(tmp_path / "run.values", step)
        found, names, states = values.draws
        ops = [values.groups[values.group[call]].op for call in found]
        return ops, [values.names[name].name for name in names], states.tolist()

    first, second = drawn(1), drawn(2)
    assert first[0] == ["aten.rand.generator", "aten.rand.default"]
    assert first[1][1] == "cpu"
    assert "passed" in first[1][0]
    assert first[2][0] != second[2][0]
    assert first[2][1] == second[2][1]
    assert drawn(1) == first


def test_memory_that_nobody_wrote_is_not_digested_until_it_is_read(calls: Any) -> None:
    def step() -> None:
        whole = torch.empty(4)
        whole.fill_(1.0)
        whole.sum()
        torch.empty(400).sum()

    marks = {(call.op, call.mark_bits) for call in calls(step)}
    assert ("sum.default", Mark.READ_UNWRITTEN) in marks
    assert ("sum.default", Mark(0)) in marks
    assert ("empty.memory_format", Mark.UNWRITTEN) in marks


def test_what_is_scattered_into_or_copied_from_unwritten_memory_is_no_noise(calls: Any) -> None:
    def step() -> None:
        into = torch.empty(3000)
        into.index_put_((torch.arange(3000).flip(0),), torch.arange(3000.0))
        into.sum()
        torch.empty(3000).clone()
        torch.zeros(3000).copy_(torch.empty(3000))

    dirty = [torch.full((3000,), 7.0) for _ in range(8)]
    first = calls(step)
    del dirty
    assert [(call.op, call.inputs, call.outputs) for call in calls(step)] == [
        (call.op, call.inputs, call.outputs) for call in first
    ]


def test_bytes_that_change_while_no_op_writes_are_an_entry_of_their_own(tmp_path: Path) -> None:
    def step() -> None:
        small, large = torch.zeros(4), torch.zeros(4000)
        view = large.numpy()
        small.sum(), large.sum()
        view[2000] = 5.0
        small.sum(), large.sum()

    values = recorded(tmp_path / "run.values", step)
    assert [entry[0] for entry in entries(values)] == ["outside-change"]
    sums = [call for call in rows(values) if call.op == "sum.default"]
    assert sums[0][1:4] == sums[2][1:4]
    assert sums[1].inputs != sums[3].inputs
    assert sums[3].origins == (-1,)


def test_a_tensor_at_the_address_of_a_dead_one_is_another(calls: Any) -> None:
    def step() -> None:
        for value in range(50):
            torch.from_numpy(np.full(3, value, np.float32)).sum()

    sums = [call.inputs for call in calls(step) if call.op == "sum.default"]
    assert len(set(sums)) == 50


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.randn(2, 2, dtype=torch.complex64).conj(),
        lambda: torch.zeros(0, 2),
        lambda: torch.randn(1, 3).expand(4, 3),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.nn.Parameter(torch.ones(2)),
    ],
    ids=["sparse", "conjugate", "empty", "expanded", "nested", "parameter"],
)
def test_every_kind_of_tensor_is_digested(calls: Any, make: Callable[[], torch.Tensor]) -> None:
    with torch.no_grad():
        tensor = make()
        (call,) = [call for call in calls(lambda: tensor.clone()) if call.op == "clone.default"]
    assert call.mark_bits == 0
    assert call.inputs == digest(tensor)
    assert call.outputs


def test_what_cannot_be_digested_is_said(calls: Any) -> None:
    from torch._subclasses import FakeTensorMode

    meta = torch.ones(3, device="meta")
    undigested = Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED
    assert [call.mark_bits for call in calls(lambda: meta.exp())] == [undigested]

    def step() -> None:
        with FakeTensorMode():
            torch.ones(3).exp()

    assert all(call.mark_bits & Mark.OUTPUT_NOT_DIGESTED for call in calls(step))


def test_a_value_that_python_was_handed_is_an_output(calls: Any) -> None:
    one, other = calls(lambda: (torch.tensor(1.5).item(), torch.tensor(2.5).item()))
    assert one.mark_bits == other.mark_bits == Mark.TO_HOST
    assert one.outputs != other.outputs


def _declared(x: torch.Tensor, *, out: torch.Tensor) -> None:
    out.copy_(x)


def _silent(x: list[torch.Tensor], into: torch.Tensor) -> None:
    into[:3].copy_(x[0])
    into[3:].fill_(2.0)


def _part(x: torch.Tensor, into: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    own = into.narrow(0, 3, 3)
    own.copy_(x)
    return own, into


def _nested(into: list[list[torch.Tensor]], x: list[torch.Tensor]) -> None:
    for each in into[0]:
        each.copy_(x[0])


@pytest.fixture(scope="module")
def ops() -> Any:
    library = torch.library.Library("tracer_test_values", "FRAGMENT")
    library.define("declared(Tensor x, *, Tensor(a!) out) -> ()")
    library.define("part(Tensor x, Tensor into) -> (Tensor, Tensor)")
    library.define("silent(Tensor[] x, Tensor into) -> ()")
    library.define("nested(Tensor[][] into, Tensor[] x) -> ()")
    library.define("reads(Tensor x) -> Tensor")
    kernels = {"declared": _declared, "silent": _silent, "nested": _nested, "part": _part, "reads": torch.neg}
    for name, kernel in kernels.items():
        library.impl(name, kernel, "CPU")
    yield torch.ops.tracer_test_values
    library._destroy()


@pytest.mark.parametrize(
    "write",
    [
        lambda ops, into: ops.declared(torch.ones(6), out=into),
        lambda ops, into: ops.silent([torch.ones(3)], into),
        lambda ops, into: ops.nested([[into[:3], into[3:]]], [torch.ones(3)]),
        lambda ops, into: ops.part(torch.ones(3), into),
    ],
    ids=["declared", "undeclared", "in a list of lists", "a part, which it returns"],
)
def test_unwritten_memory_that_a_librarys_op_writes_is_no_input(calls: Any, ops: Any, write: Any) -> None:
    def digests(garbage: int) -> Any:
        return of_library(calls, lambda: write(ops, fresh(garbage)))

    assert digests(3) == digests(4)
    assert digests(3)[1], "what it wrote is digested"


def fresh(garbage: int) -> torch.Tensor:
    memory = torch.empty(6)
    ctypes.memset(torch._C.TensorBase.data_ptr(memory), garbage, 24)
    return memory


def of_library(calls: Any, step: Callable[[], object]) -> tuple[int, int]:
    """What a library's op read and wrote."""
    return next((call.inputs, call.outputs) for call in calls(step) if "tracer_test" in call.op)


@pytest.mark.parametrize(
    "write",
    [
        lambda ops, value: ops.part(torch.full((3,), value), torch.empty(6)),
        lambda ops, value: ops.declared(torch.full((6,), value), out=torch.empty(6)),
    ],
)
def test_what_a_librarys_op_wrote_shows_in_the_digests_of_its_results(calls: Any, ops: Any, write: Any) -> None:
    one, same, other = (of_library(calls, lambda value=value: write(ops, value))[1] for value in (1.0, 1.0, 2.0))
    assert one == same != other


def test_of_an_op_of_a_library_out_is_no_input_and_unwritten_memory_that_it_only_reads_is(calls: Any, ops: Any) -> None:
    held = [of_library(calls, lambda v=v: ops.declared(torch.ones(6), out=torch.full((6,), v))) for v in (1.0, 2.0)]
    assert held[0] == held[1]
    read = [of_library(calls, lambda garbage=garbage: ops.reads(fresh(garbage))) for garbage in (3, 4)]
    assert read[0][0] != read[1][0]


def test_a_call_has_the_digests_of_what_it_read_before_and_wrote_after(calls: Any) -> None:
    first, second, tensor = torch.randn(3), torch.randn(3), torch.ones(3)
    ones = digest(tensor)
    added, doubled = calls(lambda: (first + second, tensor.mul_(2)))
    assert (added.op, added.origins) == ("add.Tensor", (-1, -2))
    assert (added.inputs, added.outputs) == (fold((digest(first), digest(second))), digest(first + second))
    assert (doubled.inputs, doubled.outputs) == (ones, digest(torch.full((3,), 2.0)))


def test_numbers_among_the_arguments_are_told_apart_and_spelt_and_nan_equals_itself(calls: Any) -> None:
    tensor = torch.ones(3)

    def step() -> None:
        for number in (1, 1.0, True, float("nan"), float("nan")):
            tensor.add(number)
        torch.zeros(3, 4)

    *numbers, other, zeros = calls(step)
    assert [call.numbers for call in numbers] == ["other=1", "other=1.0", "other=True", "other=nan"]
    assert (other.numbers, other.outputs) == (numbers[-1].numbers, numbers[-1].outputs)
    assert zeros.numbers.startswith("size=[3, 4]")


def test_a_write_through_data_or_to_a_part_is_no_change_from_outside_and_keeps_the_rest(tmp_path: Path) -> None:
    tensor = torch.randn(3000)

    def step() -> None:
        tensor.sum()
        tensor.data.add_(1)
        tensor.sum()
        tensor[:2].fill_(5.0)
        tensor.sum()

    values = recorded(tmp_path / "run.values", step)
    assert entries(values) == [OUTSIDE]
    assert [call.origins for call in rows(values)] == [(-1,), (-1,), (1,), (), (3,)]
    assert values.keeps.tolist() == [[3, 1]]


@pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")
def test_what_a_collective_writes_into_memory_that_native_code_filled_is_digested(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
        values = recorded(tmp_path / "t.values", lambda: [net(torch.ones(1, 3)).sum().backward() for _ in range(2)])
    finally:
        dist.destroy_process_group()
    reduced = [row for row in rows(values) if row.op.startswith("c10d.allreduce")]
    assert len(reduced) == 2
    assert all(row.inputs for row in reduced), "what is sent is read"
    assert not [row.op for row in rows(values) if Mark.OUTPUT_NOT_DIGESTED in row.mark_bits]
