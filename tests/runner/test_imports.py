"""Being told of an import changes nothing about it."""

from __future__ import annotations

import importlib
import signal
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tracer.runner.imports import when_imported


@pytest.fixture(autouse=True)
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late_module.py").write_text("import late_other\nvalue = 1\n")
    (tmp_path / "late_other.py").write_text("value = 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in ("late_module", "late_other"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_the_call_comes_once_and_when_the_module_is_whole() -> None:
    finders = len(sys.meta_path)
    seen: list[int] = []
    when_imported("late_module", lambda: seen.append(sys.modules["late_module"].value))
    assert seen == []
    module = importlib.import_module("late_module")
    assert seen == [1]
    assert len(sys.meta_path) == finders
    assert "exec_module" not in vars(module.__loader__)
    importlib.reload(module)
    assert seen == [1]


def test_a_module_that_is_loaded_is_told_of_at_once() -> None:
    seen: list[str] = []
    when_imported("sys", lambda: seen.append("now"))
    assert seen == ["now"]


def test_an_import_that_fails_may_succeed_later(tmp_path: Path) -> None:
    (tmp_path / "late_other.py").write_text("raise ValueError('not yet')\n")
    seen: list[str] = []
    when_imported("late_module", lambda: seen.append("told"))
    with pytest.raises(ValueError, match="not yet"):
        importlib.import_module("late_module")
    assert seen == []
    (tmp_path / "late_other.py").write_text("value = 22222222\n")
    importlib.invalidate_caches()
    importlib.import_module("late_module")
    assert seen == ["told"]


def test_a_module_that_is_still_being_imported_is_told_of_once_it_is_whole(tmp_path: Path) -> None:
    seen: list[int] = []

    def awaited() -> None:
        when_imported("late_module", lambda: seen.append(sys.modules["late_module"].value))
        assert seen == []

    when_imported("late_other", awaited)
    spec = importlib.import_module("late_module").__spec__
    assert seen == [1]
    assert type(spec) is ModuleSpec


def test_a_module_whose_import_failed_is_awaited_again(tmp_path: Path) -> None:
    (tmp_path / "late_module.py").write_text("import late_other\nassert late_other.value != 2\nvalue = 1\n")
    seen: list[int] = []
    when_imported(
        "late_other", lambda: when_imported("late_module", lambda: seen.append(sys.modules["late_module"].value))
    )
    with pytest.raises(AssertionError):
        importlib.import_module("late_module")
    assert seen == []
    sys.modules["late_other"].value = 3
    importlib.import_module("late_module")
    assert seen == [1]


def test_an_interrupt_waits_until_the_module_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "late_other.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nvalue = 2\n")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    when_imported("late_module", lambda: None)
    try:
        with pytest.raises(KeyboardInterrupt):
            importlib.import_module("late_module")
    finally:
        signal.signal(signal.SIGINT, before)
    assert sys.modules["late_other"].value == 2
