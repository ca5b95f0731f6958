"""``tracer check``: exit code and last line, baselines and comments, what a job on GitHub sees, accepted findings."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.samples import HOSTILE
from tests.support.build import call, environment, finding, trace
from tests.support.command import Command
from tracer.cli.check import LIMIT, annotated, inert
from tracer.gate import HEADER, LEGEND, format_baseline, updated
from tracer.names import BlindSpotKind, Gradients, Verdict
from tracer.trace.records import BlindSpot, CallGroup, TraceSource

RULE, OP = "cuda-index-add", "aten.index_add_.default"

#: A lock file's line for the finding of ``saved``; what follows differs from test to test.
LINE = f"{RULE} | {OP} | forward | net.fc | train.py | forward"


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace with one call that CUDA makes nondeterministic, in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "t.json"
    trace(call(OP, count=3), call("aten.add.Tensor")).save(path)
    return path


def lock(*ends: str) -> str:
    """Write a lock file in the working directory."""
    lines = [f"{LINE} | {end}" for end in ends]
    Path("determinism.lock").write_text("\n".join([HEADER, LEGEND, *lines]) + "\n", encoding="utf-8")
    return "determinism.lock"


def code_line(comment: str = "") -> None:
    """The user's file, with ``comment`` at the line of the finding."""
    Path("train.py").write_text("\n" * 9 + f"x.index_add_(0, i, y)  {comment}\n", encoding="utf-8")


BASELINES = {
    "none": (None, "1 new"),
    "empty": ((), "1 new"),
    "accepted": (("nondeterministic |  | seen",), ""),
    "accepted-worse": (("raises |  | seen",), ""),
    "worsened": (("conditional |  | seen",), "1 worsened"),
    "expired": (("nondeterministic | 2020-01-01 | seen",), "1 expired"),
    "not-yet": (("nondeterministic | 2999-01-01 | seen",), ""),
}

COMMENTS = {
    "none": ("", False),
    "rule": ("# tracer: ignore[cuda-index-add] sums of two rows", True),
    "glob": ("# tracer: ignore[cuda-*]", True),
    "other": ("# tracer: ignore[cuda-scatter]", False),
}


@pytest.mark.parametrize(("baseline", "comment"), product(BASELINES, COMMENTS))
def test_a_finding_fails_unless_a_baseline_or_a_comment_accepts_it(
    saved: Path, tracer: Command, baseline: str, comment: str
) -> None:
    ends, state = BASELINES[baseline]
    text, is_silenced = COMMENTS[comment]
    code_line(text)
    given = [] if ends is None else ["--baseline", lock(*ends)]
    done = tracer("check", saved, "--backend", "cuda", *given, "--select", RULE)
    fails = bool(state) and not is_silenced
    assert done.code == (1 if fails else 0), done.out
    last = done.out.splitlines()[-1]
    assert last.startswith("tracer check: failed: " + state if fails else "tracer check: passed")
    assert ("1 silenced by comments" in last) is is_silenced
    if fails:
        assert f"train.py:10: {RULE}: {OP} forward in net.fc is nondeterministic" in done.out


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [
        ("raises", 0),
        ("conditional", 0),
        ("unknown", 0),
        ("seeded", 0),
        ("nondeterministic", 1),
        ("raises,nondeterministic", 1),
        ("new", 1),
        (" New , raises ", 1),
    ],
)
def test_the_verdicts_that_fail_are_named(saved: Path, tracer: Command, fail_on: str, code: int) -> None:
    done = tracer("check", saved, "--backend", "cuda", "--select", RULE, "--fail-on", fail_on)
    assert done.code == code
    assert ("1 below the gate" in done.out) is (code == 0)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--ignore", RULE], 0),
        (["--ignore", "aten.index_add_"], 0),
        (["--ignore", "net.*"], 0),
        (["--ignore", "train.py"], 0),
        (["--ignore", "other.py"], 1),
        (["--select", "aten.index_add_.*"], 1),
        (["--select", "cuda-scatter"], 0),
        (["--select", RULE, "--ignore", "net.fc"], 0),
    ],
)
def test_globs_choose_rules_ops_modules_and_files(saved: Path, tracer: Command, options: list[str], code: int) -> None:
    always = ["--ignore", "environment-*"] if "--select" not in options else []
    assert tracer("check", saved, "--backend", "cuda", *options, *always).code == code


