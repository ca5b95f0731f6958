"""When Inductor compiles, and what it reads then."""

from __future__ import annotations

import shutil
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.support.lines import line_of, record
from tracer.names import EventKind, Subsystem
from tracer.recording.compiled import compilations as compiled
from tracer.recording.compiled.compilations import CompileLog
from tracer.recording.events import EventLog
from tracer.recording.origin.sites import Sites
from tracer.recording.torch_private import compile_seams, seams
from tracer.trace.records import Event


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """Inductor's entry that gives back the graph as it is: nothing is compiled."""
    module, name = seams.INDUCTOR_ENTRY
    entry = types.ModuleType(module)
    setattr(entry, name, lambda graph, inputs, **_: graph.forward)
    entry.get_patched_config_dict = lambda **_: {}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module, entry)
    trees = types.ModuleType("torch._inductor.cudagraph_trees")  # loaded by a reset where CUDA has started
    trees.reset_cudagraph_trees = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, trees.__name__, trees)
    yield entry
    monkeypatch.undo()  # up to torch 2.11, what resets dynamo looks for more in that module
    torch._dynamo.reset()


@pytest.fixture
def deterministic_mode_off() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)


def events_of(run: Callable[[], object]) -> tuple[Event, ...]:
    log = EventLog(Sites())
    watch = CompileLog(log)
    watch.start()
    try:
        run()
    finally:
        watch.stop()
    return tuple(event for event in log.listed() if event.name == Subsystem.INDUCTOR)


@pytest.mark.usefixtures("stand_in", "deterministic_mode_off")
def test_a_compilation_is_noted_at_the_line_that_ran_the_code_with_the_mode_of_that_moment() -> None:
    function = torch.compile(lambda x: x.sin())

    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.use_deterministic_algorithms(True, warn_only=True)
            function(torch.ones(2))  # compiles
            function(torch.ones(2))

    (event,) = events_of(run)
    assert (event.kind, event.value, event.count) == (EventKind.FIRST_USE, "deterministic_mode=warn", 1)
    assert int(event.location.rpartition(":")[2]) == line_of(run, "# compiles")


@pytest.mark.usefixtures("stand_in", "deterministic_mode_off")
def test_a_later_compilation_under_another_mode_is_told_apart() -> None:
    def run() -> None:
        for mode in (False, True):
            torch.use_deterministic_algorithms(mode)
            torch._dynamo.reset()
            torch.compile(lambda x: x.sin())(torch.ones(2))

    (event,) = events_of(run)
    assert (event.value, event.values_differ, event.count) == ("deterministic_mode=off", True, 2)


@pytest.mark.skipif(compile_seams.FALLS_BACK, reason="this torch compiles nothing under a dispatch mode")
@pytest.mark.usefixtures("stand_in")
def test_settings_are_those_of_the_compilation_and_not_what_became_of_them() -> None:
    config = pytest.importorskip("torch._inductor.config")
    name = "torch._inductor.config.max_autotune"

    def run() -> None:
        with config.patch(max_autotune=True):
            torch.compile(lambda x: x.sin())(torch.ones(2))

    assert record(run).trace.environment.settings[name] is True
    assert record(lambda: None).trace.environment.settings[name] is False


@pytest.mark.skipif(compile_seams.FALLS_BACK, reason="this torch compiles nothing under a dispatch mode")
@pytest.mark.usefixtures("stand_in")
def test_what_torch_compile_was_told_counts_as_inductors_setting() -> None:
    def run() -> None:
        torch.compile(lambda x: x.sin())(torch.ones(2))
        torch.compile(lambda x: x.cos(), mode="max-autotune-no-cudagraphs")(torch.ones(2))

    settings = record(run).trace.environment.settings
    assert settings["torch._inductor.config.max_autotune"] is True
    told = torch._inductor.list_mode_options("max-autotune-no-cudagraphs")
    name = "coordinate_descent_tuning"  # not of this mode in torch 2.4
    assert settings[f"torch._inductor.config.{name}"] is told.get(name, False)
    assert settings["torch._inductor.config.benchmark_kernel"] is False


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_other_backends_are_no_use_of_inductor(backend: str) -> None:
    assert events_of(lambda: torch.compile(lambda x: x.cos(), backend=backend)(torch.ones(2))) == ()
    torch._dynamo.reset()


@pytest.mark.skipif(not seams.KEEPS_COMPILED_CODE, reason="older torch compiles under a user's dispatch mode")
def test_code_that_fell_back_to_eager_compiled_nothing(stand_in: types.ModuleType) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    def run() -> None:
        with FlopCounterMode(display=False):
            torch.compile(lambda x: x.tan())(torch.ones(2))

    assert events_of(run) == ()


def test_inductor_used_without_torch_compile_is_noted_once(stand_in: types.ModuleType) -> None:
    """``compile_fx`` calls itself; only the outermost call counts."""
    name = seams.INDUCTOR_ENTRY[1]
    code = f"def {name}(graph, inputs, again=True):\n    return {name}(graph, inputs, False) if again else graph\n"
    exec(code, vars(stand_in))

    def run() -> None:
        assert getattr(stand_in, name)("graph", []) == "graph"  # uses

    (event,) = events_of(run)
    assert event.count == 1
    assert int(event.location.rpartition(":")[2]) == line_of(run, "# uses")


def test_what_is_watched_is_put_back(stand_in: types.ModuleType) -> None:
    name = seams.INDUCTOR_ENTRY[1]
    before = (vars(seams.inductor_wrapper)["__call__"], getattr(stand_in, name))
    watch = CompileLog(EventLog(Sites()))
    watch.start()
    assert getattr(stand_in, name) is not before[1]
    watch.stop()
    assert (vars(seams.inductor_wrapper)["__call__"], getattr(stand_in, name)) == before


def test_this_torch_has_the_entries_that_are_watched() -> None:
    assert seams.inductor_wrapper is not None
    assert compiled._WRAPPER_CODE is not None


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
def test_inductor_itself_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    x = torch.arange(4.0)

    def run() -> None:
        assert torch.allclose(torch.compile(lambda x: x.sin() + 1)(x), x.sin() + 1)  # compiles

    (event,) = events_of(run)
    assert (event.value, event.count) == ("deterministic_mode=off", 1)
    assert int(event.location.rpartition(":")[2]) == line_of(run, "# compiles")
    torch._dynamo.reset()
