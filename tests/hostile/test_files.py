"""Files that are hostile, by hand or by mutation: one line and an exit code, never a traceback, nothing that acts."""

from __future__ import annotations

import ast
import contextlib
import csv
import io
import json
import os
import re
import resource
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from safetensors.torch import load

from tests.hostile.cases import CASES, KINDS, LOCK, Files, good_files, mutated
from tests.report.test_hostile import Page
from tests.support.build import call, environment, tensor, trace
from tests.support.command import Command, Finished, tracer_process
from tracer.cli.main import main
from tracer.files import open_plain, read_text, read_within
from tracer.gate import format_baseline, read_baseline
from tracer.report.render import page as html
from tracer.trace.records import CudaDevice, split_place

#: What a command may be handed in place of a file.
NO_FILES = ("device", "pipe", "folder", "sparse")


def handed(kind: str, at: Path) -> None:
    """Makes what is no file at a path, or one of zeros in bulk."""
    if kind == "device":
        at.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(at)
    elif kind == "folder":
        at.mkdir()
    else:
        at.touch()
        os.truncate(at, 1 << 40)


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_neither_read_nor_waited_for(kind: str, tmp_path: Path) -> None:
    handed(kind, tmp_path / "text")
    with pytest.raises(OSError, match="begins with zero bytes" if kind == "sparse" else kind):
        read_text(tmp_path / "text")


