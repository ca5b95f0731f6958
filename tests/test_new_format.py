"""Adding a format is one row in ``report.report``: the command line and a file's suffix know it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.build import call, report, trace
from tests.support.command import Command
from tracer import report as formats
from tracer.integrations.chosen_steps import ChosenSteps
from tracer.report import Format, Report, rendered_as

NAME, SUFFIX = "haiku", ".haiku"


def render_haiku(made: Report) -> str:
    return f"a step was traced once\n{len(made.findings)} lines stood there and fell\n{made.target.backend} is calm\n"


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The row, and the module that it names."""
    (tmp_path / "haiku_format.py").write_text(
        "from tests.test_new_format import render_haiku as render\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(formats.FORMATS, NAME, Format(SUFFIX, "haiku_format"))  # type: ignore[arg-type]


def test_python_renders_it_and_a_suffix_picks_it(tmp_path: Path) -> None:
    made = report()
    assert rendered_as(NAME, made) == render_haiku(made)
    assert made.write(tmp_path / f"out{SUFFIX}").read_text(encoding="utf-8") == render_haiku(made)


def test_the_command_line_prints_it_and_writes_it(tracer: Command) -> None:
    trace(call()).save("t.json")
    printed = tracer("report", "t.json", "--backend", "cuda", "--format", NAME)
    assert (printed.code, printed.out.splitlines()[2:]) == (0, ["cuda is calm"])
    for arguments in (("-o", f"out{SUFFIX}"), ("-o", "both", "--format", f"csv,{NAME}")):
        assert tracer("report", "t.json", "--backend", "cuda", *arguments).code == 0
    for name in ("out", "both"):
        assert Path(f"{name}{SUFFIX}").read_text(encoding="utf-8") == printed.out


def test_what_is_refused_names_it_among_the_formats_and_callbacks_take_it(tmp_path: Path, tracer: Command) -> None:
    trace(call()).save("t.json")
    refused = tracer("report", "t.json", "--format", "docx")
    assert refused.code != 0
    assert NAME in refused.err
    assert ChosenSteps([0], output=tmp_path, formats=(NAME,)).formats == (NAME,)
