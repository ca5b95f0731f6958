"""Programs of whose runs one parts from another, each with its clean twin in the same file.

At the end of a line, ``# parts: CAUSE`` says that the runs part there and why. The runs of its twin
(``support/twins.py``) agree in every call. In the first lines, ``# vary: ARM`` names the arm that alone shows it, and
``# run: --steps A:B`` what to record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.twins import clean_twin
from tracer.divergence.repeated import UNVARIED, Repeated
from tracer.runner.repeated.declared import parse_varied
from tracer.runner.repeated.repeating import Asked, repeat_script
from tracer.runner.script import StepRange, Task

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
_PARTS = re.compile(r"#\s*parts:\s*([\w-]+)")
_DIRECTIVE = re.compile(r"^#\s*(vary|run):\s*(.+)$", re.MULTILINE)


class Program(NamedTuple):
    """A planted program, as its comments say."""

    path: Path
    said: Mapping[str, str]
    parts: Mapping[int, str]
    """The causes by line."""

    def clean(self) -> str:
        """The text of its twin."""
        return clean_twin(self.path.read_text(encoding="utf-8"))


def program(path: Path) -> Program:
    """Read what ``path`` says of itself."""
    text = path.read_text(encoding="utf-8")
    lines = enumerate(text.splitlines(), 1)
    parts = {number: found[1] for number, line in lines if (found := _PARTS.search(line))}
    return Program(path, dict(_DIRECTIVE.findall(text)), parts)


def repeated(one: Program, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Repeated:
    """Run ``text`` twice in ``folder``, and under the arm that ``one`` names."""
    (folder / one.path.name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    steps = StepRange.parse(one.said["run"].split()[-1]) if "run" in one.said else StepRange()
    task = Task(target=one.path.name, steps=steps)
    arms = parse_varied(one.said["vary"]) if "vary" in one.said else ()
    return repeat_script(Asked(task=task, folder=folder / "runs", arms=arms, hold=())).repeated


def seen(found: Repeated) -> dict[int, str]:
    """The roots' causes by line, of those that stand in the program itself."""
    return {int(root.location.rpartition(":")[2]): root.cause.value for root in found.roots}


def told(found: Repeated) -> str:
    """The roots, for a failure's message."""
    return "; ".join(f"{root.location} {root.op} {root.cause} {root.arms}: {root.why}" for root in found.roots)


def expect_parting(one: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs part at every marked line for the marked cause, at no other, and in no arm but the named one."""
    assert one.parts, "nothing is planted"
    found = repeated(one, one.path.read_text(encoding="utf-8"), folder, monkeypatch)
    assert seen(found) == dict(one.parts), told(found)
    first = found.first
    assert first is not None
    assert first.location == f"{one.path.name}:{min(one.parts)}"
    arm = one.said.get("vary", UNVARIED)
    assert {root.arms for root in found.roots} == {(arm,)}, told(found)


def expect_agreement(one: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin's runs agree in every call, in every arm."""
    text = one.clean()
    assert text != one.path.read_text(encoding="utf-8"), "it has no twin"
    found = repeated(one, text, folder, monkeypatch)
    assert not found.roots, told(found)
    assert found.agrees
    assert found.calls_compared > 0
    assert found.divergence.not_digested == 0
