"""What the recorder cannot see, it says."""

from __future__ import annotations

import concurrent.futures
import io
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.lines import groups, line_of, one, record
from tracer import DeterminismTracer
from tracer.names import BlindSpotKind, RegionInside
from tracer.recording.torch_private import compile_seams, seams
from tracer.trace.records import BlindSpot


def spots(tracer: DeterminismTracer, kind: BlindSpotKind) -> list[BlindSpot]:
    return [spot for spot in tracer.trace.blind_spots if spot.kind is kind]


def made_here(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
    """A backend that nobody knows."""
    return graph.forward


def test_an_ordinary_step_has_no_blind_spot() -> None:
    net = nn.Linear(2, 2)
    assert record(lambda: net(torch.ones(1, 2)).sum().backward()).trace.blind_spots == ()


@pytest.mark.skipif(not seams.KEEPS_COMPILED_CODE, reason="this torch has no modes that let compiled code be")
def test_a_function_that_an_unknown_backend_compiles_is_reported_at_the_line_that_called_it() -> None:
    compiled = torch.compile(lambda x: x.sin() + 1, backend=made_here, fullgraph=True)

    def step() -> None:
        for _ in range(3):
            compiled(torch.ones(2))  # compiled call

    tracer = record(step)
    (spot,) = spots(tracer, BlindSpotKind.COMPILED)
    assert spot.count == 3
    assert "by the backend made_here" in spot.detail
    assert int(spot.location.rpartition(":")[2]) == line_of(step, "# compiled call")
    (region,) = tracer.trace.regions
    assert (region.backend, region.inside, region.why) == ("made_here", "unseen", "other-backend")


@pytest.mark.skipif(not seams.KEEPS_COMPILED_CODE, reason="this torch has no modes that let compiled code be")
def test_compiled_code_that_another_mode_sends_back_to_eager_is_reported() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    compiled = torch.compile(lambda x: x.sin(), backend="eager")

    def step() -> None:
        with FlopCounterMode(display=False):
            compiled(torch.ones(2))

    assert spots(record(step), BlindSpotKind.COMPILE_FELL_BACK)


@pytest.mark.skipif(compile_seams.SEES_REGIONS, reason="this torch's compiled regions are seen")
def test_where_a_torch_shows_no_region_compiled_code_is_named_and_compiled_as_often_as_without_the_recorder() -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(lambda x: x.sin() + 1, backend=made_here)
    tracer = record(lambda: [compiled(torch.ones(2)) for _ in range(3)])
    kind = BlindSpotKind.COMPILE_FELL_BACK if compile_seams.FALLS_BACK else BlindSpotKind.COMPILED
    assert [spot.kind for spot in tracer.trace.blind_spots] == [kind]
    assert {region.inside for region in tracer.trace.regions} <= {RegionInside.UNSEEN}
    assert counters["stats"]["unique_graphs"] == (0 if compile_seams.FALLS_BACK else 1)


def test_a_torch_that_runs_compiled_code_eagerly_under_a_mode_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_seams, "FALLS_BACK", True)
    compiled = torch.compile(lambda x: x.sin(), backend="eager")
    tracer = record(lambda: [compiled(torch.ones(2)) for _ in range(2)])
    (spot,) = spots(tracer, BlindSpotKind.COMPILE_FELL_BACK)
    assert spot.count == 2
    assert "ran eagerly because a dispatch mode was active" in spot.detail


@pytest.mark.filterwarnings("ignore")
def test_scripted_code_is_reported() -> None:
    scripted = torch.jit.script(nn.Linear(2, 2))
    function = torch.jit.trace(lambda x: x.sin(), torch.ones(2))

    def step() -> None:
        scripted(torch.ones(1, 2))
        function(torch.ones(2))

    details = [spot.detail for spot in spots(record(step), BlindSpotKind.SCRIPTED)]
    assert len(details) == 2
    assert "Linear" in details[0]


