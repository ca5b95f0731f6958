"""torch's own idioms under other bytes in fresh memory: what agrees is no read of unwritten memory, what differs is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

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
