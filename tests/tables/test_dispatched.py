"""What builds of torch were seen to launch, and what the judge makes of it."""

from __future__ import annotations

import pytest

from tests.support.build import call
from tracer.names import Backend, EvidenceKind, Verdict
from tracer.tables.bound_table import BoundTable
from tracer.tables.loading import load_dispatched, load_table, with_dispatched
from tracer.tables.rules import Dispatched, Vouched

SEEN = Dispatched(
    schema=1,
    backend=Backend.CUDA,
    builds=("2.6.0", "2.9.1"),
    device="sm_90",
    rules={},
    vouched=(Vouched(first="2.6", last="2.9", ops=frozenset({"aten.mul.Tensor"})),),
)


@pytest.mark.parametrize(
    ("version", "grounds"),
    [("2.5.1", []), ("2.6.0", ["dispatched"]), ("2.9.0", ["dispatched"]), ("2.10.0", [])],
)
def test_an_op_without_a_rule_has_evidence_in_the_releases_that_were_recorded(version: str, grounds: list[str]) -> None:
    bound = BoundTable(with_dispatched(load_table(Backend.CUDA), SEEN), version, {})
    ruling = bound.outcome("aten.mul.Tensor", call(op="aten.mul.Tensor").facts)
    assert ruling.verdict is Verdict.DETERMINISTIC
    assert [str(row.kind) for row in ruling.evidence] == grounds


def test_an_op_that_was_not_recorded_rests_on_absence() -> None:
    bound = BoundTable(with_dispatched(load_table(Backend.CUDA), SEEN), "2.6.0", {})
    assert bound.outcome("aten.sqrt.default", {}).evidence == ()


def test_what_builds_launched_is_of_rules_that_exist_and_vouches_for_ops_that_none_names() -> None:
    table = load_table(Backend.CUDA)
    seen = table.dispatched
    assert seen is not None
    assert seen.rules.keys() <= {rule.id for rule in table.rule}
    vouched = [(op, entry.first) for entry in seen.vouched for op in entry.ops]
    assert [op for op, _ in vouched if table.find(op) is not None] == []
    assert len(vouched) == len(set(vouched))


def test_rules_that_the_builds_confirm_have_the_grade_between_source_and_measured() -> None:
    kinds = list(EvidenceKind)
    assert kinds.index(EvidenceKind.SOURCE) < kinds.index(EvidenceKind.DISPATCHED) < kinds.index(EvidenceKind.MEASURED)
    seen = load_dispatched(Backend.CUDA)
    assert seen is not None
    rule = load_table(Backend.CUDA).find("aten.index_add.default")
    assert rule is not None
    assert seen.rules[rule.id] in {row.ref for row in rule.evidence if row.kind is EvidenceKind.DISPATCHED}
    assert "indexFuncSmallIndex" in seen.rules[rule.id]


def test_another_backends_table_does_not_inherit_what_cuda_builds_launched() -> None:
    kinds = {row.kind for rule in load_table(Backend.ROCM).rule for row in rule.evidence}
    assert EvidenceKind.DISPATCHED not in kinds
