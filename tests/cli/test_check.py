"""``tracer check``: exit code and last line, baselines and comments, what a job on GitHub sees, accepted findings."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.samples import HOSTILE
from tests.support.build import call, environment, finding, trace
from tests.support.command import Command, Finished
from tracer.cli.check import LIMIT, annotated, inert
from tracer.gate import HEADER, LEGEND, format_baseline, updated
from tracer.names import BlindSpotKind, Gradients
from tracer.trace.records import BlindSpot, CallGroup, TraceSource

RULE, OP = "cuda-index-add", "aten.index_add_.default"
#: A lock file's line for the finding of ``check``; what follows differs from test to test.
LINE = f"{RULE} | {OP} | forward | net.fc | train.py | forward"
LOCKED = ("--baseline", "determinism.lock")

Check = Callable[..., Finished]


@pytest.fixture
def check(tracer: Command) -> Check:
    """``check(*options)`` of ``t.json`` for CUDA: a trace with one call that CUDA makes nondeterministic."""
    trace(call(OP, count=3), call("aten.add.Tensor")).save("t.json")
    return lambda *options: tracer("check", "t.json", "--backend", "cuda", *options)


def last(done: Finished) -> str:
    return done.out.splitlines()[-1]


def lock(*ends: str) -> None:
    """Write a lock file in the working directory."""
    text = "\n".join([HEADER, LEGEND, *(f"{LINE} | {end}" for end in ends)])
    Path("determinism.lock").write_text(f"{text}\n", encoding="utf-8")


def configured(text: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.tracer]\n{text}\n", encoding="utf-8")


def code(text: str) -> None:
    """The user's file, with ``text`` at the line of the finding."""
    Path("train.py").write_text("\n" * 9 + text + "\n", encoding="utf-8")


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
def test_a_finding_fails_unless_a_baseline_or_a_comment_accepts_it(check: Check, baseline: str, comment: str) -> None:
    ends, state = BASELINES[baseline]
    text, is_silenced = COMMENTS[comment]
    code(f"x.index_add_(0, i, y)  {text}")
    if ends is not None:
        lock(*ends)
    done = check(*(() if ends is None else LOCKED), "--select", RULE)
    fails = bool(state) and not is_silenced
    assert done.code == fails, done.out
    assert last(done).startswith("tracer check: failed: " + state if fails else "tracer check: passed")
    assert ("1 silenced by comments" in last(done)) is is_silenced
    assert (f"train.py:10: {RULE}: {OP} forward in net.fc is nondeterministic" in done.out) is fails


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("--fail-on raises", 0),
        ("--fail-on conditional", 0),
        ("--fail-on unknown", 0),
        ("--fail-on seeded", 0),
        ("--fail-on nondeterministic", 1),
        ("--fail-on raises,nondeterministic", 1),
        ("--fail-on new", 1),
        ("--fail-on ' New , raises '", 1),
        ("--settings default", 1),
        ("--settings deterministic", 0),
        ("--ignore cuda-index-add", 0),
        ("--ignore aten.index_add_", 0),
        ("--ignore net.*", 0),
        ("--ignore train.py", 0),
        ("--ignore net.fc", 0),
        ("--ignore other.py", 1),
    ],
)
def test_verdicts_settings_and_globs_choose_what_fails(check: Check, options: str, code: int) -> None:
    done = check("--select", RULE, *shlex.split(options))
    assert done.code == code
    assert ("1 below the gate" in done.out) is ("--fail-on" in options and not code)


@pytest.mark.parametrize(("glob", "code"), [("aten.index_add_.*", 1), ("cuda-scatter", 0)])
def test_what_is_selected_alone_is_looked_at(check: Check, glob: str, code: int) -> None:
    assert check("--select", glob).code == code


def test_updating_writes_what_the_next_check_accepts_and_keeps_reasons(check: Check) -> None:
    done = check(*LOCKED, "--update-baseline")
    assert done.code == 0
    assert " added, 0 dropped, 0 kept" in done.out
    assert check(*LOCKED, "--fail-on", "new").code == 0
    path = Path("determinism.lock")
    path.write_text(path.read_text(encoding="utf-8").replace("not reviewed", "sums of two rows"), encoding="utf-8")
    before = path.read_bytes()
    check(*LOCKED, "--update-baseline")
    assert path.read_bytes() == before


