"""Small tables in TOML, and what a case of a rule asks for, spelt out as facts and settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tracer.facts import Value
from tracer.tables.compiled import CompilerTable
from tracer.tables.conditions import pieces
from tracer.tables.explaining import Examples
from tracer.tables.rules import (
    DOMAINS,
    SETTINGS,
    Case,
    Cased,
    ClassTable,
    EnvironmentTable,
    LibraryTable,
    Reviewed,
    RuleTable,
    Translations,
    parse,
)
from tracer.tables.versions import reviewed_releases
from tracer.trace.records import Environment

parse_table = partial(parse, model=RuleTable)
parse_libraries = partial(parse, model=LibraryTable)
parse_classes = partial(parse, model=ClassTable)
parse_compiler = partial(parse, model=CompilerTable)
parse_translations = partial(parse, model=Translations)
parse_examples = partial(parse, model=Examples)
parse_rows = partial(parse, model=EnvironmentTable)

HEAD = 'schema = 1\nbackend = "cuda"\nreviewed = ">=1.11,<=2.15"\n'

RULE = """
[[rule]]
id = "{id}"
ops = {ops}
cause = "write-race"
why = "Two threads write."
remedy = "Write once."
{cases}
  [[rule.evidence]]
  kind = "source"
  ref = "{ref}"
"""

GOOD_REF = "aten/src/ATen/native/cuda/Indexing.cu, index_add_cuda_impl, 2.6.0"
ALWAYS = '{ verdict = "conditional" }'


def rule_text(*cases: str, id: str = "cuda-sample", ops: str = '["aten.sample"]', ref: str = GOOD_REF) -> str:
    """One rule; each case is an inline table's inside: ``when = {...}, verdict = "..."``."""
    rows = f"case = [{', '.join(cases or (ALWAYS,))}]"
    return RULE.format(id=id, ops=ops, cases=rows, ref=ref)


def table(*rules: str, head: str = HEAD) -> RuleTable:
    """A table of ``rules``, or of one rule that always holds."""
    return parse_table(head + "".join(rules or (rule_text(),)), "sample.toml")


def releases_of(holder: Reviewed, rule: Cased, case: Case) -> list[str]:
    """The reviewed minor releases in which ``case`` can be reached."""
    reviewed = reviewed_releases(holder.reviewed)
    return [minor for minor in reviewed if any(each is case for each, _ in pieces(rule.case, minor))]


def reaching(rule: Cased, case: Case, minor: str) -> dict[str, Value]:
    """A value for each key of the rule's cases with which ``case`` is the first that matches in release ``minor``."""
    met = next(when for each, when in pieces(rule.case, minor) if each is case)
    return {key: next(v for v in DOMAINS[key] if v in met.get(key, DOMAINS[key])) for key in keys_of(rule)}


def split(values: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, Value]]:
    """Facts of a call, and settings of a target."""
    return (
        {k: v for k, v in values.items() if k not in SETTINGS},
        {k: v for k, v in values.items() if k in SETTINGS},
    )


def keys_of(rule: Cased) -> dict[str, None]:
    """Every key that a rule's cases ask for, in order."""
    return dict.fromkeys(key for case in rule.case for key in case.when)


def field_type(name: str) -> type:
    """The plain type of a field of ``Environment``: ``str`` for words and tuples of words."""
    hint = str(Environment.__annotations__[name])
    return bool if "bool" in hint else int if "int" in hint else str
