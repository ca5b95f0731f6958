"""Every statement of the five documents that this project began from is carried by a rule, and rightly.

The documents are not ours to ship: what they say stands here in our own words, a case a statement, and the counts
below are those of the documents, so that none can be lost. A statement that is wrong is carried as what is true, with
what is wrong about it. Statements on settings, seeds, memory and data loading wait for their own table; they fail
here, as expected, until that table carries them.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.build import environment
from tests.documents.ascend import ASCEND
from tests.documents.cases import ISSUE_4, Check, D, Document, Statement
from tests.documents.notes import CUDNN_NOTE, NOTES
from tests.documents.torch_pages import CURRENT, EARLY
from tracer.explaining import rows_of
from tracer.names import SEVERITY, Backend, Settings
from tracer.tables.loading import load_tables, table_file
from tracer.tables.lookup import find_rules
from tracer.tables.settings import settings_of
from tracer.tables.versions import placed, release, reviewed_releases

ROOT = Path(__file__).parent.parent
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
#: Statements that wait for the table of settings. The number only goes down.
WAITING = 32


def cases(*, marked: bool, waiting: bool = False, api: bool = False) -> list[object]:
    """Statements with their documents: those that rules carry (that name an API), of the program, or that wait."""
    return [
        pytest.param(
            document,
            statement,
            id=f"{document.name}: {statement.says}",
            marks=[pytest.mark.xfail(strict=True, reason=ISSUE_4)] if waiting else [],
        )
        for document in DOCUMENTS
        for statement in document.statements()
        if bool(statement.marker) is marked and (statement.marker == ISSUE_4) is waiting and (statement.api or not api)
    ]


def test_no_statement_was_lost() -> None:
    assert {
        document.name: {part: len(statements) for part, statements in document.parts.items()} for document in DOCUMENTS
    } == COUNTS


def test_each_api_of_the_ascend_list_stands_once() -> None:
    names = Counter(statement.api for statement in ASCEND.parts["listed"])
    assert len(names) == 49
    assert set(names.values()) == {1}


def test_what_waits_for_the_table_of_settings_is_counted() -> None:
    assert sum(statement.marker == ISSUE_4 for d in DOCUMENTS for statement in d.statements()) == WAITING


@pytest.mark.parametrize(("document", "statement"), cases(marked=False))
def test_a_statement_is_carried_by_its_rule(document: Document, statement: Statement) -> None:
    tried = 0
    for check in statement.checks:
        for version in document.versions:
            if not check.versions or version in check.versions:
                holds(check, version)
                tried += 1
    assert tried, "no rule carries it"


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
    known = DEFAULTS | check.facts
    for op in check.ops:
        rule = table.find(op if op.count(".") == 2 else f"{op}.default")
        where = f"{op} on torch {version}"
        if rule is None:
            assert check.rule == check.backend, f"{where}: no rule"
            assert (table.deny_list, check.off, check.on) == (True, (D,), D), where
            continue
        assert check.rule in (rule.id, check.backend), where
        rows = [
            row
            for row in rows_of(rule, version)
            if all(known[key] in values for key, values in row.when.items() if key in known)
        ]
        assert min((row.off for row in rows), key=SEVERITY.index) in check.off, where
        assert {row.on for row in rows} == {check.on}, where


@pytest.mark.parametrize(("document", "statement"), cases(marked=False, api=True))
def test_explain_leads_from_the_documents_name_to_the_rule(document: Document, statement: Statement) -> None:
    found = find_rules(statement.api, load_tables())
    led = {rule.id for rules in found.values() for rule in rules}
    carrying = {check.rule for check in statement.checks if check.rule != check.backend}
    if document is ASCEND:
        named = {rule.id for rule in load_tables()[Backend.NPU].rule if statement.api in rule.apis}
        assert named & led & carrying, "no rule bears the name as the list spells it"
    else:
        assert carrying <= led


@pytest.mark.parametrize(("document", "statement"), cases(marked=True))
def test_a_statement_about_reports_is_said_by_the_program(document: Document, statement: Statement) -> None:
    module, _, name = statement.marker.partition(":")
    if not name:
        assert (ROOT / module).is_file()
        return
    assert find_spec(module)
    place = import_module(module)
    for part in name.split("."):
        place = getattr(place, part)


@pytest.mark.parametrize(("document", "statement"), cases(marked=True, waiting=True))
def test_a_statement_about_settings_waits_for_its_table(document: Document, statement: Statement) -> None:
    assert table_file(Backend.CPU).with_name("environment.toml").is_file(), "no table of settings carries it yet"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_a_correction_says_what_is_wrong(document: Document) -> None:
    for statement in document.statements():
        if statement.corrected:
            assert len(statement.corrected.split()) > 5
            assert statement.checks
