"""Adding a rule is one block in a table: lint, judge, report, ``explain``, ``tables`` and the site then know it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.support.command import process
from tracer.tables import loading

RULE = """
[[rule]]
id = "xpu-made-up"
ops = ["aten.made_up"]
cause = "write-race"
why = "Two threads write one element."
remedy = "Write once."
  [[rule.case]]
  when = { deterministic_mode = "off" }
  verdict = "nondeterministic"
  [[rule.case]]
  verdict = "raises"
  [[rule.evidence]]
  kind = "documented"
  ref = "torch.use_deterministic_algorithms page, 2.13"
"""
PROGRAM = """
import contextlib, io, json, sys
from pathlib import Path
from tracer.tables import loading

loading._FOLDER = Path(sys.argv[1])

from docs.making.rule_pages import rule_pages
from tests.support.build import call, trace
from tracer import judge
from tracer.cli.main import main
from tracer.tables.lint import faults_of_tables


def told(*args):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main(list(args))
        except SystemExit as left:
            return [left.code, out.getvalue()]


report = judge(trace(call("aten.made_up.default")), backend="xpu", torch="2.13", settings="default")
pages = {page.name: page.text for page in rule_pages()}
print(json.dumps({
    "faults": faults_of_tables(),
    "found": [(one.rule, one.verdict, one.deterministic_mode) for one in report.findings],
    "csv": report.to_csv(),
    "explained": told("explain", "aten.made_up", "--torch", "2.13"),
    "shown": told("tables", "show", "xpu-made-up"),
    "page": pages.get("xpu-made-up.md", ""),
    "indexed": "xpu-made-up" in pages["index.md"],
}))
"""


def test_a_rule_that_one_block_adds_is_proven_judged_explained_and_has_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    for path in Path(loading.__file__).parent.glob("*.toml"):
        shutil.copy(path, folder)
    table = folder / "xpu.toml"
    table.write_text(table.read_text(encoding="utf-8") + RULE, encoding="utf-8")
    done = process("-c", PROGRAM, folder, cwd=Path(__file__).parents[1])
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["faults"] == []
    assert told["found"] == [["xpu-made-up", "nondeterministic", "raises"]]
    assert ",xpu-made-up,aten.made_up.default," in told["csv"]
    for asked in ("explained", "shown"):
        code, text = told[asked]
        assert code == 0
        assert "Two threads write one element." in text
    assert told["page"].startswith("# xpu-made-up\n")
    assert "Write once." in told["page"]
    assert told["indexed"] is True
