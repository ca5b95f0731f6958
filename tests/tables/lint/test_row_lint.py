"""The lint of the table of settings finds what it is there for, one line each, and the table that ships is clean."""

from __future__ import annotations

import pytest

from tests.tables.samples import parse_rows
from tracer.errors import TableError
from tracer.tables.lint.rule_lint import lint_rows
from tracer.tables.settings.rows import load_rows

HEAD = """
schema = 1
reviewed = ">=2.0,<=2.15"
[[group]]
name = "products"
ops = ["aten.mm"]
"""
ROW = """
[[row]]
id = "environment-sample"
about = "setting"
name = "SAMPLE"
category = "hardware and versions"
variable = "SAMPLE"
safe = ["1"]
needs = ["products"]
differs = "runs"
cause = "workspace"
why = "It does harm."
remedy = "Set it."
code = "export SAMPLE=1"
where = "in the shell"
sets = { SAMPLE = "1" }
case = [
  { when = { value = ["unset", "other"] }, verdict = "conditional" },
  { verdict = "deterministic" },
]
evidence = [{ kind = "documented", ref = "The page, 2.13" }]
"""


def faults(*changes: tuple[str, str], text: str = HEAD + ROW) -> list[str]:
    """What the lint says of the sample with each first text replaced by the second."""
    for whole, broken in changes:
        assert whole in text
        text = text.replace(whole, broken, 1)
    return lint_rows(parse_rows(text, "sample.toml"))


def test_the_table_that_ships_is_clean() -> None:
    assert lint_rows(load_rows()) == []


def test_a_sound_row_has_no_fault() -> None:
    assert faults() == []


@pytest.mark.parametrize(
    ("whole", "broken", "says"),
    [
        ('{ verdict = "det', '{ when = { value = "safe" }, verdict = "det', "the last case has conditions"),
        (
            '{ verdict = "deterministic"',
            '{ when = { value = "unset" }, verdict = "raises" }, { verdict = "deterministic"',
            "case 1 can never be reached",
        ),
        (
            '"unset", "other"]',
            '"unset", "other"], late = "certain"',
            "asks late, which a row about setting does not have",
        ),
        (
            '{ verdict = "det',
            '{ torch = ">=2.16", verdict = "det',
            "case 1 is dead: `>=2.16` contains no reviewed release",
        ),
        (
            'differs = "runs"',
            'differs = "machines"',
            "case 0 is conditional, but the row differs between machines only",
        ),
        ('variable = "SAMPLE"', 'field = "no_such_field"', "'no_such_field' is not a field of Environment"),
        ('variable = "SAMPLE"', 'field = "cudnn_benchmark"', "'1' does not have the type of cudnn_benchmark"),
        ('safe = ["1"]', "safe = [1]", "1 does not have the type of SAMPLE"),
        ('variable = "SAMPLE"\nsafe = ["1"]', "", "has a condition on its value, but reads none"),
        ('variable = "SAMPLE"', "", "has values, but reads no setting"),
        ('why = "It does harm."', 'why = "it does harm"', "not a plain sentence: 'it does harm'"),
        ('ref = "The page, 2.13"', 'ref = "The page"', "evidence 'The page' names no version of the page"),
        ('sets = { SAMPLE = "1" }', "sets = { SAMPLE = 1 }", "sets 'SAMPLE': a variable's value is text"),
        ("{ SAMPLE =", '{ "seed.torch" = false, SAMPLE =', "sets 'seed.torch': a seed is set to `true`"),
        ("{ SAMPLE =", "{ sample = true, SAMPLE =", "neither a field, a variable, a dotted name nor a seed"),
        ("{ SAMPLE =", '{ num_threads = "no", SAMPLE =', "sets 'num_threads': not of the field's type"),
        ('where = "in the shell"', "", "has code, but does not say where it belongs"),
        ('code = "export SAMPLE=1"', 'code = "sample ="', "its code does not compile: invalid syntax"),
        ('"export SAMPLE=1"', '"export SAMPLE=1\\nimport torch"', "mixes shell lines with Python"),
        ('code = "export SAMPLE=1"', "", "has `sets`, but no code"),
        ('about = "setting"', 'about = "loader"', "a row about loader reads no setting"),
        ('about = "setting"', 'about = "setting"\nevents = ["x"]', "a row about setting watches no event"),
        ('about = "setting"', 'about = "changed"', "does not say which kind of event it watches"),
        ('needs = ["products"]', "", "group products: no row uses it"),
        ('ops = ["aten.mm"]', "", "group products: contains every call"),
        ('ops = ["aten.mm"]', 'ops = ["aten.mm", "aten.mm.out"]', "aten.mm.out is listed beside its packet"),
        ('name = "products"\nops', 'name = "unseen"\nops', "group unseen: the name is reserved"),
    ],
)
def test_a_planted_fault_is_named_in_one_line(whole: str, broken: str, says: str) -> None:
    text = HEAD + ROW
    if 'name = "products"\nops' in whole:
        text = text.replace('needs = ["products"]', 'needs = ["unseen"]')
    told = faults((whole, broken), text=text)
    assert any(says in fault and "\n" not in fault for fault in told), told


def test_what_cannot_be_read_and_needs_nothing_would_be_found_in_every_step() -> None:
    cases = 'case = [{ verdict = "conditional" }]'
    told = faults(
        ('variable = "SAMPLE"\nsafe = ["1"]\nneeds = ["products"]\n', ""),
        (ROW[ROW.index("case =") : ROW.index("evidence")], cases + "\n"),
    )
    assert (
        "environment-sample: would be a finding in every step: a row that reads nothing needs calls, or `unseen`"
        in told
    )


def test_two_rows_may_read_a_variable_for_other_calls_and_not_for_the_same() -> None:
    again = ROW.replace("environment-sample", "environment-again")
    assert faults(text=HEAD + ROW + again) == ["SAMPLE: read by environment-sample and environment-again"]
    assert faults(text=HEAD + ROW + again.replace('["products"]', '["unseen"]')) == []
    assert "environment-sample: 2 rows have this id" in faults(text=HEAD + ROW + ROW)


@pytest.mark.parametrize(
    ("whole", "broken", "says"),
    [
        ('["products"]', '["nothing"]', "needs 'nothing', which is not a group"),
        ('"hardware and versions"', '"elsewhere"', "unknown category 'elsewhere'"),
        ('variable = "SAMPLE"', 'variable = "SAMPLE"\nread = "a.b"', "names more than one of field, variable and read"),
        ('variable = "SAMPLE"', 'variable = "sample"', "'sample' is not the name of an environment variable"),
        ('value = ["unset", "other"]', 'device = "cpu"', "'device' is not a fact of the process"),
        ("environment-sample", "sample", "'sample' is not kebab-case with the prefix `environment-`"),
        ('about = "setting"', 'about = "generator"\ngenerator = ["cuda"]', "Invalid enum value 'cuda'"),
    ],
)
def test_a_misspelt_row_does_not_load(whole: str, broken: str, says: str) -> None:
    with pytest.raises(TableError, match=r"sample\.toml") as raised:
        faults((whole, broken))
    assert says in str(raised.value)
