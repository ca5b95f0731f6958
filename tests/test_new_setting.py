"""Adding a setting is one block in ``tables.settings`` and its rows: every part then knows it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import process
from tracer.tables.rules import ROWS

KEY = "torch.backends.mkldnn.deterministic"
ROW = f"""
[[row]]
id = "environment-made-up"
about = "setting"
name = "{KEY}"
category = "precision"
read = "{KEY}"
default = false
safe = [true]
cause = "algorithm-selection"
why = "It is made up."
remedy = "Set it."
code = '''
import torch

{KEY} = True
'''
where = "at the top of the script"
sets = {{ "{KEY}" = true }}
  [[row.case]]
  when = {{ value = ["unset", "other"] }}
  verdict = "nondeterministic"
  [[row.case]]
  verdict = "deterministic"
  [[row.evidence]]
  kind = "source"
  ref = "made up for this test"
"""
PROGRAM = """
import json, sys
from pathlib import Path
from tracer.tables import settings

settings.DECLARED += (
    settings.Setting(
        KEY, label="made up", default=False, read=KEY, made_by=KEY, place=settings.PlanOrder.AUTOTUNE,
        watched=("_set_mkldnn_deterministic", "_get_mkldnn_deterministic"), title="Make it up",
        condition=settings.itself(KEY, wanted=True), wanted=True,
    ),
)

from tracer.tables import rules

rules.ROWS = Path(sys.argv[1])

import torch
from tracer import DeterminismTracer, judge
from tracer.doctor import diagnose
from tracer.doctor import read_process
from tracer.judging.minimal_settings import CANDIDATES
from tracer.recording.process.settings import make
from tracer.tables.settings import declared
from tracer.tables.rules import DOMAINS

with DeterminismTracer() as tracer:
    put_back = make(declared(KEY), True)
    made = torch.backends.mkldnn.deterministic
    torch.ones(2).sin()
    put_back()
    torch.ones(2).sin()
report = tracer.report()
found = [one for one in report.findings if one.rule == "environment-made-up"]
planned = judge(tracer.trace, settings=report.planned_settings)
print(json.dumps({
    "asked": DOMAINS[KEY],
    "tried": KEY in {candidate.name for candidate in CANDIDATES},
    "made": made, "put back": torch.backends.mkldnn.deterministic,
    "recorded": tracer.trace.environment.settings[KEY],
    "events": [(one.name, one.before, one.value) for one in tracer.trace.events if one.name == KEY],
    "condition": report.target.conditions[KEY],
    "found": [one.subject for one in found],
    "plan": [(one.title, one.code) for one in report.plan if KEY in one.sets],
    "left": [one.rule for one in planned.findings if one.rule == "environment-made-up"],
    "doctor": [
        one.name
        for one in diagnose(rules.load_rows(), *read_process()).settings
        if one.row.endswith("made-up")
    ],
}))
"""


def test_a_setting_that_one_block_declares_is_read_watched_judged_planned_made_and_put_back(tmp_path: Path) -> None:
    table = tmp_path / "environment.toml"
    table.write_text(ROWS.read_text(encoding="utf-8") + ROW, encoding="utf-8")
    program = PROGRAM.replace("KEY", repr(KEY))
    done = process("-c", program, table, cwd=tmp_path)
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["asked"] == [False, True]
    assert told["tried"] is True
    assert (told["made"], told["put back"]) == (True, False)
    assert told["recorded"] is False
    assert told["events"] == [[KEY, "False", "True"], [KEY, "True", "False"]]
    assert told["condition"] is False
    assert told["found"] == [f"{KEY} = False"]
    assert [title for title, _ in told["plan"]] == ["Make it up"]
    assert f"{KEY} = True" in told["plan"][0][1]
    assert told["left"] == []
    assert told["doctor"] == [KEY]
