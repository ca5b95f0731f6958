"""A compiler's table stands beside those of backends: loaded, proven, and asked by name with whole answers."""

from __future__ import annotations

from functools import cache

import pytest

from tests.tables.samples import parse_compiler
from tracer.errors import TableError
from tracer.names import Backend, Verdict
from tracer.tables.compiled import ITSELF, answered, compiled_facts, load_compilers, with_compiled
from tracer.tables.explaining import explain, find_rules, spans
from tracer.tables.lint import faults_of
from tracer.tables.loading import load_table, load_tables, required_facts
from tracer.tables.rules import AnsweredRule, RuleTable

TEXT = """
schema = 1
compiler = "inductor"
backends = ["cpu"]
reviewed = ">=2.4,<=2.15"

[[rule]]
id = "inductor-cpu-sample"
backends = ["cpu"]
ops = ["aten.sample"]
cause = "atomic-accumulation"
why = "It adds."
remedy = "Do not."
  [[rule.case]]
  when = { deterministic_mode = "off" }
  verdict = "nondeterministic"
  [[rule.case]]
  calls = "aten.index_put_"
  facts = { "arg.accumulate" = true }
  [[rule.evidence]]
  kind = "source"
  ref = "torch/_inductor/lowering.py, 2.13.0"
"""


def test_a_case_has_a_verdict_or_calls_an_op() -> None:
    (rule,) = parse_compiler(TEXT, "sample.toml").rule
    assert [(case.verdict, case.calls) for case in rule.case] == [
        (Verdict.NONDETERMINISTIC, ""),
        (Verdict.UNKNOWN, "aten.index_put_"),
    ]
    assert list(faults_of(parse_compiler(TEXT, "sample.toml"))) == []


@pytest.mark.parametrize(
    ("instead", "of", "says"),
    [
        ('"inductor-sample"', '"inductor-cpu-sample"', "not kebab-case with the prefix `inductor-cpu-`"),
        ('backends = ["cpu", "cuda"]\nops', 'backends = ["cpu"]\nops', "a rule must name exactly one backend"),
        ('backends = ["cuda"]\nreviewed', 'backends = ["cpu"]\nreviewed', "the table does not cover cpu"),
        ('calls = "index_put"', 'calls = "aten.index_put_"', "neither an op nor `itself`"),
        ('"arg.accumulate" = 1', '"arg.accumulate" = true', "not a fact of a call"),
    ],
)
def test_what_a_table_may_not_hold_fails_in_one_line(instead: str, of: str, says: str) -> None:
    with pytest.raises(TableError) as caught:
        parse_compiler(TEXT.replace(of, instead), "sample.toml")
    assert says in str(caught.value)
    assert str(caught.value).startswith("sample.toml: ")


def test_what_is_called_has_an_answer_in_the_backends_table() -> None:
    """Where a backend's table is a deny list every op has; a name that no torch has would be vouched for as well."""
    known = {op for table in load_tables().values() for rule in table.rule for op in rule.ops}
    rules = [rule for table in load_compilers().values() for rule in table.rule]
    called = {(rule.id, case.calls) for rule in rules for case in rule.case if case.calls not in ("", ITSELF)}
    assert [(id, op) for id, op in called if not {op, op.rpartition(".")[0]} & known] == []


def test_compiled_calls_are_asked_what_the_called_op_is_asked() -> None:
    wanted = compiled_facts()
    assert required_facts()["aten.index_put"] <= wanted["aten.index_put"]
    assert "index.is_mask" in wanted["aten.index_put"]
    assert "arg.reduce" not in wanted["aten.scatter_add"]
    assert all(keys <= wanted[op] for op, keys in required_facts().items())


def test_a_compilers_rule_is_found_by_overload_and_on_its_own_backend_alone() -> None:
    table = load_compilers()["inductor"]
    assert table.find("aten.index_put.default", Backend.CPU) is not table.find("aten.index_put.default", Backend.CUDA)
    assert table.find("aten.cumsum.default", Backend.CPU) is None
    assert table.find("aten.scatter.value", Backend.CPU) is None


