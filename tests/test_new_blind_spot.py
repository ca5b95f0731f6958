"""Adding a kind of blind spot is one declaration in ``names``: recorder, traces, headline and banners know it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tracer.names import BlindSpotKind

PROGRAM = """
import importlib.util, json, sys
from pathlib import Path

spec = importlib.util.find_spec("tracer.names")
last = '    CHANGED_BY_RECORDING = "changed-by-recording"'
new = '    FPGA = "fpga-kernel", "FPGA kernels", "ops on the board are not seen", "Kernels that an FPGA ran"'
source = Path(spec.origin).read_text(encoding="utf-8")
assert last in source
names = importlib.util.module_from_spec(spec)
sys.modules["tracer.names"] = names
exec(compile(source.replace(last, new + chr(10) + last), spec.origin, "exec"), names.__dict__)

import torch
from tracer import DeterminismTracer, Trace, judge
from tracer.report.sections.answers import headline

parameter = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([parameter])
with DeterminismTracer() as tracer:
    parameter.sum().backward()
    optimizer.step()
    tracer._recorder.blind_spots.note(names.BlindSpotKind.FPGA, "kernel fft")
    tracer._recorder.blind_spots.note(names.BlindSpotKind.FPGA, "kernel fft")
trace = tracer.trace
trace.save(sys.argv[1])
report = judge(Trace.load(sys.argv[1]), backend="cpu")
text = report.to_text()
print(json.dumps({
    "spots": [(spot.kind.value, spot.detail, spot.count) for spot in report.blind_spots],
    "headline": headline(report)[1],
    "banners": list(report.banners),
    "section": "fpga-kernel" in text,
}))
"""


def test_a_declared_kind_is_recorded_saved_and_named_in_headline_banner_and_section(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, f"{tmp_path}/step.trace.json"]
    done = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert done["spots"] == [["fpga-kernel", "kernel fft: ops on the board are not seen", 2]]
    assert "FPGA kernels; not judged" in done["headline"]
    assert "Kernels that an FPGA ran: 2." in done["banners"]
    assert done["section"]


@pytest.mark.parametrize("kind", BlindSpotKind, ids=lambda kind: kind.value)
def test_a_declaration_is_spelt_as_its_value_and_speaks_in_parts_of_sentences(kind: BlindSpotKind) -> None:
    assert BlindSpotKind(str(kind)) is kind
    assert not any(words.endswith((".", ":")) for words in (kind.headline, kind.loses, kind.banner))
