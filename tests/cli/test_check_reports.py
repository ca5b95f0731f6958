"""``tracer check`` as a job sees it: accepted findings in reports, GitHub's annotations and its summary."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.samples import HOSTILE
from tests.support.build import call, finding, trace
from tests.support.command import Command
from tracer.cli.check import LIMIT, annotated, inert
from tracer.gate import HEADER, LEGEND

OP = "aten.index_add_.default"
#: What GitHub's runner takes for a command: its name, its properties, its message.
COMMAND = re.compile(r"::(\w+) ([^\n\r]*?)::([^\n\r]*)")


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three calls that CUDA makes nondeterministic: one a baseline accepts, one a comment, one nobody."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    functions = ("accepted", "commented", "left")
    trace(*(call(OP, location=f"train.py:{n}", function=name) for n, name in enumerate(functions, 1))).save("t.json")
    Path("train.py").write_text("\na(b)  # tracer: ignore[cuda-*] sums of two rows\n\n", encoding="utf-8")
    line = f"cuda-index-add | {OP} | forward | net.fc | train.py | accepted | nondeterministic | | seen"
    Path("determinism.lock").write_text(f"{HEADER}\n{LEGEND}\n{line}\n", encoding="utf-8")
    return Path("t.json")


CHECK = ("--backend", "cuda", "--baseline", "determinism.lock", "--select", "cuda-index-add")


def test_sarif_says_who_accepted_what(saved: Path, tracer: Command) -> None:
    assert tracer("check", saved, *CHECK, "-o", "out.sarif").code == 1
    results = json.loads(Path("out.sarif").read_text())["runs"][0]["results"]
    said = {
        one["locations"][0]["physicalLocation"]["region"]["startLine"]: one["suppressions"]
        for one in results
        if one["ruleId"] == "cuda-index-add"
    }
    assert said == {
        1: [{"kind": "external", "justification": "seen"}],
        2: [{"kind": "inSource", "justification": "sums of two rows"}],
        3: [],
    }
    assert all("suppressions" in one for one in results)


def test_without_a_gate_nothing_is_suppressed(saved: Path, tracer: Command) -> None:
    tracer("report", saved, "--backend", "cuda", "-o", "out.sarif")
    results = json.loads(Path("out.sarif").read_text())["runs"][0]["results"]
    assert not any("suppressions" in one for one in results)


def test_junit_fails_once_where_the_gate_does(saved: Path, tracer: Command) -> None:
    tracer("check", saved, *CHECK, "-o", "out.xml")
    root = ElementTree.parse("out.xml").getroot()
    assert root.get("failures") == "1"
    (case,) = [case for case in root.iter("testcase") if case.get("name") == "cuda-index-add"]
    assert (case[0].text or "").splitlines()[0].startswith("train.py:3: ")


def test_markdown_counts_what_was_accepted(saved: Path, tracer: Command) -> None:
    tracer("check", saved, *CHECK, "-o", "out.md")
    assert "1 by the baseline" in Path("out.md").read_text()


@pytest.mark.parametrize("actions", ["", "false", "true"])
def test_what_fails_is_annotated_in_github_actions_alone(
    saved: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch, actions: str
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", actions)
    lines = tracer("check", saved, *CHECK).out.splitlines()
    commands = [line for line in lines if line.startswith("::")]
    if actions != "true":
        assert commands == []
        return
    (line,) = commands
    assert line.startswith(
        "::error file=train.py,line=3,title=cuda-index-add::aten.index_add_ is nondeterministic (1 call"
    )
    assert lines[-1].startswith("tracer check: failed: 1 new")


def test_files_are_named_from_the_repositorys_folder(
    saved: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(Path.cwd().parent))
    out = tracer("check", saved, *CHECK).out
    assert f"::error file={Path.cwd().name}/train.py,line=3," in out


def test_ten_of_each_kind_are_printed_and_the_rest_counted() -> None:
    many = [finding(location=f"a.py:{n}", verdict=verdict) for verdict in ("raises", "conditional") for n in range(15)]
    lines = list(annotated(many))
    assert [line.split()[0] for line in lines[:-1]] == ["::error"] * LIMIT + ["::warning"] * LIMIT
    assert lines[-1].startswith("tracer: 10 more")


def unescaped(text: str) -> str:
    for code, letter in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, letter)
    return text


@pytest.mark.parametrize(
    "text", [*HOSTILE, "a::b", "100%", "%0A::error::x", "a,line=7", "::stop-commands::x", "##[error]x"], ids=repr
)
def test_an_annotation_is_one_command_whatever_it_names(text: str) -> None:
    check_annotation(text)


@given(st.text(max_size=40))
def test_any_string_stays_inside_its_annotation(text: str) -> None:
    check_annotation(text)


def check_annotation(text: str) -> None:
    fields = {"op": text, "location": f"{text}:3", "function": text, "remedy": text, "rule": text}
    (line,) = annotated([finding(**fields)])
    assert len(line.splitlines()) == 1
    found = COMMAND.fullmatch(line)
    assert found is not None
    kind, properties, _ = found.groups()
    assert kind == "error"
    cells = dict(cell.split("=", 1) for cell in properties.split(","))
    assert set(cells) <= {"file", "line", "title"}
    assert cells.get("line") == ("3" if text else None)
    shown = unescaped(cells["title"])
    assert len(shown) <= 1_000
    if text.isprintable() and text == " ".join(text.split()) and len(text) < 900:
        assert shown == text


@given(st.text(max_size=20), st.sampled_from(["::error::", "##[error]", "  ::warning file=a::", ""]))
def test_no_other_line_is_a_command(text: str, start: str) -> None:
    line = inert(start + text)
    assert not line.lstrip().startswith("::")
    assert "##[" not in line


def test_a_hostile_place_is_no_command_in_the_gates_own_lines(
    saved: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace(call(OP, location="::error::hacked\n::error::twice:3")).save(saved)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    lines = tracer("check", saved, "--backend", "cuda", "--select", "cuda-index-add").out.splitlines()
    commands = [line for line in lines if line.lstrip().startswith("::")]
    assert len(commands) == 1
    assert commands[0].startswith("::error file=%3A%3Aerror%3A%3Ahacked %3A%3Aerror")