#: Ops that Inductor lowers and of which no rule is needed: it calls the eager kernel too, or draws from the same
#: generator, or what varies eagerly is a tie that a generated loop need not decide; the eager verdict stands.
WITHOUT_RULE = {
    *("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten._int_mm", "aten._scaled_mm", "aten._scaled_mm_v2"),
    *("aten.convolution", "aten._convolution", "aten.avg_pool3d_backward"),
    *("aten.median.dim", "aten.kthvalue", "aten.topk", "aten.resize"),
    *("aten.rand", "aten.randn", "aten.bernoulli", "aten.bernoulli_", "aten.native_dropout", "rngprims.philox_rand"),
    *("aten._foreach_add.List", "aten._foreach_add_.List", "aten._foreach_sub.List"),
    *("aten.add.Tensor", "aten.add_.Tensor", "aten.sub.Tensor", "aten.sub_.Tensor", "aten.add.out", "aten.sub.out"),
}


@pytest.mark.slow
def test_what_varies_eagerly_and_is_lowered_has_a_rule() -> None:
    lowering = pytest.importorskip("torch._inductor.lowering")
    lowered = {str(op) for op in lowering.lowerings} - {str(op) for op in lowering.fallbacks}
    table, missing = load_compilers()["inductor"], set()
    for backend in table.backends:
        for rule in load_tables()[backend].rule:
            if {case.verdict for case in rule.case} <= {Verdict.DETERMINISTIC, Verdict.SEEDED}:
                continue
            for op in rule.ops:
                for overload in (one for one in lowered if one == op or one.rpartition(".")[0] == op):
                    if op.startswith("aten.") and table.find(overload, backend) is None:
                        missing.add(op)
    assert {op for op in missing if not op.endswith("out")} - WITHOUT_RULE == set()


@cache
def tables() -> dict[Backend, RuleTable]:
    return with_compiled(load_tables())


def compiled(id: str) -> AnsweredRule:
    return next(rule for table in tables().values() for rule in table.compiled if rule.id == id)


def test_a_case_that_calls_an_op_becomes_the_cases_of_its_rule() -> None:
    sample = parse_compiler(TEXT, "sample.toml")
    whole = answered(sample.rule[0], load_table(Backend.CPU), sample)
    called = [case for case in whole.case if case.route == "aten.index_put_"]
    assert called
    assert {case.verdict for case in called} == {Verdict.DETERMINISTIC}  # arg.accumulate is given, and the mode is on
    assert not any("arg.accumulate" in case.when for case in called)


def test_the_last_answer_of_every_rule_takes_what_is_left() -> None:
    rules = [rule for table in tables().values() for rule in table.compiled]
    assert rules
    assert [rule.id for rule in rules if rule.case[-1].when or rule.case[-1].torch] == []


def test_an_op_that_varies_compiled_alone_says_so() -> None:
    eager, on_cpu = load_table(Backend.CPU).find("aten.index_add.default"), compiled("inductor-cpu-index-add")
    assert eager is not None
    assert spans(eager, load_table(Backend.CPU).reviewed)[-1].as_is == (Verdict.DETERMINISTIC,)
    newest = spans(on_cpu, on_cpu.reviewed)[-1]
    assert (newest.as_is[0], newest.in_mode) == (Verdict.NONDETERMINISTIC, (Verdict.DETERMINISTIC,))


def test_explain_tells_what_becomes_of_an_op_compiled() -> None:
    (told,) = explain("torch.index_add", tables(), "2.13", [Backend.CPU])
    assert [rule.id for rule, _ in told.rules] == ["cpu-scatter", "inductor-cpu-index-add"]
    (older,) = explain("torch.index_add", tables(), "2.2", [Backend.CPU])
    assert [span for rule, span in older.rules if rule.id == "inductor-cpu-index-add"] == [None]


def test_a_compiled_rule_is_found_by_id_op_and_api() -> None:
    for name in ("inductor-cuda-scan", "aten.cumsum", "aten.cumsum.default", "torch.cumsum"):
        assert "inductor-cuda-scan" in {rule.id for rule in find_rules(name, tables())[Backend.CUDA]}
