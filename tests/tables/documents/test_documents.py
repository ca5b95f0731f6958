"""Every statement of the five documents that this project began from is carried by a rule, and rightly.

The documents are not ours to ship: what they say stands here in our own words, a case a statement, and the counts
below are those of the documents, so that none can be lost. A statement that is wrong is carried as what is true, with
what is wrong about it. Statements on settings, seeds, memory and data loading wait for their own table; they fail
here, as expected, until that table carries them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.build import environment
from tests.tables.documents.ascend import ASCEND
from tests.tables.documents.cases import Check, D, Document, RowCheck, S, Statement
from tests.tables.documents.notes import CUDNN_NOTE, NOTES
from tests.tables.documents.torch_pages import CURRENT, EARLY
from tracer import Trace, judge
from tracer.facts import Value
from tracer.names import SEVERITY, Backend, Settings, Verdict
from tracer.tables.conditions import BoundRule, disjoint, in_deterministic_mode, wanted_values, with_forward
from tracer.tables.explaining import find_rules
from tracer.tables.loading import load_tables
from tracer.tables.rules import FORWARD_FACTS, UNNOTED, Rule
from tracer.tables.setting_rows import SettingRow, load_rows
from tracer.tables.settings import settings_of
from tracer.tables.versions import placed, release, reviewed_releases, speaks_of

ROOT = Path(__file__).parents[3]
DOCUMENTS = (ASCEND, EARLY, NOTES, CUDNN_NOTE, CURRENT)
DEFAULTS = {k: v for k, v in settings_of(environment(), Settings.DEFAULT).items() if k != "deterministic_mode"}

#: Entries and sentences of each document, counted in the documents; `interpolate` counts once a mode.
COUNTS = {
    "ascend-list": {"listed": 49, "said": 7},
    "early-page": {"switched": 17, "refused": 29, "said": 7},
    "reproducibility-notes": {
        "sources": 3,
        "seeds": 8,
        "benchmark": 5,
        "algorithms": 5,
        "convolutions": 2,
        "recurrent": 2,
        "memory": 4,
        "loading": 2,
    },
    "cudnn-flags": {"said": 11},
    "current-page": {"switched": 22, "refused": 26, "said": 16},
}


def cases(kind: str) -> list[object]:
    """Statements with their documents: those that rules carry (``checks``), rows (``rows``), or the program
    (``marker``), and those that name an API (``api``)."""
    return [
        pytest.param(document, statement, id=f"{document.name}: {statement.says}")
        for document in DOCUMENTS
        for statement in document.statements()
        if getattr(statement, kind)
    ]


def test_each_statement_is_carried_by_one_kind_of_check() -> None:
    for document in DOCUMENTS:
        for statement in document.statements():
            assert sum(map(bool, (statement.checks, statement.rows, statement.marker))) == 1, statement.says


def test_no_statement_was_lost() -> None:
    assert {
        document.name: {part: len(statements) for part, statements in document.parts.items()} for document in DOCUMENTS
    } == COUNTS


def test_each_api_of_the_ascend_list_stands_once() -> None:
    names = Counter(statement.api for statement in ASCEND.parts["listed"])
    assert len(names) == 49
    assert set(names.values()) == {1}


@pytest.mark.parametrize(("document", "statement"), cases("checks"))
def test_a_statement_is_carried_by_its_rule(document: Document, statement: Statement) -> None:
    tried = 0
    for check in statement.checks:
        for version in document.versions:
            if not check.versions or version in check.versions:
                holds(check, version)
                tried += 1
    assert tried, "no rule carries it"


#: Documents speak of numbers, in tensors that have a dimension, and of products by themselves.
TRUTHS = frozenset({"bool"})
GENERAL = ("shape.is_scalar", "attention.may_fuse")


def said_by(rule: Rule, version: str, known: Mapping[str, Value]) -> set[Verdict]:
    """The verdicts that calls can come to of which so much is ``known``, but for those on truth values alone."""
    live = (
        (case, {key: wanted_values(case, key) for key in case.when if key not in known})
        for case in rule.case
        if speaks_of(case.torch, version)
        and all(known[key] in wanted_values(case, key) for key in case.when if key in known)
    )
    return {case.verdict for case, when in disjoint(live) if when.get("dtype") != TRUTHS}


def holds(check: Check, version: str) -> None:
    """The rule exists, speaks of each op in this version, and answers as the statement says.

    A document speaks of calls in general; our rules set apart those that are harmless. So with the mode off the worst
    that a call under the entry's condition can come to counts, and with it on, every call.
    """
    table = load_tables()[Backend(check.backend)]
    if check.rule != check.backend:
        assert check.rule in {rule.id for rule in table.rule}
    if placed(table.reviewed, release(version)) != "reviewed":
        version = reviewed_releases(table.reviewed)[0]
    known = dict(UNNOTED) | dict.fromkeys((*FORWARD_FACTS, *GENERAL), False) | with_forward(DEFAULTS)
    known |= {"index.broadcasts": "no"} | check.facts
    for op in check.ops:
        rule = table.find(op if op.count(".") == 2 else f"{op}.default")
        where = f"{op} on torch {version}"
        if rule is None:
            assert check.rule == check.backend, f"{where}: no rule"
            assert (table.deny_list, check.off, check.on) == (True, (D,), D), where
            continue
        assert check.rule in (rule.id, check.backend), where
        off = said_by(rule, version, with_forward({**known, "deterministic_mode": "off"}))
        assert min(off, key=SEVERITY.index) in check.off, where
        assert said_by(rule, version, in_deterministic_mode(known)) == {check.on}, where


@cache
def rules_under(api: str) -> dict[Backend, tuple[Rule, ...]]:
    return find_rules(api, load_tables())


@pytest.mark.parametrize(("document", "statement"), cases("api"))
def test_explain_leads_from_the_documents_name_to_the_rule(document: Document, statement: Statement) -> None:
    found = rules_under(statement.api)
    led = {rule.id for rules in found.values() for rule in rules}
    carrying = {check.rule for check in statement.checks if check.rule != check.backend}
    if document is ASCEND:
        named = {rule.id for rule in load_tables()[Backend.NPU].rule if statement.api in rule.apis}
        assert named & led & carrying, "no rule bears the name as the list spells it"
    else:
        assert carrying <= led


@pytest.mark.parametrize(("document", "statement"), cases("marker"))
def test_a_statement_about_reports_is_said_by_the_program(document: Document, statement: Statement) -> None:
    module, _, name = statement.marker.partition(":")
    if not name:
        assert (ROOT / module).is_file()
        return
    assert find_spec(module)
    place = import_module(module)
    for part in name.split("."):
        place = getattr(place, part)


@pytest.mark.parametrize(("document", "statement"), cases("rows"))
def test_a_statement_about_a_process_is_carried_by_its_row(document: Document, statement: Statement) -> None:
    rows = {row.id: row for row in load_rows().row}
    for check in statement.rows:
        row = rows[check.row]
        words = " ".join((row.why, row.remedy, *(case.why for case in row.case)))
        assert check.words in words
        for version in document.versions:
            assert says_something(check, row, check.triggers, version), f"torch {version}: not triggered"
            assert not says_something(check, row, check.clean, version), f"torch {version}: triggered by its twin"


def says_something(check: RowCheck, row: SettingRow, process: Trace | Mapping[str, Value], version: str) -> bool:
    """Whether the row puts ``process`` at risk, or has a note on it. A seeded draw is none."""
    if not isinstance(process, Trace):
        return BoundRule(row, version, {}).decide(process).verdict not in (D, S)
    judged = judge(process, backend=check.backend, torch=version).judgement
    risky = {one.rule for one in judged.findings if one.verdict not in (D, S)}
    return check.row in risky | {note.rule for note in judged.notes}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_a_correction_says_what_is_wrong(document: Document) -> None:
    for statement in document.statements():
        if statement.corrected:
            assert len(statement.corrected.split()) > 5
            assert statement.checks