@pytest.mark.parametrize(("settings", "code"), [("default", 1), ("deterministic", 0)])
def test_the_gate_holds_for_the_settings_that_are_asked_for(
    saved: Path, tracer: Command, settings: str, code: int
) -> None:
    assert tracer("check", saved, "--backend", "cuda", "--settings", settings, "--select", RULE).code == code


def test_updating_writes_what_the_next_check_accepts_and_keeps_reasons(saved: Path, tracer: Command) -> None:
    arguments = ("check", saved, "--backend", "cuda", "--baseline", "determinism.lock")
    done = tracer(*arguments, "--update-baseline")
    assert done.code == 0
    assert " added, 0 dropped, 0 kept" in done.out
    assert tracer(*arguments, "--fail-on", "new").code == 0
    path = Path("determinism.lock")
    path.write_text(path.read_text(encoding="utf-8").replace("not reviewed", "sums of two rows"), encoding="utf-8")
    before = path.read_bytes()
    tracer(*arguments, "--update-baseline")
    assert path.read_bytes() == before


def test_a_line_that_nothing_needs_any_more_is_reported(saved: Path, tracer: Command) -> None:
    lock("nondeterministic | | seen")
    trace(call("aten.add.Tensor")).save(saved)
    done = tracer("check", saved, "--backend", "cuda", "--baseline", "determinism.lock")
    assert done.code == 0
    assert "1 accepted and found no longer" in done.out


@pytest.mark.parametrize("options", [("--ignore", RULE), ("--select", "cuda-scatter"), ("--select", "other.py")])
def test_lines_about_what_was_chosen_out_are_neither_stale_nor_dropped(
    saved: Path, tracer: Command, options: tuple[str, str]
) -> None:
    before = Path(lock("nondeterministic | | seen")).read_bytes()
    arguments = ("check", saved, "--backend", "cuda", "--baseline", "determinism.lock", "--ignore", "environment-*")
    assert "found no longer" not in tracer(*arguments, *options).out
    done = tracer(*arguments, *options, "--update-baseline")
    assert " 0 dropped" in done.out
    assert LINE in before.decode()
    assert LINE in Path("determinism.lock").read_text(encoding="utf-8")
    assert "| seen" in Path("determinism.lock").read_text(encoding="utf-8")


def test_updating_says_which_lines_are_past_their_day(saved: Path, tracer: Command) -> None:
    lock("nondeterministic | 2020-01-01 | seen")
    arguments = ("check", saved, "--backend", "cuda", "--select", RULE, "--baseline", "determinism.lock")
    assert "1 of them past their day" in tracer(*arguments, "--update-baseline").out
    assert tracer(*arguments).code == 1


IGNORE = "# tracer: ignore[cuda-index-add] sums of two rows"


@pytest.mark.parametrize(
    ("code", "is_silenced"),
    [
        (f"x.index_add_(\n    0,\n    y,\n)  {IGNORE}", True),
        (f"x.index_add_(  {IGNORE}\n    0,\n    y,\n)", True),
        (f"x.index_add_(\n    0,  {IGNORE}\n    y,\n)", False),
        (f"x.index_add_(0, y)\nz = 1  {IGNORE}", False),
        (f"if x.index_add_(\n    0\n):\n    y = 1  {IGNORE}", False),
        (f"x.index_add_(0, '{IGNORE}')", False),
        (f"x.index_add_(0, y)  {IGNORE}\nprint 'no Python of today'", True),
    ],
)
def test_a_comment_speaks_for_its_line_and_at_a_statements_end_for_the_statement(
    saved: Path, tracer: Command, code: str, is_silenced: bool
) -> None:
    Path("train.py").write_text("\n" * 9 + code + "\n", encoding="utf-8")
    done = tracer("check", saved, "--backend", "cuda", "--select", RULE)
    assert done.code == (0 if is_silenced else 1), done.out


@pytest.mark.parametrize("name", ["json", "csv", "html"])
def test_a_report_is_written_whether_or_not_the_gate_fails(saved: Path, tracer: Command, name: str) -> None:
    done = tracer("check", saved, "--backend", "cuda", "-o", f"out.{name}")
    assert done.code == 1
    assert Path(f"out.{name}").stat().st_size


