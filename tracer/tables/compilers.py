"""Tables of compilers: what ops become in compiled code, and which facts of compiled calls are needed.

A case may refer a call to the backend's own table. For display, ``answered`` substitutes that table's answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from tracer.facts.fact import Value
from tracer.names import Backend, Verdict
from tracer.tables.conditions import pieces, wanted_values
from tracer.tables.loading import required_facts
from tracer.tables.rules import (
    OP,
    AnsweredRule,
    Case,
    LibraryRule,
    Reviewed,
    RuleTable,
    WantedValue,
    check_ids,
    load,
)
from tracer.tables.settings.rows import load_rows
from tracer.tables.versions import reviewed_releases, speaks_of
from tracer.tables.vocabulary import DOMAINS, RECORDED_FACTS, in_domain

#: The recorded op itself, in ``CompiledCase.calls``.
ITSELF = "itself"


class CompiledCase(Case, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions, and what the call becomes: a generated kernel with a verdict, or an eager kernel."""

    verdict: Verdict = Verdict.UNKNOWN
    """Verdict on the generated kernel; ``unknown`` if the case ``calls`` an op, which that op's table judges."""
    calls: str = ""
    """The op whose eager kernel runs: its name, or ``itself``."""
    facts: dict[str, Value] = {}  # noqa: RUF012 (msgspec copies it)
    """Facts of that call, instead of the recorded ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calls and self.calls != ITSELF and not OP.fullmatch(self.calls):
            raise ValueError(f"calls {self.calls!r}, which is neither an op nor `{ITSELF}`")
        for key, value in self.facts.items():
            if key not in RECORDED_FACTS or not in_domain(key, value):
                raise ValueError(f"{key} = {value!r} is not a fact of a call")

    def op_called(self, op: str) -> str:
        """The op that runs instead of ``op``; empty for a generated kernel."""
        return op if self.calls == ITSELF else self.calls


class CompiledRule(LibraryRule, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ops that the compiler treats alike, on the backends that the rule names."""

    case: tuple[CompiledCase, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.backends) != 1:
            raise ValueError("a rule must name exactly one backend, for which kernels are made")


class CompilerTable(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """One compiler's rules. An op without one is inlined without atomic additions, or called as it is."""

    compiler: str
    """The backend of ``torch.compile``, as traces name it: ``inductor``."""
    backends: tuple[Backend, ...]
    """Backends whose generated code was reviewed; others are unknown."""
    rule: tuple[CompiledRule, ...]

    def find(self, op: str, backend: Backend) -> CompiledRule | None:
        """The rule for an overload on ``backend``: one that names the overload, else one that names its packet."""
        index = self._index.get(backend, {})
        return index.get(op) or index.get(op.rpartition(".")[0])

    def speaking_of(self, backend: Backend) -> tuple[CompiledRule, ...]:
        """The rules that hold on ``backend``."""
        return tuple(rule for rule in self.rule if backend in rule.backends)

    @cached_property
    def _index(self) -> dict[Backend, dict[str, CompiledRule]]:
        return {b: {op: rule for rule in self.speaking_of(b) for op in rule.ops} for b in self.backends}

    def __post_init__(self) -> None:
        super().__post_init__()
        for rule in self.rule:
            check_ids([rule], f"{self.compiler}-{rule.backends[0]}")
            if rule.backends[0] not in self.backends:
                raise ValueError(f"{rule.id}: the table does not cover {rule.backends[0]}")


INDUCTOR = Path(__file__).parent / "inductor.toml"


@cache
def load_compilers() -> Mapping[str, CompilerTable]:
    """Every compiler's table, by name, read and checked once."""
    return MappingProxyType({"inductor": load(INDUCTOR, CompilerTable)})


@cache
def compiled_facts() -> Mapping[str, frozenset[str]]:
    """Op to the facts that compiled calls need: for all tables, and for the op that is called instead."""
    asked = required_facts()
    wanted = {op: set(keys) for op, keys in asked.items()}
    for group in load_rows().group:
        for op in group.ops:
            wanted.setdefault(op, set()).update(group.when.keys() & RECORDED_FACTS.keys())
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


def with_compiled(tables: Mapping[Backend, RuleTable]) -> dict[Backend, RuleTable]:
    """``tables`` with the compilers' rules for each backend, which then need no other table."""
    compilers = load_compilers().values()
    return {
        backend: replace(
            table, compiled=tuple(answered(r, table, c) for c in compilers for r in c.speaking_of(backend))
        )
        for backend, table in tables.items()
    }


def answered(rule: CompiledRule, table: RuleTable, compiler: CompilerTable) -> AnsweredRule:
    """``rule`` of ``compiler`` with the answers of ``table`` for the ops that it calls."""
    fields = {name: getattr(rule, name) for name in AnsweredRule.__struct_fields__ if hasattr(rule, name)}
    every = [answer for case in rule.case for answer in _answers(case, rule, table, compiler.reviewed)]
    reached = {id(case) for release in reviewed_releases(compiler.reviewed) for case, _ in pieces(every, release)}
    cases = tuple(case for case in every if id(case) in reached or case is every[-1])
    return AnsweredRule(**{**fields, "case": cases, "compiler": compiler.compiler, "reviewed": compiler.reviewed})


def _answers(case: CompiledCase, rule: CompiledRule, table: RuleTable, reviewed: str) -> Iterator[Case]:
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
    for answer in called.case:
        when = _both(case, answer)
        versions = ",".join(filter(None, (case.torch, answer.torch)))
        if when is not None and any(speaks_of(versions, release) for release in reviewed_releases(reviewed)):
            yield Case(verdict=answer.verdict, when=when, torch=versions, why=says, route=name)


def _both(case: CompiledCase, other: Case) -> dict[str, WantedValue] | None:
    """Conditions under which a call matches ``case`` and then, as the op it calls, ``other``; ``None`` if none."""
    met: dict[str, WantedValue] = {}
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
            met[key] = [value for value in DOMAINS[key] if value in values]
    return met
