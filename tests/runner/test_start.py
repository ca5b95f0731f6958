"""What ``tracer run`` loads and does before a script's first line, and right after its import of torch."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.support.command import process, tracer_process
from tracer.files import collector_paused

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
