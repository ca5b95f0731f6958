"""The terminal report: readable at any width, plain in a pipe, one screen that keeps what makes the verdict honest."""

from __future__ import annotations

import re
import sys

import pytest

from tests.report.samples import full_report
from tests.support.build import call, finding, report, trace
from tracer import judge
from tracer.findings import Finding
from tracer.names import Detail, Prerequisite, Verdict
from tracer.plain import breaks
from tracer.report import Report
from tracer.report.render.terminal import SHOWN, to_text

WIDE = 120


@pytest.mark.parametrize("width", [40, 60, 80, WIDE])
def test_every_width_tells_the_same_story_and_no_line_is_wider(width: int) -> None:
    text = full_report().to_text(width=width, color=False)
    assert max(map(len, text.splitlines())) <= width
    assert not any(line != line.rstrip() for line in text.splitlines())
    told = ("Cantworunsofmystepdiffer", "train.py:10", "aten.sort", "torch.use_deterministic_algorithms(True)")
    for part in (*told, "model.py:88"):
        assert part in "".join(text.split()), part


@pytest.mark.parametrize("width", [30, 36, 45, 60, 99])
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


def test_each_verdict_has_a_word_beside_its_colour_which_changes_nothing_that_is_read() -> None:
    colored, plain = (full_report().to_text(width=WIDE, color=color) for color in (True, False))
    assert "\x1b[" in colored
    for word in ("nondeterministic", "conditional", "unknown", "seeded", "raises"):
        assert word in plain
    assert [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines()] == plain.splitlines()


def test_what_is_left_out_is_counted() -> None:
    many = report(*(finding(op=f"aten.op{n}", location=f"train.py:{n}") for n in range(60)))
    rest = r"50 more findings, of (aten.op\d+, ){3}aten.op\d+ and 46 more: --verbose"
    assert re.search(rest, many.to_text(width=WIDE, color=False, limit=10))
    assert "more findings" not in many.to_text(width=WIDE, color=False, limit=None)


def test_a_pipe_gets_no_escape_and_no_color_is_honoured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    piped = full_report().to_text()
    assert "\x1b" not in piped
    assert max(map(len, piped.splitlines())) <= 60
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "\x1b[" in full_report().to_text()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in full_report().to_text()


GOOD = (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)


def screen(made: Report, detail: Detail = Detail.USUAL) -> list[str]:
    return to_text(made, width=100, color=False, limit=SHOWN, detail=detail).splitlines()


def many(count: int, **fields: str) -> Report:
    """A report whose plan has a change for each of ``count`` ops at three lines, each with a long remedy."""
    return report(
        *(
            finding(
                f"cuda-rule-{number}",
                op=f"aten.op_{number}.default",
                location=f"source/models/blocks/part_{number}.py:{line}",
                remedy=f"Write it in another way: {'word ' * 40}{number}.",
                deterministic_mode="raises",
                why=f"{'Many words say why it varies ' * 6}{number}.",
                **fields,
            )
            for number in range(count)
            for line in (1, 2, 3)
        )
    )


@pytest.mark.parametrize("count", [1, 3, 6, 30])
def test_a_plan_that_is_too_long_lists_fewer_changes_and_counts_the_others(count: int) -> None:
    lines = screen(many(count))
    assert len(lines) <= 40
    assert lines[0] == "≠ Two runs of this step can differ."
    numbered = [line for line in lines if line.lstrip().startswith(tuple(f"{number}. " for number in range(1, 99)))]
    assert numbered
    left_out = next((line for line in lines if "more change" in line), "")
    assert bool(left_out) is (len(numbered) < count)


def test_equal_advice_at_several_lines_stands_once_with_its_lines() -> None:
    lines = " ".join(" ".join(screen(many(1))).split())
    assert lines.count("Write it in another way") == 1
    assert "3 places, first source/models/blocks/part_0.py:1" in lines
    assert "part_0.py:2 aten.op_0, 1 call;" in lines


def test_changes_are_numbered_as_they_are_listed_and_name_what_they_need_by_that_number() -> None:
    stays = {"deterministic_mode": "nondeterministic", "needs": (Prerequisite.DETERMINISTIC_MODE,), "remedy": "Do."}
    alike = [
        finding(f"cuda-{op}", op=f"aten.{op}.default", location=f"net.py:{line}", **fields)
        for line in (1, 2, 3)
        for op, fields in (("put_", {"deterministic_mode": "raises"}), ("mm", stays))
    ]
    text = " ".join(" ".join(screen(report(*alike, finding()))).split())
    assert "1. Replace aten.put_, which raises under deterministic mode" in text
    assert "2. Turn deterministic mode on" in text
    assert "Make change 1 first: what it replaces raises" in text
    assert "3. Change aten.mm, which deterministic mode alone does not fix" in text
    assert "3 places, first net.py:1. Needs deterministic mode too: make change 2 with it" in text


