"""Small tables in TOML, and what a case of a rule asks for, spelt out as facts and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tracer.facts.fact import Value
from tracer.tables.conditions import wanted_values
from tracer.tables.loading import parse_table
from tracer.tables.rules import Case, Rule, Table
from tracer.tables.versions import reviewed_releases, speaks_of
from tracer.tables.vocabulary import DOMAINS, SETTINGS

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


def table(*rules: str, head: str = HEAD) -> Table:
    """A table of ``rules``, or of one rule that always holds."""
    return parse_table(head + "".join(rules or (rule_text(),)), "sample.toml")


def releases_of(holder: Table, case: Case) -> list[str]:
    """The reviewed minor releases that a case speaks of."""
    return [r for r in reviewed_releases(holder.reviewed) if speaks_of(case.torch, r)]


def satisfying(case: Case, keys: Mapping[str, object] | None = None) -> dict[str, Value]:
    """For each key of the case (and of ``keys``), the first value of the domain for which the case holds."""
    asked = dict.fromkeys((*case.when, *(keys or {})))
    return {key: next(v for v in DOMAINS[key] if v in wanted_values(case, key)) for key in asked}


def near_misses(case: Case) -> Iterator[tuple[str, dict[str, Value]]]:
    """The case's values with one key at a time set to a value for which it does not hold."""
    met = satisfying(case)
    for key in case.when:
        for value in DOMAINS[key]:
            if value not in wanted_values(case, key):
                yield key, {**met, key: value}
                break


def split(values: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, Value]]:
    """Facts of a call, and settings of a target."""
    return (
        {k: v for k, v in values.items() if k not in SETTINGS},
        {k: v for k, v in values.items() if k in SETTINGS},
    )


def keys_of(rule: Rule) -> dict[str, None]:
    """Every key that a rule's cases ask for, in order."""
    return dict.fromkeys(key for case in rule.case for key in case.when)
