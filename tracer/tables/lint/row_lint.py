"""Proves the table of settings as a backend's table is proven, and that each row has only fields of its kind."""

from __future__ import annotations

import types
import typing
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tracer.facts.fact import Value
from tracer.names import About, Differs, EventKind, Verdict
from tracer.tables.lint.rule_lint import empty_fields, incomplete, repeated, unreached
from tracer.tables.settings.declared import SEEDS
from tracer.tables.settings.rows import NARROWING, RESERVED, EnvironmentTable, SettingRow
from tracer.tables.versions import reviewed_releases, speaks_of
from tracer.tables.vocabulary import PROCESS_FACTS, SETTINGS
from tracer.trace.records import Environment

#: Facts that the cases of a row may use, besides settings.
KEYS: Mapping[About, frozenset[str]] = {
    About.SETTING: frozenset({"value"}),
    About.LATE: frozenset({"late"}),
    About.CHANGED: frozenset({"change", "origin"}),
    About.GENERATOR: frozenset({"origin", "seed.number", "by.library", "made.often", "made.drew"}),
    About.MEMORY: frozenset(),
    About.OVERLAP: frozenset({"overlap"}),
    About.LOADER: frozenset({"origin", *(key for key in PROCESS_FACTS if key.startswith("loader."))}),
    About.COMPILED: frozenset({"value", "compiled"}),
}

_SHELL = "export "


def lint_rows(table: EnvironmentTable) -> list[str]:
    """Every fault of a table of settings that loads, one line each; empty if there is none."""
    releases = reviewed_releases(table.reviewed)
    faults = [] if releases else [f"rows: `{table.reviewed}` contains no release of torch"]
    for row in table.row:
        own = tuple(release for release in releases if speaks_of(row.torch, release))
        faults += [f"{row.id}: {fault}" for fault in _faults(row, own)]
    faults += [f"{id}: {n} rows have this id" for id, n in repeated(row.id for row in table.row)]
    faults += _read_twice(table.row)
    return faults + list(_bad_groups(table))


def _faults(row: SettingRow, releases: tuple[str, ...]) -> Iterator[str]:
    yield from (*incomplete(row), *empty_fields(row, "name"))
    if not releases:
        yield f"`{row.torch}` contains no reviewed release"
    yield from unreached(row, releases)
    for number, case in enumerate(row.case):
        for key in case.when:
            if key not in KEYS[row.about] and key not in SETTINGS:
                yield f"case {number} asks {key}, which a row about {row.about} does not have"
        if row.differs is Differs.MACHINES and case.verdict is not Verdict.DETERMINISTIC:
            yield f"case {number} is {case.verdict}, but the row differs between machines only"
    yield from _bad_reading(row)
    yield from _bad_happening(row)
    yield from _bad_remedy(row)


def _bad_reading(row: SettingRow) -> Iterator[str]:
    """Conditions on a value that nothing provides, and values of another type than the setting's."""
    is_read = bool(row.field or row.variable or row.read)
    if is_read and row.about not in (About.SETTING, About.COMPILED):
        yield f"a row about {row.about} reads no setting"
    if not is_read:
        if any("value" in case.when for case in row.case):
            yield "has a condition on its value, but reads none"
        if row.default is not None or row.safe:
            yield "has values, but reads no setting"
    if row.read_by and row.about not in (About.SETTING, About.COMPILED, About.LATE):
        yield f"a row about {row.about} cannot have read_by"
    is_risky = any(case.verdict is not Verdict.DETERMINISTIC for case in row.case)
    if row.about is About.SETTING and not is_read and not row.needs and is_risky:
        yield "would be a finding in every step: a row that reads nothing needs calls, or `unseen`"
    wanted = field_type(row.field) if row.field else str if row.variable else None
    if row.field and wanted is None:
        yield f"{row.field!r} is not a field of Environment"
    if wanted is not None:
        source = row.field or row.variable
        wrong = [value for value in (*row.safe, row.default) if value is not None and type(value) is not wanted]
        yield from (f"{value!r} does not have the type of {source}" for value in wrong)


def _bad_happening(row: SettingRow) -> Iterator[str]:
    """Faults in the events and generators that a row watches."""
    watches = row.about in (About.LATE, About.CHANGED)
    if watches and row.watches not in (EventKind.VARIABLE, EventKind.SETTING, EventKind.SEED):
        yield "does not say which kind of event it watches"
    if not watches and (row.watches or row.events):
        yield f"a row about {row.about} watches no event"
    if bool(row.generator) is not (row.about is About.GENERATOR):
        yield "must name generators if it is about them, and only then"


def _bad_remedy(row: SettingRow) -> Iterator[str]:
    """Code that cannot be pasted, and settings that no target has."""
    if row.code and not row.where:
        yield "has code, but does not say where it belongs"
    if row.where and not row.code and row.about is not About.LATE:
        yield "says where its code belongs, but has no code"
    if row.sets and not row.code:
        yield "has `sets`, but no code"
    if row.code.startswith(_SHELL):
        if any(not line.startswith(_SHELL) for line in row.code.splitlines()):
            yield "mixes shell lines with Python"
    elif row.code:
        try:
            compile(row.code, row.id, "exec")
        except SyntaxError as problem:
            yield f"its code does not compile: {problem.msg}"
    for name, value in row.sets.items():
        if fault := _bad_setting(name, value):
            yield f"sets {name!r}: {fault}"


def _bad_setting(name: str, value: Value) -> str:
    """Return why ``judge(..., settings=...)`` would refuse it; empty if it would not."""
    if name in SEEDS:
        return "" if value is True else "a seed is set to `true`"
    if name in Environment.__struct_fields__:
        wanted = field_type(name)
        return "" if type(value) is wanted else "not of the field's type"
    if name.isupper() or name.replace("_", "").isupper():
        return "" if isinstance(value, str) else "a variable's value is text"
    return "" if "." in name else "neither a field, a variable, a dotted name nor a seed"


def field_type(name: str) -> type | None:
    """The plain type of a field of ``Environment``, ``str`` for words and tuples of words; ``None`` for other names."""
    hint = typing.get_type_hints(Environment).get(name)
    if hint is None:
        return None
    plain = next(member for member in typing.get_args(hint) or (hint,) if member is not types.NoneType)
    return plain if plain in (bool, int) else str


def _read_twice(rows: tuple[SettingRow, ...]) -> Iterator[str]:
    """Variables or names that two rows read for the same calls."""
    claims: defaultdict[tuple[str, frozenset[str]], list[str]] = defaultdict(list)
    for row in rows:
        for name in filter(None, (row.variable, row.read)):
            claims[name, frozenset(row.needs)].append(row.id)
    return (f"{name}: read by {' and '.join(ids)}" for (name, _), ids in claims.items() if len(ids) > 1)


def _bad_groups(table: EnvironmentTable) -> Iterator[str]:
    needed = {group for row in table.row for group in row.needs}
    for group in table.group:
        if group.name in RESERVED:
            yield f"group {group.name}: the name is reserved"
        if group.name not in needed and group.name not in NARROWING:
            yield f"group {group.name}: no row uses it"
        if not group.ops and not group.when:
            yield f"group {group.name}: contains every call"
        yield from (f"group {group.name}: {op} is listed {n} times" for op, n in repeated(group.ops))
        beside = [op for op in group.ops if op.count(".") == 2 and op.rpartition(".")[0] in group.ops]
        yield from (f"group {group.name}: {op} is listed beside its packet" for op in beside)
    yield from (f"group {name}: there are {n} of them" for name, n in repeated(group.name for group in table.group))
