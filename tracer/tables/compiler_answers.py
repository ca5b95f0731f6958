"""A compiler's rules with the backend's own answers in place of what they call: for readers, who ask about a name.

A judge looks the called op up with the facts of the call; a reader wants one table of answers, so here each case that
calls an op becomes the cases of the rule for that op, as far as both can hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from tracer.names import Backend, Verdict
from tracer.tables.compilers.loading import load_compilers
from tracer.tables.compilers.model import ITSELF, CompiledCase, CompiledRule
from tracer.tables.model import AnsweredRule, Case, Table, Wanted
from tracer.tables.ruling.conditions import wanted_values
from tracer.tables.versions import reviewed_releases, speaks_of
from tracer.tables.vocabulary import DOMAINS, Value


def with_compiled(tables: Mapping[Backend, Table]) -> dict[Backend, Table]:
    """``tables`` with what compilers make of ops on each backend, as rules that answer by themselves."""
    return {
        backend: replace(
            table,
            compiled=tuple(
                answered(rule, table, compiler.compiler, compiler.reviewed)
                for compiler in load_compilers().values()
                for rule in compiler.speaking_of(backend)
            ),
        )
        for backend, table in tables.items()
    }


def answered(rule: CompiledRule, table: Table, compiler: str, reviewed: str) -> AnsweredRule:
    """``rule`` with the answers of ``table`` for what it calls."""
    fields = {name: getattr(rule, name) for name in AnsweredRule.__struct_fields__ if hasattr(rule, name)}
    cases = tuple(one for case in rule.case for one in _answers(case, rule, table, reviewed))
    return AnsweredRule(**{**fields, "case": cases, "compiler": compiler, "reviewed": reviewed})


def _answers(case: CompiledCase, rule: CompiledRule, table: Table, reviewed: str) -> Iterator[Case]:
    if not case.calls:
        yield Case(**{name: getattr(case, name) for name in Case.__struct_fields__})
        return
    name = rule.ops[0] if case.calls == ITSELF else case.calls
    called = table.find(name) or table.find(f"{name}.default")
    says = case.why or f"The eager `{name.removesuffix('.default')}` is called."
    if called is None:
        safe = Verdict.DETERMINISTIC if table.deny_list else Verdict.UNKNOWN
        yield Case(verdict=safe, when=case.when, torch=case.torch, why=says, route=name)
        return
    for one in called.case:
        when = _both(case, one)
        versions = ",".join(filter(None, (case.torch, one.torch)))
        if when is not None and any(speaks_of(versions, release) for release in reviewed_releases(reviewed)):
            yield Case(verdict=one.verdict, when=when, torch=versions, why=says, route=name)


def _both(case: CompiledCase, other: Case) -> dict[str, Wanted] | None:
    """The conditions under which a call comes to ``case`` and, as what it calls, to ``other``; ``None`` for none."""
    met: dict[str, Wanted] = {}
    for key in dict.fromkeys((*case.when, *other.when)):
        theirs = wanted_values(other, key)
        if key in case.facts:
            if case.facts[key] not in theirs:
                return None
            theirs = frozenset(DOMAINS[key])
        values = wanted_values(case, key) & theirs
        if not values:
            return None
        if len(values) < len(DOMAINS[key]):
            met[key] = _listed(key, values)
    return met


def _listed(key: str, values: frozenset[Value]) -> list[Value]:
    return [value for value in DOMAINS[key] if value in values]