def test_a_line_that_nothing_needs_any_more_is_reported(check: Check) -> None:
    lock("nondeterministic | | seen")
    trace(call("aten.add.Tensor")).save("t.json")
    done = check(*LOCKED)
    assert done.code == 0
    assert "1 accepted and found no longer" in done.out


@pytest.mark.parametrize("options", [("--ignore", RULE), ("--select", "cuda-scatter"), ("--select", "other.py")])
def test_lines_about_what_was_chosen_out_are_neither_stale_nor_dropped(check: Check, options: tuple[str, str]) -> None:
    lock("nondeterministic | | seen")
    options = (*LOCKED, "--ignore", "environment-*", *options)
    assert "found no longer" not in check(*options).out
    assert " 0 dropped" in check(*options, "--update-baseline").out
    assert re.search(rf"{re.escape(LINE)} .*\| seen", Path("determinism.lock").read_text(encoding="utf-8"))


def test_updating_says_which_lines_are_past_their_day(check: Check) -> None:
    lock("nondeterministic | 2020-01-01 | seen")
    assert "1 of them past their day" in check("--select", RULE, *LOCKED, "--update-baseline").out
    assert check("--select", RULE, *LOCKED).code == 1


IGNORE = "# tracer: ignore[cuda-index-add] sums of two rows"


@pytest.mark.parametrize(
    ("text", "is_silenced"),
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
def test_a_comment_speaks_for_its_line_or_the_statement_it_ends(check: Check, text: str, is_silenced: bool) -> None:
    code(text)
    assert check("--select", RULE).code == (not is_silenced)


@pytest.mark.parametrize("name", ["json", "csv", "html"])
def test_a_report_is_written_whether_or_not_the_gate_fails(check: Check, name: str) -> None:
    assert check("-o", f"out.{name}").code == 1
    assert Path(f"out.{name}").stat().st_size


def test_a_partial_trace_is_no_pass(check: Check) -> None:
    trace(call("aten.add.Tensor"), sources=(TraceSource(calls=1, partial="interrupted"),)).save("t.json")
    done = check()
    assert done.code == 3
    assert last(done).startswith("tracer check: nothing fails in the part that was recorded")


@pytest.mark.parametrize("backend", ["recorded", "cuda"])
def test_a_step_on_meta_tensors_is_no_pass(check: Check, backend: str) -> None:
    trace(call("aten.mm.default", facts={"device": "meta", "dtype": "float32"})).save("t.json")
    done = check("--backend", backend, "--allow-no-training")
    assert done.code == 1
    assert "nothing was computed, the step was recorded on meta tensors" in last(done)


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
    check: Check, steps: int, started: tuple[BlindSpotKind, ...], said: str
) -> None:
    spots = tuple(BlindSpot(kind=kind, detail="a process was started") for kind in started)
    sources = (TraceSource(optimizer_steps=steps, calls=1),)
    trace(call("aten.add.Tensor"), sources=sources, blind_spots=spots).save("t.json")
    for quiet in ((), ("-q",)):
        done = check(*quiet)
        assert done.code == ("failed" in said)
        assert last(done).startswith(f"tracer check: {said}")
    assert check("--allow-no-training").code == 0
    configured("allow-no-training = true")
    assert check().code == 0


@pytest.fixture
def inference(check: Check) -> Check:
    """``check`` of a whole recording of forward calls, in which nothing asked for a gradient."""
    trace(call("aten.add.Tensor"), sources=(TraceSource(gradients=Gradients.NONE, calls=1),)).save("t.json")
    return check


def test_an_inference_passes_is_called_one_and_fails_where_a_training_is_required(inference: Check) -> None:
    done = inference()
    assert done.code == 0
    assert last(done).startswith("tracer check: passed, an inference")
    done = inference("--require-training")
    assert done.code == 1
    assert "failed: no optimizer step was recorded, and --require-training asks for one" in done.out
    configured("require-training = true")
    assert inference().code == 1
    assert inference("--allow-no-training").code == 0


@pytest.mark.parametrize(("phase", "code"), [("forward", 0), ("backward", 1), ("optimizer", 1)])
def test_an_inference_is_no_pass_under_a_baseline_of_a_training(phase: str, code: int, inference: Check) -> None:
    Path("determinism.lock").write_text(format_baseline(updated([finding(phase=phase)], ())), encoding="utf-8")
    done = inference(*LOCKED)
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
def test_what_may_have_trained_is_no_inference(calls: list[CallGroup], source: TraceSource, check: Check) -> None:
    trace(*calls, sources=(source,)).save("t.json")
    done = check("--backend", "cpu")
    assert done.code == 1
    assert re.search(r"failed: .*no optimizer step was recorded \(--allow-no-training", done.out)