def test_more_than_the_limit_is_refused_and_what_fits_is_read(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one\r\ntwo\rthree\n")
    assert read_text(path, limit=15) == "one\ntwo\nthree\n"
    with pytest.raises(OSError, match="more than"):
        read_text(path, limit=14)
    with open_plain(path) as stream:
        assert read_within(stream, 15) == path.read_bytes()


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


@pytest.mark.parametrize(
    ("what", "kind"),
    [*(("trace", kind) for kind in NO_FILES), *((what, kind) for what in READ_BY for kind in ("pipe", "sparse"))],
)
def test_every_command_refuses_it_in_one_line(what: str, kind: str, tracer: Command) -> None:
    given = {"self": tensor("float32", 10, 4), "dim": 0, "index": tensor("int64", 5), "source": tensor("float32", 5, 4)}
    trace(call(given=given, inputs="1")).save("good.json")
    name, line = READ_BY[what]
    handed(kind, Path(name))
    done = tracer(*line)
    assert done.code == 2, done
    assert len(done.err.splitlines()) == 1
    assert name in done.err
    assert "internal error" not in done.err
    assert not Path("r.py").exists()


def test_a_pipe_among_the_sources_silences_nothing_and_holds_up_nothing(tracer: Command) -> None:
    os.mkfifo("train.py")
    trace(call(), call(location="a\0b.py:3"), call(location="x" * 5000 + ".py:1")).save("t.json")
    assert tracer("check", "t.json", "--backend", "cuda").code == 1


def test_a_lock_file_with_the_line_ends_of_another_system_is_read(tmp_path: Path) -> None:
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
def test_numbers_that_are_none_make_no_command_fail(format_name: str, tracer: Command) -> None:
    devices = (CudaDevice(name="a GPU", capability="²"), CudaDevice(name="another", capability="9" * 5000))
    places = [call(location=f"train.py:{number}", called_from=f"run.py:{number}") for number in ("²", "9" * 5000)]
    trace(*places, environment=environment(devices=devices)).save("t.json")
    done = tracer("report", "t.json", "--backend", "cuda", "--format", format_name)
    assert (done.code, done.err) == (0, "")


#: Cases of each kind in every run; the others in ``make test-all``, so many to a test.
FEW, MANY = 8, 50

#: What a hang would take; no case takes a hundredth of it.
SECONDS = 120

#: Mebibytes that one test may add to what its process held at most.
MEBIBYTES = 1024

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def chunks() -> Iterator[object]:
    for kind, one in KINDS.items():
        yield pytest.param(kind, range(FEW), id=f"{kind}:0-{FEW - 1}")
        for first in range(FEW, one.cases, MANY):
            last = min(one.cases, first + MANY)
            yield pytest.param(kind, range(first, last), id=f"{kind}:{first}-{last - 1}", marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return good_files(tmp_path_factory.mktemp("good"))


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, outside of any job; pages without DataTables, so that reading many stays quick."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(html, "datatables_script", lambda: "void 0")
    for name in ("RANK", "WORLD_SIZE", "TRACER_DEBUG", "GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def called(*line: str) -> Finished:
    """A command in this process; whatever it warns of is on standard error."""
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("always")
        try:
            main(list(line))
        except SystemExit as leaving:
            code = leaving.code
    return Finished(code if isinstance(code, int) else -1, out.getvalue(), err.getvalue())


def laid(folder: Path, files: Files) -> None:
    """``files`` and nothing else in ``folder``."""
    for old in folder.iterdir():
        old.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def faults(line: tuple[str, ...], done: Finished, folder: Path, files: Files) -> Iterator[str]:
    """What is wrong with how a command ended."""
    if done.code not in (0, 1, 2, 3):
        yield f"exit code {done.code}"
    if "Traceback" in done.err or "internal error" in done.err or "Warning" in done.err:
        yield f"said {done.err[-300:]!r}"
    if ACTING.search(done.out) or ACTING.search(done.err):
        yield "wrote what acts on a terminal"
    made = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in files}
    changed = {name for name, data in files.items() if (folder / name).read_bytes() != data}
    if done.code == 2:
        if len(done.err.splitlines()) != 1 or not done.err.startswith("tracer: error: "):
            yield f"refused in other words than one line: {done.err[:300]!r}"
        if made or changed or done.out:
            yield f"refused, and left {sorted(made)}, changed {sorted(changed)}, printed {done.out[:80]!r}"
    elif changed - ({LOCK} if "--update-baseline" in line else set()):
        yield f"changed {sorted(changed)}"
    for name, data in made.items():
        try:
            check_output(name, data)
        except Exception as wrong:
            yield f"{name}: {type(wrong).__name__}: {str(wrong)[:200]}"


def check_output(name: str, data: bytes) -> None:
    """A file that was written is whole, and nothing in it acts."""
    if name.endswith(".safetensors"):
        assert load(data)
        return
    text = data.decode("utf-8")
    if name.endswith(".html"):
        page = Page(text)
        assert page.tags["script"] == 3, page.tags
        assert page.handlers == []
        assert not {"img", "svg", "iframe"} & set(page.tags)
        json.loads(page.data)
    elif name.endswith((".json", ".sarif")):
        json.loads(text)
    elif name.endswith(".xml"):
        ElementTree.fromstring(text)
    elif name.endswith(".csv"):
        rows = list(csv.reader(io.StringIO(text, newline="")))
        assert len({len(row) for row in rows}) == 1
    elif name.endswith(".py"):
        compile(ast.parse(text), name, "exec")
    else:
        assert name.endswith(".md"), "a file that nobody asked for"


@contextlib.contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    def too_long(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(("kind", "numbers"), chunks())
def test_a_mutated_file_ends_every_command_as_documented(kind: str, numbers: range, good: Files, plain: Path) -> None:
    wrong, most = [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in numbers:
        files = mutated(kind, number, good)
        for line in KINDS[kind].lines:
            laid(plain, files)
            try:
                with no_longer_than(SECONDS):
                    done = called(*line)
            except Exception as problem:
                done = Finished(-1, "", f"{type(problem).__name__}: {problem}")
            wrong += [f"{kind}:{number}, {' '.join(line)}: {fault}" for fault in faults(line, done, plain, files)]
            if done.code == 2 and "t.trace.json" in done.err and "is not a trace" in done.err:
                break  # what is no trace is none to the other commands
    assert not wrong, "\n".join(wrong)
    added = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most
    assert added < MEBIBYTES * 1024, f"{added >> 10} MiB"


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_nothing_is_wrong_with_are_refused_by_no_command(kind: str, good: Files, plain: Path) -> None:
    for line in KINDS[kind].lines:
        laid(plain, good)
        done = called(*line)
        assert done.code in (0, 1, 3), (line, done)
        assert not list(faults(line, done, plain, good)), line


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), CASES[7::211])
def test_a_process_ends_as_the_command_in_this_one_does(kind: str, number: int, good: Files, plain: Path) -> None:
    files = mutated(kind, number, good)
    for line in KINDS[kind].lines[:3]:
        laid(plain, files)
        done = tracer_process(*line, cwd=plain)
        assert not list(faults(line, done, plain, files)), (line, done)
        laid(plain, files)
        assert called(*line).code == done.code


def test_there_are_five_thousand_cases_and_each_is_made_again_by_its_number(good: Files) -> None:
    assert len(CASES) >= 5000
    assert len(os.listdir(Path(__file__).parent)) > 1
    for kind in KINDS:
        assert mutated(kind, 3, good) == mutated(kind, 3, good)
    unchanged = sum(mutated(kind, number, good) == good for kind, number in CASES[::50])
    assert unchanged < len(CASES[::50]) // 10
