"""A row of settings is linted as a rule is, and a misspelt one does not load."""

from __future__ import annotations

import pytest

from tests.tables.samples import parse_rows
from tracer.errors import TableError
from tracer.tables.lint import faults_of

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
    return list(faults_of(parse_rows(text, "sample.toml")))


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
            '{ verdict = "det',
            '{ torch = ">=2.16", verdict = "det',
            "case 1 is dead: `>=2.16` contains no reviewed release",
        ),
        ('needs = ["products"]', 'needs = ["products"]\ntorch = ">=2.16"', "no reviewed release has it"),
    ],
)
def test_a_row_is_linted_as_a_rule_is(whole: str, broken: str, says: str) -> None:
    assert faults() == []
    assert any(says in fault for fault in faults((whole, broken)))


def test_an_id_is_borne_once() -> None:
    assert faults(text=HEAD + ROW + ROW) == ["environment-sample: 2 of them have this id"]


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
