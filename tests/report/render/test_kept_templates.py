"""Templates are compiled once a user; where that cannot be kept, each report compiles them, and nobody notices."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemBytecodeCache

from tests.support.build import finding, report
from tracer.report.render import page as html


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    html.page_environment.cache_clear()
    yield tmp_path
    html.page_environment.cache_clear()


def no_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_what_was_compiled_once_is_not_compiled_again(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = html.render(report(finding()))
    html.page_environment.cache_clear()
    monkeypatch.setattr(Environment, "compile", no_disk)
    assert html.render(report(finding())) == first
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o077 == 0


def test_where_python_keeps_no_bytecode_neither_do_templates(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert html.render(report(finding()))
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("broken", [(FileSystemBytecodeCache, "dump_bytecode"), (tempfile, "gettempdir")])
def test_a_disk_that_takes_nothing_costs_no_page(
    broken: tuple[object, str], temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = html.render(report(finding()))
    html.page_environment.cache_clear()
    for kept in temporary.glob("*/*"):
        kept.unlink()
    monkeypatch.setattr(*broken, no_disk)
    assert html.render(report(finding())) == page
    assert not list(temporary.glob("*/*"))


def test_a_folder_that_others_may_write_is_not_read(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    html.render(report(finding()))
    (folder,) = temporary.iterdir()
    html.page_environment.cache_clear()
    monkeypatch.setattr("os.getuid", lambda: folder.stat().st_uid + 1)
    (temporary / f"_jinja2-cache-{folder.stat().st_uid + 1}").symlink_to(folder)
    assert html._kept_templates() is None
