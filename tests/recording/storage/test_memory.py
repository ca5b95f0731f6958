"""Unwritten memory: read before it was wholly written, and never claimed where it was not."""

from __future__ import annotations

import copy
import functools
import gc
import itertools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from tests.support.lines import line_of, record
from tracer import DeterminismTracer
from tracer.names import Phase
from tracer.recording.storage import native_code, unwritten
from tracer.recording.torch_private import compile_seams
from tracer.trace.records import Allocation, UnwrittenRead

INDUCTORS = "cgi" + 49 * "a"


def tracking(tracer: DeterminismTracer) -> Any:
    found = tracer._session.recorder.storages
    assert found.writes.failures == 0
    return found


def reads(function: Callable[[], object]) -> list[UnwrittenRead]:
    tracer = record(function)
    tracking(tracer)
    return list(tracer.trace.unwritten_reads)


def read_at(step: Callable[[], object]) -> list[int]:
    """The lines of ``step`` that read what is unwritten."""
    return [int(read.location.rpartition(":")[2]) for read in reads(step)]


def unfollowed(function: Callable[[], object]) -> int:
    """How much was given up, where nothing was read unwritten."""
    tracer = record(function)
    tracking(tracer)
    assert not tracer.trace.unwritten_reads
    return sum(one.unfollowed for one in tracer.trace.allocations)


# --- what is found ---


def test_a_read_names_its_line_and_the_line_that_allocated() -> None:
    def step() -> None:
        values = torch.empty(3, 4)
        for _ in range(2):
            values.sum()

    (read,) = reads(step)
    assert (read.op, read.count, read.allocated_by) == ("aten.sum.default", 2, "aten.empty.memory_format")
    assert read.location.endswith(f":{line_of(step, 'sum()')}")
    assert read.allocated_at.endswith(f":{line_of(step, 'torch.empty')}")
    assert read.phase is Phase.OTHER


ALLOCATE: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda like: torch.empty(4, 6),
    lambda like: torch.empty_like(like),
    lambda like: torch.empty_strided((4, 6), (6, 1)),
    lambda like: torch.empty_permuted((4, 6), (1, 0)),
    lambda like: like.new_empty(4, 6),
    lambda like: like.new_empty_strided((4, 6), (6, 1)),
    lambda like: torch.empty(0).resize_(4, 6),
    lambda like: torch.empty(0).resize_as_(like),
    lambda like: torch.FloatTensor(4, 6),
    lambda like: torch.Tensor(4, 6),
    lambda like: like.new(4, 6),
    lambda like: functools.partial(torch.empty, 4, 6)(),
    lambda like: next(map(torch.empty_like, [like])),
    lambda like: torch.ops.aten.empty.memory_format([4, 6]),
]
USE: list[Callable[[torch.Tensor], object]] = [
    lambda x: x.sum(),
    lambda x: x.t()[1:, 2:].mul(2.0),
    lambda x: x.add_(1.0),
    lambda x: x[1, 1].item(),
    lambda x: torch.ones(4, 6).add_(x),
    lambda x: torch.ones(4, 6).copy_(x).sum(),
    lambda x: torch.ones(5, 6).t().__setitem__((slice(None), 0), x[0]) or x.double().sum(),
    lambda x: torch._foreach_copy_([torch.ones(4, 6)], [x])[0].exp(),
    lambda x: torch.cat([torch.ones(1, 6), x]),
    lambda x: torch.addmm(x, torch.ones(4, 2), torch.ones(2, 6)),
    lambda x: torch.add(torch.ones(4, 6), x, out=torch.zeros(4, 6)),
    lambda x: torch._foreach_add([torch.ones(4, 6), x], 1.0),
    lambda x: torch.index_select(x, 0, torch.tensor([1])),
    lambda x: x.index_add_(0, torch.tensor([1]), torch.ones(1, 6)),
    lambda x: x.clone().t().contiguous().exp(),
    lambda x: x.detach()[1].unsqueeze(0).log(),
]


def lines(*functions: Any) -> str:
    """Where the functions of a case stand in this file."""
    return "lines " + ", ".join(str(function.__code__.co_firstlineno) for function in functions)


