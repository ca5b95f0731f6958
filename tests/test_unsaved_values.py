"""A tracer with values that nobody saves leaves nothing, and Python has nothing to warn of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.command import process

BEGIN = """\
import gc, os, sys
import torch
from tracer import DeterminismTracer

def step():
    torch.ones(4).mul_(2).sum()

tracer = DeterminismTracer(values=True)
"""
WAYS = {
    "dropped, and kept to the end": """
for _ in range(2):
    with tracer: step()
assert tracer.trace.sources[0].values
try:
    with tracer: step(); 1 / 0
except ZeroDivisionError: pass
tracer = DeterminismTracer(values=True)
gc.collect()
with tracer: step()
never_entered = DeterminismTracer(values=True)
""",
    "never left": "tracer.__enter__(); step()",
    "forked while open": """
with tracer:
    step()
    if os.fork() == 0: sys.exit()
    os.wait()
    step()
assert tracer.values.stat().st_size
""",
}


@pytest.mark.parametrize("way", WAYS)
def test_values_that_nobody_saved_are_gone_without_a_warning(way: str, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    line = ("-X", "dev", "-W", "error::ResourceWarning", "-c", f"{BEGIN}{WAYS[way]}")
    assert process(*line, cwd=tmp_path, TMPDIR=str(temporary)) == (0, "", "")
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
    message, _, kept = process("-c", code, cwd=tmp_path).out.strip().partition("; the values are in ")
    assert message.endswith("t.values: Is a directory")
    assert Path(kept).stat().st_size
    assert (tmp_path / "t.json").exists()
    Path(kept).unlink()
    Path(kept).parent.rmdir()