def test_a_partial_trace_is_no_pass(saved: Path, tracer: Command) -> None:
    trace(call("aten.add.Tensor"), sources=(TraceSource(calls=1, partial="interrupted"),)).save(saved)
    done = tracer("check", saved, "--backend", "cuda")
    assert done.code == 3
    assert done.out.splitlines()[-1].startswith("tracer check: nothing fails in the part that was recorded")


@pytest.mark.parametrize("backend", ["recorded", "cuda"])
def test_a_step_on_meta_tensors_is_no_pass(saved: Path, tracer: Command, backend: str) -> None:
    trace(call("aten.mm.default", facts={"device": "meta", "dtype": "float32"})).save(saved)
    done = tracer("check", saved, "--backend", backend, "--allow-no-training")
    assert done.code == 1
    assert "nothing was computed, the step was recorded on meta tensors" in done.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("steps", "started", "said"),
    [
        (1, (), "passed"),
        (0, (), "failed: no optimizer step was recorded (--allow-no-training"),
        (0, (BlindSpotKind.OTHER_PROCESS,), "failed: no optimizer step was recorded, and processes were started"),
        (1, (BlindSpotKind.OTHER_PROCESS,), "passed"),
    ],
)
def test_a_recording_without_a_training_fails_unless_that_is_accepted(
    saved: Path, tracer: Command, steps: int, started: tuple[BlindSpotKind, ...], said: str
) -> None:
    spots = tuple(BlindSpot(kind=kind, detail="a process was started") for kind in started)
    recorded = trace(call("aten.add.Tensor"), sources=(TraceSource(optimizer_steps=steps, calls=1),), blind_spots=spots)
    recorded.save(saved)
    for quiet in ((), ("-q",)):
        done = tracer("check", saved, "--backend", "cuda", *quiet)
        assert done.code == (1 if "failed" in said else 0)
        assert done.out.splitlines()[-1].startswith(f"tracer check: {said}")
    assert tracer("check", saved, "--backend", "cuda", "--allow-no-training").code == 0
    Path("pyproject.toml").write_text("[tool.tracer]\nallow-no-training = true\n", encoding="utf-8")
    assert tracer("check", saved, "--backend", "cuda").code == 0


@pytest.fixture
def inference(saved: Path) -> Path:
    """A whole recording of forward calls, in which nothing asked for a gradient."""
    trace(call("aten.add.Tensor"), sources=(TraceSource(gradients=Gradients.NONE, calls=1),)).save(saved)
    return saved


def test_an_inference_passes_and_is_called_one(inference: Path, tracer: Command) -> None:
    done = tracer("check", inference, "--backend", "cuda")
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("tracer check: passed, an inference")


def test_an_inference_fails_where_a_training_is_required(inference: Path, tracer: Command) -> None:
    said = "failed: no optimizer step was recorded, and --require-training asks for one"
    done = tracer("check", inference, "--backend", "cuda", "--require-training")
    assert done.code == 1
    assert said in done.out
    Path("pyproject.toml").write_text("[tool.tracer]\nrequire-training = true\n", encoding="utf-8")
    assert tracer("check", inference, "--backend", "cuda").code == 1
    assert tracer("check", inference, "--backend", "cuda", "--allow-no-training").code == 0


