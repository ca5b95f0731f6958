"""What builds of torch were seen to launch: made again from the recordings, and what the judge makes of it."""

from __future__ import annotations

import pytest

from benchmarks.dispatched import FILE, against, kept_builds, lines_of, made, rest, seen_ops, vouched
from benchmarks.nullgpu.atomics import Atomics
from tests.build import call
from tracer.names import Backend, EvidenceKind, Verdict
from tracer.tables.lint.rule_lint import lint_dispatched
from tracer.tables.loading import load_dispatched, load_table, with_dispatched
from tracer.tables.model import Dispatched, Vouched
from tracer.tables.ruling.bound_table import BoundTable

SEEN = Dispatched(
    schema=1,
    backend=Backend.CUDA,
    builds=("2.6.0", "2.9.1"),
    device="sm_90",
    rules={},
    vouched=(Vouched(first="2.6", last="2.9", ops=frozenset({"aten.mul.Tensor"})),),
)


def test_what_the_file_says_of_ops_without_a_rule_is_what_the_recordings_say() -> None:
    table, builds = load_table(Backend.CUDA), kept_builds()
    kept, seen = builds.releases, seen_ops(builds)
    made_again = "\n".join(lines_of(kept, {}, vouched(seen, table, kept), rest(seen, table, kept)))
    first = "[[vouched]]"
    written = FILE.read_text(encoding="utf-8")
    assert written.count(first) > 3
    assert written[written.index(first) :] == made_again[made_again.index(first) :]


@pytest.mark.slow
def test_the_file_is_what_the_recordings_say() -> None:
    assert FILE.read_text(encoding="utf-8") == made(), "run `python -m benchmarks.dispatched --write` and read the diff"


@pytest.mark.parametrize(
    ("version", "grounds"),
    [("2.5.1", []), ("2.6.0", ["dispatched"]), ("2.9.0", ["dispatched"]), ("2.10.0", [])],
)
def test_an_op_without_a_rule_has_evidence_in_the_releases_that_were_recorded(version: str, grounds: list[str]) -> None:
    bound = BoundTable(with_dispatched(load_table(Backend.CUDA), SEEN), version, {})
    ruling = bound.rule_on("aten.mul.Tensor", call(op="aten.mul.Tensor").facts)
    assert ruling.verdict is Verdict.DETERMINISTIC
    assert [str(row.kind) for row in ruling.evidence] == grounds


def test_an_op_that_was_not_recorded_rests_on_absence() -> None:
    bound = BoundTable(with_dispatched(load_table(Backend.CUDA), SEEN), "2.6.0", {})
    assert bound.rule_on("aten.sqrt.default", {}).evidence == ()


def test_what_a_library_does_inside_vouches_for_nothing() -> None:
    assert "cuBLAS" in against("cublasLtMatmul", {})
    assert "cuDNN" in against("cudnnBackendExecute", {})


@pytest.mark.parametrize(
    ("kind", "is_clear"),
    [(Atomics.NONE, True), (Atomics.FLOAT, False), (Atomics.SWAP, False), (Atomics.INTEGER, False)],
)
def test_a_kernel_is_clear_by_its_code_and_not_by_its_name(kind: Atomics, is_clear: bool) -> None:
    name = "_ZN2at6native4plusIfEEvv"
    assert (against(name, {name: kind}) == "") is is_clear
    assert against(name, {}) == "launches a kernel whose code was not read"


def test_a_scan_is_not_clear_though_it_holds_no_atomics() -> None:
    name = "_ZN3cub16DeviceScanKernelIfEEvv"
    assert against(name, {name: Atomics.NONE}) == "launches a parallel scan"


def test_a_reduction_counts_blocks_and_adds_in_their_order() -> None:
    name = "_ZN2at6native13reduce_kernelIfEEvv"
    assert against(name, {name: Atomics.INTEGER}) == ""


def test_an_op_that_a_rule_names_is_not_vouched_for() -> None:
    named = Vouched(first="2.6", last="2.9", ops=frozenset({"aten.index_add.default"}))
    seen = Dispatched(
        schema=1, backend=Backend.CUDA, builds=("2.6.0",), device="sm_90", rules={"no": "x"}, vouched=(named,)
    )
    faults = list(lint_dispatched(with_dispatched(load_table(Backend.CUDA), seen)))
    assert faults == [
        "dispatched: there is no rule no",
        "dispatched: aten.index_add.default is vouched for, and cuda-index-add names it",
    ]


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