@pytest.mark.parametrize("count", [4, 5, 6])
def test_a_reason_stays_where_lines_give_way(count: int) -> None:
    fields = {"remedy": "Do.", "deterministic_mode": "nondeterministic", "planned": None}
    found = [
        finding(f"cuda-rule-{n}", op=f"aten.op_{n}.default", location=f"part_{n}.py:{line}", why=f"So {n}.", **fields)
        for n in range(count)
        for line in range(1, 6)
    ]
    text = "\n".join(screen(report(*found)))
    assert text.count("\n") < 40
    assert [text.count(f"Why: So {n}.") for n in range(count)] == [1] * count
    assert all(f"Lines: part_{n}.py:1" in text for n in range(count))


@pytest.mark.parametrize(
    ("causes", "says"),
    [
        (["tie-order"], "(if values tie)"),
        (["write-race", "tie-order"], "(if two writes meet at one index or if values tie)"),
        (["tie-order", "opaque"], ""),
    ],
)
def test_conditional_calls_are_counted_with_what_they_hang_on(causes: list[str], says: str) -> None:
    found = [finding(f"cuda-{cause}", verdict="conditional", cause=cause) for cause in causes]
    text = " ".join(" ".join(screen(report(*found))).split())
    assert f"{len(causes)} conditional{says and f' {says}'}, 100 deterministic" in text


REFUSED = {"verdict": "deterministic", "deterministic_mode": "raises", "op": "aten._ctc_loss_backward.default"}
DRAWN = {
    "verdict": "nondeterministic",
    "deterministic_mode": "nondeterministic",
    "cause": "rng",
    "sets": {"seed.torch": True},
}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([finding()], False),
        ([finding("cuda-rng", **DRAWN, planned=GOOD)], False),
        ([finding(), finding("cuda-ctc", **REFUSED, location="train.py:26")], False),
        ([finding("cuda-rng", **DRAWN, planned=GOOD), finding("cuda-ctc", **REFUSED, location="train.py:26")], True),
    ],
    ids=["in the plan", "no help", "in the plan, with what it refuses", "refuses and nobody asks"],
)
def test_deterministic_mode_is_spoken_of_where_it_helps_or_raises(found: list[Finding], says: bool) -> None:
    text = " ".join(" ".join(screen(report(*found))).split())
    stops = "would stop the step with an error at train.py:26 (aten._ctc_loss_backward)"
    assert (stops in text) is says
    assert "nothing known" not in text
    assert "only if you turn deterministic mode on" not in text


def test_seeds_of_what_certainly_differs_come_first() -> None:
    facts = {"device": "cpu", "rng.generator": "cpu", "rng.origin": "machine"}
    made = judge(trace(call(count=9), call("aten.rand.default", facts=facts)), backend="cuda", settings="default")
    assert [change.title for change in made.plan] == ["Seed torch's generators", "Turn deterministic mode on"]


@pytest.mark.parametrize("detail", list(Detail))
def test_no_caveat_falls_off(detail: Detail) -> None:
    text = " ".join(" ".join(screen(report(watched_from_start=False), detail)).split())
    assert text.startswith(
        "= No risk found in 100 calls. Not seen: what ran before recording. Not judged: files and clocks"
    )


@pytest.mark.parametrize(
    ("verdicts", "is_risk"),
    [
        ((), False),
        (("deterministic", "raises"), False),
        (("seeded", "seeded"), False),
        (("nondeterministic",) * 2, True),
    ],
)
def test_no_risk_found_keeps_its_evidence(verdicts: tuple[str, ...], is_risk: bool) -> None:
    found = [finding(verdict=verdicts[0], deterministic_mode=verdicts[1])] if verdicts else []
    text = " ".join(screen(report(*found)))
    assert ("No risk found" in text) is ("That is no proof" in text) is not is_risk


def test_what_is_done_is_bold_where_a_terminal_has_colours() -> None:
    text = to_text(report(finding()), width=100, color=True, limit=SHOWN)
    assert "\x1b[1mTurn deterministic mode on\x1b[0m\n" in text
    assert "       \x1b[1mtorch.use_deterministic_algorithms(True)\x1b[0m\n" in text
