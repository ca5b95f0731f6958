"""Real training steps read no unwritten memory and write to none that overlaps; poisoned memory shows who reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.models.workloads import IN_EVERY_RUN, MAKERS, make
from tests.support.slow import slow_unless
from tracer import DeterminismTracer


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", slow_unless(IN_EVERY_RUN, MAKERS))
def test_training_is_blamed_for_nothing(name: str) -> None:
    tracer = DeterminismTracer()
    with tracer:
        training = make(name)
        for _ in range(2):
            training.step()
    trace = tracer.trace
    assert (trace.unwritten_reads, trace.overlaps) == ((), ())
    assert not tracer._session.recorder.storages.writes.failures
    assert not tracer._session.recorder.storages.registry.live


ROOT = Path(__file__).parents[2]


@cache
def run_with(perturb: int) -> dict[str, Any]:
    environment = os.environ | {"MALLOC_PERTURB_": str(perturb), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.models.idioms"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="MALLOC_PERTURB_ is glibc's")
def test_an_idiom_is_blamed_where_other_bytes_change_its_result_and_nowhere_else() -> None:
    one, other = run_with(85), run_with(170)
    differing = {name for name in one if one[name]["digest"] != other[name]["digest"]}
    blamed = {name for name in one if one[name]["reads"]}
    assert differing == {"half inverted"}
    assert blamed == differing, {name: one[name]["reads"] for name in blamed ^ differing}