def test_both_options_at_once_are_wrong_usage(inference: Path, tracer: Command) -> None:
    done = tracer("check", inference, "--require-training", "--allow-no-training")
    assert (done.code, done.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(("phase", "code"), [("forward", 0), ("backward", 1), ("optimizer", 1)])
def test_an_inference_is_no_pass_under_a_baseline_of_a_training(
    phase: str, code: int, inference: Path, tracer: Command
) -> None:
    lock = Path("determinism.lock")
    lock.write_text(format_baseline(updated([finding(phase=phase)], ())), encoding="utf-8")
    done = tracer("check", inference, "--backend", "cuda", "--baseline", str(lock))
    assert done.code == code
    assert ("the baseline is a training's" in done.out) is bool(code)


@pytest.mark.parametrize(
    ("calls", "source"),
    [
        ([call()], TraceSource(gradients=Gradients.ASKED)),
        ([call()], TraceSource()),
        ([call(), call(phase="backward")], TraceSource(gradients=Gradients.EVALUATING)),
        ([call(phase="other")], TraceSource(gradients=Gradients.NONE)),
    ],
    ids=["asked", "nobody looked", "went back", "no module ran"],
)
def test_what_may_have_been_a_training_is_no_inference(
    calls: list[CallGroup], source: TraceSource, saved: Path, tracer: Command
) -> None:
    trace(*calls, sources=(source,)).save(saved)
    done = tracer("check", saved, "--backend", "cpu")
    assert done.code == 1
    assert "failed: " in done.out
    assert "no optimizer step was recorded (--allow-no-training" in done.out


def test_steps_that_were_not_counted_are_told_by_their_calls(saved: Path, tracer: Command) -> None:
    """A trace of unknown count is not called one without a training, and one with the optimizer's calls has one."""
    for calls, sources in (
        ((call("aten.add.Tensor"),), ()),
        ((call("aten.add.Tensor", phase="optimizer"),), (TraceSource(calls=1),)),
    ):
        trace(*calls, sources=sources).save(saved)
        assert tracer("check", saved, "--backend", "cuda").code == 0


@pytest.mark.parametrize("modes", [("on", "off"), ("off", "on"), ("on", "on", "off"), ("on", "on")])
def test_traces_of_other_settings_are_each_judged_by_their_own_whatever_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracer: Command, modes: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, mode in enumerate(modes):
        trace(call(OP), environment=environment(deterministic_mode=mode)).save(f"{number}.json")
    names = [f"{number}.json" for number in range(len(modes))]
    arguments = ("check", *names, "--backend", "cuda", "--select", RULE, "--baseline", "determinism.lock")
    lock()
    done = tracer(*arguments)
    assert done.code == ("off" in modes)
    assert ("differ in deterministic_mode" in done.err) is ("off" in modes)
    tracer(*arguments, "--update-baseline")
    assert tracer(*arguments, "--fail-on", "new").code == 0


def test_the_configuration_gives_what_the_command_line_does_not(saved: Path, tracer: Command) -> None:
    Path("pyproject.toml").write_text(
        '[tool.tracer]\nbackend = "cuda"\nignore = ["environment-*"]\nfail-on = ["raises"]\n', encoding="utf-8"
    )
    assert tracer("check", saved).code == 0
    assert tracer("check", saved, "--fail-on", "nondeterministic").code == 1
    assert tracer("check", saved, "--fail-on", "nondeterministic", "--backend", "cpu").code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--fail-on", "often"], "there is no verdict 'often'"),
        (["--baseline", "missing.lock"], "there is no baseline missing.lock"),
        (["--update-baseline"], "--update-baseline needs a file"),
        (["--backend", "tpu"], "'tpu' does not exist"),
        (["-o", "out.docx"], "cannot tell a report format"),
    ],
)
def test_what_cannot_be_checked_is_refused_in_one_line(
    saved: Path, tracer: Command, arguments: list[str], says: str
) -> None:
    done = tracer("check", saved, *arguments)
    assert done.code == 2
    assert says in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    "table", ["backend = 3", "fail_on = []", "surprise = 1", 'fail-on = "raises"', "this is no TOML"]
)
def test_a_configuration_with_a_fault_is_refused_in_one_line(saved: Path, tracer: Command, table: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.tracer]\n{table}\n", encoding="utf-8")
    done = tracer("check", saved)
    assert done.code == 2
    assert "pyproject.toml" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_comment_in_a_file_outside_the_working_directory_is_not_read(saved: Path, tracer: Command) -> None:
    code_line("# tracer: ignore[cuda-index-add]")
    outside = Path.cwd().parent / "outside.py"
    outside.write_text(Path("train.py").read_text(encoding="utf-8"), encoding="utf-8")
    trace(call(OP, location="../outside.py:10"), environment=environment()).save(saved)
    assert tracer("check", saved, "--backend", "cuda", "--select", RULE).code == 1


def test_every_risky_verdict_can_be_named() -> None:
    from tracer.gate import parse_fail_on

    words = [verdict.value for verdict in Verdict if verdict is not Verdict.DETERMINISTIC]
    assert parse_fail_on(",".join(words)) == (frozenset(map(Verdict, words)), False)


def test_what_raises_is_said_in_a_sentence_in_the_log_and_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracer: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    trace(call("aten.put_.default", facts={"device": "cuda", "arg.accumulate": False})).save("t.json")
    arguments = ("check", "t.json", "--backend", "cuda", "--settings", "deterministic", "--fail-on", "raises,unknown")
    done = tracer(*arguments, "--format", "sarif,junit", "-o", "out")
    texts = [done.out, *(Path(name).read_text(encoding="utf-8") for name in ("out.sarif", "out.xml"))]
    assert all("raises" in text and "is raises" not in text for text in texts), texts


