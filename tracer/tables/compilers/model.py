"""A compiler's table: rules as backends have them, whose cases may hand a call on to the backend's own table."""

from __future__ import annotations

import msgspec

from tracer.names import Backend, Verdict
from tracer.tables.model import Case, LibraryRule
from tracer.tables.vocabulary import Value

#: Stands for the recorded op itself among what a case ``calls``.
ITSELF = "itself"


class CompiledCase(Case, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions, and what becomes of the call: a kernel of the compiler's with a verdict, or an eager kernel."""

    verdict: Verdict = Verdict.UNKNOWN
    """Of the compiler's own kernel; unknown where the case ``calls`` an op, whose table then speaks."""
    calls: str = ""
    """The op whose eager kernel runs: an op's name, or ``itself``."""
    facts: dict[str, Value] = {}  # noqa: RUF012 (msgspec copies it)
    """Facts of that call in place of the recorded ones."""

    def op_called(self, op: str) -> str:
        """What runs in the stead of ``op``; empty for a kernel of the compiler's own."""
        return op if self.calls == ITSELF else self.calls


class CompiledRule(LibraryRule, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ops of which the compiler makes the same, on the backends that it names."""

    case: tuple[CompiledCase, ...]


class CompilerTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One compiler's rules. An op without one is inlined without atomic additions, or called as it is."""

    schema: int
    compiler: str
    """As a trace spells the backend of ``torch.compile``: ``inductor``."""
    backends: tuple[Backend, ...]
    """Devices whose code was read; of others nothing is known."""
    reviewed: str
    """Versions of torch that the rules were written for."""
    rule: tuple[CompiledRule, ...]

    def find(self, op: str, backend: Backend) -> CompiledRule | None:
        """The rule for an overload on ``backend``: one that names it, else one that names its packet."""
        index = _index_of(self, backend)
        return index.get(op) or index.get(op.rpartition(".")[0])

    def speaking_of(self, backend: Backend) -> tuple[CompiledRule, ...]:
        """The rules that hold on ``backend``."""
        return tuple(rule for rule in self.rule if backend in rule.backends)


_Index = dict[str, CompiledRule]
_INDEXES: dict[tuple[int, Backend], tuple[CompilerTable, _Index]] = {}


def _index_of(table: CompilerTable, backend: Backend) -> _Index:
    """Op to rule on a backend, built once a table: a frozen struct cannot hold its own index."""
    kept = _INDEXES.get((id(table), backend))
    if kept is None or kept[0] is not table:
        index = {op: rule for rule in table.speaking_of(backend) for op in rule.ops}
        kept = _INDEXES[id(table), backend] = (table, index)
    return kept[1]
