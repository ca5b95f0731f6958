"""Reports on runs that were compared: what happened comes first; what is said of circumstances that were held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.runner.repeated.comparisons import divergence, repeated, root
from tests.support.build import finding, judgement
from tracer.divergence.causes import RootCause
from tracer.divergence.lines import LineSource
from tracer.divergence.model import EndState
from tracer.divergence.repeated import Held, HeldLine, Repeated, Run, next_steps
from tracer.names import ValueKind, Verdict
from tracer.report import Report
from tracer.report.blocks import Rows
from tracer.report.render.terminal import READER, drawn, printed
from tracer.report.sections.root_lines import line_sentence, root_line_blocks
from tracer.report.sections.runs import held_sentence, repeated_blocks, repeated_headline
from tracer.runner.repeated.declared import Circumstance
from tracer.trace.lines import LineMark

MARKUP = "</script><b>not bold</b>"


def page(**fields: Any) -> Report:
    """A report on run 1, of runs that part at ``train.py:41`` and, with other threads, at a place of a hostile name."""
    report = Report(judgement(finding(op="aten.bmm.default", location="train.py:9")))
    other = root(60, RootCause.SETTING, module=MARKUP, op="aten.sum.default", name=MARKUP)
    return replace(
        report, repeated=repeated(divergence(root()), {Circumstance.THREADS.value: divergence(root(), other)}, **fields)
    )


def test_what_happened_stands_first_then_the_report() -> None:
    html = page().to_html()
    assert "Run 2 diverges from run 1 in step 3, forward, at train<span" in html
    order = ["What happened", "Where they diverge", "Under other circumstances", "What to change", "Calls by verdict"]
    places = [html.index(f">{title}</h") for title in order]
    assert places == sorted(places)
    assert MARKUP not in html


def test_a_report_on_one_run_says_nothing_of_it() -> None:
    html = Report(judgement(finding())).to_html()
    assert "What happened" not in html


def test_the_plan_puts_what_was_seen_before_what_could_and_numbers_it_anew() -> None:
    could = finding("cuda-could", op="aten.bmm.default", location="train.py:9", count=500)
    seen = finding("cuda-seen", op="aten.index_put_.default", location="train.py:41", count=1)
    report = Report(judgement(could, seen))
    before = [change.rules for change in report.plan]
    report = replace(report, repeated=repeated(divergence(root())))
    after = report.plan
    assert sorted(before) == sorted(change.rules for change in after)
    assert [change.number for change in after] == list(range(1, len(after) + 1))
    assert "cuda-seen" in after[0].rules
    assert after[0].seen == 1


ALL = Held(circumstances=("hash-seed", "clock", "memory"), is_all=True, agrees=True, runs=2)
WORDS = {"clause": "the clock is held", "shows": "a moment or a duration reaches the step"}
CLOCK = Held(
    circumstances=("clock",), agrees=True, runs=3, is_cause=True, remedy="count steps and not seconds", **WORDS
)
ENDS = "the script ends with exit code 1 then"
NO_PROOF = Held(circumstances=("folder",), is_all=True, agrees=False, runs=1, no_proof=ENDS)


def of(*held: Held, not_held: str = "") -> Repeated:
    """Runs that part at ``train.py:18``, and what was held then."""
    return repeated(divergence(root(18, RootCause.ARGUMENT)), held=held, not_held=not_held)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            of(ALL, CLOCK),
            "They agree when the clock is held: a moment or a duration reaches the step, first at train.py:18",
        ),
        (of(ALL), "They agree when all of hash-seed, clock, memory are held; which of them decides was not determined"),
        (of(NO_PROOF), "Holding circumstances (folder) proves nothing here: " + ENDS),
        (of(), ""),
    ],
    ids=["cause", "not-found", "no-proof", "nothing"],
)
def test_one_sentence_says_what_holding_showed(found: Repeated, sentence: str) -> None:
    assert held_sentence(found) == sentence
    assert repeated_headline(found).endswith(sentence)


def test_what_runs_leave_alone_is_explained_by_a_hold_too_and_nothing_else_is_to_be_looked_for() -> None:
    ends = (EndState(kind=ValueKind.FILE, name="out.csv"),)
    runs = repeated(divergence(ends=ends), held=(ALL, CLOCK))
    assert "but they write different files (out.csv)" in repeated_headline(runs)
    assert repeated_headline(runs).endswith(". They agree when the clock is held")
    assert [change.title for change in next_steps(runs)] == ["Remove what differs: runs agree when the clock is held"]


def test_runs_that_part_with_all_held_do_not_agree() -> None:
    parts = Held(circumstances=("hash-seed", "clock"), is_all=True, agrees=False, runs=2, first=root(20))
    assert held_sentence(of(parts)).startswith(
        "They also diverge when everything that can be held is held (hash-seed, clock)"
    )


def test_the_text_has_each_hold_the_remedy_and_what_was_not_held() -> None:
    text = " ".join(printed(drawn(repeated_blocks(of(ALL, CLOCK), READER)), color=False).split())
    assert "With circumstances held" in text
    assert "Count steps and not seconds." in text
    assert "- all: runs 2; showed = agrees - clock: runs 3; showed = agrees" in text
    nothing = printed(drawn(repeated_blocks(of(not_held="several ranks"), READER)), color=False)
    assert "Nothing was held: several ranks." in nothing


@pytest.mark.parametrize(("way", "op"), [(("train.py:9", "train.py:60"), "aten.mul.Tensor"), ((), "aten.index_put_")])
def test_a_line_reaches_the_call_at_the_end_of_its_way(way: tuple[str, ...], op: str) -> None:
    roots = root(41, RootCause.INPUT_DATA), root(60, RootCause.INPUT_DATA, op="aten.mul.Tensor", location="train.py:60")
    source = LineSource(location="data.py:3", source="clock", path=way, reaches=True)
    said = line_sentence(msgspec.structs.replace(repeated(divergence(*roots)), sources=(source,)))
    assert f"it reaches {op} at" in said


@pytest.mark.parametrize(("agrees", "reaches"), [(None, "may reach"), (False, "may reach"), (True, "reaches")])
def test_a_way_that_is_not_seen_whole_is_certain_once_a_run_has_proven_it(agrees: bool | None, reaches: str) -> None:
    source = LineSource(location="train.py:5", source="clock", path=("train.py:41",), reaches=True, is_followed=False)
    held = () if agrees is None else (HeldLine(lines=("train.py:5",), agrees=agrees, runs=1),)
    found = msgspec.structs.replace(
        repeated(divergence(root(cause=RootCause.INPUT_DATA))), sources=(source,), held_lines=held
    )
    assert f"; it {reaches} aten.index_put_ at train.py:41" in line_sentence(found)


@pytest.mark.parametrize(
    ("names", "marks", "said"),
    [
        (("layer", "layer.bias", "layer.width"), (LineMark.ITERATES,), "`layer`"),
        (("way._name_", "way._value_"), (LineMark.ITERATES,), "`way`"),
        (("self.rows",), (LineMark.ITERATES,), "`self.rows` (1, in run 2 2)"),
        (("cfg.seed", "cfg.rate"), (), "`cfg.seed` and `cfg.rate` (1, in run 2 2)"),
    ],
)
def test_of_what_a_loop_takes_no_part_is_named_and_none_of_its_numbers(
    names: tuple[str, ...], marks: tuple[str, ...], said: str
) -> None:
    source = LineSource(location="a.py:3", names=names, first="1", second="2", may_call=marks, reaches=True)
    (shown,) = [block for block in root_line_blocks((source,), READER, second="run 2") if isinstance(block, Rows)]
    assert f"What differs: {said}." in str(shown)


@pytest.mark.parametrize(("held", "count"), [((), 5), ((HeldLine(lines=("a.py:3",), agrees=True, runs=1),), 3)])
def test_a_terminal_lists_few_roots_where_a_proven_line_says_why(held: tuple[HeldLine, ...], count: int) -> None:
    roots = [root(call, location=f"train.py:{call}") for call in range(5)]
    found = msgspec.structs.replace(repeated(divergence(*roots)), held_lines=held)
    (listed,) = [block for block in repeated_blocks(found, READER) if isinstance(block, Rows) and block.is_numbered]
    assert (len(listed.rows), listed.left_out) == (count, 5 - count)


def test_runs_that_agree_have_what_the_tables_say_can_differ() -> None:
    agree = repeated(divergence())
    risky = finding(verdict=Verdict.CONDITIONAL, location="train.py:7", op="aten.index_add_.default")
    seeded = finding(verdict=Verdict.SEEDED, location="train.py:3", op="aten.rand.default")
    text = " ".join(printed(drawn(repeated_blocks(agree, READER, findings=[seeded, risky])), color=False).split())
    assert "What can differ all the same" in text
    assert "train.py:7 aten.index_add_.default conditional" in text
    assert "train.py:3" not in text
    assert "all the same" not in printed(drawn(repeated_blocks(agree, READER, findings=[seeded])), color=False)


@pytest.mark.parametrize(
    ("codes", "clause"),
    [
        ((0, 0), ""),
        ((1, 1), ""),
        ((0, -11), "run 2 was killed by SIGSEGV, run 1 ended with exit code 0"),
        ((3, 0), "run 2 ended with exit code 0, run 1 ended with exit code 3"),
        ((-9, -9), "run 1 and run 2 were killed by SIGKILL"),
    ],
)
def test_runs_of_which_one_was_killed_or_that_end_with_several_codes_do_not_agree(
    codes: tuple[int, int], clause: str
) -> None:
    runs = tuple(Run(name=f"run {n}", file=f"run-{n}.json", code=code) for n, code in enumerate(codes, 1))
    found = repeated(divergence(), runs=runs)
    assert (found.agrees, found.ended_apart) == (not clause, clause)
    assert repeated_headline(found).lower().startswith(clause.lower())
    diverging = repeated(divergence(root()), runs=runs)
    assert repeated_headline(diverging).lower().endswith(clause.lower())
    ended = tuple(msgspec.structs.replace(run, stopped=True) for run in runs)
    assert repeated(divergence(), runs=ended, ended_by="ended by SIGTERM").agrees
