"""Digests that wait on a device: the whole way, with the host standing in for the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.recording.values.reading import entries, moments, recorded, rows
from tracer.recording.values import digest_table
from tracer.recording.values.digest_table import DeviceDigests
from tracer.trace.values import Mark
from tracer.trace.values.columns import TURN_SHIFT


def step() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 300), torch.nn.Dropout(0.2), torch.nn.Linear(300, 4))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 8)).square().sum().backward()
        optimizer.step()


def states(values: Any) -> dict[Any, int]:
    """Every moment but generators: what a test run before left of them is its own affair."""
    return {key: digest for key, digest in moments(values).items() if key[0] != "generator"}


@pytest.fixture
def on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tensor is digested as one of a device is."""
    monkeypatch.setattr(DeviceDigests, "digest", lambda self, tensor: self._launch(tensor))
    monkeypatch.setattr(digest_table, "layout_of", lambda dtype, shape, strides: None)


@pytest.mark.usefixtures("on_a_device")
def test_every_digest_is_there_when_the_step_ended_and_agrees_in_a_second_run(tmp_path: Path) -> None:
    first, second = (recorded(tmp_path / f"{run}.values", step) for run in range(2))
    assert rows(first) == rows(second)
    assert states(first) == states(second)
    assert not any(row.mark_bits & (Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED) for row in rows(first))
    assert all(row.inputs and row.outputs for row in rows(first) if row.op == "addmm.default")
    assert all(first.entries.digest)


def test_the_calls_are_those_that_the_host_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = recorded(tmp_path / "host.values", step)
    monkeypatch.setattr(DeviceDigests, "digest", lambda self, tensor: self._launch(tensor))
    monkeypatch.setattr(digest_table, "layout_of", lambda dtype, shape, strides: None)
    device = recorded(tmp_path / "device.values", step)
    told = ~(Mark.TURNED | 0xFF << TURN_SHIFT)  # a device digests each tensor in its own order
    shape: Any = lambda values: [(row.op, row.origins, row.numbers, row.mark_bits & told) for row in rows(values)]  # noqa: E731
    assert shape(host) == shape(device)
    assert entries(host) == entries(device)
    assert states(host).keys() == states(device).keys()