def test_the_users_line_that_led_to_a_librarys_is_named_where_a_comment_would_silence_it(
    saved: Path, tracer: Command
) -> None:
    trace(call(OP, location="lib/ops.py:5", called_from="train.py:10")).save(saved)
    arguments = ("check", saved, "--backend", "cuda", "--select", RULE)
    assert "lib/ops.py:5: cuda-index-add" in tracer(*arguments).out
    assert "(called from train.py:10)" in tracer(*arguments).out
    code_line(IGNORE)
    assert tracer(*arguments).code == 0


@pytest.mark.parametrize("backend", ["recorded", "cuda"])
def test_report_lock_check_and_diff_count_the_same_findings(backend: str, tracer: Command, tmp_path: Path) -> None:
    """Two draws that repeat are in the trace, at one place, and a finding twice."""
    drawn = {"device": "cpu", "dtype": "float32", "rng.generator": "cpu", "rng.origin": "program"}
    calls = [call("aten.multinomial.default", facts=drawn), call("aten.randn.default", facts=drawn)]
    calls += [call("aten.index_add.default", location=f"train.py:{line}") for line in (3, 4)]
    trace(*calls).save(tmp_path / "counted.json")
    arguments = (tmp_path / "counted.json", "--backend", backend)
    said = tracer("report", *arguments, "--format", "json", "-o", tmp_path / "counted.report.json")
    assert said.code == 0
    headline = tracer("report", *arguments).out
    count = int(re.search(r"^(\d+) findings?;", headline, re.MULTILINE)[1])  # type: ignore[index]
    lock = ("--baseline", tmp_path / "counted.lock")
    named = "1 finding" if count == 1 else f"{count} findings"
    assert f"accepts {named} and 2 draws that repeat;" in tracer("check", *arguments, *lock, "--update-baseline").out
    through = tracer("check", *arguments, *lock, "--allow-no-training").out
    accepted = f"{count} accepted, " if count else ""
    assert f"passed; {accepted}2 draws that repeat" in through
    assert f"; {named} the same." in tracer("diff", arguments[0], "--torch", "2.12,2.13", "--backend", backend).out


#: What GitHub's runner takes for a command: its name, its properties, its message.
COMMAND = re.compile(r"::(\w+) ([^\n\r]*?)::([^\n\r]*)")


@pytest.fixture
def three_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def test_sarif_says_who_accepted_what(three_calls: Path, tracer: Command) -> None:
    assert tracer("check", three_calls, *CHECK, "-o", "out.sarif").code == 1
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


def test_without_a_gate_nothing_is_suppressed(three_calls: Path, tracer: Command) -> None:
    tracer("report", three_calls, "--backend", "cuda", "-o", "out.sarif")
    results = json.loads(Path("out.sarif").read_text())["runs"][0]["results"]
    assert not any("suppressions" in one for one in results)


def test_junit_fails_once_where_the_gate_does(three_calls: Path, tracer: Command) -> None:
    tracer("check", three_calls, *CHECK, "-o", "out.xml")
    root = ElementTree.parse("out.xml").getroot()
    assert root.get("failures") == "1"
    (case,) = [case for case in root.iter("testcase") if case.get("name") == "cuda-index-add"]
    assert (case[0].text or "").splitlines()[0].startswith("train.py:3: ")


def test_markdown_counts_what_was_accepted(three_calls: Path, tracer: Command) -> None:
    tracer("check", three_calls, *CHECK, "-o", "out.md")
    assert "1 by the baseline" in Path("out.md").read_text()


@pytest.mark.parametrize("actions", ["", "false", "true"])
def test_what_fails_is_annotated_in_github_actions_alone(
    three_calls: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch, actions: str
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", actions)
    lines = tracer("check", three_calls, *CHECK).out.splitlines()
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
    three_calls: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(Path.cwd().parent))
    out = tracer("check", three_calls, *CHECK).out
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
    three_calls: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace(call(OP, location="::error::hacked\n::error::twice:3")).save(three_calls)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    lines = tracer("check", three_calls, "--backend", "cuda", "--select", "cuda-index-add").out.splitlines()
    commands = [line for line in lines if line.lstrip().startswith("::")]
    assert len(commands) == 1
    assert commands[0].startswith("::error file=%3A%3Aerror%3A%3Ahacked %3A%3Aerror")
