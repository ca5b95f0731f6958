"""Adding a kind of blind spot is one declaration in ``names``: recorder, traces, headline and banners know it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.declared import run_with
from tracer.names import BlindSpotKind

ADDED = {
    "    CHANGED_BY_RECORDING = ": (
        '    FPGA = "fpga-kernel", "FPGA kernels", "ops on the board are not seen", "Kernels that an FPGA ran"'
    ),
}
PROGRAM = """
import json
import torch
from tracer import DeterminismTracer, Trace, judge
from tracer.names import BlindSpotKind
from tracer.report.sections.answers import headline

parameter = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([parameter])
with DeterminismTracer() as recorder:
    parameter.sum().backward()
    optimizer.step()
    recorder._session.recorder.blind_spots.note(BlindSpotKind.FPGA, "kernel fft")
    recorder._session.recorder.blind_spots.note(BlindSpotKind.FPGA, "kernel fft")
recorder.trace.save("step.trace.json")
report = judge(Trace.load("step.trace.json"), backend="cpu")
print(json.dumps({
    "spots": [(spot.kind.value, spot.detail, spot.count) for spot in report.blind_spots],
    "headline": headline(report)[1],
    "banners": list(report.banners),
    "text": report.to_text(),
}))
"""


def test_a_declared_kind_is_recorded_saved_and_named_in_headline_banner_and_section(tmp_path: Path) -> None:
    shown = run_with(tmp_path, "tracer/names.py", ADDED, PROGRAM)
    assert shown["spots"] == [["fpga-kernel", "kernel fft: ops on the board are not seen", 2]]
    assert "FPGA kernels; not judged" in shown["headline"]
    assert "Kernels that an FPGA ran: 2." in shown["banners"]
    assert "What was not seen: FPGA kernels" in shown["text"]


@pytest.mark.parametrize("kind", list(BlindSpotKind), ids=str)
def test_what_a_kind_says_is_part_of_a_sentence(kind: BlindSpotKind) -> None:
    assert not any(words.endswith((".", ":")) for words in (kind.headline, kind.loses, kind.banner))
