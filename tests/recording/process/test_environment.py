"""The process's settings, and the environment variables that the program sets, each with its line."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest import mock

import msgspec
import pytest
import torch

from tests.support.lines import record
from tracer.names import DeterministicMode, EventKind, Subsystem
from tracer.recording.events import EventLog
from tracer.recording.origin import Sites
from tracer.recording.process import environment
from tracer.recording.process.environment import capture_environment
from tracer.recording.process_watch import VariableEvents
from tracer.recording.torch_private.seams import cudnn_number, sleeping_devices
from tracer.trace.records import Event


@pytest.mark.parametrize(
    ("cuda", "spec", "beside"), [("13.0", object(), True), ("13.0", None, False), (None, None, None)]
)
def test_triton_is_looked_for_beside_a_build_for_gpus(
    monkeypatch: pytest.MonkeyPatch, cuda: str | None, spec: object, beside: bool | None
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(environment, "find_spec", lambda name: spec if name == "triton" else None)
    assert environment.has_triton() is beside


def test_the_number_of_cudnn_is_read_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.backends.cudnn.version`` asks every GPU what it can do, from torch 2.10 on, and so starts CUDA."""

    def starts(*_: object) -> NoReturn:
        raise AssertionError("a device was asked")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.backends.cudnn, "version", starts)
    monkeypatch.setattr(torch._C, "_cudnn", SimpleNamespace(getVersionInt=lambda: 91900), raising=False)
    assert cudnn_number() == 91900
    assert capture_environment().cudnn == "91900"


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_watching_seeds_asks_no_driver_whether_a_gpu_is_there(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The driver's answer costs a process that is forked later its GPU."""
    device = getattr(torch, kind)
    asked: list[str] = []
    monkeypatch.setattr(device, "is_available", lambda: asked.append("is_available"))
    monkeypatch.setattr(device, "device_count", lambda: asked.append("device_count"))
    monkeypatch.setattr(device, "_is_compiled", lambda: True)
    record(lambda: torch.manual_seed(0))
    assert device in sleeping_devices()
    assert not asked


def test_only_variables_that_were_asked_for_and_no_names_of_people_or_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    monkeypatch.setenv("API_TOKEN", "a-secret-token")
    trace = record(lambda: torch.ones(1).sin()).trace
    text = msgspec.json.encode(trace).decode()
    assert trace.environment.variables["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert "a-secret-token" not in text
    assert socket.gethostname() not in text
    assert os.path.expanduser("~") + "/" not in text
    assert getpass.getuser() not in [trace.sources[0].name, *trace.environment.variables.values()]


@pytest.mark.parametrize(
    ("mode", "warns", "expected"),
    [
        (False, False, DeterministicMode.OFF),
        (True, False, DeterministicMode.ON),
        (True, True, DeterministicMode.WARN),
    ],
)
def test_the_settings_are_those_as_recording_began(mode: bool, warns: bool, expected: DeterministicMode) -> None:
    torch.use_deterministic_algorithms(mode, warn_only=warns)
    tracer = record(lambda: torch.use_deterministic_algorithms(not mode))
    assert tracer.trace.environment.deterministic_mode is expected


def test_flags_versions_and_seeds_are_read_and_no_device_is_started() -> None:
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(77)
    state = torch.get_rng_state()
    found = capture_environment()
    assert (found.cudnn_deterministic, found.cudnn_benchmark) == (True, True)
    assert (found.torch, found.torch_seed) == (str(torch.__version__), 77)
    assert found.num_threads == torch.get_num_threads()
    assert found.fill_uninitialized_memory is True
    assert set(found.sdp_backends or ()) <= {"flash", "mem_efficient", "math", "cudnn"}
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.cuda.is_initialized()


HERE = "tests/recording/process/test_environment.py"


NAME = "TRACER_TEST_VARIABLE"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[EventLog]:
    """A log that is told of one variable, which is not set."""
    monkeypatch.delenv(NAME, raising=False)
    made = EventLog(Sites())
    events = VariableEvents(made, [NAME], lambda: None)
    events.start()
    yield made
    events.stop()
    os.environ.pop(NAME, None)


def told(log: EventLog) -> list[tuple[str, str]]:
    """Each change, as ``(before, value)``."""
    return [(event.before, event.value) for event in log.listed()]


def only(log: EventLog) -> Event:
    (event,) = log.listed()
    return event


@pytest.mark.parametrize(
    "change",
    [
        lambda: os.environ.__setitem__(NAME, "1"),
        lambda: os.environ.update({NAME: "1"}),
        lambda: os.environ.setdefault(NAME, "1"),
        lambda: os.environb.__setitem__(os.fsencode(NAME), b"1"),
    ],
)
def test_a_variable_that_is_set_is_noted_with_its_line_whatever_the_way(log: EventLog, change: Any) -> None:
    change()
    event = only(log)
    assert (event.kind, event.name, event.before, event.value) == (EventKind.VARIABLE, NAME, "", "1")
    assert (event.location, event.while_recording) == (f"{HERE}:{change.__code__.co_firstlineno}", False)
    assert os.environ[NAME] == "1"


def test_the_same_value_again_other_variables_and_those_of_torch_are_no_events(log: EventLog) -> None:
    os.environ.setdefault("TRACER_TEST_OTHER", "1")
    os.environ.pop("TRACER_TEST_OTHER")
    os.environ[NAME] = "1"
    os.environ[NAME] = "1"
    os.environ.setdefault(NAME, "2")
    with mock.patch.dict(os.environ, {"TRACER_TEST_OTHER": "x"}):  # clears the environment and fills it again
        assert "TRACER_TEST_OTHER" in os.environ
    path = os.path.join(os.path.dirname(torch.__file__), "x.py")
    exec(compile(f"import os\nos.environ[{NAME!r}] = 'cache'", path, "exec"), {})
    assert os.environ[NAME] == "cache"
    assert told(log) == [("", "1")]


def test_a_variable_that_was_missing_as_something_started_did_change(log: EventLog) -> None:
    os.environ[NAME] = "1"
    os.environ.pop(NAME)
    log.first_use(Subsystem.CUDA, None)
    os.environ[NAME] = "1"
    assert [(one.name, one.value) for one in log.listed()] == [("cuda", ""), (NAME, "1")]


def test_a_line_that_sets_other_values_is_one_event(log: EventLog) -> None:
    for number in range(3):
        os.environ[NAME] = "1"
        log.first_use(list(Subsystem)[number], None)
        os.environ.pop(NAME)
        log.first_use(list(Subsystem)[number + 4], None)
    own = [(one.before, one.value, one.count) for one in log.listed() if one.name == NAME]
    assert own == [("", "1", 3), ("1", "", 3)]
    for number in range(10_000):
        os.environ[NAME] = str(number)
    assert len(log.listed()) < 5_000


def test_exceptions_are_the_originals(log: EventLog) -> None:
    with pytest.raises(ValueError, match="embedded null byte"):
        os.environ[NAME] = "a\0b"
    with pytest.raises(TypeError, match="str expected, not int"):
        os.environ[NAME] = 1  # type: ignore[assignment]
    with pytest.raises(KeyError):
        del os.environ[NAME]
    with pytest.raises(TypeError):
        os.putenv(NAME)  # type: ignore[call-arg]
    assert told(log) == []
    assert NAME not in os.environ
