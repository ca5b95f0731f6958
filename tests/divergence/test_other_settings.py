"""Two recordings under other settings: the call that parts is told by the setting, not by its kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tracer import DeterminismTracer
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Divergence, read_recording

mkldnn: Any = torch.backends.mkldnn


def run(folder: Path, name: str, before: bool, within: bool) -> Path:
    """Record a convolution; ``before`` and ``within`` the block oneDNN is on, or off."""
    path = folder / f"{name}.json"
    generator = torch.Generator().manual_seed(0)
    image, weights = torch.randn(2, 64, 24, 24, generator=generator), torch.randn(64, 64, 3, 3, generator=generator)
    was = mkldnn.enabled
    try:
        mkldnn.enabled = before
        tracer = DeterminismTracer(values=path.with_suffix(".values"))
        with tracer:
            mkldnn.enabled = within
            torch.nn.functional.conv2d(image, weights).sum()
    finally:
        mkldnn.enabled = was
    tracer.trace.save(path)
    return path


@pytest.fixture
def compared(tmp_path: Path) -> Callable[..., Divergence]:
    def compare(*switched: tuple[bool, bool]) -> Divergence:
        paths = [run(tmp_path, str(number), *values) for number, values in enumerate(switched)]
        return compare_recordings(*map(read_recording, paths))

    return compare


@pytest.mark.skipif(not mkldnn.is_available(), reason="this build of torch has no oneDNN to switch off")
@pytest.mark.parametrize("second", [(False, False), (True, False)], ids=["from the start", "while recording"])
def test_onednn_that_one_run_switched_off_is_the_cause(
    compared: Callable[..., Divergence], second: tuple[bool, bool]
) -> None:
    first = compared((True, True), second).first
    assert first is not None
    assert (first.op, first.cause) == ("aten.convolution.default", RootCause.SETTING)
    assert (first.name, first.second) == ("torch.backends.mkldnn.enabled", "False")
    assert "torch.backends.mkldnn.enabled" in first.why


@pytest.mark.parametrize("both", [(True, True), (False, False)])
def test_runs_under_the_same_one_agree_in_every_call(
    compared: Callable[..., Divergence], both: tuple[bool, bool]
) -> None:
    found = compared(both, both)
    assert found.agrees, found.roots
    assert not found.settings
