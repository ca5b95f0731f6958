"""Generation and evaluation as people write them: whole recordings, forward passes alone, called what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import SCRIPTS, Finished, both, tracer_process
from tracer import Trace
from tracer.names import Training

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished, Finished]:
    """A greedy generation that ran plainly, and recorded."""
    folder = tmp_path_factory.mktemp("generated")
    return folder, *both(folder, SCRIPTS / "generate.py", "greedy")


def test_a_generation_is_a_whole_inference(generated: tuple[Path, Finished, Finished]) -> None:
    folder, plain, recorded = generated
    assert (recorded.code, recorded.out) == (0, plain.out)
    assert "groups, inference; next: tracer report" in recorded.err
    trace = Trace.load(folder / "t.json")
    assert (trace.training, trace.partial) == (Training.INFERENCE, "")
    assert {call.phase.value for call in trace.calls} == {"forward", "other"}


def test_a_generation_passes_the_gate_and_nothing_is_said_of_a_training(
    generated: tuple[Path, Finished, Finished],
) -> None:
    folder, _, _ = generated
    checked = tracer_process("check", "t.json", cwd=folder)
    assert (checked.code, checked.err) == (0, "")
    assert "passed, an inference" in checked.out
    said = " ".join(tracer_process("report", "t.json", "--backend", "cuda", "--verbose", cwd=folder).out.split())
    assert "Inference without gradients." in said
    assert "No optimizer step" not in said
    assert "nothing is known of a training" not in said


@pytest.mark.parametrize(
    "how",
    ["no_grad", pytest.param("inference_mode", marks=slow), pytest.param("eval", marks=slow)],
)
def test_an_evaluation_is_an_inference(how: str, tmp_path: Path) -> None:
    plain, recorded = both(tmp_path, SCRIPTS / "evaluate.py", how)
    assert (recorded.code, recorded.out) == (0, plain.out)
    assert Trace.load(tmp_path / "t.json").training is Training.INFERENCE


@pytest.mark.parametrize(
    ("how", "code", "checked"),
    [
        ("training-fails", 1, 3),
        pytest.param("training-never-steps", 0, 1, marks=slow),
        pytest.param("eval-goes-back", 0, 1, marks=slow),
    ],
)
def test_a_training_that_never_stepped_is_no_inference(how: str, code: int, checked: int, tmp_path: Path) -> None:
    recorded = tracer_process("run", "-o", "t.json", SCRIPTS / "evaluate.py", how, cwd=tmp_path)
    assert recorded.code == code
    trace = Trace.load(tmp_path / "t.json")
    assert trace.training is Training.NONE
    assert bool(trace.partial) is bool(code)
    assert tracer_process("check", "t.json", cwd=tmp_path).code == checked


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
    assert "print different lines" in said


@slow
def test_diff_of_two_generations_speaks_of_their_outputs(tmp_path: Path) -> None:
    for name, how in (("a", "greedy"), ("b", "greedy"), ("c", "sample")):
        tracer_process("run", "--values", "-o", f"{name}.json", SCRIPTS / "generate.py", how, cwd=tmp_path)
    same = tracer_process("diff", "a.json", "b.json", "--fail-on", "parted", cwd=tmp_path)
    assert same.code == 0
    assert "and in their outputs (8 returned)" in " ".join(same.out.split())
    assert tracer_process("diff", "a.json", "c.json", "--fail-on", "parted", cwd=tmp_path).code == 1
