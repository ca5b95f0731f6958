"""A table loads whole and checked, or not at all; what it takes over from another it marks as weaker."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.command import process
from tests.tables.samples import HEAD, parse_table, rule_text, table
from tracer.errors import TableError
from tracer.names import Backend, EvidenceKind, Prerequisite
from tracer.tables import loading
from tracer.tables.lint import faults_of
from tracer.tables.loading import (
    existing_tables,
    load_table,
    load_tables,
    named_variables,
    required_facts,
    with_inherited,
)
from tracer.tables.rules import RECORDED_FACTS, Case, Rule
from tracer.tables.versions import placed, release, reviewed_in_words, reviewed_releases, speaks_of

RACE = 'when = { "arg.accumulate" = true, ndim = [1, 2] }, verdict = "raises"'


@pytest.mark.parametrize(
    ("instead", "of", "says"),
    [
        ("arg.accumulated", "arg.accumulate", "'arg.accumulated' - at `$.rule[0].case[0]` of 'cuda-sample'"),
        ("verdict", "verdict_", "unknown field"),
        ('"maybe"', '"raises"', "verdict` of 'cuda-sample'; choose from deterministic, seeded, "),
        ("[true, 2]", "[1, 2]", "ndim has no value True"),
        ("ndim = []", "ndim = [1, 2]", "ndim has no values"),
        ("{ x", '"arg.accumulate" = true, ndim = [1, 2] }', "sample.toml:"),
        ('"aten"', '"aten.sample"', "'aten' is not of the form namespace.name[.overload]"),
        ('"aten::sample"', '"aten.sample"', "not of the form namespace.name[.overload]"),
        ('"cpu-sample"', '"cuda-sample"', "not kebab-case with the prefix `cuda-`"),
        ('"cuda-Sample"', '"cuda-sample"', "not kebab-case with the prefix `cuda-`"),
        ('"bad-luck"', '"write-race"', "Invalid enum value 'bad-luck'"),
        ("schema = 2", "schema = 1", "schema 2 is not 1"),
        ('"recorded"', '"cuda"', "a table is for a backend"),
        ('"tpu"', '"cuda"', "Invalid enum value 'tpu' - at `$.backend`; choose from cpu, cuda, "),
        ('"2.6 or so"', '">=1.11,<=2.15"', "not a version range"),
        ('">=1.11.3"', '">=1.11,<=2.15"', "with a minor release"),
        ('""', '">=1.11,<=2.15"', "'nothing' is not a version range"),
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


@pytest.mark.parametrize("torch", ["<=2.6", "~=2.6", "<2.6.1", "soon"])
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


ROCM = 'schema = 1\nbackend = "rocm"\nreviewed = ">=2.6,<=2.15"\ninherits = "cuda"\n'

OWN = rule_text(id="rocm-own", ops='["aten.mm", "aten.scatter", "aten.sort.stable"]')

PARENT = table(
    rule_text(id="cuda-products", ops='["aten.mm", "aten.bmm"]'),
    rule_text(id="cuda-scatter-src", ops='["aten.scatter.src"]'),
    rule_text(id="cuda-sort", ops='["aten.sort"]'),
)

MERGED = with_inherited(table(OWN, head=ROCM), PARENT)


def test_own_rules_come_before_inherited_ones_and_a_packets_rule_keeps_its_overloads() -> None:
    ops = ("mm.default", "bmm.default", "addmm.default", "scatter.src", "sort.stable", "sort.default")
    found = [MERGED.find(f"aten.{op}") for op in ops]
    own, products, sort = "rocm-own", "rocm-cuda-products", "rocm-cuda-sort"
    assert [rule.id if rule else "" for rule in found] == [own, products, "", own, own, sort]
    assert list(faults_of(MERGED)) == []


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


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2.13.0+cpu", "2.13.0"),
        ("2.13", "2.13.0"),
        ("2.9.0a0+git1234", "2.9.0"),
        ("2.15.0.dev20260801+cu130", "2.15.0"),
        ("2.6.0rc3", "2.6.0"),
        *((none, "") for none in ("", "two", "2", "2.x")),
    ],
)
def test_a_version_is_read_as_its_release_and_what_is_none_is_refused(text: str, read: str) -> None:
    with nullcontext() if read else pytest.raises(ValueError, match="version"):
        assert release(text) == read


@pytest.mark.parametrize(
    ("reviewed", "version", "place"),
    [
        (">=1.11,<=2.15", "1.10.2", "older"),
        (">=1.11,<=2.15", "1.11.0", "reviewed"),
        (">=1.11,<=2.15", "2.15.1", "reviewed"),
        (">=1.11,<=2.15", "2.16.0", "newer"),
        (">=2.0,<=2.1", "2.1.2", "reviewed"),
        ("<2.0", "2.0.0", "newer"),
    ],
)
def test_a_version_lies_where_its_minor_release_lies(reviewed: str, version: str, place: str) -> None:
    assert placed(reviewed, version) == place


def test_an_empty_range_holds_everything_and_patch_releases_stay_with_their_minor() -> None:
    spoken_of = [(torch, version) for torch in ("", "<2.6", ">=2.6") for version in ("2.5.1", "2.6.1")]
    assert [speaks_of(*each) for each in spoken_of] == [True, True, True, False, False, True]
    assert reviewed_releases(">=1.13,<=2.2") == ("1.13", "2.0", "2.1", "2.2")


@pytest.mark.parametrize(
    ("reviewed", "words"),
    [(">=1.11,<=2.15", "1.11 to 2.15"), ("==2.4", "2.4"), (">=2.4,<=2.7,!=2.6", "2.4 to 2.5, 2.7"), (">=9", ">=9")],
)
def test_a_range_is_said_in_words(reviewed: str, words: str) -> None:
    assert reviewed_in_words(reviewed) == words


#: An edit under the mode; not the advice to switch the mode on, which is a setting, or to do one or the other.
UNDER_THE_MODE = re.compile(
    r"(?<!, or) with deterministic mode on|(?<!or) `[^`]*`,? (which|whose gradient) deterministic"
)


@pytest.mark.parametrize("backend", load_tables(), ids=str)
def test_what_works_under_the_mode_alone_needs_it(backend: Backend) -> None:
    table = load_tables()[backend]
    speaking: list[Rule | Case] = [*table.rule, *table.libraries]
    speaking += [case for rule in (*table.rule, *table.libraries) for case in rule.case]
    silent = [
        one.remedy
        for one in speaking
        if UNDER_THE_MODE.search(one.remedy) and Prerequisite.DETERMINISTIC_MODE not in one.needs
    ]
    assert silent == []
    if backend is Backend.CUDA:
        assert sum(bool(UNDER_THE_MODE.search(one.remedy)) for one in speaking) > 5