def test_modules_on_another_thread_are_reported_and_do_not_disturb_this_one() -> None:
    net = nn.Sequential(nn.Linear(2, 2))

    class Waits(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            on_a_thread(lambda: net(torch.ones(1, 2)))
            return x.sin()

    waits = Waits()
    tracer = record(lambda: waits(torch.ones(1)), waits)
    assert sum(spot.count for spot in spots(tracer, BlindSpotKind.OTHER_THREAD)) >= 1
    assert one(tracer, "aten.sin").module == ""
    assert not groups(tracer, "aten.addmm")


def test_threads_that_compute_count_once_each_and_those_that_prepare_data_do_not() -> None:
    weight, net = torch.ones(2, requires_grad=True), nn.Linear(2, 1)

    def differentiates() -> None:
        for _ in range(3):
            torch.autograd.grad(weight.pow(2).sum(), weight)

    def evaluates() -> None:
        with torch.no_grad():
            net(net.weight)

    def step() -> None:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            list(pool.map(lambda _: differentiates(), range(2)))
        for work in (differentiates, evaluates, evaluates, lambda: torch.ones(2).add(1)):
            on_a_thread(work)

    tracer = record(step)
    assert sum(spot.count for spot in spots(tracer, BlindSpotKind.COMPUTING_THREAD)) == 4
    assert tracer.trace.threads_not_followed == 4


@pytest.mark.parametrize(("writes", "computes", "count"), [(True, False, 2), (False, False, 0), (True, True, 2)])
def test_a_thread_that_may_have_written_what_a_call_reads_counts_once(writes: bool, computes: bool, count: int) -> None:
    total, number, layer = torch.zeros(4), torch.zeros(1), nn.Linear(4, 4)

    def work() -> None:
        with torch.no_grad():
            (total if writes else number).add_(layer(torch.ones(4)) if computes else 1)

    def step() -> None:
        total.sum()
        for _ in range(2):
            on_a_thread(work)
        total.sum()

    assert record(step, values=True).trace.threads_not_followed == count


@pytest.mark.parametrize(("is_ours", "count"), [(True, 1), (False, 0)])
def test_a_daemon_counts_where_it_runs_code_of_the_programs(is_ours: bool, count: int) -> None:
    done = threading.Event()
    work = (lambda: done.set()) if is_ours else done.set
    tracer = record(lambda: on_a_thread(work, daemon=True))
    assert done.is_set()
    assert sum(spot.count for spot in spots(tracer, BlindSpotKind.OTHER_THREAD)) == count


def test_worker_processes_of_a_loader_are_reported() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    loader = torch.utils.data.DataLoader(data, num_workers=1)
    (spot,) = spots(record(lambda: [list(loader), list(loader)]), BlindSpotKind.DATALOADER)
    assert "1 worker" in spot.detail
    assert spot.count == 2, "one for each time that a loader was iterated, whatever its batches"
    assert not spots(record(lambda: list(torch.utils.data.DataLoader(data))), BlindSpotKind.DATALOADER)


# --- what torch itself runs otherwise here ---


def _cast(device: str, *arguments: object, **options: object) -> Callable[[], None]:
    def step() -> None:
        with torch.autocast(device, *arguments, **options):  # type: ignore[arg-type]
            torch.ones(2, 2) @ torch.ones(2, 2)

    return step


def _old_spelling() -> None:
    with torch.cuda.amp.autocast():
        torch.ones(2, 2).mm(torch.ones(2, 2))


def _decorated() -> None:
    torch.autocast("cuda")(torch.mm)(torch.ones(2, 2), torch.ones(2, 2))


@pytest.mark.skipif(torch.cuda.is_available() or torch.xpu.is_available(), reason="the device is here")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (_cast("cuda"), 1),
        (_cast("xpu", torch.bfloat16), 1),
        (_old_spelling, 1),
        (_decorated, 1),
        (_cast("cuda", enabled=False), 0),
        (_cast("cuda", torch.float16, False), 0),
        (_cast("cpu"), 0),
    ],
)
def test_autocasting_for_a_device_that_is_not_here_is_reported(step: Callable[[], None], expected: int) -> None:
    assert len(spots(record(step), BlindSpotKind.AUTOCAST)) == expected


@pytest.mark.filterwarnings("ignore")
def test_autocasting_that_was_made_before_recording_may_have_been_asked_for() -> None:
    decorated = torch.autocast("cuda")(torch.mm)
    found = spots(record(lambda: decorated(torch.ones(2, 2), torch.ones(2, 2))), BlindSpotKind.AUTOCAST)
    assert len(found) == (not torch.cuda.is_available())


