"""``tracer run --values``: a file of digests beside the trace, whatever ends the script."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_run_written_early import training
from tests.recording.values.reading import entries, moments, rows
from tests.support.command import SCRIPTS, Command, process
from tracer.trace import Trace
from tracer.trace.values import Values, read_values

LOADER = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 160), torch.nn.BatchNorm1d(160), torch.nn.Linear(160, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
data = TensorDataset(torch.randn(40, 8), torch.randn(40, 2))
for x, y in DataLoader(data, batch_size=8, shuffle=True, num_workers=int(sys.argv[1])):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    scheduler.step()
"""
#: Trains until it is killed.
ENDLESS = """
import os, signal, sys, threading, time, torch
timer = threading.Timer(float(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGKILL))
if "now" in sys.argv:
    timer.start()
torch.set_num_threads(1)
model = torch.nn.Linear(50, 50)
optimizer = torch.optim.Adam(model.parameters())
while True:
    optimizer.zero_grad()
    model(torch.randn(20, 50)).square().sum().backward()
    optimizer.step()
    if timer.ident is None:
        timer.start()
"""


def run(folder: Path, *args: str | Path, **environ: str) -> Values:
    done = process("run", "--values", *args, cwd=folder, module=True, **environ)
    assert done.code == 0, done.err
    return read_values(folder / "trace.values")


def seeded(values: Values) -> dict[Any, int]:
    """Every moment but the states of generators that the script does not seed, or has not yet."""
    unseeded = ("python", "numpy")
    found = moments(values).items()
    return {
        key: digest for key, digest in found if key[1] not in unseeded and not (key[0] == "generator" and not key[3])
    }


@pytest.mark.parametrize("workers", ["2", pytest.param("0", marks=pytest.mark.slow)])
def test_batches_states_and_calls_are_kept_and_agree_in_a_second_run(tmp_path: Path, workers: str) -> None:
    script = tmp_path / "s.py"
    script.write_text(LOADER)
    first, second = (run(tmp_path, script.name, workers) for _ in range(2))
    assert first.partial == second.partial == ""
    assert rows(first) == rows(second)
    assert seeded(first) == seeded(second)
    kinds = {(kind, name) for kind, name, _, _ in moments(first)}
    assert {
        ("batch", "DataLoader at s.py:9"),
        ("parameter", "Sequential.0.weight"),
        ("gradient", "Sequential.0.weight"),
        ("buffer", "Sequential.1.running_mean"),
        ("generator", "cpu"),
        ("generator", "python"),
        ("hyperparameter", "lr of group 0"),
        ("scheduler", "StepLR"),
    } <= kinds
    positions = {position for kind, _, position, _ in moments(first) if kind == "batch"}
    assert positions == {0, 1, 2, 3, 4}
    assert "outside-change" not in {kind for kind, _, _ in entries(first)}
    if workers == "2":
        assert ("batch", "DataLoader at s.py:9, [1]", 4) in entries(first)
    assert first.steps[1].tolist() == [0, 1, 2, 3, 4, 5]


def test_the_trace_and_the_report_say_that_digests_were_kept(folder: Path, tracer: Command) -> None:
    assert tracer("run", "--values", SCRIPTS / "train.py").code == 0
    values, trace = read_values(folder / "trace.values"), Trace.load(folder / "trace.json")
    assert trace.sources[0].values
    assert len(values.group) > 0
    assert "`tracer diff`" in " ".join(tracer("report", folder / "trace.json").out.split())
    assert {group.op for group in values.groups} <= {group.op for group in trace.calls}
    assert {(group.location, group.module) for group in values.groups} <= {
        (group.location, group.module) for group in trace.calls
    }


def test_nothing_is_kept_unasked(folder: Path, tracer: Command) -> None:
    assert tracer("run", SCRIPTS / "train.py").code == 0
    assert not Trace.load(folder / "trace.json").sources[0].values
    assert [path.name for path in folder.iterdir()] == ["trace.json"]


def test_chosen_steps_keep_their_numbers_and_the_file_is_whole(folder: Path, tracer: Command) -> None:
    assert tracer("run", "--values", "--steps", "1:3", training(folder, "").name).code == 0
    values = read_values(folder / "trace.values")
    assert values.partial == ""
    assert Trace.load(folder / "trace.json").sources[0].optimizer_steps == 2
    assert {step for *_, step in moments(values)} == {1, 2, 3}  # 3: as recording ended


@pytest.mark.parametrize("rank", [0, 1])
def test_each_rank_has_a_file_and_says_which(
    folder: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert tracer("run", "--values", SCRIPTS / "train.py").code == 0
    header = read_values(folder / f"trace.rank{rank}.values").header
    assert (header.rank, header.world_size, header.name) == (rank, 2, "train.py")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        pytest.param("raise ValueError", "ValueError", marks=pytest.mark.slow),
        ("os.kill(os.getpid(), signal.SIGTERM)", "ended by SIGTERM"),
    ],
)
def test_what_cut_the_script_short_is_said_in_the_file(tmp_path: Path, end: str, reason: str) -> None:
    process("run", "--values", training(tmp_path, end).name, cwd=tmp_path, module=True)
    values = read_values(tmp_path / "trace.values")
    assert values.partial == Trace.load(tmp_path / "trace.json").partial == reason
    assert len(values.group) > 20


def killed_after(seconds: float, folder: Path, *since: str) -> Values | None:
    script = folder / "s.py"
    script.write_text(ENDLESS)
    (folder / "trace.values").unlink(missing_ok=True)
    done = process("run", "--values", script.name, str(seconds), *since, cwd=folder, module=True)
    assert done.code == -signal.SIGKILL, done.err
    if not (folder / "trace.values").exists():
        return None  # before the first call
    values = read_values(folder / "trace.values")
    assert values.partial
    assert len(values.inputs) == len(values.group)
    return values


def test_a_run_that_is_killed_leaves_what_it_had(tmp_path: Path) -> None:
    values = killed_after(1.6, tmp_path)
    assert values is not None
    assert len(values.group) > 20
    killed_after(0.1, tmp_path, "now")  # reads the file, if there is one


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_leaves_a_readable_file(tmp_path: Path) -> None:
    draw = random.Random(0)
    left = [killed_after(draw.uniform(0.0, 4.0), tmp_path, "now") for _ in range(50)]
    assert sum(values is not None and len(values.group) > 0 for values in left) > 10
