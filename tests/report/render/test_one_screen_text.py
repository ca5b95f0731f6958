"""One screen in a terminal: verdict, caveats, plan; what makes the verdict honest never falls off."""

from __future__ import annotations

import pytest

from tests.support.build import call, finding, report, trace
from tracer import judge
from tracer.findings import Finding
from tracer.names import Detail
from tracer.report import Report
from tracer.report.render.terminal import SHOWN, to_text

EVIDENCE = "That is no proof"


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
    assert "(changes 1 to 3)" in lines
    assert "3 places, first source/models/blocks/part_0.py:1" in lines
    assert "part_0.py:2 aten.op_0, 1 call;" in lines


def test_seeds_of_what_certainly_differs_come_first() -> None:
    facts = {"device": "cpu", "rng.generator": "cpu", "rng.origin": "machine"}
    made = judge(trace(call(count=9), call("aten.rand.default", facts=facts)), backend="cuda", settings="default")
    assert [change.title for change in made.plan] == ["Seed torch's generators", "Turn deterministic mode on"]


@pytest.mark.parametrize("detail", list(Detail))
def test_no_caveat_falls_off(detail: Detail) -> None:
    text = " ".join(" ".join(screen(report(watched_from_start=False), detail)).split())
    assert text.startswith("= No risk found in 100 calls. Not seen: what ran before recording. Not judged: what Python")


@pytest.mark.parametrize(
    ("found", "is_risk"),
    [
        ([], False),
        ([finding(verdict="deterministic", deterministic_mode="raises")], False),
        ([finding(verdict="seeded", deterministic_mode="seeded")], False),
        ([finding()], True),
    ],
)
def test_no_risk_found_keeps_its_evidence(found: list[Finding], is_risk: bool) -> None:
    text = " ".join(screen(report(*found)))
    assert ("No risk found" in text) is not is_risk
    assert (EVIDENCE in text) is not is_risk


def test_what_is_done_is_bold_where_a_terminal_has_colours() -> None:
    text = to_text(report(finding()), width=100, color=True, limit=SHOWN)
    assert "\x1b[1mTurn deterministic mode on\x1b[0m\n" in text
    assert "       \x1b[1mtorch.use_deterministic_algorithms(True)\x1b[0m\n" in text
