"""A table that builds on another keeps its own word, and marks what it takes over as weaker."""

from __future__ import annotations

from tests.tables.samples import rule_text, table
from tracer.names import EvidenceKind
from tracer.tables.lint import faults_of
from tracer.tables.loading import with_inherited

ROCM = 'schema = 1\nbackend = "rocm"\nreviewed = ">=2.6,<=2.15"\ninherits = "cuda"\n'
OWN = rule_text(id="rocm-own", ops='["aten.mm", "aten.scatter", "aten.sort.stable"]')
PARENT = table(
    rule_text(id="cuda-products", ops='["aten.mm", "aten.bmm"]'),
    rule_text(id="cuda-scatter-src", ops='["aten.scatter.src"]'),
    rule_text(id="cuda-sort", ops='["aten.sort"]'),
)
MERGED = with_inherited(table(OWN, head=ROCM), PARENT)


def found(op: str) -> str:
    rule = MERGED.find(op)
    return rule.id if rule else ""


def test_own_rules_come_before_inherited_ones() -> None:
    assert found("aten.mm.default") == "rocm-own"
    assert found("aten.bmm.default") == "rocm-cuda-products"
    assert found("aten.addmm.default") == ""


def test_a_rule_for_a_packet_keeps_out_what_the_parent_says_of_its_overloads() -> None:
    assert found("aten.scatter.src") == "rocm-own"


def test_a_rule_for_an_overload_leaves_the_others_to_the_parent() -> None:
    assert found("aten.sort.stable") == "rocm-own"
    assert found("aten.sort.default") == "rocm-cuda-sort"


def test_cases_for_versions_that_the_table_does_not_speak_of_stay_behind() -> None:
    old = '{ torch = "<2.1", verdict = "raises" }'
    new = '{ verdict = "conditional" }'
    merged = with_inherited(table(OWN, head=ROCM), table(rule_text(old, new, ops='["aten.topk"]')))
    assert [len(rule.case) for rule in merged.rule] == [1, 1]
    assert list(faults_of(merged)) == []


def test_what_is_taken_over_says_so_and_weighs_least() -> None:
    rule = MERGED.find("aten.bmm.default")
    assert rule is not None
    assert rule.why.startswith("Inherited from cuda")
    assert {row.kind for row in rule.evidence} == {EvidenceKind.DOCUMENTED}
    assert all(row.ref.startswith("inherited from the cuda table") for row in rule.evidence)


def test_the_whole_is_as_sound_as_its_parts() -> None:
    assert list(faults_of(MERGED)) == []
