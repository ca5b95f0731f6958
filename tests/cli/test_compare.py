"""``tracer compare``: two configurations of a script, end to end, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import Command, run_here

SCRIPT = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--gelu", default="none")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--fail", action="store_true")
parser.add_argument("--fail-in", type=int)
parser.add_argument("--steps", type=int, default=2)
parser.add_argument("--nan", action="store_true")
parser.add_argument("--width", type=int, default=32)
options = parser.parse_args()
torch.set_num_threads(options.threads)
torch.manual_seed(0)
width = options.width
model = torch.nn.Sequential(torch.nn.Linear(16, width), torch.nn.GELU(options.gelu), torch.nn.Linear(width, 4))
if options.fail:
    raise SystemExit(3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(options.steps):
    x = torch.randn(8, 16) * (float("nan") if options.nan else 1)
    loss = torch.nn.functional.cross_entropy(model(x), torch.randint(0, 4, (8,)))
    loss.backward()
    if step == options.fail_in:
        raise RuntimeError("out of data")
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def script(folder: Path) -> str:
    """In the working directory, with what an earlier comparison left."""
    (folder / "train.py").write_text(SCRIPT)
    (folder / "compare").mkdir()
    (folder / "compare" / "compare.json").write_text("of an earlier run")
    return "train.py"


#: The fields of ``compare.json``.
FIELDS = {
    *("schema", "verdict", "places", "differing", "largest", "first", "call", "significant", "following"),
    *("is_given", "split_steps", "row_steps", "not_finite", "only", "only_count", "unjudged", "steps"),
    *("compared", "rows", "partial", "processes", "yardstick", "factor", "scaled", "undone"),
    *("draws", "unrepeated", "flips", "unequal", "names", "settings"),
}


def test_configurations_that_agree_are_equal_in_every_format(tracer: Command, script: str) -> None:
    changed = "CUBLAS_WORKSPACE_CONFIG=:4096:8"
    done = tracer("compare", "--env-b", changed, "--steps", "0:1", "--format", "text,json,html", script)
    assert done.code == 0, done.err
    document = json.loads(Path("compare/compare.json").read_text())
    assert (document["schema"], document["verdict"], set(document)) == (1, "equal", FIELDS)
    assert (document["first"], document["steps"], document["places"] > 20) == (None, [1, 1], True)
    assert document["settings"] == [{"name": "CUBLAS_WORKSPACE_CONFIG", "values": ["not set", ":4096:8"]}]
    page = Path("compare/compare.html").read_text()
    for text in (done.out, page):
        assert "equal at all 25 places" in " ".join(text.split())
    assert "<script" not in page


@pytest.mark.slow
def test_a_fault_is_named_in_every_format(tracer: Command, script: str) -> None:
    options = ["--b", "--gelu tanh", "--env-b", "CUBLAS_WORKSPACE_CONFIG=:4096:8", "--yardstick-runs", "1"]
    done = tracer("compare", *options, "--format", "text,json,html", script)
    assert done.code == 1, done.err
    beside = "Beside their code, these differ: `CUBLAS_WORKSPACE_CONFIG` (not set and :4096:8)."
    assert beside in " ".join(done.out.split())
    assert "They diverge at `Sequential.1` in step 0, forward, train.py:23" in " ".join(done.out.split())
    assert "aten.gelu.default" in done.out
    document = json.loads(Path("compare/compare.json").read_text())
    first = document["first"]
    assert (document["verdict"], first["module"], first["kind"]) == ("significant", "Sequential.1", "output")
    assert first["ratio"] > 10
    assert document["call"]["op"] == "aten.gelu.default"
    assert (document["only"], document["only_count"], document["steps"]) == ([], 0, [2, 2])
    assert document["yardstick"] == {"runs": 1, "seeds": [1], "of_second": 0, "inside": ""}
    assert "They diverge at" in Path("compare/compare.html").read_text()


def test_a_script_that_fails_before_anything_is_recorded_is_told(tracer: Command, script: str) -> None:
    done = tracer("compare", "--a", "--fail", script)
    assert done.code == 2
    assert "a ended with exit code 3" in done.err
    assert "Traceback" not in done.err
    assert not Path("compare/compare.json").exists()


@pytest.mark.slow
def test_a_script_that_fails_midway_is_compared_as_far_as_it_goes(tracer: Command, script: str) -> None:
    done = tracer("compare", "--b", "--fail-in 1", "--format", "text,json", script)
    assert (done.code, "Traceback" in done.err) == (3, False)
    assert "b ended with exit code 1" in done.err
    assert "A recording is not whole: RuntimeError" in done.out
    document = json.loads(Path("compare/compare.json").read_text())
    assert (document["verdict"], document["steps"], document["partial"]) == ("equal", [2, 2], "RuntimeError")
    assert document["places"] > document["only_count"] > 0


@pytest.mark.slow
def test_models_of_other_sizes_are_the_answer(tracer: Command, script: str) -> None:
    done = tracer("compare", "--b", "--width 48", "--steps", "0:1", script)
    assert done.code == 1
    says = "They are different models: `Sequential.0.weight` is 32x16 in the first and 48x16 in the second."
    assert says in " ".join(done.out.split())


#: Another model, in one module alone.
OTHER = "import torch\nmodel = torch.nn.Bilinear(2, 2, 2)\nmodel(torch.ones(1, 2), torch.ones(1, 2)).sum().backward()\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--b", "--steps 0"), "b recorded no place: no module was called"),
        (("--a", "--steps 0"), "a recorded no place: no module was called"),
        (("--b", "--gelu tanh", "--steps", "5:7"), "a ended before --steps 5:7 began"),
        (("--a", "--nan"), "the loss of a is not finite in its first step, 0"),
        (("--b", "other.py"), "no place in common"),
    ],
)
@pytest.mark.slow
def test_configurations_that_cannot_be_compared_are_refused_in_one_line(
    tracer: Command, script: str, arguments: tuple[str, ...], says: str
) -> None:
    if "other.py" in arguments:
        script = "pick.py"
        Path(script).write_text("import runpy, sys\nrunpy.run_path((sys.argv + ['train.py'])[1])\n")
        Path("other.py").write_text(OTHER)
    done = tracer("compare", *arguments, "--format", "text,json", script)
    errors = [line for line in done.err.splitlines() if line.startswith("tracer: error:")]
    assert (done.code, done.out, len(errors)) == (2, "", 1)
    assert says in errors[0]
    assert not list(Path("compare").glob("compare.*"))


def test_an_interpreter_without_torch_is_told_what_to_install(tracer: Command, script: str, tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'tracer'\" >&2\nexit 1\n")
    fake.chmod(0o755)
    done = tracer("compare", "--python-b", fake, script)
    assert done.code == 2
    assert "-m pip install torch determinism-tracer" in done.err


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recordings: ``a``, its yardstick ``s``, ``b`` of another configuration, ``values`` alone, and a
    shaken one of another program."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "train.py").write_text(SCRIPT)
    (folder / "other.py").write_text(OTHER)
    shaken = ("--magnitudes", "--shake", "1")
    for name, *line in (
        ("a", "--magnitudes", "train.py"),
        ("b", "--magnitudes", "train.py", "--gelu", "tanh"),
        ("s", *shaken, "train.py"),
        ("values", "--values", "train.py"),
        ("other", *shaken, "other.py"),
    ):
        done = run_here(folder, "run", "-o", f"{name}.json", *line)
        assert done.code == 0, done.err
    return folder


def test_recordings_of_two_runs_are_compared_by_a_yardstick(tracer: Command, recordings: Path) -> None:
    a, b, s = (recordings / f"{name}.json" for name in "abs")
    done = tracer("diff", a, b, "--yardstick", s, "--format", "json")
    judged = json.loads(done.out)
    assert (done.code, judged["verdict"], set(judged)) == (1, "significant", FIELDS)
    assert judged["significant"][0] == judged["first"]
    contract = {"place", "kind", "module", "location", "step", "phase", "ratio", "relative", "stretch"}
    assert contract <= set(judged["first"])
    assert [judged["first"][name] for name in ("module", "kind", "step", "phase")] == [
        "Sequential.1", "output", 0, "forward"
    ]  # fmt: skip
    alone = tracer("diff", a, b, "--format", "json")
    assert (alone.code, json.loads(alone.out)["verdict"]) == (3, "not-judged")
    assert "shaken" in tracer("report", s).out


@pytest.mark.parametrize(
    ("first", "second", "yardstick", "says"),
    [
        ("values", "a", "s", "values.values has no magnitudes; record it again with `tracer run --magnitudes`"),
        ("a", "values", "s", "values.values has no magnitudes"),
        ("a", "a", "values", "values.values has no magnitudes"),
        ("a", "a", "other", "other.values is a yardstick of another program"),
        ("a", "a", "a", "a.values is no yardstick: it was not shaken"),
        ("s", "a", "s", "s.values is a shaken recording"),
    ],
)
def test_recordings_that_cannot_be_judged_are_refused_in_one_line(
    tracer: Command, recordings: Path, first: str, second: str, yardstick: str, says: str
) -> None:
    names = [recordings / f"{name}.json" for name in (first, second, yardstick)]
    done = tracer("diff", names[0], names[1], "--yardstick", names[2])
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert says in done.err
