"""What ``tracer run`` does before a script's first line, and the tracebacks that the script alone would print."""

from __future__ import annotations

import builtins
import gc
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import tracer
from tests.support.command import process, tracer_process
from tracer.files import collector_paused
from tracer.runner.running import trim

#: Needed by compiled code, by values, by a judge, or by tables that changed since ``asked.json`` was made from them.
NOT_AT_ONCE = (
    "tracer.recording.compiled.listing",
    "tracer.recording.compiled.kernel_text",
    "tracer.tables.rules",
    "tracer.recording.compiled.graph_text",
    "tracer.tables.setting_rows",
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


OURS = str(Path(tracer.__file__).parent / "recording" / "invented.py")
BUNDLED = str(Path(tracer.__file__).parent / "bundled" / "invented.py")


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


def test_frames_of_ours_go_and_those_of_the_bundled_example_stay() -> None:
    error = call_through("user.py", OURS, "other.py", BUNDLED, last=fail)
    trim(error)
    assert files(error) == ["test_start.py", "user.py", "other.py", "invented.py", "test_start.py"]


def test_the_frame_in_which_torch_calls_the_op_for_us_goes_too() -> None:
    error = call_through("user.py", OURS, "/x/torch/_ops.py", "deep.py", last=fail)
    trim(error)
    assert files(error) == ["test_start.py", "user.py", "deep.py", "test_start.py"]


def test_an_error_of_our_own_keeps_every_frame() -> None:
    space: dict[str, Callable[[], object]] = {}
    exec(compile("def broken():\n    raise KeyError('ours')\n", OURS, "exec"), space)
    error = call_through("user.py", OURS, last=space["broken"])
    trim(error)
    assert files(error) == ["test_start.py", "user.py", "invented.py", "invented.py"]


def test_causes_and_contexts_are_trimmed_and_cycles_end() -> None:
    first = call_through("user.py", OURS, last=fail)
    second = call_through("user.py", last=fail)
    second.__cause__ = first
    first.__context__ = second
    trim(second)
    assert "invented.py" not in files(first)


def test_members_of_a_group_are_trimmed() -> None:
    group_type = getattr(builtins, "ExceptionGroup", None)
    if group_type is None:
        pytest.skip("ExceptionGroup came with Python 3.11")
    member = call_through("user.py", OURS, last=fail)
    trim(group_type("several", [member]))
    assert "invented.py" not in files(member)
