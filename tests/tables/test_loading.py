"""A table loads whole and checked, or not at all, with one line that says where it is wrong."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.command import process
from tests.tables.samples import HEAD, parse_table, rule_text, table
from tracer.errors import TableError
from tracer.names import Backend, Verdict
from tracer.tables import loading
from tracer.tables.loading import (
    existing_tables,
    load_table,
    load_tables,
    named_variables,
    required_facts,
    table_file,
)
from tracer.tables.rules import RECORDED_FACTS

RACE = 'when = { "arg.accumulate" = true, ndim = [1, 2] }, verdict = "raises"'


@pytest.mark.parametrize(
    ("instead", "of", "says"),
    [
        ("arg.accumulated", "arg.accumulate", "'arg.accumulated' - at `$.rule[0].case[0]` of 'cuda-sample'"),
        ("verdict", "verdict_", "unknown field"),
        ('"maybe"', '"raises"', "verdict` of 'cuda-sample'; choose from deterministic, seeded, "),
        ("= 1, ndim", "= true, ndim", "arg.accumulate has no value 1"),
        ("[true, 2]", "[1, 2]", "ndim has no value True"),
        ("[1, 9]", "[1, 2]", "ndim has no value 9"),
        ("ndim = []", "ndim = [1, 2]", "ndim has no values"),
        ("{ x", '"arg.accumulate" = true, ndim = [1, 2] }', "sample.toml:"),
        ('"aten"', '"aten.sample"', "'aten' is not of the form namespace.name[.overload]"),
        ('"aten.a.b.c"', '"aten.sample"', "not of the form namespace.name[.overload]"),
        ('"aten::sample"', '"aten.sample"', "not of the form namespace.name[.overload]"),
        ('"cpu-sample"', '"cuda-sample"', "not kebab-case with the prefix `cuda-`"),
        ('"cuda_sample"', '"cuda-sample"', "not kebab-case with the prefix `cuda-`"),
        ('"cuda-Sample"', '"cuda-sample"', "not kebab-case with the prefix `cuda-`"),
        ('"bad-luck"', '"write-race"', "Invalid enum value 'bad-luck'"),
        ('kind = "rumour"', 'kind = "source"', "Invalid enum value 'rumour'"),
        ("schema = 2", "schema = 1", "schema 2 is not 1"),
        ('"recorded"', '"cuda"', "a table is for a backend"),
        ('"tpu"', '"cuda"', "Invalid enum value 'tpu' - at `$.backend`; choose from cpu, cuda, "),
        ('"2.6 or so"', '">=1.11,<=2.15"', "not a version range"),
        ('">=1.11.3"', '">=1.11,<=2.15"', "with a minor release"),
        ('""', '">=1.11,<=2.15"', "'nothing' is not a version range"),
        ("wy = ", "why = ", "unknown field `wy`"),
        ("schema = 1\nsecret = 2", "schema = 1", "unknown field `secret`"),
    ],
)
def test_a_misspelt_table_is_refused_in_one_line(instead: str, of: str, says: str) -> None:
    text = HEAD + rule_text("{ " + RACE + " }")
    broken = text.replace("verdict =", "verdict_ =") if of == "verdict_" else text.replace(of, instead, 1)
    assert broken != text
    with pytest.raises(TableError) as error:
        parse_table(broken, "sample.toml")
    line = str(error.value)
    assert says in line
    assert line.startswith("sample.toml:")
    assert "\n" not in line


@pytest.mark.parametrize("torch", ["<=2.6", "==2.6", "~=2.6", "!=2.6", "<2.6.1", "soon"])
def test_a_case_may_not_split_a_minor_release(torch: str) -> None:
    with pytest.raises(TableError):
        table(rule_text(f'{{ torch = "{torch}", verdict = "raises" }}'))


def test_a_malformed_variable_name_is_refused() -> None:
    with pytest.raises(TableError, match="'lower case' is not the name of an environment variable"):
        table(head=HEAD + 'variables = ["lower case"]\n')


def test_a_backend_without_a_table_is_named_with_those_that_have_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("cpu", "cuda"):
        (tmp_path / f"{name}.toml").write_text("", encoding="utf-8")
    monkeypatch.setattr(loading, "_FOLDER", tmp_path)
    cached = [each for each in vars(loading).values() if hasattr(each, "cache_clear")]
    for each in cached:
        each.cache_clear()
    try:
        with pytest.raises(TableError, match="there is no table for xpu; tables exist for cpu, cuda"):
            load_table(Backend.XPU)
    finally:
        monkeypatch.undo()
        for each in cached:
            each.cache_clear()


def test_every_table_loads_once_and_is_for_the_backend_it_is_named_after() -> None:
    assert {Backend.CPU, Backend.CUDA} <= set(existing_tables())
    for backend, loaded in load_tables().items():
        assert loaded.backend is backend
        assert load_table(backend) is loaded


def test_an_overload_finds_its_own_rule_before_its_packets() -> None:
    both = table(
        rule_text(id="cuda-packet", ops='["aten.sample"]'),
        rule_text(id="cuda-overload", ops='["aten.sample.out"]'),
    )
    found = {op: both.find(op) for op in ("aten.sample.out", "aten.sample.default", "aten.other.default")}
    assert [rule.id if rule else None for rule in found.values()] == ["cuda-overload", "cuda-packet", None]


def test_required_facts_are_what_rules_ask_a_recorder_for_and_nothing_else() -> None:
    facts = required_facts()
    adding = {"index.adds_one_number", "shape.adds_whole_numbers"}
    assert facts["aten.index_put_"] == {
        "arg.accumulate",
        "index.broadcasts",
        "index.is_mask",
        "index.one_value",
        "shape.numel_ge_32768",
    } | {"index.distinct", *adding}
    assert facts["aten.scatter.reduce"] == {"arg.reduce", "index.distinct", "shape.no_elements", *adding}
    assert "aten.sort" not in facts, "it asks for common facts alone"
    assert facts["aten.replication_pad2d"] == {"call.direct"}, "its backward asks how the forward was called"
    assert set().union(*facts.values()) <= set(RECORDED_FACTS)


def test_only_variables_that_tables_name_may_be_recorded() -> None:
    assert "CUBLAS_WORKSPACE_CONFIG" in named_variables()
    assert not {"PATH", "HOME", "USER", "HOSTNAME"} & named_variables()


def test_loading_imports_neither_torch_nor_pandas() -> None:
    code = (
        "import sys; from tracer.tables.loading import load_tables; import tracer.judging; load_tables();"
        "print(sorted({'torch', 'pandas', 'numpy', 'jinja2'} & set(sys.modules)))"
    )
    found = process("-c", code, cwd=Path(__file__).parents[2])
    assert found.out.strip() == "[]", found.err


@pytest.mark.parametrize("backend", existing_tables(), ids=str)
def test_a_table_loads_in_a_blink(backend: Backend) -> None:
    text = table_file(backend).read_text(encoding="utf-8")
    taken = []
    for _ in range(5):
        start = time.process_time()  # other processes must not count
        parse_table(text, "table")
        taken.append(time.process_time() - start)
    assert min(taken) < 0.045


def test_a_sample_table_is_what_it_says() -> None:
    (rule,) = table().rule
    assert (rule.id, rule.ops, rule.case[0].verdict) == ("cuda-sample", ("aten.sample",), Verdict.CONDITIONAL)
