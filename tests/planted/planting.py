"""Planted faults: small scripts, run by ``tracer run`` as a user would, each with a clean twin.

Each file holds one fault or more, and its twin (``support/twins.py``). A comment marks what must be found:

- ``# planted: RULE-ID`` behind a line of code: a finding of that rule at that very line;
- ``# planted: RULE-ID`` on a line of its own: a finding of that rule, wherever it is.

Comments in the first lines say how to run and judge: ``# judge: backend=cuda``, ``# run: --steps 0:2``,
``# env: NAME=VALUE``, ``# torch: >=2.6`` where an older torch cannot run the script.
A clean twin gives no finding but draws from generators that it seeded.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.support.command import Command, process
from tests.support.slow import slow_unless
from tests.support.twins import clean_twin
from tracer import Trace, judge
from tracer.names import Verdict
from tracer.report import Report

HERE = Path(__file__).parent
SCRIPTS = sorted(path for path in HERE.glob("*/*.py") if path.stem != "__init__")
_MARK = re.compile(r"# planted: ([\w-]+)(?:\s+# clean:.*)?$")
_DIRECTIVE = re.compile(r"^#\s*(judge|run|env|torch):\s*(.+)$")


class Planted(NamedTuple):
    """What must be found."""

    rule: str
    location: str
    """Empty: anywhere."""


def planted_in(script: Path) -> list[Planted]:
    """Every mark of ``script``."""
    found = []
    for number, line in enumerate(script.read_text(encoding="utf-8").splitlines(), 1):
        mark = _MARK.search(line)
        if mark:
            found.append(Planted(mark[1], "" if line.lstrip().startswith("#") else f"{script.name}:{number}"))
    return found


def said_in(text: str) -> dict[str, list[str]]:
    """What a script's comments ask for, by kind."""
    said: dict[str, list[str]] = {"judge": [], "run": [], "env": [], "torch": []}
    for line in text.splitlines():
        if directive := _DIRECTIVE.match(line):
            said[directive[1]] += directive[2].split()
    return said


def report_on(script: Path, text: str, folder: Path, here: Command | None = None) -> Report:
    """Run ``text``, ``script`` or its twin, in ``folder`` under ``tracer run``, and judge its trace as it asks.

    ``here``: in this process and the folder that it is in, where nothing hangs on what happened before.
    """
    said = said_in(text)
    variables = dict(one.split("=", 1) for one in said["env"])
    if any(Version(torch.__version__) not in SpecifierSet(one, prereleases=True) for one in said["torch"]):
        pytest.skip(f"needs torch {said['torch'][0]}")
    (folder / script.name).write_text(text, encoding="utf-8")
    command = ["run", "-o", "trace.json", *said["run"], script.name]
    done = process(*command, cwd=folder, module=True, **variables) if here is None else here(*command)
    assert done.code == 0, done.err
    return judge(Trace.load(folder / "trace.json"), **dict(one.split("=", 1) for one in said["judge"]))


def of(areas: Collection[str], in_every_run: Collection[str] | None = None) -> pytest.MarkDecorator:
    """The scripts in folders ``areas`` as parameters; slow where they are not named ``in_every_run``."""
    chosen = [path for path in SCRIPTS if path.parent.name in areas]
    often = {path for path in chosen if in_every_run is None or path.stem in in_every_run}
    cases = slow_unless(often, chosen)
    return pytest.mark.parametrize("script", cases, ids=lambda path: path.stem)


def expect_found(script: Path, folder: Path, here: Command | None = None) -> None:
    """Every mark of ``script`` is found, at its line."""
    planted = planted_in(script)
    assert planted, "nothing is planted"
    report = report_on(script, script.read_text(encoding="utf-8"), folder, here)
    risky = {(one.rule, one.location) for one in report.findings if one.verdict is not Verdict.DETERMINISTIC}
    for fault in planted:
        places = {location for rule, location in risky if rule == fault.rule}
        assert places, f"{fault.rule} was not found, but {sorted(risky)}"
        assert not fault.location or fault.location in places, f"{fault} was not found, but {sorted(places)}"


def expect_nothing(script: Path, folder: Path, here: Command | None = None) -> None:
    """A clean twin has nothing but seeded draws."""
    text = script.read_text(encoding="utf-8")
    twin = clean_twin(text)
    assert twin != text, "it has no twin"
    report = report_on(script, twin, folder, here)
    assert [one for one in report.findings if one.verdict is not Verdict.SEEDED] == []