@pytest.mark.parametrize(
    ("allocate", "use"), [*itertools.product(ALLOCATE[:1], USE), *itertools.product(ALLOCATE[1:], USE[:2])]
)
def test_every_way_to_get_unwritten_memory_and_to_read_it_is_seen(
    allocate: Callable[[torch.Tensor], torch.Tensor], use: Callable[[torch.Tensor], object]
) -> None:
    like = torch.ones(4, 6)
    assert len(reads(lambda: use(allocate(like)))) == 1


def test_what_was_not_written_by_a_partial_write_is_told_from_what_was() -> None:
    def step() -> None:
        values = torch.empty(6, 8)
        values[:4, :] = 1.0
        values[:4].sum()
        values[:4, ::2].sum()
        values[3:5].sum()  # one row too many
        columns = torch.empty(20_000, 3)
        columns[:, 0] = 1.0
        columns[:, :1].sum()
        columns[:, 1] = 1.0
        columns[:, :2].sum()
        columns.sum()  # the last column
        grown = torch.ones(4).resize_(8)
        grown[:4].sum()
        grown[3:].sum()  # what resizing adds
        grown[4:].zero_()
        grown.sum()
        own = torch.empty(5)
        own.mul_(2.0)  # reads once, and writes
        own.sum()

    marks = ("too many", "last column", "resizing adds", "reads once")
    assert read_at(step) == [line_of(step, mark) for mark in marks]


def test_a_mask_writes_as_many_places_as_it_is_given_values() -> None:
    def step() -> None:
        mask = torch.arange(12).remainder(3).eq(0)
        values = torch.empty(12)
        values[mask] = torch.ones(12)[mask]
        values.sum()  # eight are unwritten
        rows = torch.empty(12, 2)
        rows[mask] = torch.ones(12, 2)[mask]
        rows.sum()  # of the rows too

    assert read_at(step) == [line_of(step, "# eight"), line_of(step, "# of the rows")]


@pytest.mark.usefixtures("process_group")
def test_masks_and_collectives_that_write_all_parts_leave_nothing_unwritten() -> None:
    def step() -> None:
        mask = torch.arange(12).remainder(3).eq(0)
        values = torch.empty(12)
        values[mask] = torch.ones(12)[mask]
        values[~mask] = torch.zeros(12)[~mask]
        values.sum()
        others = torch.empty(12)
        others[torch.ones(12, dtype=torch.bool)] = torch.ones(12)
        others.sum()
        bank = torch.empty(4, 4)
        dist.all_gather([bank[0]], torch.ones(4))
        for row in bank[1:3]:
            dist.broadcast(row, 0)
        bank[3] = 1.0
        bank.sum()

    assert unfollowed(step) == 2


def test_a_copy_is_unwritten_where_what_it_copies_is() -> None:
    def step() -> None:
        values = torch.empty(4, 6)
        values[:2] = 1.0
        turned = values.t().contiguous()
        wider = torch.zeros(6, 6, dtype=torch.float64)
        wider[1:5].copy_(values)
        turned[:, :2].sum()
        wider[:3].sum()
        turned[:, 1:].sum()  # beyond
        wider[2:4].exp()  # beyond, too
        turned.copy_(torch.ones(4).expand(6, 4)).sum()

    assert read_at(step) == [line_of(step, "1:].sum()"), line_of(step, "too")]


# --- what is no fault ---


def _train(make: Callable[..., torch.optim.Optimizer], **options: Any) -> Callable[[], None]:
    def step() -> None:
        net = nn.Sequential(nn.Embedding(9, 4), nn.LSTM(4, 4), nn.Identity())
        optimizer = make(net.parameters(), lr=0.1, **options)
        for _ in range(2):
            optimizer.zero_grad(set_to_none=False)
            net[1](net[0](torch.arange(6).view(3, 2)))[0].sum().backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        copy.deepcopy(net)[0](torch.tensor([1])).sum()

    return step


def _views_in_place() -> None:
    base = torch.empty(4, 4)
    base.normal_()
    weight = torch.ones(4, 4, requires_grad=True)
    values = weight * 1.0
    values[1:3].mul_(2.0)
    values.view(-1)[::3].add_(base.view(-1)[::3])
    values.t()[0].zero_()
    values.sum().backward()


