"""``tracer resume``: a loop that goes on bit for bit, and what one goes on without, each at its line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.command import Command, run_here, tracer_process
from tests.support.slow import slow_unless
from tracer.divergence.cut_lines import RunLines
from tracer.divergence.lines import read_run
from tracer.divergence.model import read_recording
from tracer.divergence.omissions import ResumedRun, hold_against
from tracer.runner.repeated import resuming

PLAIN = Path(__file__).parent / "resuming" / "plain.py"
STEP = 6
#: What is left out, the text of the line that is named, and a word of what is said.
LACKS = {
    "ema": ("average = AveragedModel(", "`average`"),
    "dtype": ("optimizer.load_state_dict(", "bfloat16"),
    "scheduler": ("CosineAnnealingLR(", "6 steps behind"),
    "scaler": ("GradScaler(", "scaler"),
    "epoch": ("for epoch in", "`epoch` is 0, and 1"),
    "position": ("enumerate(loader", "batch 0 of epoch 1 is read again"),
    "counter": ("first_epoch, done, seen = 0", "`seen` is 0, and 24"),
    "numpy": ("np.random.rand(", "NumPy"),
    "generator": ("loss = model(", "generator cpu"),
}


def without(name: str) -> str:
    """The loop without the line that restores ``name``."""
    lines = PLAIN.read_text(encoding="utf-8").splitlines()
    return "\n".join("    pass" if line.endswith(f"# restores: {name}") else line for line in lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the whole run, and one that was ended as it made step 6, and its checkpoint."""
    folder = tmp_path_factory.mktemp("resuming")
    (folder / "plain.py").write_text(without(""), encoding="utf-8")
    record(folder, "whole")
    (folder / "last.pt").unlink()
    record(folder, "interrupted", "--steps", f":{STEP + 1}", "--exit-after-steps")
    return folder


def record(folder: Path, name: str, *options: str, args: tuple[str, ...] = ()) -> None:
    done = run_here(folder, "run", "--lines", "-o", f"{name}.json", *options, "plain.py", *args)
    assert done.code == 0, done.err


def resumed(folder: Path, tmp_path: Path, lacks: str) -> ResumedRun:
    shutil.copy(folder / "last.pt", tmp_path)
    (tmp_path / "plain.py").write_text(without(lacks), encoding="utf-8")
    record(tmp_path, "resumed", args=("--resume",))
    paths = folder / "whole.json", tmp_path / "resumed.json", folder / "interrupted.json"
    whole, rest = map(read_recording, paths[:2])
    lines = [RunLines(read_run(path)[""]) for path in paths]
    return hold_against(whole, rest, STEP, lines)


@pytest.mark.parametrize("lacks", slow_unless({"counter"}, LACKS))
def test_what_is_not_restored_is_named_at_its_line_and_nothing_else(folder: Path, tmp_path: Path, lacks: str) -> None:
    found = resumed(folder, tmp_path, lacks)
    assert found.step == STEP
    (omission,) = found.not_restored
    text, words = LACKS[lacks]
    assert text in without(lacks).splitlines()[int(omission.location.rpartition(":")[2]) - 1]
    assert words in omission.what
    assert "`" in omission.remedy
    assert found.departs is not None or lacks in ("ema",)