@pytest.mark.parametrize(
    ("phase", "sources"),
    [("forward", ()), ("optimizer", (TraceSource(calls=1),))],
    ids=["of unknown count", "by the calls of an optimizer"],
)
def test_uncounted_steps_are_no_missing_ones(check: Check, phase: str, sources: tuple[TraceSource, ...]) -> None:
    trace(call("aten.add.Tensor", phase=phase), sources=sources).save("t.json")
    assert check().code == 0


@pytest.mark.parametrize("modes", [("on", "off"), ("off", "on"), ("on", "on", "off"), ("on", "on")])
def test_traces_are_judged_each_by_its_own_settings_in_any_order(tracer: Command, modes: tuple[str, ...]) -> None:
    names = [f"{number}.json" for number in range(len(modes))]
    for name, mode in zip(names, modes, strict=True):
        trace(call(OP), environment=environment(deterministic_mode=mode)).save(name)
    arguments = ("check", *names, "--backend", "cuda", "--select", RULE, *LOCKED)
    lock()
    done = tracer(*arguments)
    assert done.code == ("off" in modes)
    assert ("differ in deterministic_mode" in done.err) is ("off" in modes)
    tracer(*arguments, "--update-baseline")
    assert tracer(*arguments, "--fail-on", "new").code == 0


def test_the_configuration_gives_what_the_command_line_does_not(check: Check, tracer: Command) -> None:
    configured('backend = "cuda"\nignore = ["environment-*"]\nfail-on = ["raises"]')
    assert tracer("check", "t.json").code == 0
    assert tracer("check", "t.json", "--fail-on", "nondeterministic").code == 1
    assert tracer("check", "t.json", "--fail-on", "nondeterministic", "--backend", "cpu").code == 0


@pytest.mark.parametrize(
    "table", ["backend = 3", "fail_on = []", "surprise = 1", 'fail-on = "raises"', "this is no TOML"]
)
def test_a_configuration_with_a_fault_is_refused_in_one_line(check: Check, table: str) -> None:
    configured(table)
    done = check()
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "pyproject.toml" in done.err


def test_a_comment_in_a_file_outside_the_working_directory_is_not_read(check: Check) -> None:
    code(f"x  {IGNORE}")
    Path("train.py").rename("../outside.py")
    trace(call(OP, location="../outside.py:10")).save("t.json")
    assert check("--select", RULE).code == 1


def test_the_users_line_that_led_to_a_librarys_is_named_where_a_comment_would_silence_it(check: Check) -> None:
    trace(call(OP, location="lib/ops.py:5", called_from="train.py:10")).save("t.json")
    assert re.search(r"lib/ops.py:5: cuda-index-add.*\(called from train.py:10\)", check("--select", RULE).out)
    code(f"x  {IGNORE}")
    assert check("--select", RULE).code == 0


def test_what_raises_is_a_sentence_in_the_log_and_every_format(monkeypatch: pytest.MonkeyPatch, check: Check) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    trace(call("aten.put_.default", facts={"device": "cuda", "arg.accumulate": False})).save("t.json")
    options = ("--settings", "deterministic", "--fail-on", "raises,unknown", "--format", "sarif,junit", "-o", "out")
    texts = [check(*options).out, *(Path(name).read_text(encoding="utf-8") for name in ("out.sarif", "out.xml"))]
    assert all("raises" in text and "is raises" not in text for text in texts), texts


@pytest.mark.parametrize("backend", ["recorded", "cuda"])
def test_report_lock_check_and_diff_count_the_same_findings(backend: str, tracer: Command) -> None:
    """Two draws that repeat are in the trace, at one place, and a finding twice."""
    drawn = {"device": "cpu", "dtype": "float32", "rng.generator": "cpu", "rng.origin": "program"}
    calls = [call("aten.multinomial.default", facts=drawn), call("aten.randn.default", facts=drawn)]
    calls += [call("aten.index_add.default", location=f"train.py:{line}") for line in (3, 4)]
    trace(*calls).save("counted.json")
    arguments = ("counted.json", "--backend", backend)
    count = int(re.search(r"^(\d+) findings?;", tracer("report", *arguments).out, re.MULTILINE)[1])  # type: ignore[index]
    named = "1 finding" if count == 1 else f"{count} findings"
    assert f"accepts {named} and 2 draws that repeat;" in tracer("check", *arguments, *LOCKED, "--update-baseline").out
    through = tracer("check", *arguments, *LOCKED, "--allow-no-training").out
    accepted = f"{count} accepted, " if count else ""
    assert f"passed; {accepted}2 draws that repeat" in through
    assert f"; {named} the same." in tracer("diff", arguments[0], "--torch", "2.12,2.13", "--backend", backend).out


