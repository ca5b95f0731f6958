"""Reads the tables: TOML to typed models, each file once; adds the rules that a table inherits.

Inherited rules (ROCm compiles CUDA's kernels) say so in their first words; their evidence counts as documented at best.
``<backend>_dispatched.toml`` says what builds launch, and is made by ``python -m benchmarks.evidence.dispatched``.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from tracer.errors import TableError, TargetError
from tracer.names import Backend, EventKind, EvidenceKind
from tracer.tables.conditions import pieces
from tracer.tables.rules import (
    BACKWARD_OF,
    CLASS_ID,
    FORWARD_FACTS,
    RECORDED_FACTS,
    STAYS,
    ClassTable,
    Dispatched,
    LibraryTable,
    Rule,
    RuleEvidence,
    RuleTable,
    Switches,
    load,
    load_rows,
    load_translations,
)
from tracer.tables.settings import DECLARED, SEEDS, declared
from tracer.tables.versions import reviewed_releases
from tracer.trace.records import FactValue

_FOLDER = Path(__file__).parent

#: Settings that environment variables hold, whether or not a table names them.
_SETTING_VARIABLES = frozenset(setting.key for setting in DECLARED if setting.is_variable)


def table_file(backend: Backend) -> Path:
    """Path of the backend's table, whether or not it exists."""
    return _FOLDER / f"{backend}.toml"


@cache
def load_table(backend: Backend) -> RuleTable:
    """The backend's table with what it inherits, read and checked once. Raises ``TableError`` if missing or invalid."""
    table = _own_rules(backend)
    if table.inherits is not None:
        parent = _own_rules(table.inherits)
        if parent.inherits is not None:  # a chain of tables would hide where a claim comes from
            raise TableError(
                f"{table_file(backend).name}: {parent.backend} inherits rules itself",
                hint="name the table that has them",
            )
        table = with_inherited(table, parent)
    elif (dispatched := load_dispatched(backend)) is not None:
        table = with_dispatched(table, dispatched)
    return with_classes(table, load_classes()) if table.classes else table


@cache
def _own_rules(backend: Backend) -> RuleTable:
    path = table_file(backend)
    if not path.is_file():
        backends = ", ".join(str(b) for b in existing_tables())
        raise TableError(f"there is no table for {backend}", hint=f"tables exist for {backends}")
    table = load(path, RuleTable)
    if table.backend is not backend:
        raise TableError(f"{path.name}: the table says that it is for {table.backend}", hint="rename one of them")
    return replace(table, libraries=load_libraries().speaking_of(backend))


def load_dispatched(backend: Backend) -> Dispatched | None:
    """The kernels that builds of torch launch on the backend, read and checked; ``None`` if none were recorded."""
    path = table_file(backend).with_name(f"{backend}_dispatched.toml")
    return load(path, Dispatched) if path.is_file() else None


@cache
def load_libraries() -> LibraryTable:
    """The rules for ops outside torch's own namespaces, read and checked once."""
    return load(_FOLDER / "libraries.toml", LibraryTable)


@cache
def load_classes() -> ClassTable:
    """The classes of ops that cannot vary on any backend, read and checked once."""
    return load(_FOLDER / "classes.toml", ClassTable)


@cache
def load_switches() -> Switches:
    """The project's own switches."""
    return load(_FOLDER / "switches.toml", Switches)


@cache
def existing_tables() -> tuple[Backend, ...]:
    """Backends that have a table."""
    return tuple(b for b in Backend if b is not Backend.RECORDED and table_file(b).is_file())


class _Shelf(Mapping[Backend, RuleTable]):
    """Every table that exists, each read when it is first asked for: most judgements need one."""

    def __getitem__(self, backend: Backend) -> RuleTable:
        if backend not in existing_tables():
            raise KeyError(backend)
        return load_table(backend)

    def __iter__(self) -> Iterator[Backend]:
        return iter(existing_tables())

    def __len__(self) -> int:
        return len(existing_tables())


@cache
def load_tables() -> Mapping[Backend, RuleTable]:
    """Every table that exists."""
    return _Shelf()


@cache
def required_facts() -> Mapping[str, frozenset[str]]:
    """Op, as rules name it, to the facts that a recorder must read for it, besides the common ones.

    Join those of the overload (``aten.scatter.reduce``) and of its packet: tables may name either.
    """
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    rules: list[Rule] = [rule for table in load_tables().values() for rule in table.rule]
    for rule in (*rules, *load_libraries().rule):
        asked = {key for case in rule.case for key in case.when}
        of_forward = {FORWARD_FACTS[key] for key in asked.intersection(FORWARD_FACTS)}
        for op in rule.ops:
            wanted[op].update(asked.intersection(RECORDED_FACTS))
            wanted[op.removesuffix(BACKWARD_OF)].update(of_forward)
    # Every op that a recorded one may become must be judged too.
    tables = load_tables()
    for row in load_translations().translation:
        keys = {key for candidate in row.becomes for key in candidate.when}
        for candidate in row.becomes:
            if candidate.op not in ("", STAYS):  # facts of its own rules are recorded anyway
                found = (tables[backend].find(candidate.op) for backend in row.to if backend in tables)
                asked = {key for rule in found if rule is not None for case in rule.case for key in case.when}
                keys |= asked - candidate.facts.keys()
        for op in row.ops:
            wanted[op.removesuffix(BACKWARD_OF)].update(FORWARD_FACTS[key] for key in keys.intersection(FORWARD_FACTS))
        for op in (*row.ops, row.forward) if row.forward else row.ops:
            wanted[op].update(keys.intersection(RECORDED_FACTS))
    return MappingProxyType({op: frozenset(keys) for op, keys in wanted.items() if keys})


