"""Adding a circumstance is one declaration: the command line, its help, holding and reports know it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.declared import ROOT, run_with
from tracer.runner.repeated.declared import Circumstance

ADDED = {
    "    ENVIRONMENT = (": """\
    MOON = (
        "moon",
        "the moon is held",
        "the phase of the moon reaches the step",
        "train by day",
        Change("another moon", variables=lambda _: {"MOON": "new"}),
        Change("full moon", variables=lambda _: {"MOON": "full"}, cannot="tides"),
        (RootCause.ARGUMENT,),
    )""",
}
PROGRAM = """
import json, os
from pathlib import Path
from click.testing import CliRunner
from tracer.cli.repeat import command
from tracer.report.compared import repeated_json
from tracer.report.sections.runs import repeated_headline
from tracer.runner.repeated.declared import parse_held, parse_varied
from tracer.runner.repeated.repeating import Asked, repeat_script
from tracer.runner.script import Task

Path("train.py").write_text(
    "import os, torch\\nmoon = os.environ.get('MOON')\\n"
    "x = torch.ones(2) * (4 if moon else 1000 * os.urandom(1)[0] + os.getpid() % 1000)\\n"
)
help = CliRunner().invoke(command, ["--help"]).output
asked = Asked(task=Task(target="train.py"), folder=Path("out"), hold=parse_held("moon"))
found = repeat_script(asked).repeated
held = repeated_json(found)["held"]
print(json.dumps([help.count("moon"), [str(one) for one in parse_varied("moon")], held[0]["circumstance"],
                  held[0]["agrees"], held[0]["is_cause"], repeated_headline(found)]))
"""


def test_a_declared_circumstance_is_held_and_worded(tmp_path: Path) -> None:
    said, varied, held, agrees, is_cause, headline = run_with(
        tmp_path, "tracer/runner/repeated/declared.py", ADDED, PROGRAM
    )
    assert said == 2
    assert (varied, held, agrees, is_cause) == (["moon"], "moon", True, True)
    assert headline.endswith(
        "They agree when the moon is held: the phase of the moon reaches the step, first at train.py:3"
    )


@pytest.mark.parametrize("one", list(Circumstance), ids=str)
def test_each_circumstance_has_its_row_in_the_documentation(one: Circumstance) -> None:
    page = (ROOT / "docs" / "repeat.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith(f"| `{one}` |")]
    assert len(rows) == 1 + (one.varied is not None)
    assert all(row.count("|") == 4 for row in rows)
