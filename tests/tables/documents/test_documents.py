"""Every statement of the five documents that this project began from is carried, and rightly.

The documents are not ours to ship: what they say stands in ``statements`` in our own words, and counts of the
documents' sentences stand beside them, so that none can be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.build import environment
from tests.tables.documents.statements import DOCUMENTS, Check, D, Document, RowCheck, S, Statement
from tracer import Trace, judge
from tracer.facts import Value
from tracer.names import SEVERITY, Backend, Settings, Verdict
from tracer.tables.conditions import BoundRule, disjoint, in_deterministic_mode, wanted_values, with_forward
from tracer.tables.loading import load_tables
from tracer.tables.rules import FORWARD_FACTS, UNNOTED, Rule, SettingRow, load_rows
from tracer.tables.settings import settings_of
from tracer.tables.versions import placed, release, reviewed_releases, speaks_of

ROOT = Path(__file__).parents[3]
DEFAULTS = {k: v for k, v in settings_of(environment(), Settings.DEFAULT).items() if k != "deterministic_mode"}
#: Documents speak of numbers, in tensors that have a dimension, and of products by themselves.
TRUTHS = frozenset({"bool"})
GENERAL = ("shape.is_scalar", "attention.may_fuse")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_statement_was_lost(name: str) -> None:
    document, counted = DOCUMENTS[name]
    assert tuple(map(len, document.parts.values())) == counted


@pytest.mark.parametrize(
    ("document", "statement"),
    [
        pytest.param(document, statement, id=f"{name}: {statement.says}")
        for name, (document, _) in DOCUMENTS.items()
        for part in document.parts.values()
        for statement in part
    ],
)
def test_a_statement_is_carried(document: Document, statement: Statement) -> None:
    assert statement.carriers
    for carrier in statement.carriers:
        if isinstance(carrier, Check):
            versions = [v for v in document.versions if not carrier.versions or v in carrier.versions]
            assert versions
            for version in versions:
                holds(carrier, version)
        elif isinstance(carrier, RowCheck):
            is_found(carrier, document.versions)
        else:
            is_said(carrier)


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
    """The rule speaks of each op in this version, and answers as the statement says.

    A document speaks of calls in general; our rules set apart those that are harmless. So with the mode off the worst
    that a call under the statement's condition can come to counts, and with it on, every call.
    """
    table = load_tables()[Backend(check.rule.partition("-")[0])]
    if placed(table.reviewed, release(version)) != "reviewed":
        version = reviewed_releases(table.reviewed)[0]
    known = dict(UNNOTED) | dict.fromkeys((*FORWARD_FACTS, *GENERAL), False) | with_forward(DEFAULTS)
    known |= {"index.broadcasts": "no"} | check.facts
    for op in check.ops:
        rule = table.find(op if op.count(".") == 2 else f"{op}.default")
        where = f"{op} on torch {version}"
        assert rule is not None, where
        assert rule.id == check.rule, where
        off = said_by(rule, version, with_forward({**known, "deterministic_mode": "off"}))
        assert min(off, key=SEVERITY.index) is check.off, where
        assert said_by(rule, version, in_deterministic_mode(known)) == {check.on}, where


def is_found(check: RowCheck, versions: tuple[str, ...]) -> None:
    (row,) = (row for row in load_rows().row if row.id == check.row)
    assert check.words in " ".join((row.why, row.remedy, *(case.why for case in row.case)))
    for version in versions:
        assert says_something(check, row, check.triggers, version), f"torch {version}: not triggered"
        assert not says_something(check, row, check.clean, version), f"torch {version}: triggered by its twin"


def says_something(check: RowCheck, row: SettingRow, process: Trace | Mapping[str, Value], version: str) -> bool:
    """Whether the row puts ``process`` at risk, or has a note on it. A seeded draw is none."""
    if not isinstance(process, Trace):
        return BoundRule(row, version, {}).decide(process).verdict not in (D, S)
    judged = judge(process, backend=check.backend, torch=version).judgement
    risky = {one.rule for one in judged.findings if one.verdict not in (D, S)}
    return check.row in risky | {note.rule for note in judged.notes}


def is_said(place: str) -> None:
    """The program has the text, column or file that says it."""
    module, _, name = place.partition(":")
    if not name:
        assert (ROOT / module).is_file()
        return
    found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
