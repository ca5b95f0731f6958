"""A determinism table's model, field by field. Unknown fields are an error: a misspelt key must not widen a rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from tracer.facts.fact import Value
from tracer.names import OF_A_RUN, Backend, Cause, EvidenceKind, Prerequisite, Rewriting, Verdict

#: The schema that this release reads.
SCHEMA = 1

#: What stands behind a key in ``when``: one value, or several of which any may hold.
Wanted = Value | list[Value]


class RuleEvidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a rule is believed."""

    kind: EvidenceKind
    ref: str
    """A documentation page, source file or measurement with its version, or a pull request or issue with its number."""
    inherited_from: Backend | None = None
    """The backend whose table it was taken over from. Not a field of a file: loading sets it."""


class Conditioned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What holds under conditions: a rule's case, a translation's candidate."""

    when: dict[str, Wanted] = {}
    """Keys of the vocabulary, joined by AND; the values of a list by OR. Empty: always."""
    torch: str = ""
    """Versions that it speaks of (``">=2.6,<2.9"``); empty: every reviewed one."""


class Case(Conditioned, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions, and the verdict where all of them hold."""

    verdict: Verdict
    why: str = ""
    """In place of the rule's, where this case differs."""
    remedy: str = ""
    needs: tuple[Prerequisite, ...] = ()
    """What must hold as well for this case's own ``remedy`` to work."""
    cause: Cause | None = None
    route: str = ""
    """What runs instead once deterministic mode is on, from the case's first version: a function of torch
    (``torch.nn.functional.interpolate``) whose forward then never leads here, or an op that this one hands its work
    to."""


class Exemption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What exempts calls from a rule, whatever its cases say; see ``with_exemptions``."""

    fact: str
    """One that is either true or false, and where it is not known counts as false."""
    why: str
    """Why no two runs can differ where it is true."""


class Cased(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What answers by cases, and says why and what to do for the cases that do not: a rule, a row of settings."""

    id: str
    """Permanent, kebab-case, led by the backend or by ``environment``: ``cuda-index-add``."""
    cause: Cause
    why: str
    """The mechanism, in one to three sentences."""
    remedy: str
    """What to write instead."""
    case: tuple[Case, ...]
    """Disjoint, and without a gap."""
    evidence: tuple[RuleEvidence, ...]