def _ctc(inputs: Any, targets: Any, reduction: str = "mean") -> None:
    x = torch.zeros(5, 2, 3, requires_grad=True)
    F.ctc_loss(x.log_softmax(2), torch.ones(2, 2, dtype=torch.long), inputs, targets, reduction=reduction).backward()


WRITTEN_FIRST: list[Callable[[], object]] = [
    lambda: torch.empty(3).fill_(1.0).sum(),
    lambda: torch.empty(4, 4).copy_(torch.ones(4)).sum(),
    lambda: torch.add(torch.ones(3), 1, out=torch.empty(3)).sum(),
    lambda: torch.add(torch.ones(3), 1, out=torch.empty(0)).sum(),
    lambda: torch.sort(torch.ones(3), out=(torch.empty(3), torch.empty(3, dtype=torch.long)))[0].sum(),
    lambda: torch.baddbmm(torch.empty(2, 3, 3), torch.ones(2, 3, 3), torch.ones(2, 3, 3), beta=0).sum(),
    lambda: torch.empty(3, 3).addmm_(torch.ones(3, 3), torch.ones(3, 3), beta=0).sum(),
    lambda: torch.zeros_like(torch.empty(3)).sum(),
    lambda: torch.empty(3).new_zeros(3).sum(),
    lambda: torch.empty(3).view(3, 1).expand(3, 4).shape,
    lambda: torch.empty(0).sum(),
    lambda: torch.empty(3)[1:1].sum(),
    lambda: torch.empty(3, device="meta").sum(),
    lambda: torch.empty(3).clone().fill_(1.0).sum(),
    lambda: nn.init.trunc_normal_(torch.empty(4, 4)).sum(),
    lambda: torch._foreach_copy_([torch.empty(2), torch.empty(3)], [torch.ones(2), torch.ones(3)])[0].sum(),
    lambda: torch.stack([torch.ones(2)] * 2, out=torch.empty(2, 2)).sum(),
    lambda: F.rrelu(torch.ones(3, requires_grad=True), training=True).sum().backward(),
    lambda: F.pad(torch.ones(1, 1, 4, 4), (1, 2, 1, 1), mode="circular").sum(),
    lambda: torch.ones(4).copy_(torch.empty(4)).fill_(1.0).sum(),
    lambda: torch.get_rng_state().clone(),
    lambda: torch.quasirandom.SobolEngine(2, scramble=True, seed=0).draw(2).sum(),
    lambda: torch.vmap(lambda x: F.dropout(x, 0.5), randomness="same")(torch.ones(2, 3)).sum(),
    lambda: torch.func.functionalize(lambda x: torch.empty(3).uniform_() * x)(torch.ones(3)).sum(),
    lambda: torch.tensor([[1.0]]).inverse().sum(),
    lambda: _ctc((5, 5), [2, 2]),
    lambda: _ctc([5, 5], (2, 2), "sum"),
    lambda: torch.ctc_loss(torch.zeros(5, 2, 3), torch.ones(2, 2, dtype=torch.long), (5, 5), (2, 2), 0, 1),
    lambda: torch.ops.aten.ctc_loss(torch.zeros(5, 2, 3), torch.ones(2, 2, dtype=torch.long), (5, 5), (2, 2)),
    _views_in_place,
    _train(torch.optim.AdamW, foreach=True),
    _train(torch.optim.Adam, fused=True),
    _train(torch.optim.SGD, momentum=0.9, foreach=True),
    _train(torch.optim.SGD, momentum=0.9, nesterov=True, weight_decay=0.1, fused=True),
]


@pytest.mark.parametrize("step", (pytest.param(step, id=f"{n}: {lines(step)}") for n, step in enumerate(WRITTEN_FIRST)))
def test_memory_that_is_written_first_is_no_fault(step: Callable[[], object]) -> None:
    assert reads(step) == []


