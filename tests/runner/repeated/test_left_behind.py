"""What a run leaves besides its model: compared without what differs between runs that train alike."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.command import Command
from tracer.runner.repeated.left_behind import LeftBehind, Printed, without_time
from tracer.trace.values import ValueKind

LEAVES = """\
import os, sys, time, uuid
import torch

def main():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    began = time.time()
    print("run", uuid.uuid4(), "pid", os.getpid(), time.ctime(), began)
    for step in range(2):
        optimizer.zero_grad()
        loss = model(torch.ones(3, 4)).sum()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} took {time.time() - began:.3f}s, {step / 7e-9:.1f} it/s")
    torch.save(model.state_dict(), time.strftime("model-%Y%m%d-%H%M%S.pt"))
    with open("log.txt", "a") as log:
        log.write(f"{time.time()} loss {loss.item()}\\n")
    if "other" in sys.argv:
        model.weight.data.numpy()[0, 0] = os.getpid()
        print("drew", 1 / os.getpid())
        with open("drawn.txt", "w") as file:
            file.write(f"drew {1 / os.getpid()}")

main()
"""


@pytest.fixture
def tracer(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """``tracer(...)`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Command(capfd, monkeypatch)


def test_runs_that_end_with_other_weights_do_not_agree_though_all_calls_do(tracer: Command) -> None:
    Path("leaves.py").write_text(LEAVES)
    done = tracer("repeat", "--no-hold", "--format", "text,json,html", "leaves.py", "other")
    assert done.code == 1, done.err
    told = json.loads(Path("repeat/repeat.json").read_text())
    assert (told["agrees"], told["first"]) == (False, None)
    assert [(end["kind"], end["name"]) for end in told["ends"]] == [
        ("parameter", "Linear.weight"),
        ("file", "drawn.txt"),
        ("output", "line 4"),
    ]
    assert "but they end with different parameters (Linear.weight)" in " ".join(done.out.split())
    page = Path("repeat/repeat.html").read_text(encoding="utf-8")
    assert "end with different parameters" in page
    assert "No risk found" not in page.partition("What to change")[0]


@pytest.mark.slow
def test_dates_durations_process_numbers_and_an_appended_log_are_no_difference(tracer: Command) -> None:
    Path("leaves.py").write_text(LEAVES)
    done = tracer("repeat", "--format", "text,json", "leaves.py")
    assert done.code == 0, done.out
    told = json.loads(Path("repeat/repeat.json").read_text())
    assert told["ends"] == []
    assert told["ends_compared"] > 10


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2026-11-23 03:13:28,123 epoch 1", "2026-11-24 13:03:08,001 epoch 1"),
        ("started Mon Nov 23 03:13:28 2026", "started Tue Nov 24 13:13:08 2026"),
        ("step 3 loss 0.5 (12.3 ms)", "step 3 loss 0.5 (9 ms)"),
        ("  12.25 it/s", "  3 it/s"),
        ("elapsed: 1.25", "elapsed: 11.5"),
        ('{"loss": 0.5, "time": 1.2}', '{"loss": 0.5, "time": 3.4}'),
        ("{'train_runtime': '0.87', 'train_loss': '4.1'}", "{'train_runtime': '1.32', 'train_loss': '4.1'}"),
        ('"eval_samples_per_second": 365.7, "eval_loss": 2', '"eval_samples_per_second": 81.25, "eval_loss": 2'),
        ("epoch_time=1.25 step_ms=3", "epoch_time=2.5 step_ms=7"),
        ("<Net object at 0x7f3a2b1c>", "<Net object at 0x7f11111c>"),
        ("run 1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "run 9c858901-8a57-4791-81fe-4c455b099bc9"),
        ("saved /tmp/tmpa1b2c3d4/x.pt", "saved /tmp/tmpzzb2c3d4/x.pt"),
        ("pid 4711", "pid 12"),
        ("sent <176393.4711.88@host-1>", "sent <176394.12.90@host-1>"),
        ("t=1795404147.447", "t=1795404164.955"),
        ("peak 123.5 MB", "peak 99 MB"),
        ("commit 3fa9c21e7b", "commit 9be01c22d0"),
        ("genres: {'drama', 'comedy'}", "genres: {'comedy', 'drama'}"),
        ("object 140234866534400", "object 139979866512384"),
        ("hash -3826492837462834", "hash 928374928374927"),
    ],
)
def test_what_differs_between_runs_that_train_alike_is_blotted_out(one: str, other: str) -> None:
    assert without_time(one) == without_time(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("loss 0.69314718", "loss 0.69314719"),
        ("loss 3.50594257266066e-05", "loss 3.50594257266067e-05"),
        ("step 10 acc 0.91", "step 10 acc 0.92"),
        ("monitor loss 0.5", "monitor loss 0.6"),
        ("epoch 1, lr 0.1", "epoch 1, lr 0.2"),
        ("tensor(1234567)", "tensor(1234568)"),
        ("margin 12", "margin 13"),
        ("{'train_runtime': '0.87', 'train_loss': '4.1'}", "{'train_runtime': '0.87', 'train_loss': '4.2'}"),
        ("best_runtime_loss: 0.5", "best_runtime_loss: 0.6"),
        ("loss 0.12345678901234567", "loss 0.12345678901234568"),
        ("1.25 2.5", "1.25 2.75"),
        ("weights " + "3fa9c21e" * 8, "weights " + "9be01c22" * 8),
    ],
)
def test_a_figure_of_the_training_is_not_blotted_out(one: str, other: str) -> None:
    assert without_time(one) != without_time(other)


def test_a_line_that_is_overwritten_is_not_compared() -> None:
    printed = Printed()
    for text in ("0%\r", "50%\r", "100% done\n", "\n", "loss 0.5"):
        printed.add(text)
    assert list(printed.lines()) == [(1, "100% done"), (3, "0.5 loss")]


def test_files_are_those_that_changed_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "__stdout__", None)
    for name in ("left.txt", "log.txt"):
        Path(name).write_text("loss 1\n")
    for folder in ("own", "deep/er", ".git"):
        Path(folder).mkdir(parents=True)
    left = LeftBehind(str(tmp_path / "own"))
    with Path("log.txt").open("a") as log:
        log.write("loss 2\n")
    for name in ("own/run-1.json", ".git/index", "deep/er/out.bin", "runs.db", "events.out.tfevents.1"):
        Path(name).write_bytes(b"\0\1\2")
    os.symlink("left.txt", "link.txt")
    assert [(kind, name, position) for kind, name, _, position in left.states()] == [
        (ValueKind.FILE, "log.txt", -1),
        (ValueKind.FILE, "log.txt", 1),
        (ValueKind.FILE, "deep/er/out.bin", -1),
    ]


def test_a_file_that_was_written_anew_and_is_longer_was_not_appended_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "__stdout__", None)
    Path("result.txt").write_text("loss 0.5\n")
    left = LeftBehind(str(tmp_path / "own"))
    Path("result.txt").write_text("loss 0.625\n")
    assert [position for _, _, _, position in left.states()] == [-1]


def test_a_zip_is_compared_by_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "__stdout__", None)
    digests = []
    for year, data in ((2020, "same"), (2021, "same"), (2021, "other")):
        left = LeftBehind(str(tmp_path / "own"))
        with zipfile.ZipFile("arrays.npz", "w") as packed:
            packed.writestr(zipfile.ZipInfo("a.npy", (year, 1, 1, 0, 0, 0)), data)
        digests += [digest for _, _, digest, _ in left.states()]
    assert digests[0] == digests[1] != digests[2]
