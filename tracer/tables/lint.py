"""Proves the packaged tables: each case can be reached, the last takes what is left, no op has two rules.

How claims are worded, cited and spelt is checked by ``tests/tables``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Union

from tracer.errors import TableError
from tracer.names import Backend
from tracer.tables.compiled import INDUCTOR, CompilerTable, load_compilers
from tracer.tables.conditions import pieces, uncovered, wanted_values
from tracer.tables.explaining import EXAMPLES, Examples, load_examples
from tracer.tables.loading import existing_tables, load_classes, load_libraries, load_table, load_tables, table_file
from tracer.tables.rules import (
    DOMAINS,
    ROWS,
    TRANSLATIONS,
    Cased,
    ClassTable,
    EnvironmentTable,
    LibraryTable,
    Rule,
    RuleTable,
    SettingRow,
    Translation,
    Translations,
    in_words,
    load_rows,
    load_translations,
)
from tracer.tables.versions import reviewed_releases, speaks_of

Loaded = Union[RuleTable, LibraryTable, ClassTable, CompilerTable, EnvironmentTable, Translations, Examples]  # noqa: UP007 (Python 3.10 runs it)


def faults_of_tables() -> list[str]:
    """Every fault of the packaged tables, one line each, led by the file."""
    tables: list[tuple[str, Callable[[], Loaded]]] = [
        ("libraries.toml", load_libraries),
        ("classes.toml", load_classes),
        *((table_file(backend).name, partial(load_table, backend)) for backend in existing_tables()),
        (INDUCTOR.name, lambda: load_compilers()["inductor"]),
        (ROWS.name, load_rows),
        (TRANSLATIONS.name, load_translations),
        (EXAMPLES.name, load_examples),
    ]
    faults = []
    for name, load in tables:
        try:
            faults += [f"{name}: {fault}" for fault in faults_of(load())]
        except TableError as problem:
            faults.append(str(problem))
    return list(dict.fromkeys(faults))


def counted() -> str:
    """A summary of what was proven, in one line."""
    tables: list[RuleTable | LibraryTable | CompilerTable] = [*load_tables().values(), load_libraries()]
    tables += load_compilers().values()
    rules: list[Cased] = [*load_rows().row, *(rule for table in tables for rule in table.rule)]
    cases = sum(len(rule.case) for rule in rules)
    return f"{len(tables) + 1} tables, {len(rules):,} rules, {cases:,} cases: each case can be reached."


def faults_of(table: Loaded) -> Iterator[str]:
    """The faults of a table that loads, one line each."""
    if isinstance(table, Examples):
        return
    releases = reviewed_releases(table.reviewed)
    if not releases:
        yield f"`{table.reviewed}` contains no release of torch"
    if isinstance(table, Translations):
        ids = [*(row.id for row in table.translation), *(note.id for note in table.note)]
        for translation in table.translation:
            yield from (f"{translation.id}: {fault}" for fault in _gaps(translation, releases))
        for backend in dict.fromkeys(b for row in table.translation for b in row.to):
            rows_there = [row for row in table.translation if backend in row.to]
            claims = [(op, row.id) for row in rows_there for op in row.ops]
            yield from _claimed_twice(claims, f" for {backend}", with_packets=True)
    else:
        rows: tuple[Cased, ...] = table.row if isinstance(table, EnvironmentTable) else table.rule
        ids = [row.id for row in rows]
        for row in rows:
            live = tuple(r for r in releases if not isinstance(row, SettingRow) or speaks_of(row.torch, r))
            yield from (f"{row.id}: {fault}" for fault in _faults_of_cases(row, live))
        if not isinstance(table, EnvironmentTable):
            by_backend: Iterable[tuple[Rule, ...]] = (table.rule,)
            if isinstance(table, (LibraryTable, CompilerTable)):
                by_backend = map(table.speaking_of, Backend)
            for rules in by_backend:
                yield from _claimed_twice((op, rule.id) for rule in rules for op in dict.fromkeys(rule.ops))
    yield from (f"{id}: {times} of them have this id" for id, times in Counter(ids).items() if times > 1)


def _faults_of_cases(row: Cased, releases: tuple[str, ...]) -> Iterator[str]:
    """Cases that no call comes to, calls for which no case is left, and claims without a source."""
    yield from (f"{name} is empty" for name in ("case", "evidence") if not getattr(row, name))
    if not releases:
        yield "no reviewed release has it"
    reached = {id(case) for release in releases for case, _ in pieces(row.case, release)}
    for number, case in enumerate(row.case):
        for key in case.when:
            if len(wanted_values(case, key)) == len(DOMAINS[key]):
                yield f"case {number} lists every value of {key}; leave the key out"
        if not any(speaks_of(case.torch, release) for release in releases):
            yield f"case {number} is dead: `{case.torch}` contains no reviewed release"
        elif id(case) not in reached and case is not row.case[-1]:
            yield f"case {number} can never be reached"
    if row.case and (row.case[-1].when or row.case[-1].torch):
        yield "the last case has conditions: what no other case takes is left without one"


def _claimed_twice(claims: Iterable[tuple[str, str]], where: str = "", *, with_packets: bool = False) -> Iterator[str]:
    """Ops that more than one row names; ``with_packets``: an overload beside its packet too."""
    by_op: defaultdict[str, list[str]] = defaultdict(list)
    for op, id in claims:
        by_op[op].append(id)
    for op, ids in by_op.items():
        both = [*ids, *(by_op.get(op.rpartition(".")[0], []) if with_packets and op.count(".") == 2 else [])]
        if len(both) > 1:
            yield f"{op}: claimed by {' and '.join(both)}{where}"


def _gaps(row: Translation, releases: tuple[str, ...]) -> Iterator[str]:
    """Candidates of no release, and the first calls without a candidate."""
    for number, candidate in enumerate(row.becomes):
        if not any(speaks_of(candidate.torch, release) for release in releases):
            yield f"candidate {number} is dead: `{candidate.torch}` contains no reviewed release"
    for release in releases:
        live = [candidate for candidate in row.becomes if speaks_of(candidate.torch, release)]
        for hole in uncovered({key: wanted_values(candidate, key) for key in candidate.when} for candidate in live):
            where = ", ".join(in_words(key, values) for key, values in hole.items()) or "any call"
            yield f"gap in torch {release}: no candidate for {where}"
            return
