"""When CUDA and its libraries were first used. Without a GPU: the starts are torch's own, with a stand-in below."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
import torch
import torch.distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.support.lines import line_of, record
from tracer import DeterminismTracer
from tracer.names import EventKind, Phase
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.origin.modules import OUTSIDE, Origin
from tracer.recording.origin.sites import NOWHERE, USER, Site
from tracer.recording.process.environment import first_calls, with_first_calls
from tracer.trace.records import Event

VARIABLE = "CUBLAS_WORKSPACE_CONFIG"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's start of CUDA succeeds, and finds no device."""
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_init", lambda: None, raising=False)
    monkeypatch.setattr(torch.cuda, "_cudart", object())
    monkeypatch.setattr(torch.cuda, "_queued_calls", [])
    monkeypatch.setattr(torch.cuda, "_initialized", False)
    monkeypatch.delenv(VARIABLE, raising=False)


def told(tracer: DeterminismTracer) -> list[tuple[str, str]]:
    """Kind and name of each event, in order."""
    return [(str(event.kind), event.name) for event in tracer.trace.events]


def first(tracer: DeterminismTracer, name: str) -> Event:
    (event,) = (one for one in tracer.trace.events if one.kind is EventKind.FIRST_USE and one.name == name)
    return event


@pytest.mark.usefixtures("gpu")
def test_the_line_that_started_cuda_is_noted_once() -> None:
    def step() -> None:
        torch.cuda.init()  # here
        torch.cuda.init()

    event = first(record(step), "cuda")
    assert event.location == f"tests/recording/process/test_first_uses.py:{line_of(step, '# here')}"
    assert event.count == 1


@pytest.mark.usefixtures("gpu")
def test_a_start_that_fails_is_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise RuntimeError("no driver")

    monkeypatch.setattr(torch._C, "_cuda_init", no_driver, raising=False)

    def step() -> None:
        with pytest.raises(RuntimeError, match="no driver"):
            torch.cuda.init()

    assert ("first-use", "cuda") not in told(record(step))


@pytest.mark.usefixtures("gpu")
def test_a_variable_after_the_start_comes_after_it_and_one_before_it_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def late() -> None:
        torch.cuda.init()
        monkeypatch.setenv(VARIABLE, ":4096:8")

    assert told(record(late))[-2:] == [("first-use", "cuda"), ("variable", VARIABLE)]
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(torch.cuda, "_initialized", False)

    def in_time() -> None:
        monkeypatch.setenv(VARIABLE, ":4096:8")
        torch.cuda.init()

    assert told(record(in_time))[-2:] == [("variable", VARIABLE), ("first-use", "cuda")]


@pytest.mark.usefixtures("gpu")
def test_a_start_that_nobody_saw_is_noted_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    def late() -> None:
        torch.cuda._initialized = True
        monkeypatch.setenv(VARIABLE, ":4096:8")

    tracer = record(late)
    assert told(tracer)[-2:] == [("first-use", "cuda"), ("variable", VARIABLE)]
    assert first(tracer, "cuda").location == ""


@pytest.mark.usefixtures("gpu")
def test_what_ran_before_recording_was_used_before() -> None:
    torch.cuda._initialized = True
    tracer = record(lambda: None)
    assert told(tracer) == [("first-use", "torch"), ("first-use", "cuda")]
    assert not first(tracer, "cuda").while_recording


def test_nothing_starts_by_itself() -> None:
    assert told(record(lambda: torch.ones(2, 2).mm(torch.ones(2, 2)))) == [("first-use", "torch")]
    assert not torch.cuda.is_initialized()


@pytest.mark.parametrize("by_keyword", [True, False])
def test_a_process_group_starts_its_library(monkeypatch: pytest.MonkeyPatch, by_keyword: bool) -> None:
    c10d: Any = sys.modules["torch.distributed.distributed_c10d"]

    def started(backend: str | None = None, **options: Any) -> None:
        """torch's own needs the library itself."""

    monkeypatch.setattr(c10d, "init_process_group", started)
    monkeypatch.setattr(torch.distributed, "init_process_group", started)

    def step() -> None:
        torch.distributed.init_process_group(backend="gloo")
        if by_keyword:
            torch.distributed.init_process_group(backend="cpu:gloo,cuda:nccl")  # here: by keyword
        else:
            torch.distributed.init_process_group("NCCL")  # here: by position

    event = first(record(step), "nccl")
    where = "# here: by keyword" if by_keyword else "# here: by position"
    assert event.location == f"tests/recording/process/test_first_uses.py:{line_of(step, where)}"
    assert torch.distributed.init_process_group is started


def test_other_process_groups_start_none_of_them() -> None:
    def step() -> None:
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
        torch.distributed.destroy_process_group()

    assert told(record(step)) == [("first-use", "torch")]


def test_a_process_group_that_fails_is_no_use() -> None:
    def step() -> None:
        with pytest.raises((RuntimeError, ValueError)):
            torch.distributed.init_process_group("nccl", init_method="nowhere://", rank=0, world_size=1)

    assert told(record(step)) == [("first-use", "torch")]


class _Device:
    """A device that this build cannot make tensors on."""

    def __init__(self, kind: str) -> None:
        self.type = kind


def cell(op: Any, device: str, line: int) -> tuple[OverloadInfo, CallCounter]:
    """A recorded group of ``op`` at a line."""
    site = Site(os.path.abspath("train.py"), line, "step", USER, os.getcwd())
    raw = (torch.float32, _Device(device), torch.strided, 2)
    made = CallCounter(Origin(Phase.FORWARD, OUTSIDE, site, NOWHERE), raw, None)
    made.count = 1
    return OverloadInfo(op, {}), made


def test_libraries_are_known_by_their_first_call() -> None:
    aten = torch.ops.aten
    cells = [
        cell(aten.mm.default, "cpu", 1),
        cell(aten.add.Tensor, "cuda", 2),
        cell(aten.addmm.default, "cuda", 3),
        cell(aten.mm.default, "cuda", 4),
        cell(aten.convolution.default, "cuda", 5),
        cell(torch.ops.c10d.allreduce_.default, "cuda", 6),
        cell(torch.ops.c10d.allreduce_.default, "npu", 7),
    ]
    found = {event.name: event for event in first_calls(cells)}
    assert {name: event.location for name, event in found.items()} == {
        "cuda": "train.py:2",
        "cublas": "train.py:3",
        "cudnn": "train.py:5",
        "nccl": "train.py:6",
        "npu": "train.py:7",
        "hccl": "train.py:7",
    }
    assert found["cuda"].first < found["cublas"].first < found["cudnn"].first
    assert all(event.while_recording for event in found.values())


def test_of_two_first_uses_the_earlier_one_stands() -> None:
    def used(position: int, line: str) -> Event:
        return Event(kind=EventKind.FIRST_USE, name="cuda", location=line, first=position, last=position)

    other = Event(kind=EventKind.VARIABLE, name="A", first=5, last=5)
    assert with_first_calls([used(3, "start"), other], [used(4, "call")]) == (used(3, "start"), other)
    assert with_first_calls([other, used(9, "seen late")], [used(4, "call")]) == (used(4, "call"), other)


def test_inductors_compilations_stay_apart() -> None:
    noted = [Event(kind=EventKind.FIRST_USE, name="inductor", first=at, last=at) for at in (1, 3)]
    call = Event(kind=EventKind.FIRST_USE, name="cuda", first=2, last=2)
    assert with_first_calls(noted, [call]) == (noted[0], call, noted[1])
