"""Torch's whole operator database under digests, in two processes whose fresh memory holds other bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracer.trace.values import Mark

ROOT = Path(__file__).parents[3]


def run_with(perturb: int) -> dict[str, Any]:
    environment = os.environ | {"MALLOC_PERTURB_": str(perturb), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.recording.values.opinfo", "1"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="MALLOC_PERTURB_ is glibc's")
def test_every_op_is_digested_whole_and_unwritten_memory_is_no_noise() -> None:
    one, other = run_with(85), run_with(170)
    assert sum(map(len, one["found"].values())) > 2_000
    assert one["failures"] == other["failures"] == 0
    assert one["untold"] == []
    differing = {
        (first[0], name)
        for name, calls in one["found"].items()
        for first, second in zip(calls, other["found"][name], strict=True)
        if first != second and not first[3] & Mark.READ_UNWRITTEN
    }
    assert differing == set()
    lost = Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED
    assert [row[0] for calls in one["found"].values() for row in calls if row[3] & lost] == []
