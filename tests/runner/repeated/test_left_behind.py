"""What runs leave: text is a note, other files count; folders of recordings and copies of what was there."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import time
import zipfile
from pathlib import Path

import numpy
import pytest
import torch

from tests.support.command import Command, tracer_process
from tracer.runner.repeated.folder import Walk, entries_of, leave, recordings_in, scratch_of
from tracer.runner.repeated.left_behind import Left, LeftBehind, _FollowedFile, plain_otherwise, without_times
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


def test_runs_that_end_with_other_weights_do_not_agree_though_all_calls_do(tracer: Command) -> None:
    Path("leaves.py").write_text(LEAVES)
    done = tracer("repeat", "--no-hold", "--format", "text,json,html", "leaves.py", "other")
    assert done.code == 1, done.err
    told = json.loads(Path("repeat/repeat.json").read_text())
    assert (told["agrees"], told["first"]) == (False, None)
    assert [(end["kind"], end["name"]) for end in told["ends"]] == [("parameter", "Linear.weight")]
    assert {(note["kind"], note["name"]) for note in told["notes"]} >= {("text", "drawn.txt"), ("output", "line 1")}
    assert "but they end with different parameters (Linear.weight)" in " ".join(done.out.split())
    page = Path("repeat/repeat.html").read_text(encoding="utf-8")
    assert "end with different parameters" in page
    assert "No risk found" not in page.partition("What to change")[0]


def test_printed_times_an_appended_log_and_a_dated_name_are_a_note_at_most(tracer: Command) -> None:
    Path("leaves.py").write_text(LEAVES)
    done = tracer("repeat", "--format", "text,json", "leaves.py")
    assert done.code == 0, done.out
    told = json.loads(Path("repeat/repeat.json").read_text())
    assert (told["agrees"], told["ends"]) == (True, [])
    assert {note["kind"] for note in told["notes"]} == {"output"}
    assert told["ends_compared"] > 10
    assert "they print different lines (line 1)" in " ".join(done.out.split())


PREVIEW = """\
import sys
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters())
shown = torch.Generator()
shown.seed()
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    print("preview", model(torch.rand(1, 4, generator=shown)).sum().item())
if "saved" in sys.argv:
    torch.save(torch.rand(9, generator=shown), "preview.pt")
