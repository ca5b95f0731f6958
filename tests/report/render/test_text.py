"""The terminal report: readable at any width, plain in a pipe, never by colour alone."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.report.samples import full_report
from tests.support.build import finding, report
from tests.support.command import process
from tracer.plain import breaks

WIDE = 120


@pytest.mark.parametrize("width", [40, 60, 80, WIDE])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = full_report().to_text(width=width, color=False)
    assert max(map(len, text.splitlines())) <= width
    assert not any(line != line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("width", [40, 60, 80, WIDE])
def test_every_width_tells_the_same_story(width: int) -> None:
    squeezed = "".join(full_report().to_text(width=width, color=False).split())
    for part in (
        "Cantworunsofmystepdiffer",
        "train.py:10",
        "aten.sort",
        "torch.use_deterministic_algorithms(True)",
        "model.py:88",
    ):
        assert part in squeezed, part


@pytest.mark.parametrize("width", range(30, 100, 3))
def test_a_long_place_never_breaks_inside_its_line_number(width: int) -> None:
    long = report(finding(location="transformers/models/gpt2/modeling_gpt2.py:1224", called_from="runs/train.py:102"))
    lines = long.to_text(width=width, color=False).splitlines()
    assert any("gpt2.py:1224" in line for line in lines)
    assert any("train.py:102" in line for line in lines)
    assert max(map(len, lines)) <= width


def test_a_module_that_is_the_place_is_said_once() -> None:
    lost = report(finding(location="", called_from="", module="net.fc"))
    assert lost.to_text(width=WIDE, color=False).split("Findings")[1].count("net.fc") == 1


@pytest.mark.parametrize(
    ("text", "width", "broken"),
    [
        ("short/name.py:1", 15, ["short/name.py:1"]),
        ("one two/three.py:44", 12, ["one two/", "three.py:44"]),
        ("GPT2.transformer.h.3", 12, ["GPT2.", "transformer.", "h.3"]),
        ("x" * 30, 10, ["x" * 30]),
    ],
)
def test_long_names_break_after_a_separator(text: str, width: int, broken: list[str]) -> None:
    ends = [*breaks(text, width), len(text)]
    assert [text[start:end] for start, end in zip([0, *ends], ends, strict=False)] == broken


def test_each_verdict_has_a_word_beside_its_colour() -> None:
    text = full_report().to_text(width=WIDE, color=True)
    assert "\x1b[" in text
    for word in ("nondeterministic", "conditional", "unknown", "seeded", "raises"):
        assert word in text


def test_colour_changes_nothing_that_is_read() -> None:
    made = full_report()
    colored = re.sub(r"\x1b\[[0-9;]*m", "", made.to_text(width=WIDE, color=True))
    plain = made.to_text(width=WIDE, color=False)
    assert [line.rstrip() for line in colored.splitlines()] == plain.splitlines()


def test_what_is_left_out_is_counted() -> None:
    many = report(*(finding(op=f"aten.op{n}", location=f"train.py:{n}") for n in range(60)))
    rest = r"50 more findings, of (aten.op\d+, ){3}aten.op\d+ and 46 more: --verbose"
    assert re.search(rest, many.to_text(width=WIDE, color=False, limit=10))
    assert "more findings" not in many.to_text(width=WIDE, color=False, limit=None)


def piped(**variables: str) -> str:
    script = "from tests.report.samples import full_report; print(full_report().to_text(), end='')"
    done = process("-c", script, cwd=Path(__file__).parents[3], **variables)
    assert done.code == 0, done.err
    return done.out


def test_a_pipe_gets_no_escape_and_the_asked_for_width() -> None:
    text = piped(COLUMNS="60", FORCE_COLOR="", TERM="xterm-256color")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 60


def test_no_color_is_honoured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in full_report().to_text()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in full_report().to_text()