def hypot_and_rot90() -> None:
    for _ in range(2):
        torch.hypot(torch.ones(3), torch.ones(3))
    torch.rot90(torch.ones(3, 3))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("op", "key", "count"), [("hypot", "CPU", 2), ("rot90", "CompositeExplicitAutograd", 1), ("hypot", "CUDA", 0)]
)
def test_an_op_of_torchs_that_somebody_overrides_for_this_device_is_reported(op: str, key: str, count: int) -> None:
    library = torch.library.Library("aten", "IMPL")
    library.impl(op, lambda x, *others: x * 2.0, key)
    found = spots(record(hypot_and_rot90), BlindSpotKind.OVERRIDDEN)
    library._destroy()
    assert [spot.count for spot in found] == [count] * bool(count)
    assert all(spot.detail.startswith(f"aten.{op}.default, overridden at {__file__}:") for spot in found)
    assert not spots(record(hypot_and_rot90), BlindSpotKind.OVERRIDDEN)


@pytest.mark.filterwarnings("ignore")
def test_a_kernel_that_torch_library_registers_for_somebody_overrides_too() -> None:
    with torch.library._scoped_library("aten", "IMPL") as library:
        torch.library.impl("aten::hypot", "CPU", lib=library)(lambda x, y: x)
        (spot,) = spots(record(hypot_and_rot90), BlindSpotKind.OVERRIDDEN)
    assert "by torch.library" in spot.detail


# --- memory that other processes write ---


def test_parameters_in_shared_memory_are_named_where_they_are_shared_and_batches_are_not() -> None:
    def step() -> None:
        torch.ones(3).share_memory_()
        nn.Linear(2, 2).share_memory()  # shares

    (spot,) = spots(record(step), BlindSpotKind.SHARED_MEMORY)
    assert (spot.count, int(spot.location.rpartition(":")[2])) == (2, line_of(step, "# shares"))


# --- memory that no op gave ---


def _loaded() -> None:
    file = io.BytesIO()
    torch.save(torch.ones(3), file)
    file.seek(0)
    torch.load(file)
    torch.ones(3).share_memory_().untyped_storage().clone()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda: torch.empty(0).set_(torch.UntypedStorage(64), 0, (16,), (1,)).sum(), "torch.UntypedStorage"),
        (lambda: torch.FloatStorage(4), "torch.UntypedStorage"),
        (lambda: torch.from_numpy(np.empty(100_000)).sum(), "an array of numpy.empty"),
        (lambda: torch.as_tensor(np.empty((30, 30))[2:].T), "an array of numpy.empty"),
        (lambda: torch.tensor(np.empty_like(np.ones(3))), "an array of numpy.empty"),
        (_loaded, ""),
        (lambda: torch.UntypedStorage([1, 2]), ""),
        (lambda: torch.UntypedStorage(0), ""),
        (lambda: np.empty(3), ""),
        (lambda: torch.from_numpy(np.empty(3, dtype=np.float32).reshape(3).astype(np.float64)), ""),
    ],
    ids=lambda value: f"line {value.__code__.co_firstlineno}" if callable(value) else None,
)
def test_memory_that_no_op_gave_is_reported_where_unwritten(step: Callable[[], object], expected: str) -> None:
    found = spots(record(step), BlindSpotKind.MEMORY)
    assert [spot.detail.partition(":")[0] for spot in found] == [expected] * bool(expected)


@pytest.mark.parametrize("heap", [lambda size: np.arange(1.0, size + 1), np.zeros], ids=["used", "fresh"])
@pytest.mark.parametrize(("written", "is_noted"), [(0, True), (900, True), (996, True), (1000, False)])
def test_an_array_of_which_a_part_holds_what_it_held_is_noted(
    monkeypatch: pytest.MonkeyPatch, heap: Callable[[int], object], written: int, is_noted: bool
) -> None:
    monkeypatch.setattr(np, "empty", heap)

    def step() -> None:
        values = np.empty(1000)
        values[:written] = -1.0
        torch.from_numpy(values).sum()

    assert bool(spots(record(step), BlindSpotKind.MEMORY)) is is_noted


def test_an_array_of_the_programs_still_grows() -> None:
    """NumPy refuses to resize what anybody refers to, weakly as well."""
    with DeterminismTracer():
        values = np.empty(3)
        values.resize(5)
    assert len(values) == 5


def on_a_thread(work: Callable[[], object], **options: Any) -> None:
    thread = threading.Thread(target=work, **options)
    thread.start()
    thread.join()
