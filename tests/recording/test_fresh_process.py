"""What only a process shows in which nothing was loaded, asked or computed before: one, for all of these claims."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import process
from tracer import Trace, judge

ROOT = Path(__file__).parents[2]

PROGRAM = """
import gc, json, os, sys
found = {}

import tracer.recording.process.settings, tracer.recording.events, tracer.recording.process_watch
from tracer.tables.asked import asked
tracer.recording.process.settings.read_settings(asked().settings)
watch = tracer.recording.process_watch.ProcessWatch(tracer.recording.origin.Sites(), ["A"])
watch.enter()
os.environ["A"] = "1"
found["a variable set before torch is loaded is an event"] = len(watch.log.listed()) == 1
watch.leave()
found["settings, variables and events import torch"] = "torch" in sys.modules

import multiprocessing, numpy as np, torch
from torch.utils.data import DataLoader
from tracer import DeterminismTracer
from tracer.recording.origin import Sites
from tracer.recording.randomness.loaders import LoaderLog
before = set(sys.modules)
asked = tracer.recording.process.settings.read_settings(["torch._inductor.config.max_autotune", "torch.onnx.name"])
found["read of modules that nobody loaded"] = [asked, sorted(set(sys.modules) - before), torch.cuda.is_initialized()]

log = LoaderLog(Sites())
log.iterates(sys._getframe(), DataLoader([1], num_workers=1))
is_default = log.listed()[0].start_method == multiprocessing.get_all_start_methods()[0]
found["the start method is told and not settled"] = is_default and not multiprocessing.get_start_method(allow_none=True)

with DeterminismTracer() as recording:
    os.environ["ATEN_CPU_CAPABILITY"] = "default"
    np.random.default_rng().random()
    np.random.rand()
    torch.ones(3).sum()
capability = torch.backends.cpu.get_cpu_capability()  # torch 2.4 has the second name for it
found["what asking would settle is settled by the program"] = capability in ("DEFAULT", "NO AVX")
drew = [made.drew for made in recording.trace.generators if made.name == "numpy"]
loads_late = "numpy.random" not in before
found["NumPy's generators are seen though their module loads at its first use"] = [
    loads_late, len(recording.trace.own_generators), drew
]

from tracer.recording.origin.optimizers import _HasOptimizer
weight, has_optimizer, lives = torch.nn.Parameter(torch.ones(1)), _HasOptimizer(), []
for _ in range(2):
    optimizer = torch.optim.SGD([weight], 0.1)
    lives.append(has_optimizer())
    del optimizer
    gc.collect()
    lives.append(has_optimizer())
found["an optimizer lives"] = lives

from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode(), torch.no_grad(), DeterminismTracer() as recording:
    rows = torch.zeros(5, 3, device="cuda")
    rows.index_add_(0, torch.zeros(4, dtype=torch.long, device="cuda"), torch.rand(4, 3, device="cuda"))
recording.trace.save(sys.argv[1])
json.dump(found, sys.stdout)
"""


def test_a_recording_in_a_fresh_process_loads_settles_and_misses_nothing(tmp_path: Path) -> None:
    fake = tmp_path / "fake.json"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = process(program, fake, cwd=ROOT, PYTHONPATH=str(ROOT))
    assert done.code == 0, done.err
    assert json.loads(done.out) == {
        "a variable set before torch is loaded is an event": True,
        "settings, variables and events import torch": False,
        "read of modules that nobody loaded": [{}, [], False],
        "the start method is told and not settled": True,
        "NumPy's generators are seen though their module loads at its first use": [True, 1, [True]],
        "what asking would settle is settled by the program": True,
        "an optimizer lives": [True, False, True, False],
    }
    trace = Trace.load(fake)
    assert {group.facts["device"] for group in trace.calls} == {"cuda"}, "the device that a fake tensor claims"
    assert "cuda-index-add" in {finding.rule for finding in judge(trace).findings}