@cache
def named_variables() -> frozenset[str]:
    """Environment variables that a recorder may record: those that the tables name."""
    rows = load_rows().row
    late = (row.events for row in rows if row.watches is EventKind.VARIABLE)
    named = (load_libraries().variables, *(table.variables for table in load_tables().values()))
    return _SETTING_VARIABLES.union((row.variable for row in rows if row.variable), *late, *named)


@cache
def named_settings() -> tuple[str, ...]:
    """Dotted names of the process's settings in the table of settings, with ``()`` after a function."""
    return tuple(dict.fromkeys(row.read for row in load_rows().row if row.read))


#: Prefix of inherited references, by which readers and counts by grade recognize them.
INHERITED = "inherited from the {} table, not read or run on {}: "


def with_inherited(table: RuleTable, parent: RuleTable) -> RuleTable:
    """``table`` with the rules of ``parent`` after its own, for the ops without a rule of their own.

    An own rule for a packet keeps out the parent's rules for its overloads, one for an overload alone does not. Ids
    keep their origin: ``cuda-histc`` becomes ``rocm-cuda-histc``.
    """
    claimed = {op for rule in table.rule for op in rule.ops}
    releases = reviewed_releases(table.reviewed)
    said = f"Inherited from {parent.backend}"
    rules = []
    for rule in parent.rule:
        ops = tuple(op for op in rule.ops if claimed.isdisjoint((op, op.rpartition(".")[0])))
        reached = {id(case) for release in releases for case, _ in pieces(rule.case, release)}
        live = [case for case in rule.case if id(case) in reached or case is rule.case[-1]]
        evidence = (
            RuleEvidence(
                kind=min(EvidenceKind.DOCUMENTED, row.kind, key=list(EvidenceKind).index),
                ref=INHERITED.format(parent.backend, table.backend) + row.ref,
                inherited_from=parent.backend,
            )
            for row in rule.evidence
        )
        inherited = replace(
            rule,
            id=f"{table.backend}-{rule.id}",
            ops=ops,
            why=f"{said}, whose source {table.backend} compiles; not read or run there. {rule.why}",
            case=tuple(replace(case, why=f"{said}. {case.why}") if case.why else case for case in live),
            evidence=tuple(evidence),
        )
        rules += [inherited] if ops else []
    return replace(table, rule=(*table.rule, *rules))


def with_classes(table: RuleTable, classes: ClassTable) -> RuleTable:
    """``table`` with the classes that it names after its own rules, for the ops without a rule of their own;
    ``TableError`` for a class that does not exist. A rule for a packet keeps out the class, one for an overload alone
    does not."""
    classes_by_name = {rule.id.removeprefix(f"{CLASS_ID}-"): rule for rule in classes.rule}
    if lacking := [name for name in table.classes if name not in classes_by_name]:
        raise TableError(
            f"{table.backend}.toml: there is no class {' and no class '.join(map(repr, lacking))}",
            hint=f"classes.toml has {', '.join(classes_by_name)}",
        )
    claimed = {op for rule in table.rule for op in rule.ops}
    taken = [(name, tuple(op for op in classes_by_name[name].ops if op not in claimed)) for name in table.classes]
    rules = (replace(classes_by_name[name], id=f"{table.backend}-{name}", ops=ops) for name, ops in taken if ops)
    return replace(table, rule=(*table.rule, *rules))


def with_dispatched(table: RuleTable, dispatched: Dispatched) -> RuleTable:
    """``table`` with its library rules and the kernels seen in builds."""
    rules = []
    for rule in table.rule:
        if ref := dispatched.rules.get(rule.id):
            rule = replace(rule, evidence=(*rule.evidence, RuleEvidence(kind=EvidenceKind.DISPATCHED, ref=ref)))
        rules.append(rule)
    return replace(table, rule=tuple(rules), dispatched=dispatched)


@cache
def known_settings() -> frozenset[str]:
    """Every name that can be replaced: fields of the environment, variables, dotted names, seeds."""
    rows = load_rows().row
    keys = (setting.key for setting in DECLARED if setting.is_field or setting.is_variable or "." in setting.key)
    held = {name for row in rows for name in (row.variable, row.read, row.read.removesuffix("()")) if name}
    return named_variables().union(SEEDS, keys, held, *(row.sets for row in rows))


def checked_sets(sets: Mapping[str, FactValue]) -> dict[str, FactValue]:
    """``sets``, validated. Raises ``TargetError`` for an unknown name or an invalid value."""
    for name, value in sets.items():
        if name not in known_settings():
            near = difflib.get_close_matches(str(name), known_settings(), n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(near)}?" if near else "name a field, a variable or a dotted name"
            raise TargetError(f"unknown setting {str(name)!r}", hint=hint)
        setting = declared(name)
        if name in SEEDS:
            wanted = "" if value is True else "True"
        elif setting is not None:
            wanted = setting.fault(value)
        elif "." not in name:
            wanted = "" if isinstance(value, str) else "text, as environment variables are"
        else:
            wanted = "" if isinstance(value, (bool, int, str)) else "True, False, a number or text"
        if wanted:
            raise TargetError(f"{name} cannot be {value!r}", hint=f"it is {wanted}")
    return dict(sets)
