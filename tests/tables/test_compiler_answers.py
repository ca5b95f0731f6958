"""A reader asks a compiler's rule about a name and gets whole answers: what it calls is looked up, too."""

from __future__ import annotations

from functools import cache

from tests.tables.samples import parse_compiler
from tests.tables.test_compilers import TEXT
from tracer.names import Backend, Verdict
from tracer.tables.compiled import answered, with_compiled
from tracer.tables.explaining import explain, find_rules, spans
from tracer.tables.loading import load_table, load_tables
from tracer.tables.rules import AnsweredRule, RuleTable


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
    last = [(rule.id, rule.case[-1]) for table in tables().values() for rule in table.compiled]
    assert last
    assert [id for id, case in last if case.when or case.torch] == []


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
