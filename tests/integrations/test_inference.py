"""Generation and evaluation as people write them: whole recordings, forward passes alone, called what they are."""

from __future__ import annotations

import io
import json
import runpy
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import SCRIPTS, Command, Finished, tracer_process
from tracer import Trace
from tracer.names import Training

slow = pytest.mark.slow


def plainly(script: str, *args: str) -> str:
    """What the script prints without the tracer."""
    out = io.StringIO()
    with redirect_stdout(out), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [script, *args])
        runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    return out.getvalue()


def test_a_generation_is_a_whole_inference_and_nothing_is_said_of_a_training(tracer: Command) -> None:
    pytest.importorskip("transformers")
    recorded = tracer("run", "-o", "t.json", SCRIPTS / "generate.py", "greedy")
    assert (recorded.code, recorded.out) == (0, plainly("generate.py", "greedy"))
    assert "groups, inference; next: tracer report" in recorded.err
    trace = Trace.load("t.json")
    assert (trace.training, trace.partial) == (Training.INFERENCE, "")
    assert {call.phase.value for call in trace.calls} == {"forward", "other"}
    checked = tracer("check", "t.json")
    assert (checked.code, checked.err, "passed, an inference" in checked.out) == (0, "", True)
    said = " ".join(tracer("report", "t.json", "--backend", "cuda", "--verbose").out.split())
    assert "Inference without gradients." in said
    assert "No optimizer step" not in said
    assert "nothing is known of a training" not in said


@pytest.mark.parametrize("how", ["no_grad", "inference_mode", "eval"])
def test_an_evaluation_is_an_inference(how: str, tracer: Command) -> None:
    recorded = tracer("run", "-o", "t.json", SCRIPTS / "evaluate.py", how)
    assert (recorded.code, recorded.out) == (0, plainly("evaluate.py", how))
    assert Trace.load("t.json").training is Training.INFERENCE


@pytest.mark.parametrize(
    ("how", "code", "checked"), [("training-fails", 1, 3), ("training-never-steps", 0, 1), ("eval-goes-back", 0, 1)]
)
def test_a_training_that_never_stepped_is_no_inference(how: str, code: int, checked: int, tracer: Command) -> None:
    assert tracer("run", "-o", "t.json", SCRIPTS / "evaluate.py", how).code == code
    trace = Trace.load("t.json")
    assert trace.training is Training.NONE
    assert bool(trace.partial) is bool(code)
    assert tracer("check", "t.json").code == checked


def repeated(folder: Path, *line: str | Path) -> tuple[Finished, dict[str, Any]]:
    """``tracer repeat`` of a script, and its JSON."""
    done = tracer_process("repeat", "--format", "text,json,html", "-o", "r", *line, cwd=folder)
    return done, json.loads((folder / "r" / "repeat.json").read_text())


def test_repeated_evaluations_agree_in_their_outputs(tmp_path: Path) -> None:
    done, told = repeated(tmp_path, SCRIPTS / "evaluate.py", "no_grad")
    assert done.code == 0
    assert (told["agrees"], told["is_inference"]) == (True, True)
    assert told["outputs"] == {"returned": 6, "printed": 1, "files": 0}
    said = "2 runs of this inference agree in all"
    for text in (done.err + done.out, (tmp_path / "r" / "repeat.html").read_text()):
        assert said in " ".join(text.split())
        assert "and in their outputs (6 returned and 1 printed line)" in " ".join(text.split())
        assert "same parameters" not in text


@slow
def test_a_greedy_generation_agrees_in_its_tokens(tmp_path: Path) -> None:
    done, told = repeated(tmp_path, SCRIPTS / "generate.py", "greedy")
    assert (done.code, told["agrees"]) == (0, True)
    assert told["outputs"]["returned"] == 8  # the logits of eight tokens


@slow
def test_an_unseeded_sampling_is_named_with_the_outputs_that_differ(tmp_path: Path) -> None:
    done, told = repeated(tmp_path, SCRIPTS / "generate.py", "unseeded", "--no-hold")
    assert (done.code, told["agrees"]) == (1, False)
    assert (told["first"]["op"], told["first"]["cause"]) == ("aten.multinomial.default", "draw")
    lines = (SCRIPTS / "generate.py").read_text().splitlines()
    assert "model.generate(" in lines[int(told["first"]["called_from"].rpartition(":")[2]) - 1]
    said = " ".join((done.err + done.out).split())
    assert "In the end they return different outputs (" in said
    assert [note["kind"] for note in told["notes"]] == ["output"], "the printed line, which decides nothing"


@slow
def test_diff_of_two_generations_speaks_of_their_outputs(tracer: Command) -> None:
    pytest.importorskip("transformers")
    for name, how in (("a", "greedy"), ("b", "greedy"), ("c", "sample")):
        tracer("run", "--values", "-o", f"{name}.json", SCRIPTS / "generate.py", how)
    same = tracer("diff", "a.json", "b.json", "--fail-on", "parted")
    assert same.code == 0
    assert "and in their outputs (8 returned)" in " ".join(same.out.split())
    assert tracer("diff", "a.json", "c.json", "--fail-on", "parted").code == 1