# ------------------------------------------------------------------------------------------- a job on GitHub

#: What GitHub's runner takes for a command: its name, its properties, its message.
COMMAND = re.compile(r"::(\w+) ([^\n\r]*?)::([^\n\r]*)")


@pytest.fixture
def three(check: Check, monkeypatch: pytest.MonkeyPatch) -> Check:
    """``check`` of three calls that CUDA makes nondeterministic: one a baseline accepts, one a comment, one nobody."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    functions = ("accepted", "commented", "left")
    trace(*(call(OP, location=f"train.py:{n}", function=name) for n, name in enumerate(functions, 1))).save("t.json")
    Path("train.py").write_text("\na(b)  # tracer: ignore[cuda-*] sums of two rows\n\n", encoding="utf-8")
    accepted = LINE.removesuffix("forward") + "accepted | nondeterministic | | seen"
    Path("determinism.lock").write_text(f"{HEADER}\n{LEGEND}\n{accepted}\n", encoding="utf-8")
    return lambda *options: check(*LOCKED, "--select", RULE, *options)


def test_files_say_who_accepted_what(three: Check) -> None:
    assert three("--format", "sarif,junit,markdown", "-o", "out").code == 1
    results = json.loads(Path("out.sarif").read_text())["runs"][0]["results"]
    said = {
        one["locations"][0]["physicalLocation"]["region"]["startLine"]: one["suppressions"]
        for one in results
        if one["ruleId"] == RULE
    }
    assert said == {
        1: [{"kind": "external", "justification": "seen"}],
        2: [{"kind": "inSource", "justification": "sums of two rows"}],
        3: [],
    }
    chosen_out = [{"kind": "external", "justification": "Chosen out by --select or --ignore."}]
    assert [one["suppressions"] for one in results if one["ruleId"] != RULE] == [chosen_out] * (len(results) - 3)
    root = ElementTree.parse("out.xml").getroot()
    assert root.get("failures") == "1"
    (case,) = [case for case in root.iter("testcase") if case.get("name") == RULE]
    assert (case[0].text or "").splitlines()[0].startswith("train.py:3: ")
    assert "1 by the baseline" in Path("out.md").read_text()


def test_without_a_gate_nothing_is_suppressed(three: Check, tracer: Command) -> None:
    tracer("report", "t.json", "--backend", "cuda", "-o", "out.sarif")
    assert "suppressions" not in Path("out.sarif").read_text()


@pytest.mark.parametrize("actions", ["", "false", "true"])
def test_what_fails_is_annotated_on_github_alone(three: Check, monkeypatch: pytest.MonkeyPatch, actions: str) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", actions)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(Path.cwd().parent))
    done = three()
    commands = [line for line in done.out.splitlines() if line.startswith("::")]
    place = f"file={Path.cwd().name}/train.py,line=3,title=cuda-index-add"  # from the repository's folder
    said = f"::error {place}::aten.index_add_ is nondeterministic (1 call"
    assert [command[: len(said)] for command in commands] == ([said] if actions == "true" else [])
    assert last(done).startswith("tracer check: failed: 1 new")


def test_ten_of_each_kind_are_printed_and_the_rest_counted() -> None:
    many = [finding(location=f"a.py:{n}", verdict=verdict) for verdict in ("raises", "conditional") for n in range(15)]
    lines = list(annotated(many))
    assert [line.split()[0] for line in lines[:-1]] == ["::error"] * LIMIT + ["::warning"] * LIMIT
    assert lines[-1].startswith("tracer: 10 more")


def unescaped(text: str) -> str:
    for escape, letter in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, letter)
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


def test_a_hostile_place_is_no_command_in_the_gates_own_lines(three: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    trace(call(OP, location="::error::hacked\n::error::twice:3")).save("t.json")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (command,) = [line for line in three().out.splitlines() if line.lstrip().startswith("::")]
    assert command.startswith("::error file=%3A%3Aerror%3A%3Ahacked %3A%3Aerror")