def test_a_loop_that_restores_all_goes_on_bit_for_bit(tmp_path: Path) -> None:
    shutil.copy(PLAIN, tmp_path)
    asked = ("--stop-after", "7", "--resume", "--resume", "--format", "text,json,html")
    done = tracer_process("resume", *asked, "plain.py", "--every", "3", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith("Goes on bit for bit from step 6.")
    told = json.loads((tmp_path / "resume" / "resume.json").read_text())
    assert told["agrees"]
    assert (told["step"], told["stopped_after"], told["steps"]) == (6, 7, [6, 6])
    assert told["not_restored"] == told["beside"] == []
    assert "parameters" in told["restored"]
    assert "Goes on bit for bit" in (tmp_path / "resume" / "resume.html").read_text()
    assert not (tmp_path / "last.pt").exists()


@pytest.mark.slow
def test_seeds_of_workers_are_named_where_workers_draw_and_are_beside_where_nobody_does(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(without("workers"), encoding="utf-8")
    asked = ("resume", "--stop-after", "6", "--resume", "--resume", "--format", "json", "plain.py")
    for workers, code, where in (("2", 1, "not_restored"), ("0", 0, "beside")):
        done = tracer_process(*asked, "--workers", workers, cwd=tmp_path)
        assert done.code == code, done.err
        (omission,) = json.loads((tmp_path / "resume" / "resume.json").read_text())[where]
        assert ("seeds the loader's workers" in omission["what"]) == (workers == "2")
        assert "`seeds.set_state(" in omission["remedy"]


#: A script of three steps: what it does with its checkpoint, and its seed.
SMALL = """
import os, sys, torch
torch.manual_seed({seed})
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
{load}
for number in range({begin}, 3):
    optimizer.zero_grad()
    net(torch.full((1, 2), float(number))).sum().backward()
    optimizer.step()
    {save}
"""
SAVES, LOADS = "torch.save(net.state_dict(), 'c.pt')", "'-r' in sys.argv and net.load_state_dict(torch.load('c.pt'))"
#: Each: what is put into it, the options, the code, and words of what is said.
ENDS = {
    "nothing restored": (
        {"load": "", "save": SAVES},
        ("--stop-after", "2"),
        1,
        "Departs at step 0: nothing was restored",
    ),
    "beyond the end": ({"load": LOADS, "save": SAVES}, ("--stop-after", "3"), 2, "the script makes 3 optimizer steps"),
    "no checkpoint": (
        {"load": LOADS, "save": ""},
        ("--stop-after", "1"),
        1,
        "makes no step: it ended with exit code 1; the interrupted run wrote no file in its folder (s.py:6)",
    ),
    "a loop that begins at its end": (
        {"load": LOADS, "save": SAVES, "begin": "3 if '-r' in sys.argv else 0"},
        ("--stop-after", "1"),
        1,
        "makes no step: the loop that trains ends at once (s.py:7)",
    ),
    "no step": (
        {"load": "", "begin": "3", "save": ""},
        ("--stop-after", "1"),
        2,
        "made no optimizer step",
    ),
    "unseeded": (
        {"seed": "int.from_bytes(os.urandom(4), 'little')", "load": LOADS, "save": SAVES},
        ("--stop-after", "2"),
        3,
        "does not begin as the whole one",
    ),
    "other arguments": (
        {
            "load": "'-s' in sys.argv and optimizer.param_groups[0].update(lr=0.2)",
            "save": f"{SAVES}; '-s' in sys.argv and sys.exit()",
        },
        ("--stop", "-s"),
        3,
        "with the arguments of --stop does not begin as the whole one",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ENDS)
def test_what_says_nothing_ends_in_one_line(tmp_path: Path, case: str) -> None:
    parts, options, code, words = ENDS[case]
    text = SMALL.format(**{"seed": "0", "begin": "2 if '-r' in sys.argv else 0", **parts})
    (tmp_path / "s.py").write_text(text, encoding="utf-8")
    done = tracer_process("resume", *options, "--resume", "-r", "s.py", cwd=tmp_path)
    assert done.code == code, done.err
    assert words in f"{done.out} {done.err}".replace("\n", " ")


@pytest.mark.slow
def test_a_large_file_that_runs_write_is_told(tmp_path: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "_MOST_OF_A_FILE", 1000)
    (tmp_path / "large.bin").write_bytes(bytes(2000))
    (tmp_path / "s.py").write_text(
        "import torch\nx = torch.nn.Linear(2, 1)\no = torch.optim.SGD(x.parameters(), 0.1)\n"
        "open('large.bin', 'ab').write(b'!')\n"
        "for _ in range(4):\n    x(torch.ones(1, 2)).sum().backward()\n    o.step()\n"
    )
    done = tracer("resume", "--stop-after", "2", "--resume", "", "s.py")
    assert done.code == 3
    assert "large.bin, too large to be copied" in " ".join(done.out.split())