COLLECTIVES: list[Callable[[torch.Tensor], object]] = [
    lambda x: dist.all_gather([x], torch.ones(4)),
    lambda x: dist.gather(torch.ones(4), [x]),
    lambda x: dist.all_gather([x], torch.ones(4), async_op=True).wait(),
    lambda x: dist.broadcast(x, 0),
    lambda x: dist.scatter(x, [torch.ones(4)]),
    lambda x: dist.all_to_all_single(x, torch.ones(4)),
    lambda x: dist.reduce_scatter(x, [torch.ones(4)]),
    lambda x: dist.all_gather_into_tensor(x, torch.ones(4)),
]


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda function: lines(function))
def test_a_collective_writes_the_view_that_it_is_given_alone(collective: Callable[[torch.Tensor], object]) -> None:
    def step(at: slice) -> None:
        bank = torch.empty(16)
        collective(bank[4:8])
        bank[at].sum()

    assert [read.op for read in reads(lambda: step(slice(0, 16)))] == ["aten.sum.default"]
    assert unfollowed(lambda: step(slice(4, 8))) == 1


@pytest.fixture(scope="module")
def process_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store = dist.FileStore(str(tmp_path_factory.mktemp("group") / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


# --- what cannot be followed ---


def _with_numpy(values: torch.Tensor) -> None:
    values.numpy()[:] = 1.0


def _with_thread(values: torch.Tensor) -> None:
    thread = threading.Thread(target=values.fill_, args=(1.0,))
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    "write",
    [
        _with_numpy,
        _with_thread,
        lambda values: np.copyto(np.asarray(values), 1.0),
        lambda values: values.untyped_storage().copy_(torch.ones(4).untyped_storage()),
        lambda values: values.data_ptr(),
        lambda values: values.share_memory_(),
        lambda values: np.from_dlpack(values.detach()),
        lambda values: values.apply_(lambda _: 1.0),
        lambda values: values.__setitem__(torch.tensor([0, 1, 2, 3]), 1.0),
        lambda values: values.__setitem__(torch.ones(4, dtype=torch.bool), 1.0),
        lambda values: values.scatter_(0, torch.tensor([0, 1, 2, 3]), 1.0),
        lambda values: torch.where(torch.ones(4) > 0, torch.ones(4), values),
        lambda values: values.view(torch.int16)[:2].fill_(0),  # a part, as numbers of another size
        lambda values: values.untyped_storage().resize_(8) or values[:2].fill_(0),
    ],
)
def test_what_cannot_be_followed_is_counted_and_never_claimed(write: Callable[[torch.Tensor], object]) -> None:
    def step() -> None:
        values = torch.empty(4)
        write(values)
        if values.untyped_storage().nbytes() == 16:
            values.sum()

    assert unfollowed(step) == 1


@pytest.mark.parametrize(
    "write",
    [
        _with_numpy,
        lambda part: np.from_dlpack(part),
        lambda part: torch.where(torch.ones(2) > 0, torch.ones(2), part),
    ],
)
def test_what_cannot_be_followed_in_a_part_hides_no_other_part(write: Callable[[torch.Tensor], object]) -> None:
    def step(*at: int) -> None:
        values = torch.empty(4, 2)
        write(values[1])
        for row in at:
            values[row].sum()

    assert unfollowed(lambda: step(1)) == 1
    assert sum(read.count for read in reads(lambda: step(0, 1, 2))) == 2


def of_all(hand_out: Callable[[torch.Tensor], object]) -> None:
    values = torch.empty(4, 2)
    hand_out(values[1])
    values[0].sum()


def in_part_and_by_index() -> None:
    buffer = torch.empty(8, 2)
    buffer[:3] = 1.0
    buffer[torch.tensor([0, 2])].sum()


@pytest.mark.parametrize(
    "step",
    [
        lambda: of_all(lambda part: part.data_ptr()),
        lambda: of_all(lambda part: part.untyped_storage()),
        in_part_and_by_index,
    ],
)
def test_an_address_reaches_a_whole_storage_and_an_index_what_is_filled_in_part(step: Callable[[], object]) -> None:
    assert unfollowed(step) == 1


def _write_ones(values: torch.Tensor) -> None:
    values.fill_(1.0)


def test_a_custom_op_may_write_what_it_is_given() -> None:
    with torch.library._scoped_library("tracer_test_memory", "DEF") as library:
        library.define("write(Tensor(a!) x) -> ()")
        library.impl("write", _write_ones, "CPU")
        library.define("look(Tensor x) -> Tensor")
        library.impl("look", lambda x: x * 1.0, "CPU")
        write, look = torch.ops.tracer_test_memory.write, torch.ops.tracer_test_memory.look

        def step() -> None:
            for op in (write, look):
                values = torch.empty(4)
                op(values)
                values.sum()

        def in_part() -> None:
            values = torch.empty(4)
            look(values[::2])
            values[2:3].sum()
            values[1:2].sum()

        assert unfollowed(step) == 2
        assert sum(read.count for read in reads(in_part)) == 1


@pytest.mark.parametrize(
    ("key", "folder", "is_foreign"),
    [
        ("fused", "", True),
        pytest.param(INDUCTORS, "gi", False, marks=pytest.mark.skipif(not compile_seams.SEES_REGIONS, reason="unseen")),
        (INDUCTORS, "my", True),
    ],
)
def test_nothing_is_claimed_where_an_extension_may_write_unseen_and_what_inductor_compiled_is_none(
    key: str, folder: str, is_foreign: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert not native_code.extensions(), "no module of this process counts as one"
    library = tmp_path / folder / f"{key}.main{native_code.EXTENSION_SUFFIXES[-1]}"
    library.parent.mkdir(exist_ok=True)
    library.write_bytes(b"\x7fELF needs libc10.so")
    module = types.ModuleType(f"{key}.kernel")
    module.__file__ = str(library)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(native_code, "_loaded_modules", 0)
    monkeypatch.setattr(native_code, "_extensions", ())
    tracer = record(lambda: torch.empty(3).sum())
    assert (len(tracer.trace.unwritten_reads), sum(one.unfollowed for one in tracer.trace.allocations)) == (
        (0, 1) if is_foreign else (1, 0)
    )


# --- what it leaves behind ---


def test_no_tensor_and_no_memory_is_kept_alive_and_the_table_is_bounded_by_what_lives() -> None:
    tracer = DeterminismTracer()
    with tracer:
        values = torch.empty(1000)
        reference, storage = weakref.ref(values), values.untyped_storage()._weak_ref()
        with_graph = torch.empty(10, requires_grad=True)
        graph = weakref.ref(with_graph)
        live = tracking(tracer).unwritten.live
        del values, with_graph
        gc.collect()
        assert (reference(), graph()) == (None, None)
        assert torch.UntypedStorage._expired(storage)
        sizes = set()
        for _ in range(100):
            torch.empty(5)
            torch.ones(5).sum()  # where another one was
            sizes.add(len(live))
        assert max(sizes) <= 17
        tracking(tracer).unwritten.prune()
        assert not live
        kept = torch.empty(5)
        assert len(live) == 1
    assert not live
    assert not tracer.trace.unwritten_reads
    torch.UntypedStorage._free_weak_ref(storage)
    del kept


def test_allocations_count_calls_and_bytes_at_each_line_those_that_torch_fills_too() -> None:
    def step() -> None:
        for number in range(3):
            torch.empty(number, 4, dtype=torch.float64)
        torch.ones(3).new_empty(2)
        torch.use_deterministic_algorithms(True)
        torch.empty(4).sum()

    tracer = record(step)
    assert not tracer.trace.unwritten_reads
    found = [(one.op, one.count, one.bytes, one.unfollowed) for one in tracer.trace.allocations]
    # Nothing is allocated for no elements.
    empty = "aten.empty.memory_format"
    assert sorted(found) == [(empty, 1, 16, 0), (empty, 2, 96, 0), ("aten.new_empty.default", 1, 8, 0)]
    assert all(isinstance(one, Allocation) and one.location for one in tracer.trace.allocations)


def test_a_part_of_more_elements_than_are_followed_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwritten, "_MOST_ELEMENTS", 15)

    def step() -> None:
        values = torch.empty(16)
        values[:8] = 1.0
        values.sum()

    assert unfollowed(step) == 1
    assert len(reads(lambda: torch.empty(16).sum())) == 1


def test_worker_processes_of_a_loader_hide_no_read() -> None:
    """A forked process has memory of its own: what it does says nothing of ours."""
    loader = torch.utils.data.DataLoader(torch.arange(4.0), num_workers=1)

    def step() -> None:
        total = torch.empty(1)
        for batch in loader:
            total += batch  # read
        del total

    (read,) = record(step).trace.unwritten_reads
    assert read.op == "aten.add_.Tensor"
