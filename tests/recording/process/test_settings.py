"""Settings as they stand, read from what is loaded."""

from __future__ import annotations

import enum
import sys
import types
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from tests.support.command import process
from tracer.recording.process.environment import capture_environment
from tracer.recording.process.settings import read_settings, set_variables
from tracer.tables.asked import asked
from tracer.tables.loading import named_settings as from_tables
from tracer.tables.loading import named_variables
from tracer.tables.setting_rows import load_rows

ROOT = Path(__file__).parents[3]


def read(name: str) -> Any:
    """What one dotted name gives; ``None`` where it is left out."""
    return read_settings([name]).get(name.removesuffix("()"))


class Colour(enum.Enum):
    RED = 1


class Loud(str, enum.Enum):
    HIGH = "high"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    made = types.ModuleType("settings_of_a_test")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (True, True),
        (0, 0),
        ("high", "high"),
        (Colour.RED, "RED"),
        (Loud.HIGH, "HIGH"),
        (torch._C._BlasBackend.Cublas, "Cublas"),
        ((False, "auto"), "False, auto"),
        ({"b", "a"}, "a, b"),
        (1.5, "1.5"),
        (object(), "object"),
        ("x" * 1000, "x" * 200),
        (None, None),
    ],
)
def test_a_value_is_told_as_a_trace_can_hold_it(module: types.ModuleType, held: Any, told: Any) -> None:
    module.held = held  # type: ignore[attr-defined]
    found = read("settings_of_a_test.held")
    assert found == told
    assert type(found) is type(told)
    module.asked = lambda: held  # type: ignore[attr-defined]
    assert read("settings_of_a_test.asked()") == told


def test_torchs_own_settings_are_read_where_they_lie() -> None:
    assert read("torch.backends.cudnn.benchmark") is torch.backends.cudnn.benchmark
    assert read("torch.get_float32_matmul_precision()") == torch.get_float32_matmul_precision()
    assert read("torch.backends.cuda.matmul.allow_tf32") is torch.backends.cuda.matmul.allow_tf32
    assert read("torch.utils.deterministic.fill_uninitialized_memory") is True


@pytest.mark.parametrize(
    "name", ["torch.no_such_setting", "torch.get_num_threads.deeper()", "no_such_package.setting", "torch.nn()"]
)
def test_what_cannot_be_read_is_left_out(name: str) -> None:
    assert read_settings([name]) == {}


def test_a_function_that_fails_is_left_out(module: types.ModuleType) -> None:
    def fails() -> None:
        raise RuntimeError("not in this build")

    module.fails = fails  # type: ignore[attr-defined]
    assert read("settings_of_a_test.fails()") is None


def test_asking_imports_nothing(module: types.ModuleType) -> None:
    def imports(name: str) -> None:
        raise AssertionError(f"{name} was asked of the module's own __getattr__")

    module.__getattr__ = imports  # type: ignore[method-assign]
    assert read("settings_of_a_test.lazy.setting") is None
    code = (
        "import sys, torch\n"
        "from tracer.recording.process.settings import read_settings\n"
        "before = set(sys.modules)\n"
        "found = read_settings(['torch._inductor.config.max_autotune', 'torch.onnx.name'])\n"
        "print(found, set(sys.modules) - before, torch.cuda.is_initialized())"
    )
    done = process("-c", code, cwd=ROOT)
    assert done.out == "{} set() False\n", done.err


def test_neither_settings_nor_variables_nor_events_import_torch() -> None:
    modules = "process.settings", "events", "process_watch"
    code = "import sys\n" + "".join(f"import tracer.recording.{name}\n" for name in modules)
    code += "from tracer.tables.asked import asked\n"
    code += "tracer.recording.process.settings.read_settings(asked().settings)\n"
    code += "watch = tracer.recording.process_watch.ProcessWatch(tracer.recording.origin.sites.Sites(), ['A'])\n"
    code += "watch.enter()\nimport os\nos.environ['A'] = '1'\nassert len(watch.log.listed()) == 1\nwatch.leave()\n"
    done = process("-c", code + "print('torch' in sys.modules)", cwd=ROOT)
    assert done.out == "False\n", done.err


def test_variables_are_those_of_the_names_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "1")
    monkeypatch.setenv("THREE", "3")
    assert set_variables(["TWO", "ONE"]) == {"ONE": "1"}


def test_each_setting_is_asked_once(module: types.ModuleType) -> None:
    names = asked().settings
    assert len(set(names)) == len(names)
    assert names == from_tables()


def test_the_environment_of_a_trace_has_what_the_table_names(monkeypatch: pytest.MonkeyPatch) -> None:
    named = [one.variable for one in load_rows().row if one.variable]
    assert named
    assert set(named) <= named_variables()
    read_settings(asked().settings)  # what is read once from a variable is read before a test sets it
    for name in named:
        monkeypatch.setenv(name, "set-by-a-test")
    found = capture_environment()
    assert {name: found.variables[name] for name in named} == dict.fromkeys(named, "set-by-a-test")
    assert found.settings == read_settings(asked().settings)
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


def test_what_asking_would_settle_is_asked_after_calls_only() -> None:
    code = (
        "import os, torch\n"
        "from tracer import DeterminismTracer\n"
        "with DeterminismTracer() as tracer:\n"
        "    os.environ['ATEN_CPU_CAPABILITY'] = 'default'\n"
        "    torch.ones(3).sum()\n"
        "print(torch.backends.cpu.get_cpu_capability(), tracer.trace.environment.settings)"
    )
    done = process("-c", code, cwd=ROOT)
    assert done.out.startswith(("DEFAULT ", "NO AVX "))  # torch 2.4 has the second name for it
    before = read_settings(asked().settings, before_calls=True)
    assert "torch.backends.cpu.get_cpu_capability" not in before
    assert "torch.cuda.tunable.is_enabled" not in read_settings(asked().settings)


def test_reading_the_tables_settings_starts_nothing_and_draws_nothing() -> None:
    state = torch.get_rng_state()
    read_settings(asked().settings)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.cuda.is_initialized()
