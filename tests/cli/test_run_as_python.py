"""``tracer run``: the script runs as Python would run it, and ends as it would."""

from __future__ import annotations

import json
import signal
import zipfile
from pathlib import Path

import pytest

from tests.support.command import SCRIPTS, both, process, tracer_process
from tracer.trace import Trace

#: Ends at once, before a trace is written: that would import torch, which takes seconds.
SOURCE = (SCRIPTS / "show_main.py").read_text() + "\nsys.stdout.flush()\nos._exit(0)\n"


def folder_with_main(where: Path) -> Path:
    where.mkdir()
    (where / "__main__.py").write_text(SOURCE)
    return where


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with one script in every form that Python runs."""
    (tmp_path / "show.py").write_text(SOURCE)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link.py").symlink_to(tmp_path / "show.py")
    folder_with_main(tmp_path / "folder")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        packed.writestr("__main__.py", SOURCE)
    package = folder_with_main(tmp_path / "package")
    (package / "__init__.py").touch()
    (package / "inner.py").write_text(SOURCE)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        ("show.py", "--lr", "3", "-o", "x", "--help", "--", "-m"),
        pytest.param(("./sub/../sub/link.py",), marks=pytest.mark.slow),
        pytest.param(("folder", "a b"), marks=pytest.mark.slow),
        pytest.param(("packed.zip",), marks=pytest.mark.slow),
        ("-m", "package", "--steps", "1:2"),
        ("-m", "package.inner", "-h"),
    ],
    ids=["file", "link", "folder", "zip", "package", "module"],
)
def test_the_script_sees_what_python_shows_it(workplace: Path, line: tuple[str, ...]) -> None:
    plain, traced = both(workplace, *line)
    assert plain.code == traced.code == 0, traced.err
    assert json.loads(traced.out) == json.loads(plain.out)


def test_a_class_of_main_pickles_and_reaches_a_spawned_process(tmp_path: Path) -> None:
    traced = tracer_process("run", SCRIPTS / "pickles.py", cwd=tmp_path)
    assert traced.out == "[Sample(number=2), Sample(number=4)]\n"


def test_an_error_has_the_exit_code_and_the_traceback_that_python_gives_it(tmp_path: Path) -> None:
    plain = process(SCRIPTS / "fails.py", "op", cwd=tmp_path)
    traced = tracer_process("run", "-o", "t.json", SCRIPTS / "fails.py", "op", cwd=tmp_path)
    assert traced.code == plain.code == 1
    assert traced.err.splitlines()[:-1] == plain.err.splitlines()
    assert traced.err.splitlines()[-1].startswith("tracer: t.json (partial): 12 calls ")
    assert Trace.load(tmp_path / "t.json").partial == "RuntimeError"


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [pytest.param("exit3", 3, "", marks=pytest.mark.slow), ("message", 1, "the data is gone\n")],
)
def test_a_script_that_leaves_keeps_its_exit_code_and_its_message(
    tmp_path: Path, how: str, code: int, says: str
) -> None:
    done = tracer_process("run", SCRIPTS / "fails.py", how, cwd=tmp_path)
    assert done.code == code
    assert done.err.startswith(f"{says}tracer: trace.json: 9 calls ")
    assert Trace.load(tmp_path / "trace.json").partial == ""


@pytest.mark.parametrize(
    ("how", "code", "partial"),
    [
        pytest.param("SIGINT", -signal.SIGINT, "interrupted", marks=pytest.mark.slow),
        ("SIGTERM", -signal.SIGTERM, "ended by SIGTERM"),
    ],
)
def test_a_signal_leaves_a_partial_trace(tmp_path: Path, how: str, code: int, partial: str) -> None:
    done = tracer_process("run", SCRIPTS / "fails.py", how, cwd=tmp_path)
    assert done.code == code
    assert Trace.load(tmp_path / "trace.json").partial == partial
    assert f"(partial): 9 calls in 9 groups, 1 optimizer step; {partial}" in done.err


def test_a_traceback_of_the_tracers_users_is_not_trimmed_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("from tracer import Trace\nTrace.load('nope.json')\n")
    done = tracer_process("run", "s.py", cwd=tmp_path)
    assert done.code == 1
    assert "s.py" in done.err
    assert "TraceError: there is no file nope.json" in done.err


def test_a_forked_child_that_falls_off_the_end_writes_no_trace(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import os, torch\ntorch.ones(1) + 1\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\n"
        "    torch.ones(1) + 1\n    print(os.path.exists('trace.json'))\n"
    )
    done = tracer_process("run", "s.py", cwd=tmp_path)
    assert done.out == "False\n"
    assert done.err.count("tracer: ") == 1
    assert Trace.load(tmp_path / "trace.json").call_count == 4


def test_the_trace_goes_where_the_script_was_started(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "s.py").write_text("import os\nos.chdir('elsewhere')\n")
    assert tracer_process("run", "s.py", cwd=tmp_path).code == 0
    assert (tmp_path / "trace.json").exists()


@pytest.mark.slow
def test_a_compiled_module_warns_of_nothing_that_is_not_the_scripts(tmp_path: Path) -> None:
    script = tmp_path / "compiles.py"
    script.write_text(
        "import torch\n"
        'compiled = torch.compile(torch.nn.Linear(2, 2), backend="eager")\n'
        "compiled(torch.ones(1, 2)).sum().backward()\n"
    )
    done = tracer_process("run", "-o", "trace.json", "compiles.py", cwd=tmp_path)
    assert done.code == 0
    plain = process("compiles.py", cwd=tmp_path)
    assert [line for line in done.err.splitlines() if "Warning" in line] == [
        line for line in plain.err.splitlines() if "Warning" in line
    ]
