"""The models of the tables, field by field, and how their files are read: every value checked, errors in one line.

Unknown fields are an error: a misspelt key must not widen a rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tracer.errors import TableError
from tracer.facts import Derive, Kind, Value
from tracer.facts.every_fact import DTYPE_CLASSES, FACTS, of_kind
from tracer.files import toml_values
from tracer.findings import Deciding, Evidence, Statement
from tracer.names import (
    OF_A_RUN,
    TORCH_NAMESPACES,
    About,
    Backend,
    Cause,
    Differs,
    EventKind,
    EvidenceKind,
    GeneratorKind,
    Prerequisite,
    Subsystem,
    UnknownReason,
    Verdict,
)
from tracer.tables.settings import conditions
from tracer.tables.versions import specifiers

_Domains = Mapping[str, tuple[Value, ...]]
#: A fact of a backward call to the fact that its forward call has: ``aten.sample_backward`` takes it from
#: ``aten.sample`` at the same place.
FORWARD_FACTS: Mapping[str, str] = {key: fact.of_forward for key, fact in FACTS.items() if fact.of_forward}
#: How the judge derives facts, by key.
DERIVATIONS: Mapping[str, Derive] = {key: fact.derive for key, fact in FACTS.items() if fact.derive}
BACKWARD_OF = "_backward"
"""Suffix that a backward op's name adds to its forward's."""
#: Settings of the target, each declared with its domain in ``tables.settings``.
SETTINGS: _Domains = {condition.key: condition.domain for condition in conditions()}

#: Facts of the process, for rows of the table of settings, which may use settings too.
PROCESS_FACTS: _Domains = {key: fact.domain for key, fact in of_kind(Kind.PROCESS).items()}
#: Every key that a condition may use, with its domain.
DOMAINS: _Domains = {**{key: fact.domain for key, fact in FACTS.items()}, **SETTINGS}
_MEMBERS = {key: {(type(value), value) for value in domain} for key, domain in DOMAINS.items()}
#: Facts that are recorded on request.
RECORDED_FACTS: _Domains = {key: fact.domain for key, fact in of_kind(Kind.ASKED, Kind.NOTED, Kind.MARKED).items()}
#: Defaults of facts that are recorded only if they hold.
UNNOTED: Mapping[str, Value] = dict.fromkeys(of_kind(Kind.NOTED, Kind.MARKED), False)


def in_domain(key: str, value: Value) -> bool:
    """Return whether ``key`` can have ``value``. Types count: ``1`` is not ``true``."""
    return (type(value), value) in _MEMBERS[key]


def expand(key: str, value: Value) -> tuple[Value, ...]:
    """The domain values that ``value`` stands for: itself, or a dtype class's members."""
    if key == "dtype" and isinstance(value, str) and value in DTYPE_CLASSES:
        return DTYPE_CLASSES[value]
    return (value,)


def in_words(key: str, values: frozenset[Value]) -> str:
    """One condition in words: ``dtype: floating or complex``, ``device: not cuda``."""
    domain = frozenset(DOMAINS[key])
    if not any(isinstance(value, bool) for value in values) and 2 * len(values) > len(domain) + 1:
        return f"{key}: not {' or '.join(_values_in_words(key, domain - values))}"
    return f"{key}: {' or '.join(_values_in_words(key, values))}"


def _values_in_words(key: str, values: frozenset[Value]) -> list[str]:
    words: list[str] = []
    left = set(values)
    if key == "dtype":
        for name, members in DTYPE_CLASSES.items():
            if left.issuperset(members):
                words.append(name)
                left.difference_update(members)
    return words + [
        str(value).lower() if isinstance(value, bool) else str(value) for value in DOMAINS[key] if value in left
    ]


#: The schema that this release reads.
SCHEMA = 1

#: Prefix of the ids of classes; in a table that inherits a class, the table's name replaces it.
CLASS_ID = "class"

#: A value in ``when``, or several of which any may hold.
WantedValue = Value | list[Value]


class RuleEvidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The source of a rule's claim."""

    kind: EvidenceKind
    ref: str
    """A documentation page, source file or measurement with its version, or a pull request or issue with its number."""
    inherited_from: Backend | None = None
    """The backend whose table it was inherited from. Not a field of the file: loading sets it."""


class Conditioned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions: of a rule's case, or of a translation's candidate."""

    when: dict[str, WantedValue] = {}
    """Keys of the vocabulary, joined by AND; the values of a list by OR. Empty: always."""
    torch: str = ""
    """Versions of torch for which it holds (``">=2.6,<2.9"``); empty for every reviewed one."""

    def __post_init__(self) -> None:
        check_conditions(self.when)
        check_range(self.torch, ("<", ">="))


class Case(Conditioned, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions, and the verdict if all of them hold."""

    verdict: Verdict
    why: str = ""
    """Overrides the rule's."""
    remedy: str = ""
    needs: tuple[Prerequisite, ...] = ()
    """Further conditions for this case's own ``remedy`` to work."""
    cause: Cause | None = None
    route: str = ""
    """What runs instead in deterministic mode, from the case's first version: a function of torch
    (``torch.nn.functional.interpolate``) whose forward then never calls this op, or an op that this one hands its work
    to."""


class Cased(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Cases, with a ``why`` and a ``remedy`` for those without their own: a rule, or a row of settings."""

    id: str
    """Permanent, kebab-case, prefixed with the backend or with ``environment``: ``cuda-index-add``."""
    cause: Cause
    why: str
    """The mechanism, in one to three sentences."""
    remedy: str
    """The replacement to use."""
    case: tuple[Case, ...]
    """The first that matches decides. The last has no conditions."""
    evidence: tuple[RuleEvidence, ...]


class Rule(Cased, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ops that vary by the same mechanism, and their verdicts."""

    ops: tuple[str, ...]
    """``aten.index_add.default``, or ``aten.index_add`` for every overload."""
    apis: tuple[str, ...] = ()
    """Names that users and documents use."""
    needs: tuple[Prerequisite, ...] = ()
    """Further conditions for ``remedy`` to work."""
    shell: tuple[str, ...] = ()
    """Variables, ``NAME=VALUE``, that with deterministic mode are the whole ``remedy``: one change for all calls."""
    redrawn: str = ""
    """The release from which on one seed gives other numbers."""
    workspace: str = ""
    """The value of ``CUBLAS_WORKSPACE_CONFIG`` that it needs, if not the usual one."""
    runs_as: str = ""
    """The op that runs on this backend, if a recording on another backend contains a different one."""
    kernels: dict[str, str] = {}
    """Op to the vendor's kernels that it runs (``aclnnSort``; if several, any of them). Evidence from a vendor's list
    of kernels is about these; a rule that rests on it alone names them for each of its ops."""

    def __post_init__(self) -> None:
        check_ops(self.ops, namespaces=type(self) is LibraryRule)


_CAUSE_UNKNOWN = {UnknownReason.UNLISTED: Cause.VENDOR_UNLISTED, UnknownReason.OPAQUE: Cause.OPAQUE}
REMEDY_UNKNOWN = "Run the op twice on the target with the same input and compare the bits; then add a rule for it."


class Ruling(Statement, frozen=True, kw_only=True, gc=False):
    """What the tables and the run say of a call, and the rule that says it."""

    source: Rule | None = None
    """The rule; ``None`` where none applies, and for a row of settings."""
    translated: bool = False
    """Whether it is about an op that runs on the target instead of the recorded one."""
    observed: bool = False
    """Whether the data of the run exclude the table's risk."""

    @classmethod
    def by(cls, rule: Cased, cases: Sequence[Case], **fields: Any) -> Ruling:
        """The ruling of ``rule`` in the words of the first of ``cases`` that has them, else in its own."""
        remedied = next((case for case in cases if case.remedy), None)
        its_own = rule if isinstance(rule, Rule) else None
        return cls(
            rule=rule.id,
            source=its_own,
            cause=next((case.cause for case in cases if case.cause), rule.cause),
            why=next((case.why for case in cases if case.why), rule.why),
            remedy=rule.remedy if remedied is None else remedied.remedy,
            needs=remedied.needs if remedied is not None else its_own.needs if its_own is not None else (),
            **fields,
        )

    @classmethod
    def safe(cls, backend: Backend, **fields: Any) -> Ruling:
        """Deterministic, without a rule, unless ``fields`` say otherwise."""
        safe = {"rule": "", "verdict": Verdict.DETERMINISTIC, "deterministic_mode": Verdict.DETERMINISTIC}
        return cls(**{**safe, "backend": backend, **fields})

    @classmethod
    def unknown(
        cls,
        backend: Backend,
        name: str,
        reason: UnknownReason,
        detail: str,
        why: str = "",
        remedy: str = REMEDY_UNKNOWN,
    ) -> Ruling:
        """Unknown with and without deterministic mode, without a rule; ``name`` completes its id."""
        return cls(
            rule=f"{backend}-{name}",
            verdict=Verdict.UNKNOWN,
            deterministic_mode=Verdict.UNKNOWN,
            cause=_CAUSE_UNKNOWN.get(reason),
            why=why or reason.says,
            remedy=remedy,
            reason=reason,
            reason_detail=detail,
            backend=backend,
        )

    def turned(self, verdicts: Mapping[Verdict, Verdict], **fields: Any) -> Ruling:
        """The same with each verdict replaced as ``verdicts`` says, and with these ``fields``."""
        as_is, in_mode = (verdicts.get(verdict, verdict) for verdict in self.both)
        return msgspec.structs.replace(self, verdict=as_is, deterministic_mode=in_mode, **fields)

    @property
    def says(self) -> tuple[object, ...]:
        """All that it says, whichever case decided. Rulings with equal claims are one finding."""
        return (
            id(self.source),
            *msgspec.structs.astuple(msgspec.structs.replace(self, source=None, decided=Deciding())),
        )


class LibraryRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A rule for ops of a library, whatever the backend; ``ops`` may name a whole namespace (``profiler.*``)."""

    backends: tuple[Backend, ...] = ()
    """Backends on which it holds; empty for every one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if Backend.RECORDED in self.backends:
            raise ValueError("a rule is for backends, not for `recorded`")
        if own := [op for op in self.ops if type(self) is LibraryRule and op.partition(".")[0] in TORCH_NAMESPACES]:
            raise ValueError(f"{own[0]!r} is torch's own op; it belongs in a backend's table")


class AnsweredRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A compiler's rule in which a backend's own answers replace the ops that it calls; see ``tables.compiled``."""

    compiler: str
    reviewed: str
    """Versions of torch that the compiler's table was written for."""


class Reviewed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The head of every table."""

    schema: int
    reviewed: str
    """Versions of torch that it was written for: ``">=1.11,<=2.15"``."""

    def __post_init__(self) -> None:
        check_range(self.reviewed or "nothing", ("<", "<=", ">="))


class LibraryTable(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The rules for ops outside torch's own namespaces, for all backends."""

    rule: tuple[LibraryRule, ...]
    variables: tuple[str, ...] = ()
    """Environment variables that the rules name."""

    def speaking_of(self, backend: Backend) -> tuple[LibraryRule, ...]:
        """The rules that hold on ``backend``."""
        return tuple(rule for rule in self.rule if not rule.backends or backend in rule.backends)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_variables(self.variables)
        check_ids(self.rule, "lib")


class ClassTable(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Classes of ops that by definition cannot vary on any device; see ``tables.loading``."""

    rule: tuple[Rule, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ids(self.rule, CLASS_ID)


class Vouched(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ops that launch no kernel that could vary, in every recorded build between two releases."""

    first: str
    last: str
    """Releases: ``2.4``, ``2.15``."""
    ops: frozenset[str]
    """Overloads, as torch prints them."""


class Dispatched(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Kernels that builds of torch launched for a backend; see ``tables.loading``."""

    schema: int
    backend: Backend
    builds: tuple[str, ...]
    """Releases that were recorded, oldest first."""
    device: str
    """The device that the builds were run for: ``sm_90``."""
    rules: dict[str, str]
    """Rule to the evidence on it."""
    vouched: tuple[Vouched, ...] = ()
    rest: tuple[dict[str, Any], ...] = ()
    """Ops that were recorded and are not known to be safe, and why: for readers of the file."""
    counted: tuple[dict[str, Any], ...] = ()
    """Kernels that add integers only, and the source that says so: for readers of the file."""


class RuleTable(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """One backend's rules."""

    backend: Backend
    rule: tuple[Rule, ...]
    deny_list: bool = True
    """An ``aten`` op without a rule is deterministic (deny list) or unknown (allow list)."""
    unlisted: str = ""
    """The reason why an op without a rule is unknown here, a sentence; for an allow list that is not a vendor's."""
    classes: tuple[str, ...] = ()
    """Classes of ops that it inherits, for ops without a rule of its own; see ``tables.loading``."""
    ask: str = ""
    """The remedy for an op without a rule, a sentence; ``{op}`` stands for the op's name."""
    inherits: Backend | None = None
    """A table whose rules it inherits, with weaker evidence, for ops without its own rule; see ``tables.loading``."""
    variables: tuple[str, ...] = ()
    """Environment variables that the rules name: a recorder records these, and those of settings and their rows."""
    libraries: tuple[LibraryRule, ...] = ()
    """Library rules that hold on this backend. Not a field of a file: loading sets it."""
    dispatched: Dispatched | None = None
    """Kernels that builds of torch launched. Not a field of the file: loading sets it."""
    compiled: tuple[AnsweredRule, ...] = ()
    """Compilers' rules for this backend, for display only. Not a field of the file: ``compiler_answers`` sets it."""

    def reviewed_for(self, rule: Rule) -> str:
        """The versions of torch that ``rule``, one of those that hold here, was reviewed for."""
        return rule.reviewed if isinstance(rule, AnsweredRule) else self.reviewed

    def find(self, op: str) -> Rule | None:
        """The rule for an overload or its packet: the table's own, else a library's, else one for its namespace."""
        packet, namespace = op.rpartition(".")[0], f"{op.partition('.')[0]}.*"
        own, shared = self._own, self._shared
        return own.get(op) or own.get(packet) or shared.get(op) or shared.get(packet) or shared.get(namespace)

    @cached_property
    def _own(self) -> dict[str, Rule]:
        return {op: rule for rule in self.rule for op in rule.ops}

    @cached_property
    def _shared(self) -> dict[str, Rule]:
        return {op: rule for rule in self.libraries for op in rule.ops}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backend is Backend.RECORDED:
            raise ValueError("a table is for a backend, not for `recorded`")
        if self.ask.count("{op}") != self.ask.count("{"):
            raise ValueError("ask: only {op} is allowed in braces")
        check_variables(self.variables)
        check_ids(self.rule, str(self.backend))


def evidence_of(cited: Cased | Iterable[RuleEvidence]) -> tuple[Evidence, ...]:
    """The evidence of a rule, or that of a translation, as a finding has it."""
    rows = cited.evidence if isinstance(cited, Cased) else cited
    return tuple(Evidence(kind=row.kind, ref=row.ref) for row in rows)


#: Grades of evidence, strongest first, in the order in which they are shown.
GRADES: tuple[EvidenceKind, ...] = tuple(kind for kind in reversed(EvidenceKind) if kind not in OF_A_RUN)


def strongest(evidence: Iterable[RuleEvidence], *, without: tuple[EvidenceKind, ...] = ()) -> EvidenceKind:
    """The best grade among ``evidence``; the weakest if there is none, which the lint rejects."""
    kinds = {row.kind for row in evidence}.difference(without)
    return next((grade for grade in GRADES if grade in kinds), GRADES[-1])


class Switch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An option of a library, and the rules whose findings in the library's code it settles."""

    library: str
    """Top-level name of the package, with which locations begin: ``transformers``."""
    rules: tuple[str, ...]
    what: str
    """The action, as a sentence."""
    ref: str
    """The source in the library: version, file and name."""

    def __post_init__(self) -> None:
        if not self.library.isidentifier():
            raise ValueError(f"{self.library!r} is not the name of a package")


class Switches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every switch that is known."""

    schema: int
    in_hand: tuple[str, ...]
    """Rules whose own remedy needs no edit of the line."""
    switch: tuple[Switch, ...]

    def find(self, library: str, rule: str) -> Switch | None:
        """The switch of ``library`` for findings of ``rule``; an inherited rule is looked up by its origin too."""
        names = {rule, rule.partition("-")[2]}
        own = (switch for switch in self.switch if switch.library == library)
        return next((switch for switch in own if names.intersection(switch.rules)), None)

    def is_in_hand(self, rule: str) -> bool:
        """Return whether the remedy of ``rule`` needs no edit of the line."""
        return rule in self.in_hand or rule.partition("-")[2] in self.in_hand


Model = TypeVar("Model", bound=msgspec.Struct)
#: Fields that loading sets; in a file of their own.
_SET_BY_LOADING = {
    "dispatched": "<backend>_dispatched.toml",
    "compiled": "a compiler's table",
    "libraries": "libraries.toml",
}


def parse(text: str, source: str, model: type[Model]) -> Model:
    """Parse ``model`` from TOML. Raises ``TableError`` in one line with ``source`` for invalid text."""
    try:
        table = msgspec.convert(toml_values(text), model, strict=True)
    except (ValueError, RecursionError) as problem:
        told = f"{source}: {problem}{_further(str(problem), text, model)}"
        raise TableError(told, hint="see docs/adding-a-rule.md") from problem
    if (schema := getattr(table, "schema", SCHEMA)) != SCHEMA:
        raise TableError(f"{source}: schema {schema} is not {SCHEMA}", hint="install the release that reads it")
    for name, file in _SET_BY_LOADING.items():
        if getattr(table, name, None):
            raise TableError(f"{source}: {name} belong in {file}", hint="see docs/adding-a-rule.md")
    return table


def _further(problem: str, text: str, model: type[Model]) -> str:
    """What msgspec leaves out of a problem at ``$.rule[87].case[1].verdict``: the rule's id, and the words allowed."""
    place = re.search(r"`\$(\.(\w+)(?:\[(\d+)\])?.*)`$", problem)
    if place is None:
        return ""
    row = toml_values(text)[place[2]][int(place[3])] if place[3] else ()
    told = f" of {row['id']!r}" if isinstance(row, dict) and "id" in row else ""
    if not problem.startswith("Invalid enum value"):
        return told
    kind: Any = msgspec.inspect.type_info(model)
    for name in re.findall(r"\.(\w+)", place[1]):
        kind = next(field.type for field in kind.fields if field.name == name)
        kind = getattr(kind, "item_type", getattr(kind, "types", (kind,))[0])
    return f"{told}; choose from {', '.join(str(word) for word in getattr(kind, 'values', ()) or kind.cls if word)}"


def load(path: Path, model: type[Model]) -> Model:
    """The table at ``path``, checked as ``parse`` does."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise TableError(f"cannot read {path.name}: {problem}", hint="reinstall the package") from problem
    return parse(text, path.name, model)


#: ``aten.index_add_``, ``aten.index_add_.default``.
OP = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")
#: ``profiler.*``, every op of a library.
NAMESPACE = re.compile(r"[A-Za-z_]\w*\.\*")
#: ``PYTHONHASHSEED``.
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
#: ``cuda-index-add``.
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


def check_ops(ops: Iterable[str], *, namespaces: bool = False) -> None:
    """Raise ``ValueError`` for what is no op's name; ``namespaces``: whether a whole one, ``profiler.*``, may stand."""
    for op in ops:
        if not OP.fullmatch(op) and not (namespaces and NAMESPACE.fullmatch(op)):
            raise ValueError(f"{op!r} is not of the form namespace.name[.overload]")


def check_ids(rows: Iterable[Any], leader: str) -> None:
    """Raise ``ValueError`` for rows whose id is not kebab-case or does not begin with ``leader``."""
    for row in rows:
        if not (ID.fullmatch(row.id) and row.id.startswith(f"{leader}-")):
            raise ValueError(f"{row.id!r} is not kebab-case with the prefix `{leader}-`")


def check_variables(variables: Iterable[str]) -> None:
    """Raise ``ValueError`` for what cannot be the name of an environment variable."""
    for variable in variables:
        if not VARIABLE.fullmatch(variable):
            raise ValueError(f"{variable!r} is not the name of an environment variable")


def check_conditions(when: Mapping[str, WantedValue]) -> None:
    """Raise ``ValueError`` for a key or value of a condition that the vocabulary does not have."""
    for key, wanted in when.items():
        if key not in DOMAINS:
            raise ValueError(f"unknown condition {key!r}")
        if wanted == []:
            raise ValueError(f"{key} has no values")
        for value in wanted if isinstance(wanted, list) else [wanted]:
            if not in_domain(key, value) and not (key == "dtype" and value in DTYPE_CLASSES):
                raise ValueError(f"{key} has no value {value!r}")


def check_range(text: str, operators: tuple[str, ...]) -> None:
    """Raise ``ValueError`` unless the range names minor releases. A case's has no ``<=``, which excludes 2.6.1."""
    for part in specifiers(text):
        if part.operator not in operators or not re.fullmatch(r"\d+\.\d+", part.version):
            raise ValueError(f"{str(part)!r} is not one of {' '.join(operators)} with a minor release")


# --- settings, seeds, memory and data loading, which no op shows: a row is like a rule, but about the process. It
# --- applies if certain calls ran (``needs``)

#: Names in ``SettingRow.needs`` that are not groups: the judge determines their calls.
RESERVED: Mapping[str, str] = {
    "fixed-by-mode": "calls that vary and that deterministic mode makes deterministic without filling memory",
    "raised-by-mode": "calls that raise in deterministic mode",
    "unwritten-reads": "calls that read memory before it was fully written",
    "compiled-products": "matrix products in compiled code",
    "padded-products": "matrix products in compiled code whose sizes are not all aligned to 16 bytes",
    "compiled-templates": "matrix products, convolutions and attention in compiled code",
    "compiled-reductions": "sums and other reductions in compiled code",
    "timed-reductions": "sums and other reductions in compiled code, unless at most 1,024 numbers become one",
    "unseen": "none: no call shows whether a step depends on it; it is a finding only if it was set too late",
}
#: Groups that narrow what a row needs; no row needs one of them by itself.
UNROLLED = "unrolled-sums"
SINGLE = "sums-to-one-number"
ALIGNED, PADDABLE = "aligned-products", "paddable-products"
OWN_DEPTHWISE = "own-depthwise-convolutions"
NARROWING = frozenset({UNROLLED, SINGLE, ALIGNED, PADDABLE, OWN_DEPTHWISE})

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+(\(\))?")


class AffectedCalls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Calls that a setting affects: matrix products, convolutions, collectives."""

    name: str
    ops: tuple[str, ...] = ()
    """``aten.mm`` (every overload), ``aten.mm.default``, ``c10d.*``; empty for any op for which ``when`` holds."""
    when: dict[str, WantedValue] = {}
    """Facts that the call must have, as in a rule's condition; a dtype class stands for its members."""

    def __post_init__(self) -> None:
        check_ops(self.ops, namespaces=True)
        check_conditions(self.when)


class SettingRow(Cased, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One setting, or one thing that a process can do, and its effect on reproducibility."""

    about: About
    name: str
    """Its name in users' code: ``torch.backends.cudnn.benchmark``, ``CUBLAS_WORKSPACE_CONFIG``, ``DataLoader``."""
    aliases: tuple[str, ...] = ()
    """Other names of the same setting: the variable that sets it at import, the call for another device."""
    category: str
    """The heading under which it is listed: one of ``CATEGORIES``."""
    code: str = ""
    """The lines to paste, if any: Python, or shell where each begins with ``export``."""
    where: str = ""
    """Their place, as a phrase: "before torch is imported, or in the shell that starts the script"."""
    sets: dict[str, Value] = {}
    """The settings after ``code`` ran, as ``judge(..., settings=...)`` takes them: an ``Environment`` field, a
    variable or a dotted name to its value; ``seed.torch``, ``seed.python``, ``seed.numpy`` to ``true``."""
    field: str = ""
    """The ``Environment`` field that holds the setting; one of several words is joined by commas. A row about a setting
    has one of the three, or none if a process cannot read it: such a row is for reference, and never a finding."""
    variable: str = ""
    """The environment variable that holds it."""
    read: str = ""
    """The dotted name that holds it, with ``()`` after a function; read only if its module is already loaded."""
    default: Value | None = None
    """The value of an unset setting; a value equal to it counts as unset."""
    safe: tuple[Value, ...] = ()
    """Values with which runs repeat."""
    read_by: tuple[Subsystem, ...] = ()
    """The subsystems that read it once, at their first use. A change after that has no effect."""
    watches: EventKind | None = None
    """The kind of event that a row about a late or changed setting is about."""
    events: tuple[str, ...] = ()
    """The names of those events."""
    generator: tuple[GeneratorKind, ...] = ()
    """The generators that a row about generators applies to."""
    backends: tuple[Backend, ...] = ()
    """Backends that it affects; empty for every one."""
    needs: tuple[str, ...] = ()
    """Groups of calls that it affects, or words of ``RESERVED``; empty for every step, or for whatever was observed."""
    differs: Differs = Differs.RUNS
    """Which executions it makes differ. For ``machines`` every case is ``deterministic``, and a note is given for a
    value that is neither unset nor safe, or unset with a ``default`` that is not among ``safe``."""
    torch: str = ""
    """Versions of torch that have it; empty for every reviewed one."""
    case: tuple[Case, ...] = ()
    evidence: tuple[RuleEvidence, ...] = ()

    def __post_init__(self) -> None:
        check_ids([self], "environment")
        check_range(self.torch, ("<", ">="))
        check_variables(filter(None, [self.variable]))
        if self.about is About.CALL:
            raise ValueError("a row cannot be about calls; rules of a backend's table are")
        if self.category not in CATEGORIES:
            raise ValueError(f"unknown category {self.category!r}")
        if self.read and not _PATH.fullmatch(self.read):
            raise ValueError(f"{self.read!r} is not a dotted name")
        if len([source for source in (self.field, self.variable, self.read) if source]) > 1:
            raise ValueError("names more than one of field, variable and read")
        for key in (key for case in self.case for key in case.when):
            if key not in PROCESS_FACTS and key not in SETTINGS:
                raise ValueError(f"{key!r} is not a fact of the process")
        for key, value in self.sets.items():
            if key in SETTINGS and not in_domain(key, value):
                raise ValueError(f"sets {key} to {value!r}, which is not one of its values")


class EnvironmentTable(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All rows, and the groups of calls that they name."""

    row: tuple[SettingRow, ...]
    group: tuple[AffectedCalls, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        known = {group.name for group in self.group} | RESERVED.keys()
        for row in self.row:
            if unknown := [group for group in row.needs if group not in known]:
                raise ValueError(f"{row.id} needs {unknown[0]!r}, which is not a group")


#: The headings under which rows are listed, in their order.
CATEGORIES = (
    *("deterministic mode", "cuDNN and MIOpen", "BLAS and linear algebra", "precision", "attention"),
    *("CPU threads and libraries", "random generators", "memory", "data loading", "collectives"),
    *("torch.compile", "Ascend", "training loop", "hardware and versions"),
)


# --- what a step recorded on a CPU runs on another device: nn.LSTM and scaled_dot_product_attention decompose
# --- differently on each. Dtype, hardware and sizes decide among several candidates

#: Stands for the recorded op, if the target may run it too.
STAYS = "recorded"
#: Devices whose recordings are translated. Ops recorded on others are judged as recorded.
RECORDED_ON = "cpu"


class TargetOp(Conditioned, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An op that the target may run, and under which conditions."""

    op: str = ""
    """An overload, ``aten._cudnn_rnn.default``; ``recorded`` for the recorded op itself; empty if it is not known which
    op runs, as ``why`` says."""
    facts: dict[str, Value] = {}
    """Facts of this op that the recorded call does not have."""
    why: str = ""
    """The reason why no op is known, if ``op`` is empty."""
    perhaps: bool = False
    """The program may choose another call there, by the device. If only such candidates raise, the verdict is
    ``conditional``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, value in self.facts.items():
            if (key not in RECORDED_FACTS and key != "dtype") or not in_domain(key, value):
                raise ValueError(f"{key} = {value!r} is not a recorded fact")


class Translation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ops that a CPU recording shows and a target runs as others."""

    id: str
    """Permanent, kebab-case, prefixed with ``to-``: ``to-cuda-attention-backward``."""
    to: tuple[Backend, ...]
    """Targets for which it holds."""
    ops: tuple[str, ...]
    """Recorded ops, named as in a rule."""
    why: str
    """The criterion between the candidates, in sentences for the reader of a finding."""
    becomes: tuple[TargetOp, ...]
    """Every op that the target may run. If the conditions of several hold, it may be any of them."""
    evidence: tuple[RuleEvidence, ...]
    forward: str = ""
    """For backward ops: the packet of the forward op whose facts at the same place are used too."""
    recorded_by: str = ""
    """Versions of torch whose recordings contain the ops; empty for every one."""

    def __post_init__(self) -> None:
        check_ops(self.ops)
        _check_targets(self.to)
        check_range(self.recorded_by, ("<", ">="))
        for op in (candidate.op for candidate in self.becomes):
            if op not in ("", STAYS) and not (OP.fullmatch(op) and op.count(".") == 2):
                raise ValueError(f"{op!r} is not of the form namespace.name.overload")
        if self.forward and not (OP.fullmatch(self.forward) and self.forward.count(".") == 1):
            raise ValueError(f"{self.forward!r} is not of the form namespace.name")


class TargetNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A difference that single ops do not show: reported, never applied."""

    id: str
    to: tuple[Backend, ...]
    says: str
    seen: tuple[str, ...] = ()
    """Ops whose presence in a recording puts ``says`` at the top of the report; empty if it is for readers of the table
    only, because verdicts do not depend on it."""
    evidence: tuple[RuleEvidence, ...]

    def __post_init__(self) -> None:
        check_ops(self.seen)
        _check_targets(self.to)


class Translations(Reviewed, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All known differences between a CPU recording and a run on another device."""

    translation: tuple[Translation, ...] = ()
    note: tuple[TargetNote, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ids((*self.translation, *self.note), "to")


def _check_targets(to: tuple[Backend, ...]) -> None:
    if Backend.RECORDED in to or Backend(RECORDED_ON) in to:
        raise ValueError(f"a recording on {RECORDED_ON} can only be translated to another backend")


#: No translations: every op runs as it was recorded.
NO_TRANSLATIONS = Translations(schema=SCHEMA, reviewed=">=1.11")


ROWS, TRANSLATIONS = (Path(__file__).with_name(f"{name}.toml") for name in ("environment", "translations"))


@cache
def load_rows() -> EnvironmentTable:
    """The packaged table of settings, read and checked once."""
    return load(ROWS, EnvironmentTable)


@cache
def load_translations() -> Translations:
    """What calls run as on other devices, read and checked once."""
    return load(TRANSLATIONS, Translations)
