"""``tracer compare``: two configurations of a script, end to end, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import Command, tracer_process

SCRIPT = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gelu", default="none")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--fail", action="store_true")
options = parser.parse_args()
torch.set_num_threads(options.threads)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(options.gelu), torch.nn.Linear(32, 4))
if options.fail:
    raise SystemExit(3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    return "train.py"


def test_a_fault_is_named_in_every_format(script: str, tmp_path: Path) -> None:
    done = tracer_process("compare", "--b", "--gelu tanh", "--format", "text,json,html", script, cwd=tmp_path)
    assert done.code == 1, done.err
    assert "They diverge at `Sequential.1` in step 0, forward, train.py:17" in " ".join(done.out.split())
    assert "aten.gelu.default" in done.out
    document = json.loads((tmp_path / "compare" / "compare.json").read_text())
    assert document["verdict"] == "significant"
    assert document["first"]["module"] == "Sequential.1"
    assert document["first"]["kind"] == "output"
    assert document["first"]["ratio"] > 10
    assert document["call"]["op"] == "aten.gelu.default"
    assert set(document) == {
        *("schema", "verdict", "places", "differing", "largest", "first", "call", "significant", "following"),
        *("is_given", "split_steps", "not_finite", "only", "only_count", "steps", "yardstick", "partial"),
    }
    contract = ("place", "kind", "module", "location", "step", "phase", "ratio", "relative", "stretch")
    assert set(contract) <= set(document["first"])
    assert (document["schema"], document["first"]["step"], document["first"]["phase"]) == (1, 0, "forward")
    assert document["significant"][0] == document["first"]
    assert (document["only"], document["only_count"], document["steps"]) == ([], 0, [2, 2])
    assert document["yardstick"] == {"runs": 3, "seeds": [1, 2, 3], "of_second": 0}
    page = (tmp_path / "compare" / "compare.html").read_text()
    assert "They diverge at" in page
    assert "<script" not in page


def test_recordings_of_two_runs_are_compared_by_a_yardstick(script: str, tmp_path: Path) -> None:
    for name, options in {"a": (), "b": (), "s": ("--shake", "1")}.items():
        argument = ("--gelu", "tanh") if name == "b" else ()
        done = tracer_process("run", "--magnitudes", *options, "-o", f"{name}.json", script, *argument, cwd=tmp_path)
        assert done.code == 0, done.err
    judged = tracer_process("diff", "a.json", "b.json", "--yardstick", "s.json", "--format", "json", cwd=tmp_path)
    assert (judged.code, json.loads(judged.out)["verdict"]) == (1, "significant")
    alone = tracer_process("diff", "a.json", "b.json", "--format", "json", cwd=tmp_path)
    assert (alone.code, json.loads(alone.out)["verdict"]) == (3, "not-judged")
    report = tracer_process("report", "s.json", cwd=tmp_path)
    assert "shaken" in report.out


def test_a_script_that_fails_before_anything_is_recorded_is_told(script: str, tmp_path: Path) -> None:
    done = tracer_process("compare", "--b", "--fail", script, cwd=tmp_path)
    assert done.code == 2
    assert "b ended with exit code 3" in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "compare" / "compare.json").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "both configurations are the same"),
        (("--b", "'unclosed"), "close the quotation"),
        (("--env-b", "NAME"), "is no variable"),
        (("--python-b", "/nowhere/python"), "is no program"),
        (("--b", "x", "--format", "docx"), "unknown format 'docx'"),
        (("--b", "x", "--exit-after-steps"), "add --steps"),
    ],
)
def test_wrong_usage_is_one_line(tracer: Command, script: str, arguments: tuple[str, ...], says: str) -> None:
    done = tracer("compare", *arguments, script)
    assert done.code == 2
    assert says in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_an_interpreter_without_torch_is_told_what_to_install(tracer: Command, script: str, tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'tracer'\" >&2\nexit 1\n")
    fake.chmod(0o755)
    done = tracer("compare", "--python-b", fake, script)
    assert done.code == 2
    assert "-m pip install torch determinism-tracer" in done.err


def test_shaking_alone_is_refused(tracer: Command, script: str) -> None:
    done = tracer("run", "--shake", "1", script)
    assert done.code == 2
    assert "add --magnitudes" in done.err


def test_a_recording_without_magnitudes_is_refused_in_one_line(tracer: Command, script: str, tmp_path: Path) -> None:
    for name, option in {"a": "--values", "s": "--magnitudes"}.items():
        done = tracer_process("run", option, "-o", f"{name}.json", script, cwd=tmp_path)
        assert done.code == 0, done.err
    done = tracer("diff", "a.json", "s.json", "--yardstick", "s.json")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "a.values has no magnitudes" in done.err
    assert "tracer run --magnitudes" in done.err