class Rule(Cased, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ops that share one mechanism, and what it makes of them."""

    ops: tuple[str, ...]
    """``aten.index_add.default``, or ``aten.index_add`` for every overload."""
    exempt: tuple[Exemption, ...] = ()
    """In a file alone: loading makes cases of them."""
    apis: tuple[str, ...] = ()
    """Names that users and documents use."""
    needs: tuple[Prerequisite, ...] = ()
    """What must hold as well for ``remedy`` to work."""
    shell: tuple[str, ...] = ()
    """Variables, ``NAME=VALUE``, that with deterministic mode are all of ``remedy``: one change for all calls."""
    workspace: str = ""
    """The value of ``CUBLAS_WORKSPACE_CONFIG`` that it asks for, where the usual one will not do."""
    rewriting: Rewriting | None = None
    """How a line of the user's own can be rewritten that calls it: ``remedy`` says the same in words."""
    runs_as: str = ""
    """What the op becomes on this backend where a recording on another one shows a different op."""
    kernels: dict[str, str] = {}
    """Op -> the vendor's kernels that it runs (``aclnnSort``; several: any of them). Evidence from a vendor's list of
    kernels speaks of these; a rule that rests on it alone names them for each of its ops."""


class LibraryRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A rule for ops of a library, whatever the backend; ``ops`` may name a whole namespace (``profiler.*``)."""

    backends: tuple[Backend, ...] = ()
    """Backends that it speaks of; empty: every one."""


class AnsweredRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A compiler's rule with a backend's own answers in place of what it calls; see ``tables.compilers``."""

    compiler: str
    reviewed: str
    """Versions of torch that the compiler's table was written for."""


class Reviewed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every table says of itself."""

    schema: int
    reviewed: str
    """Versions of torch that it was written for: ``">=1.11,<=2.15"``."""


class LibraryTable(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The rules for ops outside torch's own namespaces: a table that is not of one backend."""

    rule: tuple[LibraryRule, ...]
    variables: tuple[str, ...] = ()
    """Environment variables that the rules name."""

    def speaking_of(self, backend: Backend) -> tuple[LibraryRule, ...]:
        """The rules that hold on ``backend``."""
        return tuple(rule for rule in self.rule if not rule.backends or backend in rule.backends)


class ClassTable(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Classes of ops whose definition leaves nothing to vary, whatever the device; see ``tables.loading``."""

    rule: tuple[Rule, ...]


class Vouched(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ops that launch nothing by which runs could differ, in every build between two that was recorded."""

    first: str
    last: str
    """Releases: ``2.4``, ``2.15``."""
    ops: frozenset[str]
    """Overloads, as torch prints them."""


class Rest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ops that were recorded and that nothing vouches for."""

    why: str
    ops: frozenset[str]


class Counted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Kernels that only count with integers, and why their results do not depend on the order."""

    kernels: tuple[str, ...]
    why: str
    ref: str
    """The source that was read."""


class Dispatched(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What builds of torch were seen to launch on a backend; see ``tables.loading``."""

    schema: int
    backend: Backend
    builds: tuple[str, ...]
    """Releases that were recorded, oldest first."""
    device: str
    """What the builds were made to believe in: ``sm_90``."""
    rules: dict[str, str]
    """Rule -> what was seen of it."""
    vouched: tuple[Vouched, ...] = ()
    rest: tuple[Rest, ...] = ()
    counted: tuple[Counted, ...] = ()

    @property
    def oldest(self) -> str:
        """The oldest minor release that was recorded: ``2.4``."""
        return self.builds[0].rpartition(".")[0]

    @property
    def newest(self) -> str:
        """The newest minor release that was recorded: ``2.15``."""
        return self.builds[-1].rpartition(".")[0]


class Table(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """One backend's rules."""

    backend: Backend
    rule: tuple[Rule, ...]
    deny_list: bool = True
    """An ``aten`` op without a rule is deterministic (deny list) or unknown (allow list)."""
    unlisted: str = ""
    """Why an op without a rule is unknown here, as a sentence; for an allow list that is no vendor's."""
    classes: tuple[str, ...] = ()
    """Classes of ops that hold here too, for the ops that no rule of this one claims; see ``tables.loading``."""
    ask: str = ""
    """What to do about an op without a rule, as a sentence; ``{op}`` in it stands for the op's name."""
    inherits: Backend | None = None
    """A table whose rules hold here too, weaker, for ops that no own rule claims; see ``tables.loading``."""
    variables: tuple[str, ...] = ()
    """Environment variables that the rules name; a recorder notes these and no others."""
    libraries: tuple[LibraryRule, ...] = ()
    """Library rules that hold on this backend. Not a field of a file: loading sets it."""
    dispatched: Dispatched | None = None
    """What builds of torch were seen to launch here. Not a field of a file: loading sets it."""
    compiled: tuple[AnsweredRule, ...] = ()
    """What compilers make of ops here, for display only. Not a field of the file: ``compiler_answers`` sets it."""

    def reviewed_for(self, rule: Rule) -> str:
        """The versions of torch that ``rule``, one of those that hold here, was written for."""
        return rule.reviewed if isinstance(rule, AnsweredRule) else self.reviewed

    def find(self, op: str) -> Rule | None:
        """The rule for an overload or its packet: the table's own, then a library's, last one for its namespace."""
        packet, namespace = op.rpartition(".")[0], f"{op.partition('.')[0]}.*"
        own, shared = self._own, self._shared
        return own.get(op) or own.get(packet) or shared.get(op) or shared.get(packet) or shared.get(namespace)

    @cached_property
    def _own(self) -> dict[str, Rule]:
        return {op: rule for rule in self.rule for op in rule.ops}

    @cached_property
    def _shared(self) -> dict[str, Rule]:
        return {op: rule for rule in self.libraries for op in rule.ops}


RuleType = TypeVar("RuleType", bound=Rule)


def with_exemptions(rules: tuple[RuleType, ...]) -> tuple[RuleType, ...]:
    """``rules`` with their exemptions as cases: each case that accuses becomes two, with the fact and without it."""
    return tuple(replace(rule, case=tuple(_exempted(rule)), exempt=()) for rule in rules)


def _exempted(rule: Rule) -> Iterable[Case]:
    cases: Iterable[Case] = rule.case
    for exemption in rule.exempt:
        cases = [part for case in cases for part in _split(case, exemption)]
    return cases


def _split(case: Case, exemption: Exemption) -> Iterator[Case]:
    if case.verdict not in (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL):
        yield case
        return
    yield replace(case, when={**case.when, exemption.fact: False})
    when = {**case.when, exemption.fact: True}
    safe = Verdict.DETERMINISTIC
    yield type(case)(verdict=safe, when=when, torch=case.torch, why=exemption.why, cause=case.cause)


#: What a table's evidence can be, strongest first: the order in which grades are shown.
GRADES: tuple[EvidenceKind, ...] = tuple(kind for kind in reversed(EvidenceKind) if kind not in OF_A_RUN)


def strongest(evidence: Iterable[RuleEvidence], *, without: tuple[EvidenceKind, ...] = ()) -> EvidenceKind:
    """The best grade among ``evidence``; the weakest where there is none, which the lint refuses."""
    kinds = {row.kind for row in evidence}.difference(without)
    return next((grade for grade in GRADES if grade in kinds), GRADES[-1])


class Switch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a library lets its users choose, and the rules whose findings in its code that settles."""

    library: str
    """Top-level name of the package, as a place begins: ``transformers``."""
    rules: tuple[str, ...]
    what: str
    """What to do, as a sentence."""
    ref: str
    """Where the library says so: its version, file and name."""


class Switches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every switch that is known."""

    schema: int
    in_hand: tuple[str, ...]
    """Rules whose own remedy is made from outside of the line."""
    switch: tuple[Switch, ...]

    def find(self, library: str, rule: str) -> Switch | None:
        """The switch of ``library`` for findings of ``rule``; a rule that a table took over goes by its origin, too."""
        names = {rule, rule.partition("-")[2]}
        own = (switch for switch in self.switch if switch.library == library)
        return next((switch for switch in own if names.intersection(switch.rules)), None)

    def is_in_hand(self, rule: str) -> bool:
        """Is the remedy of ``rule`` made from outside of the line?"""
        return rule in self.in_hand or rule.partition("-")[2] in self.in_hand