"""


@pytest.mark.parametrize(("argument", "code"), [("", 3), ("saved", 1)])
def test_runs_that_train_alike_and_print_otherwise_have_an_exit_code_of_their_own(
    tracer: Command, argument: str, code: int
) -> None:
    Path("preview.py").write_text(PREVIEW)
    done = tracer("repeat", "--no-hold", "--format", "text,json", "preview.py", *filter(None, [argument]))
    assert done.code == code, done.out
    assert "and train alike" in " ".join(done.out.split())
    assert json.loads(Path("repeat/repeat.json").read_text())["agrees"] is False


@pytest.mark.parametrize(
    ("differs", "told"),
    [
        ("'at': time.time()", {("text", "a.pt beside its tensors")}),
        ("'w': torch.full([2], float(RUN))", {("file", "a.pt")}),
        ("'mean': numpy.full(2, float(RUN))", {("file", "a.pt")}),
    ],
    ids=["a time", "a tensor", "an array"],
)
def test_a_checkpoint_is_compared_by_its_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differs: str, told: set[tuple[str, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for number in range(2):
        Path("a.pt").unlink(missing_ok=True)
        left = LeftBehind(without="nowhere")
        state = eval(f"{{'lr': 0.1, {differs}}}", {"time": time, "torch": torch, "numpy": numpy, "RUN": number})
        torch.save(state, "a.pt")
        found.append({(str(kind), name): digest for kind, name, digest, _ in left.states() if kind != "output"})
    assert {each for each in found[0] if found[0][each] != found[1].get(each)} == told


@pytest.mark.parametrize(("value", "kind"), [({"at": 1.5, "run": "a"}, "text"), ({"mean": numpy.ones(2)}, "file")])
def test_a_pickle_of_numbers_and_texts_is_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: object, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    left = LeftBehind(without="nowhere")
    Path("a.pkl").write_bytes(pickle.dumps(value))
    assert [str(kind) for kind, name, *_ in left.states() if name == "a.pkl"] == [kind]


def test_a_line_that_is_overwritten_is_not_compared() -> None:
    printed = _FollowedFile(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    for text in ("0%\r", "50%\r", "100% done\n", "\n", "loss 0.5"):
        printed.write(text)
    assert list(printed.lines()) == [(1, "100% done"), (3, "loss 0.5")]


def test_files_are_those_that_changed_below_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        (ValueKind.TEXT, "log.txt", -1),
        (ValueKind.TEXT, "log.txt", 1),
        (ValueKind.FILE, "deep/er/out.bin", -1),
    ]


def test_a_longer_file_that_was_written_anew_was_not_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("first", "second", "plain", "otherwise"),
    [
        (["loss 1", "digest a1"], ["loss 1", "digest a1"], ["loss 1", "digest b2"], "digest b2"),
        (["stopped at 3", "id x1"], ["stopped at 3", "id x2"], ["id x3", "finished"], None),
        (["over, 4 steps", "loss 1"], ["over, 4 steps", "loss 1"], ["under, 4 steps", "loss 1"], None),
        (["id x1", "stopped", "loss 1"], ["id x2", "stopped", "loss 1"], ["id x3", "finished", "loss 2"], "loss 2"),
        (["loss 1", "id x1"], ["loss 1", "id x2"], ["id x3", "loss 1"], ""),
        (["loss 1", "took 1.2 s"], ["loss 1", "took 1.2 s"], ["loss 1", "took 0.3 s"], ""),
        (["alive", "loss 1"], ["alive", "loss 1"], ["loss 1"], None),  # nothing stands in its place
        (["loss 1"], ["loss 1"], ["loss 1", "step 2"], None),
        (["done"], ["done"], ["done"], None),  # says nothing of what was trained
        (["id x1"], ["id x2"], ["id x3"], None),
        ([], [], [], None),
        (  # a number that varies in lines which say the same varies in each of them
            ["step 1 loss 9 beats 27", "step 2 loss 4 beats 29"],
            ["step 1 loss 9 beats 27", "step 2 loss 4 beats 30"],
            ["step 1 loss 9 beats 16", "step 2 loss 4 beats 17"],
            None,
        ),
        (
            ["step 1 loss 9 beats 27", "step 2 loss 4 beats 29"],
            ["step 1 loss 9 beats 27", "step 2 loss 4 beats 30"],
            ["step 1 loss 8 beats 16", "step 2 loss 3 beats 17"],
            "`step 1 loss 8 beats 16` in place of `step 1 loss 9 beats 27`",
        ),
    ],
)
def test_a_run_that_is_not_recorded_is_held_against_what_two_others_agree_in(
    first: list[str], second: list[str], plain: list[str], otherwise: str | None
) -> None:
    one, two, other = (Left([*map(without_times, lines)], {}) for lines in (first, second, plain))
    found = plain_otherwise((one, two), other)
    assert found == otherwise if not otherwise else found is not None and otherwise in found


@pytest.mark.parametrize(
    ("first", "second", "plain", "otherwise"),
    [
        ({"a.pt": 1}, {"a.pt": 1}, {"a.pt": 2}, "writes another a.pt"),
        ({"a.pt": 1}, {"a.pt": 1}, {"a.pt": 1, "b.pt": 3}, ""),
        ({"a.pt": 1}, {"a.pt": 2}, {"a.pt": 3}, None),
        ({"a.pt": 1}, {"a.pt": 1}, {}, None),  # another process may have written it
    ],
)
def test_a_file_in_which_recorded_runs_agree_tells_too(
    first: dict[str, int], second: dict[str, int], plain: dict[str, int], otherwise: str | None
) -> None:
    assert plain_otherwise((Left([], first), Left([], second)), Left([], plain)) == otherwise


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("step 3 loss 0.25 took 1.5s, 12.3 it/s", "step 3 loss 0.25 ~, ~"),
        ("2026-01-02 10:11:12,5 lr 0.1", "~ ~ lr 0.1"),
        ('{"time": 3, "loss": 0.5}', '{"~, "loss": 0.5}'),
        ("digest 5d11e2, beta 0.9", "digest 5d11e2, beta 0.9"),
    ],
)
def test_times_are_no_difference_of_texts(text: str, left: str) -> None:
    assert without_times(text) == left


def test_recordings_come_to_their_folder_in_the_end_and_nothing_else_stays(tmp_path: Path) -> None:
    destination = tmp_path / "repeat"
    with scratch_of(destination) as scratch:
        (recordings_in(scratch) / "run-1.json").write_text("{}")
        assert not destination.exists()
    assert [path.name for path in destination.iterdir()] == ["run-1.json"]
    assert not scratch.exists()
    leave(scratch)  # once more


def test_recordings_come_when_the_job_fails_and_replace_those_of_before(tmp_path: Path) -> None:
    def fails() -> None:
        with scratch_of(tmp_path) as scratch:
            (recordings_in(scratch) / "run-1.json").write_text("new")
            raise KeyError

    (tmp_path / "run-1.json").write_text("old")
    with pytest.raises(KeyError):
        fails()
    assert (tmp_path / "run-1.json").read_text() == "new"


def test_recordings_that_cannot_go_stay_at_a_said_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    destination = tmp_path / "repeat"
    destination.write_text("a file")
    with scratch_of(destination) as scratch:
        (recordings_in(scratch) / "run-1.json").write_text("{}")
    assert str(recordings_in(scratch)) in capsys.readouterr().err
    assert (recordings_in(scratch) / "run-1.json").exists()
    destination.unlink()
    leave(scratch)
    assert (destination / "run-1.json").exists()


PROGRAM = """
import pathlib, torch
seed = len(list(pathlib.Path(".").rglob("*")))
torch.manual_seed(seed)
layer = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
layer(torch.ones(1, 2)).sum().backward()
optimizer.step()
"""


@pytest.mark.slow
def test_a_script_that_walks_through_its_folder_meets_no_recording_of_another_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    done = tracer_process("repeat", "train.py", cwd=tmp_path)
    assert done.code == 0, done.out
    assert (tmp_path / "repeat" / "run-2.values").exists()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in ("a/b/deep.txt", "a/one.txt", "own/trace.json", ".git/config", "environment/pyvenv.cfg", "last.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "left-out").mkdir()
    return tmp_path


def test_folders_come_before_what_is_in_them_and_what_is_left_out_is_not_there(folder: Path) -> None:
    walk = Walk(str(folder / "own"), frozenset({"left-out"}))
    entries = {entry.path: entry for entry in entries_of(folder, walk)}
    assert list(entries) == [".git", "a", "environment", "last.txt", "link", "a/b", "a/one.txt", "a/b/deep.txt"]
    assert [path for path, entry in entries.items() if entry.is_closed] == [".git", "environment"]
    assert [path for path, entry in entries.items() if entry.is_file] == ["last.txt", "a/one.txt", "a/b/deep.txt"]
    assert not entries["link"].is_folder
    assert entries["last.txt"].stamp[0] == len("last.txt")


def test_a_walk_ends_one_entry_past_its_most(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.runner.repeated.folder.MOST_ENTRIES", 3)
    assert len(list(entries_of(folder, Walk(str(folder / "own"))))) == 4


def test_a_folder_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert list(entries_of(tmp_path / "absent", Walk(""))) == []
