"""One trace judged for many targets, and the page that switches between them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from tests.support.build import call, trace
from tracer import judge
from tracer.errors import TargetError
from tracer.names import Backend
from tracer.report.blocks import PAGE
from tracer.report.sections.calls import MOST_ROWS_ELSEWHERE, mode_effect, targets, targets_shown
from tracer.report.sections.process import command
from tracer.report.words import calls_behind, sites_of
from tracer.session import MOST_TARGETS, judge_targets, targets_named
from tracer.tables.loading import existing_tables
from tracer.trace import Trace

RECORDED = "2.13.0"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("npu", [("npu", "2.13.0")]),
        ("cuda:2.4, cuda:2.13,npu", [("cuda", "2.4.0"), ("cuda", "2.13.0"), ("npu", "2.13.0")]),
        ("cuda:2.4,cuda:2.4.0", [("cuda", "2.4.0")]),
        ("all:2.9", [(str(backend), "2.9.0") for backend in sorted(existing_tables())]),
    ],
)
def test_targets_are_named_in_short(text: str, found: list[tuple[str, str]]) -> None:
    assert [(str(backend), version) for backend, version in targets_named(text, RECORDED)] == found


def test_all_is_every_table_at_the_oldest_the_newest_and_the_recorded_version() -> None:
    found = targets_named("all", "2.7.1")
    assert {backend for backend, _ in found} == set(existing_tables())
    assert [version for backend, version in found if backend is Backend.CUDA] == ["2.4.0", "2.7.1", "2.13.0"]


@pytest.mark.parametrize("text", ["", ",", "tpu", "recorded", "cuda:", "cuda:new", "CUDA", "cuda:2", "cuda:2.4:5"])
def test_a_target_that_is_none_gets_one_line(text: str) -> None:
    with pytest.raises(TargetError) as caught:
        targets_named(text, RECORDED)
    assert "\n" not in str(caught.value)


def test_too_many_targets_are_refused() -> None:
    many = ",".join(f"cuda:2.{minor}.{patch}" for minor in range(10) for patch in range(5))
    with pytest.raises(TargetError, match=f"at most {MOST_TARGETS}"):
        targets_named(many, RECORDED)


def two_calls() -> Trace:
    facts = {"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 2}
    return trace(call("aten.index_add_.default", count=3, facts=facts), call("aten.cumsum.default", facts=facts))


def test_the_own_target_comes_first_and_each_target_once() -> None:
    made = judge(two_calls(), backend="cuda")
    made = replace(made, portability=judge_targets(two_calls(), targets_named("all,cuda", RECORDED)))
    shown = [(str(one.target.backend), one.target.torch) for one in targets_shown(made)]
    assert shown[0] == ("cuda", RECORDED)
    assert targets_shown(made)[0] is made.judgement
    assert len(shown) == len(set(shown)) == 2 * len(existing_tables())
    assert targets(judge(two_calls(), backend="cuda"), PAGE) is None


def test_each_targets_row_says_what_a_report_for_it_alone_would() -> None:
    made = judge(two_calls(), backend="cuda")
    made = replace(made, portability=judge_targets(two_calls(), targets_named("all", RECORDED)))
    section = targets(made, PAGE)
    assert section is not None
    for row, judged in zip(section.blocks[1].data.rows, targets_shown(made), strict=True):  # type: ignore[union-attr]
        alone = judge(two_calls(), backend=judged.target.backend, torch=judged.target.torch)
        assert row[1] == str(len(alone.findings))
        assert sum(map(int, row[2:-1])) == alone.tally.total == 4
        assert judged == alone.judgement


def test_what_the_mode_would_do_counts_calls_and_places() -> None:
    facts = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 2, "arg.reduction": "mean"}
    made = judge(
        trace(
            call("aten.index_add_.default", count=3, facts=facts),
            call("aten.index_add_.default", count=2, location="train.py:11", facts=facts),
            call("aten.nll_loss2d_forward.default", count=5, facts=facts),
        ),
        backend="cuda",
        settings="default",
    )
    effect = mode_effect(made.findings)
    assert [(calls_behind(findings), sites_of(findings)) for findings in effect] == [(5, 2), (5, 1), (0, 0)]


def page_data(text: str) -> dict[str, object]:
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    data: dict[str, object] = json.loads(found.group(1))
    return data


def test_another_targets_rows_are_bounded_and_the_rest_is_counted() -> None:
    many = trace(*(call("aten.index_add_.default", location=f"a.py:{n}") for n in range(MOST_ROWS_ELSEWHERE + 7)))
    made = judge(many, backend="cpu")
    made = replace(made, portability=judge_targets(many, targets_named("cuda:2.13", RECORDED)))
    text = made.to_html()
    targets = page_data(text)["targets"]
    assert isinstance(targets, list)
    total = len(made.portability[0].findings)
    assert total > MOST_ROWS_ELSEWHERE
    assert (len(targets[1]["rows"]), targets[1]["more"]) == (MOST_ROWS_ELSEWHERE, total - MOST_ROWS_ELSEWHERE)


def test_settings_by_name_are_judged_again_in_python() -> None:
    made = judge(two_calls(), backend="cuda", settings={"deterministic_mode": "on"})
    again = command(made, made.target)
    assert again.startswith("judge(Trace.load('trace.json'), backend='cuda'")
    names = {"judge": judge, "Trace": type("Loaded", (), {"load": staticmethod(lambda path: two_calls())})}
    assert eval(again, names).judgement == made.judgement
