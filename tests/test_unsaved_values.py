"""A tracer with values that nobody saves leaves nothing, and Python has nothing to warn of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import PLAIN
from tests.support.slow import slow_unless

BEGIN = """\
import gc, os, sys
import torch
from tracer import DeterminismTracer

def step():
    torch.ones(4).mul_(2).sum()

tracer = DeterminismTracer(values=True)
"""
WAYS = {
    "dropped": "with tracer: step()\ndel tracer; gc.collect()",
    "kept to the end": "with tracer: step()",
    "entered again and again": "for _ in range(5):\n    with tracer: step()",
    "read alone": "with tracer: step()\nassert tracer.trace.sources[0].values",
    "ended by an exception": "try:\n    with tracer: step(); 1 / 0\nexcept ZeroDivisionError: pass",
    "never entered": "",
    "never left": "tracer.__enter__(); step()",
    "forked while open": "with tracer:\n    step()\n    if os.fork() == 0: sys.exit()\n    os.wait()\n    step()\n"
    "assert tracer.values.stat().st_size",
}


IN_EVERY_RUN = {"dropped", "kept to the end", "never left", "forked while open"}


@pytest.mark.parametrize("way", slow_unless(IN_EVERY_RUN, WAYS))
def test_values_that_nobody_saved_are_gone_without_a_warning(way: str, tmp_path: Path) -> None:
    line = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", f"{BEGIN}{WAYS[way]}"]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {**PLAIN, "TMPDIR": str(temporary)}
    done = subprocess.run(line, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [name for name in os.listdir(temporary) if name.startswith("tracer-")] == []


def test_values_that_cannot_be_put_beside_the_trace_stay_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "t.values").mkdir()
    code = f"""{BEGIN}
with tracer: step()
try:
    tracer.save("t.json")
except Exception as problem:
    print(problem)
"""
    done = subprocess.run([sys.executable, "-c", code], env=PLAIN, cwd=tmp_path, capture_output=True, text=True)
    message, _, kept = done.stdout.strip().partition("; the values are in ")
    assert message.endswith("t.values: Is a directory")
    assert Path(kept).stat().st_size
    assert (tmp_path / "t.json").exists()
    Path(kept).unlink()
    Path(kept).parent.rmdir()
