"""Files that somebody else wrote are read within bounds, and nothing but files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.build import call, environment, tensor, trace
from tests.support.command import Command
from tracer.files import open_plain, read_text, read_within
from tracer.gate import format_baseline
from tracer.trace.records import CudaDevice, split_place


def zeros(folder: Path) -> Path:
    return Path("/dev/zero")


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def folder_itself(folder: Path) -> Path:
    return folder


#: What a command may be handed in place of a file, and what the line says of it.
NO_FILES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "device": (zeros, "device"),
    "pipe": (pipe, "pipe"),
    "folder": (folder_itself, "folder"),
}


@pytest.mark.parametrize("name", NO_FILES)
def test_what_is_no_file_is_neither_read_nor_waited_for(name: str, tmp_path: Path) -> None:
    make, says = NO_FILES[name]
    with pytest.raises(OSError, match=says):
        open_plain(make(tmp_path))


def test_more_than_the_limit_is_refused_and_what_fits_is_read(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one\r\ntwo\rthree\n")
    assert read_text(path, limit=15) == "one\ntwo\nthree\n"
    with pytest.raises(OSError, match="more than"):
        read_text(path, limit=14)
    with open_plain(path) as stream:
        assert read_within(stream, 15) == path.read_bytes()


def test_zeros_in_bulk_are_told_at_their_beginning(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match="begins with zero bytes"):
        read_text(path)


#: How each kind of file is handed to a command: its place below the folder, and the command's line.
READ_BY: dict[str, tuple[str, list[str]]] = {
    "trace": ("t.json", ["report", "t.json"]),
    "packed trace": ("t.json.gz", ["report", "t.json.gz"]),
    "second trace": ("t.json", ["report", "good.json", "t.json"]),
    "lock file": ("determinism.lock", ["check", "good.json", "--baseline", "determinism.lock"]),
    "configuration": ("pyproject.toml", ["check", "good.json"]),
    "values": ("t.values", ["diff", "t.values", "t.values"]),
    "inputs": (
        "good.inputs.safetensors",
        ["repro", "good.json", "aten.index_add_", "--backend", "cuda", "--with-values", "-o", "r.py"],
    ),
}


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "sparse"])
@pytest.mark.parametrize("what", READ_BY)
def test_every_command_refuses_it_in_one_line(
    what: str,
    kind: str,
    tmp_path: Path,
    tracer: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"self": tensor("float32", 10, 4), "dim": 0, "index": tensor("int64", 5), "source": tensor("float32", 5, 4)}
    trace(call(given=given, inputs="1")).save("good.json")
    name, line = READ_BY[what]
    if kind == "sparse":
        Path(name).touch()
        os.truncate(name, 1 << 40)
    elif kind == "folder":
        Path(name).mkdir()
    else:
        made = NO_FILES[kind][0](tmp_path)
        made.rename(name) if kind == "pipe" else Path(name).symlink_to(made)
    done = tracer(*line)
    assert done.code == 2, done
    assert len(done.err.splitlines()) == 1
    assert name in done.err
    assert "internal error" not in done.err
    assert not Path("r.py").exists()


def test_a_pipe_among_the_sources_silences_nothing_and_holds_up_nothing(
    tmp_path: Path,
    tracer: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("train.py")
    trace(call(), call(location="a\0b.py:3"), call(location="x" * 5000 + ".py:1")).save("t.json")
    assert tracer("check", "t.json", "--backend", "cuda").code == 1


def test_a_lock_file_with_the_line_ends_of_another_system_is_read(tmp_path: Path) -> None:
    from tracer.gate import read_baseline

    path = tmp_path / "determinism.lock"
    path.write_bytes(format_baseline([]).replace("\n", "\r\n").encode())
    assert read_baseline(path) == ()


@pytest.mark.parametrize(
    ("location", "path", "line"),
    [
        ("train.py:10", "train.py", 10),
        ("C:/x.py:1", "C:/x.py", 1),
        ("train.py", "train.py", None),
        (":3", ":3", None),
        ("train.py:", "train.py:", None),
        ("train.py:²", "train.py:²", None),
        ("train.py:٣", "train.py:٣", None),
        ("train.py:" + "9" * 5000, "train.py:" + "9" * 5000, None),
        ("a\nb.py:7", "a\nb.py", 7),
    ],
)
def test_a_place_is_a_path_and_a_line_of_few_digits(location: str, path: str, line: int | None) -> None:
    assert split_place(location) == (path, line)


@pytest.mark.parametrize("format_name", ["text", "html", "sarif", "markdown"])
def test_numbers_that_are_none_make_no_command_fail(
    format_name: str, tmp_path: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    devices = (CudaDevice(name="a GPU", capability="²"), CudaDevice(name="another", capability="9" * 5000))
    places = [call(location=f"train.py:{number}", called_from=f"run.py:{number}") for number in ("²", "9" * 5000)]
    trace(*places, environment=environment(devices=devices)).save("t.json")
    done = tracer("report", "t.json", "--backend", "cuda", "--format", format_name)
    assert (done.code, done.err) == (0, "")
