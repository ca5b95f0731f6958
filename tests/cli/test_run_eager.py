"""``tracer run --eager``: what torch.compile would compile runs op by op, and the report says so."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Command, tracer_process
from tracer.names import BlindSpotKind
from tracer.session import judge
from tracer.trace import Trace

SCRIPT = """
import sys
import torch

compiled = []

def backend(graph, inputs):
    compiled.append(graph)
    return graph

torch.manual_seed(0)
net = torch.compile(torch.nn.Linear(4, 2), backend=backend, fullgraph=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    net(torch.ones(3, 4)).sin().sum().backward()
    optimizer.step()
print(len(compiled), sorted(net.state_dict()))
"""


def test_compiled_code_runs_eagerly_and_keeps_its_names_and_the_trace_says_so(folder: Path) -> None:
    (folder / "s.py").write_text(SCRIPT)
    done = tracer_process("run", "--eager", "s.py", cwd=folder)  # a process that runs eagerly stays so
    assert done.code == 0, done.err
    assert done.out == "0 ['_orig_mod.bias', '_orig_mod.weight']\n"
    trace = Trace.load(folder / "trace.json")
    assert trace.sources[0].eager
    assert sum(call.count for call in trace.calls if call.op == "aten.addmm.default") == 2
    told = [spot for spot in trace.blind_spots if spot.kind is BlindSpotKind.COMPILE_FELL_BACK]
    assert [spot.detail for spot in told] == ["Linear is compiled, and ran eagerly because --eager was asked for"]
    assert BlindSpotKind.COMPILED not in {spot.kind for spot in trace.blind_spots}
    assert any("--eager" in banner for banner in judge(trace, backend="cuda").banners)


def test_without_the_option_nothing_says_so(folder: Path, tracer: Command) -> None:
    (folder / "s.py").write_text("import torch\ntorch.ones(2) + 1\n")
    done = tracer("run", "s.py")
    assert done.code == 0, done.err
    trace = Trace.load(folder / "trace.json")
    assert not trace.sources[0].eager
    assert not any("--eager" in banner for banner in judge(trace).banners)
