"""Reading the tables of compilers, and the facts that compiled calls are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import msgspec

from tracer.errors import TableError
from tracer.tables.compilers.model import ITSELF, CompiledRule, CompilerTable
from tracer.tables.loading import required_facts
from tracer.tables.model import SCHEMA, spelt_out
from tracer.tables.reading import parse, read
from tracer.tables.spelling import ID, OP, bad_range, misspelt_conditions
from tracer.tables.vocabulary import DERIVED_FACTS, NOTED_FACTS, RECORDED_FACTS, in_domain

#: Compilers that have a table, and where it lies.
COMPILERS: Mapping[str, Path] = {"inductor": Path(__file__).parent.parent / "inductor.toml"}


def parse_compiler(text: str, source: str) -> CompilerTable:
    """Read a compiler's table from TOML; ``TableError`` in one line, led by ``source``, for what it may not hold."""
    table = parse(text, source, CompilerTable, _misspelt)
    return msgspec.structs.replace(table, rule=tuple(spelt_out(rule) for rule in table.rule))


@cache
def load_compiler(name: str) -> CompilerTable:
    """A compiler's table, read and checked once; ``TableError`` where there is none."""
    if name not in COMPILERS:
        raise TableError(f"there is no table for {name}", hint=f"tables exist for {', '.join(COMPILERS)}")
    return parse_compiler(read(COMPILERS[name]), COMPILERS[name].name)


@cache
def load_compilers() -> Mapping[str, CompilerTable]:
    """Every compiler's table, by name."""
    return MappingProxyType({name: load_compiler(name) for name in COMPILERS})


@cache
def compiled_facts() -> Mapping[str, frozenset[str]]:
    """Op, as rules spell it, to the facts that are noted of a compiled call: what the backends' tables ask
    (``required_facts``), what compilers' tables do, and what the rule for an op that is called in its stead does."""
    asked = required_facts()
    wanted = {op: set(keys) for op, keys in asked.items()}
    for table in load_compilers().values():
        for rule in table.rule:
            keys = {key for case in rule.case for key in case.when if key in RECORDED_FACTS}
            for case in rule.case:
                if case.calls not in ("", ITSELF):
                    called = asked.get(case.calls, frozenset()) | asked.get(case.calls.rpartition(".")[0], frozenset())
                    keys |= called - case.facts.keys()
            for op in rule.ops if keys else ():
                wanted.setdefault(op, set()).update(keys)
    return MappingProxyType({op: frozenset(keys) for op, keys in wanted.items()})


def _misspelt(table: CompilerTable) -> Iterator[tuple[str, str]]:
    if table.schema != SCHEMA:
        yield "$.schema", f"schema {table.schema} is not {SCHEMA}, the one that this release reads"
    yield from bad_range("$.reviewed", table.reviewed or "nothing", ("<", "<=", ">="))
    for number, rule in enumerate(table.rule):
        yield from _misspelt_rule(f"$.rule[{number}]", rule, table)


def _misspelt_rule(path: str, rule: CompiledRule, table: CompilerTable) -> Iterator[tuple[str, str]]:
    leaders = [f"{table.compiler}-{backend}-" for backend in rule.backends]
    if len(leaders) != 1:
        yield f"{path}.backends ({rule.id})", "a rule speaks of one backend: kernels are generated for each"
    if not (ID.fullmatch(rule.id) and rule.id.startswith(tuple(leaders))):
        yield f"{path}.id", f"{rule.id!r} is not kebab-case led by `{' or '.join(leaders)}`"
    for backend in rule.backends:
        if backend not in table.backends:
            yield f"{path}.backends ({rule.id})", f"the table does not speak of {backend}"
    for place, op in enumerate(rule.ops):
        if not OP.fullmatch(op):
            yield f"{path}.ops[{place}] ({rule.id})", f"{op!r} is not spelt namespace.name[.overload]"
    for place, exemption in enumerate(rule.exempt):
        if exemption.fact not in NOTED_FACTS and exemption.fact not in DERIVED_FACTS:
            yield f"{path}.exempt[{place}].fact ({rule.id})", f"{exemption.fact!r} is no fact that lets a call off"
    for place, case in enumerate(rule.case):
        here = f"{path}.case[{place}] ({rule.id})"
        yield from misspelt_conditions(here, case.when, case.torch)
        if case.calls and case.calls != ITSELF and not OP.fullmatch(case.calls):
            yield here, f"calls {case.calls!r}, which is neither an op nor `{ITSELF}`"
        for key, value in case.facts.items():
            if key not in RECORDED_FACTS or not in_domain(key, value):
                yield here, f"{key} = {value!r} is no fact of a call"
