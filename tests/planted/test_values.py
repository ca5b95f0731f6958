"""Two runs of one script, recorded with values: what was planted is the first root, and its clean twin agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import process
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Divergence, read_recording

SCRIPT = """
import sys, time, numpy as np, torch
torch.set_num_threads(2)
torch.manual_seed(0)
KIND, BAD = sys.argv[1], sys.argv[2] == "bad"
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters())
index, values = torch.randint(0, 50, (1_000_000,)), torch.randn(1_000_000)


def planted(x):
    if KIND == "kernel":
        for _ in range(4):
            torch.zeros(50).index_put_((index,), values if BAD else values.sign(), accumulate=True)  # here: kernel
        return x.sum()
    if KIND == "draw":
        generator = torch.Generator()
        if BAD:
            generator.seed()
        return torch.bernoulli(torch.full((64,), 0.5), generator=generator).sum()  # here: draw
    if KIND == "input-data":
        drawn = np.random.default_rng(None if BAD else 5).standard_normal(64)
        return torch.from_numpy(drawn).sum()  # here: input-data
    if KIND == "outside-change":
        zeros = torch.zeros(5000)
        array = zeros.numpy()
        zeros.sum()
        array[2500] = np.random.default_rng(None if BAD else 5).standard_normal()
        return zeros.sum()  # here: outside-change
    return x.sum() * (time.time() if BAD else 0.5)  # here: argument


for _ in range(3):
    x = torch.randn(16, 8)
    optimizer.zero_grad()
    (model(x).square().mean() + 0.01 * planted(x)).backward()
    optimizer.step()
"""
CAUSES = ("kernel", "draw", "input-data", "outside-change", "argument")


def compared(folder: Path, cause: str, kind: str) -> Divergence:
    script = folder / "s.py"
    script.write_text(SCRIPT)
    recordings = []
    for run in "12":
        line = ("run", "--values", "-o", f"{run}.json", script.name, cause, kind)
        done = process(*line, cwd=folder, module=True)
        assert done.code == 0, done.err
        recordings.append(read_recording(folder / f"{run}.json"))
    return compare_recordings(*recordings)


@pytest.mark.slow
@pytest.mark.parametrize("cause", CAUSES)
def test_a_planted_cause_is_the_first_root_at_its_line(tmp_path: Path, cause: str) -> None:
    found = compared(tmp_path, cause, "bad")
    assert not found.agrees
    line = next(number for number, text in enumerate(SCRIPT.splitlines(), 1) if text.endswith(f"# here: {cause}"))
    assert (str(found.first.cause), found.first.location) == (cause, f"s.py:{line}")


@pytest.mark.slow
@pytest.mark.parametrize("cause", CAUSES)
def test_its_clean_twin_agrees_in_every_call(tmp_path: Path, cause: str) -> None:
    found = compared(tmp_path, cause, "good")
    assert found.agrees, found.roots
    assert found.only == (0, 0)
    assert found.not_digested == 0
    assert found.calls_compared > 100
