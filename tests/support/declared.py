"""A program run with a copy of the package to which a declaration was added, as a contributor would add it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_with(folder: Path, module: str, added: Mapping[str, str], program: str) -> Any:
    """What ``program`` prints as JSON where ``module`` has each added line before the line that begins with its key."""
    shutil.copytree(ROOT / "tracer", folder / "tracer")
    (folder / "templates").symlink_to(ROOT / "templates")
    source = folder / module
    lines = source.read_text(encoding="utf-8").splitlines()
    for before, line in added.items():
        (at,) = (number for number, text in enumerate(lines) if text.startswith(before))
        lines.insert(at, line)
    source.write_text("\n".join([*lines, ""]), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
