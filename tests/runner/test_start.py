"""Before a script's first line: tracebacks as the script's own, ranks and their files, steps, the text of lines."""

from __future__ import annotations

import builtins
import gc
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import tracer as package
from tests.support.build import call, trace
from tests.support.command import Command, process, tracer_process
from tracer.errors import UsageError
from tracer.files import collector_paused
from tracer.runner import script as module
from tracer.runner.ranks import Rank, current_rank, path_of_rank
from tracer.runner.running import trim
from tracer.runner.script import LONGEST, StepRange, source_lines, with_neighbours
from tracer.trace import Trace
from tracer.trace.merging import merge_traces

#: Needed by compiled code, by values, by a judge, or by tables that changed since ``asked.json`` was made from them.
NOT_AT_ONCE = (
    "tracer.recording.compiled.listing",
    "tracer.recording.compiled.kernel_text",
    "tracer.tables.rules",
    "tracer.recording.compiled.graph_text",
    "tracer.tables.loading",
    "packaging.specifiers",
    "tracer.recording.values.value_recorder",
    "xxhash",
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules that a recorded process has when it has imported torch and made one call."""
    folder = tmp_path_factory.mktemp("start")
    (folder / "script.py").write_text("import sys\nimport torch\ntorch.ones(2).sum()\nprint(*sys.modules)\n")
    done = process("-m", "tracer", "run", "script.py", cwd=folder)
    assert done.code == 0, done.err
    return set(done.out.split())


@pytest.mark.parametrize("module", NOT_AT_ONCE)
def test_a_recording_of_eager_code_loads_nothing_of_compiled_code_nor_of_tables(loaded: set[str], module: str) -> None:
    assert "tracer.recording.recorder" in loaded
    assert module not in loaded


def test_a_recording_with_values_describes_regions_only_where_one_runs(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nimport torch\ntorch.ones(2).sum()\nprint(*sys.modules)\n")
    done = process("-m", "tracer", "run", "--values", "script.py", cwd=tmp_path)
    assert "tracer.recording.values.value_recorder" in done.out.split()
    assert "tracer.recording.compiled.listing" not in done.out.split()


@pytest.mark.parametrize("is_enabled", [True, False], ids=["on", "off"])
def test_collections_wait_for_the_recorder_and_are_as_the_program_had_them(is_enabled: bool) -> None:
    (gc.enable if is_enabled else gc.disable)()
    try:
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() is is_enabled
    finally:
        gc.enable()


# --- a script that replaces its process ---
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "hint"),
    [
        ("'echo', ['echo', 'here']", "record that one"),
        ("'python3', ['python3', '-c', 'print(\\'here\\')']", "set beforehand"),
    ],
)
def test_another_program_that_takes_the_scripts_place_is_told(tmp_path: Path, program: str, hint: str) -> None:
    (tmp_path / "train.py").write_text(f"import os\nos.execvp({program})\n")
    done = tracer_process("run", "train.py", cwd=tmp_path)
    assert (done.code, done.out) == (0, "here\n")
    assert "(exec), which is not recorded" in done.err
    assert hint in done.err


# --- tracebacks as the script alone would have printed them ---
OURS = str(Path(package.__file__).parent / "recording" / "invented.py")

BUNDLED = str(Path(package.__file__).parent / "bundled" / "invented.py")


def call_through(*files: str, last: Callable[[], object]) -> BaseException:
    """The error of ``last``, called through one frame in each of ``files``."""
    function = last
    for file in reversed(files):
        space: dict[str, object] = {"inner": function}
        exec(compile("def outer():\n    return inner()\n", file, "exec"), space)
        function = space["outer"]  # type: ignore[assignment]
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def fail() -> None:
    raise ValueError("the user's")


def files(error: BaseException) -> list[str]:
    return [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]


OWN_ERROR: dict[str, Callable[[], object]] = {}
exec(compile("def broken():\n    raise KeyError('ours')\n", OURS, "exec"), OWN_ERROR)


@pytest.mark.parametrize(
    ("through", "last", "kept"),
    [
        (("user.py", OURS, "other.py", BUNDLED), fail, ["user.py", "other.py", "invented.py", "test_start.py"]),
        (("user.py", OURS, "/x/torch/_ops.py", "deep.py"), fail, ["user.py", "deep.py", "test_start.py"]),
        (("user.py", OURS), OWN_ERROR["broken"], ["user.py", "invented.py", "invented.py"]),
    ],
    ids=["the bundled example's stay", "in which torch calls the op for us", "an error of our own keeps all"],
)
def test_frames_of_ours_go(through: tuple[str, ...], last: Callable[[], object], kept: list[str]) -> None:
    error = call_through(*through, last=last)
    trim(error)
    assert files(error) == ["test_start.py", *kept]


def test_causes_and_contexts_are_trimmed_and_cycles_end() -> None:
    cause, context = (call_through("user.py", OURS, last=fail) for _ in range(2))
    last = call_through("user.py", last=fail)
    last.__cause__, cause.__context__, context.__context__ = cause, context, last
    trim(last)
    assert "invented.py" not in files(cause) + files(context)


def test_members_of_a_group_are_trimmed() -> None:
    group_type = getattr(builtins, "ExceptionGroup", None)
    if group_type is None:
        pytest.skip("ExceptionGroup came with Python 3.11")
    member = call_through("user.py", OURS, last=fail)
    trim(group_type("several", [member]))
    assert "invented.py" not in files(member)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("trace.json", "trace.rank3.json"),
        ("a/b.json.gz", "a/b.rank3.json.gz"),
        ("step.trace.json", "step.trace.rank3.json"),
        ("trace", "trace.rank3"),
        ("trace.txt", "trace.rank3.txt"),
    ],
)
def test_the_rank_stands_before_the_suffix(path: str, expected: str) -> None:
    assert path_of_rank(Path(path), Rank(3, 8)) == Path(expected)
    assert path_of_rank(Path(path), None) == Path(path)


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, Rank(1, 2)),
        ({"RANK": "1"}, None),
        ({"WORLD_SIZE": "2"}, None),
        ({"RANK": "one", "WORLD_SIZE": "2"}, None),
        ({}, None),
    ],
)
def test_a_rank_is_one_only_with_both_variables(environ: dict[str, str], rank: Rank | None) -> None:
    assert current_rank(environ) == rank


# --- the steps that ``--steps`` names ---
@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("0:1", StepRange(0, 1)),
        ("5:8", StepRange(5, 8)),
        ("3", StepRange(3, 4)),
        ("2:", StepRange(2)),
        (":4", StepRange(0, 4)),
        (":", StepRange()),
        (" 1:2 ", StepRange(1, 2)),
    ],
)
def test_a_window_reads_as_a_slice(text: str, steps: StepRange) -> None:
    assert StepRange.parse(text) == steps
    assert StepRange.parse(str(steps)) == steps


@pytest.mark.parametrize("text", ["", "a:b", "-1:", "1:-1", "3:1", "2:2", ":0", "1:5:2", "1.5:2", "٣:٤", "1,2"])
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        StepRange.parse(text)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("steps", "finished", "is_missed"),
    [
        (StepRange(), 0, False),
        (StepRange(0, 1), 0, True),
        (StepRange(0, 1), 1, False),
        (StepRange(5, 8), 7, True),
        (StepRange(5), 4, True),
        (StepRange(5), 5, False),
    ],
)
def test_a_run_that_is_too_short_is_told(steps: StepRange, finished: int, is_missed: bool) -> None:
    assert bool(steps.missed(finished)) is is_missed


# --- the text of lines ---


@pytest.mark.parametrize(("options", "kept"), [((), None), (("--with-source",), "y = torch.ones(3).cumsum(0)")])
def test_lines_are_kept_only_when_asked(tracer: Command, options: tuple[str, ...], kept: str | None) -> None:
    Path("train.py").write_text("import torch\ny = torch.ones(3).cumsum(0)\n")
    assert tracer("run", *options, "-o", "t.json", "train.py").code == 0
    assert Trace.load("t.json").source_lines.get("train.py:2") == kept


def test_files_outside_the_folder_and_installed_ones_are_never_read(tmp_path: Path) -> None:
    here = tmp_path / "project"
    (here / ".venv" / "lib" / "site-packages").mkdir(parents=True)
    (here / ".venv" / "lib" / "site-packages" / "lib.py").write_text("secret = 1\n")
    (tmp_path / "outside.py").write_text("secret = 2\n")
    (here / "linked.py").symlink_to(tmp_path / "outside.py")
    (here / "own.py").write_text("own = 3\n")
    places = [".venv/lib/site-packages/lib.py:1", "../outside.py:1", str(tmp_path / "outside.py:1"), "linked.py:1"]
    places += ["own.py:1", "own.py:99", "own.py:x", "gone.py:1", "", "nul\x00.py:1"]
    made = trace(*(call(location=place) for place in places))
    assert source_lines(made, str(here)) == {"own.py:1": "own = 3"}


def test_lines_and_their_number_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LINES", 3)
    (tmp_path / "long.py").write_text("\n".join(f"x = {'1' * 500}" for _ in range(9)))
    made = trace(*(call(location=f"long.py:{line}") for line in range(1, 9)))
    kept = source_lines(made, str(tmp_path))
    assert len(kept) == 3
    assert {len(text) for text in kept.values()} == {LONGEST}


def test_merged_traces_keep_both_and_the_first_ones_words() -> None:
    one, two = trace(source_lines={"a.py:1": "first"}), trace(source_lines={"a.py:1": "second", "b.py:1": "b"})
    assert merge_traces([one, two]).source_lines == {"a.py:1": "first", "b.py:1": "b"}


def test_a_line_is_shown_between_its_neighbours_and_never_from_outside_the_folder(tmp_path: Path) -> None:
    script = tmp_path / "own" / "train.py"
    script.parent.mkdir()
    script.write_text("".join(f"line_{number} = {number}\n" for number in range(1, 8)))
    (tmp_path / "other.py").write_text("secret = 1\n")
    places = ("train.py:4", "train.py:1", "train.py:99", "train.py", "../other.py:1")
    shown = with_neighbours(places, str(script.parent))
    assert list(shown) == ["train.py:4", "train.py:1"]
    assert shown["train.py:4"].splitlines() == [
        "      2  line_2 = 2",
        "      3  line_3 = 3",
        ">     4  line_4 = 4",
        "      5  line_5 = 5",
        "      6  line_6 = 6",
    ]
    assert shown["train.py:1"].splitlines()[0] == ">     1  line_1 = 1"
