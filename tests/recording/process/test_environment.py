"""The process's settings."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import NoReturn

import msgspec
import pytest
import torch

from tests.support.lines import record
from tracer.names import DeterministicMode
from tracer.recording.process import environment
from tracer.recording.process.environment import capture_environment
from tracer.recording.torch_private.seams import cudnn_number, sleeping_devices


@pytest.fixture(autouse=True)
def _settings_as_they_were() -> Iterator[None]:
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn = (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark)
    yield
    torch.use_deterministic_algorithms(deterministic, warn_only=warn)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = cudnn


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((False, False), DeterministicMode.OFF),
        ((True, False), DeterministicMode.ON),
        ((True, True), DeterministicMode.WARN),
    ],
)
def test_deterministic_mode(arguments: tuple[bool, bool], expected: DeterministicMode) -> None:
    torch.use_deterministic_algorithms(arguments[0], warn_only=arguments[1])
    assert capture_environment().deterministic_mode is expected


def test_flags_versions_and_seeds() -> None:
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(77)
    found = capture_environment()
    assert (found.cudnn_deterministic, found.cudnn_benchmark) == (True, True)
    assert found.torch == str(torch.__version__)
    assert found.torch_seed == 77
    assert found.num_threads == torch.get_num_threads()
    assert found.fill_uninitialized_memory is True
    assert set(found.sdp_backends or ()) <= {"flash", "mem_efficient", "math", "cudnn"}


def test_reading_starts_no_device_and_draws_no_number() -> None:
    state = torch.get_rng_state()
    capture_environment()
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.cuda.is_initialized()


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


def test_the_settings_are_those_of_the_moment_that_recording_began() -> None:
    torch.use_deterministic_algorithms(False)
    tracer = record(lambda: torch.use_deterministic_algorithms(True, warn_only=True))
    assert tracer.trace.environment.deterministic_mode is DeterministicMode.OFF
