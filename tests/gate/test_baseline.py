"""The lock file holds what was accepted, and nothing that moving code or training longer would change."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import finding
from tracer.errors import BaselineError
from tracer.gate import (
    HEADER,
    NO_REASON,
    Accepted,
    Risk,
    compare,
    format_baseline,
    parse_baseline,
    read_baseline,
    risk_of,
    updated,
    write_baseline,
)
from tracer.names import About, Verdict

TODAY = datetime.date(2026, 11, 21)
cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
accepted_lines = st.builds(
    Accepted,
    st.builds(Risk, cells.filter(lambda rule: not rule.startswith("#")), cells, cells, cells, cells, cells),
    st.sampled_from(Verdict),
    st.none() | st.dates(),
    cells,
    st.just(0),
)


def accept(one: Any, **fields: Any) -> Accepted:
    return Accepted(risk_of(one), one.verdict)._replace(**fields)


@given(st.lists(accepted_lines, max_size=4, unique_by=lambda one: one.risk))
def test_any_line_comes_back_from_the_file_as_it_was(lines: list[Accepted]) -> None:
    read = parse_baseline(format_baseline(lines), "determinism.lock")
    assert {one._replace(line=0) for one in read} == set(lines)


def test_the_file_is_sorted_and_the_same_findings_give_the_same_bytes() -> None:
    lines = [accept(finding(op=f"aten.op{n}.default")) for n in (3, 1, 2)]
    assert format_baseline(lines) == format_baseline(reversed(lines))
    assert sorted(format_baseline(lines).splitlines()[2:]) == format_baseline(lines).splitlines()[2:]


@pytest.mark.parametrize(
    "moved", [{"location": "train.py:99"}, {"count": 7}, {"facts": {"dtype": "float16"}}, {"why": "Another reason."}]
)
def test_lines_counts_and_values_make_no_new_risk(moved: dict[str, Any]) -> None:
    before = finding()
    after = msgspec.structs.replace(before, **moved)
    assert risk_of(before) == risk_of(after)
    assert compare([after], [accept(before)], TODAY).accepted == (after,)


@pytest.mark.parametrize(
    "other",
    [
        {"rule": "cuda-scatter"},
        {"op": "aten.scatter.src"},
        {"module": "net.other"},
        {"location": "other.py:10"},
        {"function": "backward"},
    ],
)
def test_another_rule_op_module_file_or_function_is_new(other: dict[str, Any]) -> None:
    there = msgspec.structs.replace(finding(), **other)
    compared = compare([there], [accept(finding())], TODAY)
    assert compared.new == (there,)
    assert [line.risk for line in compared.fixed] == [risk_of(finding())]


def test_an_acceptance_ends_on_its_day() -> None:
    now = finding()
    tomorrow = TODAY + datetime.timedelta(days=1)
    assert compare([now], [accept(now, until=tomorrow)], TODAY).accepted == (now,)
    assert compare([now], [accept(now, until=TODAY)], TODAY).expired == (now,)


def test_updating_keeps_reasons_and_days_and_drops_what_was_fixed() -> None:
    kept, gone, new = finding(), finding(op="aten.gone.default"), finding(op="aten.new.default")
    before = [accept(kept, reason="reviewed by Ann", until=TODAY), accept(gone, reason="old")]
    after = {one.risk: one for one in updated([kept, new], before)}
    assert after[risk_of(kept)] == before[0]
    assert after[risk_of(new)].reason == NO_REASON
    assert risk_of(gone) not in after


def test_of_the_process_a_name_is_kept_whatever_is_said_of_it() -> None:
    def setting(**said: str) -> Risk:
        fields: dict[str, Any] = {"op": "", "location": "", "about": About.SETTING, "name": "torch.backends.x"}
        return risk_of(finding(**(fields | said)))

    assert setting(subject="torch.backends.x = True") == setting(subject="torch.backends.x: nobody set it")
    assert setting().op == "torch.backends.x"
    assert setting(name="torch.backends.y") != setting()


def test_findings_of_one_risk_are_accepted_up_to_the_worst() -> None:
    mild, bad = finding(verdict="conditional", location="train.py:3"), finding(verdict="nondeterministic")
    (line,) = updated([bad, mild], [])
    assert line == updated([mild, bad], [])[0] == Accepted(risk_of(bad), Verdict.NONDETERMINISTIC)
    assert compare([mild, bad], [line._replace(verdict=mild.verdict)], TODAY)[:3] == ((mild,), (), (bad,))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "first line is not its header"),
        ("# determinism.lock 2: later\n", "first line is not its header"),
        (f"{HEADER}\na | b\n", "lock:2 has 2 columns in place of 9"),
        (f"{HEADER}\nr | o | p | m | f | n | perhaps | | why\n", "lock:2: there is no verdict 'perhaps'"),
        (f"{HEADER}\nr | o | p | m | f | n | raises | soon | why\n", "lock:2: 'soon' is no day"),
        (f"{HEADER}\n" + "r | o | p | m | f | n | raises | | why\n" * 2, "lock:3 accepts what line 2 accepts"),
    ],
)
def test_what_is_no_lock_file_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(BaselineError) as refused:
        parse_baseline(text, "lock")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_or_unreadable_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="there is no baseline"):
        read_baseline(tmp_path / "none.lock")
    (tmp_path / "bytes.lock").write_bytes(b"\xff\xfe")
    with pytest.raises(BaselineError, match="cannot read"):
        read_baseline(tmp_path / "bytes.lock")


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    line = accept(finding(module="odd | name ", function="<lambda>"), reason="seen")
    write_baseline(tmp_path / "determinism.lock", [line])
    assert [one._replace(line=0) for one in read_baseline(tmp_path / "determinism.lock")] == [line]
