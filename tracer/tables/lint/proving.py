"""Lints all packaged tables: what ``tracer tables lint`` prints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Union

from tracer.errors import TableError
from tracer.names import TORCH_NAMESPACES, Backend
from tracer.tables.compilers import COMPILERS, CompilerTable, load_compiler, load_compilers
from tracer.tables.conditions import uncovered, wanted_values
from tracer.tables.examples import EXAMPLES, lint_examples, load_examples
from tracer.tables.lint.measured import faults_of_measurements
from tracer.tables.lint.rule_lint import (
    bad_references,
    empty_fields,
    is_sentence,
    lint_classes,
    lint_compiler,
    lint_libraries,
    lint_rows,
    lint_table,
    repeated,
)
from tracer.tables.loading import existing_tables, load_classes, load_libraries, load_table, load_tables, table_file
from tracer.tables.rules import ClassTable, LibraryTable, Rule, RuleEvidence, Table
from tracer.tables.settings.rows import ROWS, EnvironmentTable, load_rows
from tracer.tables.translation import STAYS, TRANSLATIONS, TargetOp, Translation, Translations, load_translations
from tracer.tables.versions import reviewed_releases, speaks_of
from tracer.tables.vocabulary import DOMAINS, in_words

_Loaded = Union[Table, LibraryTable, ClassTable, CompilerTable, EnvironmentTable]  # noqa: UP007 (Python 3.10 runs it)


def faults_of_tables(resolves: Resolves | None = None, torch: str = "") -> list[str]:
    """Every fault of the packaged tables, one line each, led by the file. ``resolves`` says whether the
    torch of version ``torch`` has an op; without it no op is looked up."""
    tables: list[tuple[str, Callable[[], _Loaded], Callable[..., list[str]]]] = [
        ("libraries.toml", load_libraries, lint_libraries),
        ("classes.toml", load_classes, lint_classes),
        *((table_file(backend).name, partial(load_table, backend), lint_table) for backend in existing_tables()),
        *((file.name, partial(load_compiler, name), lint_compiler) for name, file in COMPILERS.items()),
        (ROWS.name, load_rows, lint_rows),
    ]
    faults = [fault for table in tables for fault in _faults_of_file(*table, resolves, torch)]
    try:
        translations, examples = load_translations(), load_examples()
    except TableError as problem:
        return list(dict.fromkeys([*faults, str(problem)]))
    if not faults:  # candidates are checked against tables, which must load first
        wrong = lint_translations(translations, load_tables(), resolves, torch)
        faults += [f"{TRANSLATIONS.name}: {fault}" for fault in wrong]
        faults += faults_of_measurements(load_tables())
        faults += [f"{EXAMPLES.name}: {fault}" for fault in lint_examples(examples, load_tables())]
    return list(dict.fromkeys(faults))


def counted() -> str:
    """A summary of what was proven, in one line."""
    tables: list[Table | LibraryTable | CompilerTable] = [*load_tables().values(), load_libraries()]
    tables += load_compilers().values()
    rules: list[Rule] = [rule for table in tables for rule in table.rule]
    settings = load_rows().row
    cases = sum(len(row.case) for row in (*rules, *settings))
    translations, examples = len(load_translations().translation), len(load_examples().example)
    return (
        f"{len(tables) + 1} tables, {len(rules):,} rules, {cases:,} cases,"
        f" {translations} translations, {len(settings)} settings, {examples} examples:"
        " each case can be reached."
    )


def unresolved(rules: Iterable[Rule], resolves: Resolves, torch: str) -> Iterator[str]:
    """torch's own ops that a rule names for version ``torch``, but that this version does not have."""
    live = (rule for rule in rules if any(speaks_of(case.torch, torch) for case in rule.case))
    named = ((rule.id, op) for rule in live for op in rule.ops if op.partition(".")[0] in TORCH_NAMESPACES)
    return (f"{id}: torch {torch} has no {op}" for id, op in named if not resolves(op))


def _faults_of_file(
    name: str, load: Callable[[], _Loaded], lint: Callable[..., list[str]], resolves: Resolves | None, torch: str
) -> Iterator[str]:
    try:
        table = load()
    except TableError as problem:
        yield str(problem)
        return
    yield from (f"{name}: {fault}" for fault in lint(table))
    if resolves is not None and not isinstance(table, EnvironmentTable):
        yield from (f"{name}: {fault}" for fault in unresolved(table.rule, resolves, torch))


Resolves = Callable[[str], bool]


def lint_translations(
    table: Translations, tables: Mapping[Backend, Table], resolves: Resolves | None = None, torch: str = ""
) -> list[str]:
    """Every fault of translations that load, one line each. ``tables`` judge the candidates.
    ``resolves`` says whether the torch of version ``torch`` has an overload or a packet; without it no op is looked
    up."""
    releases = reviewed_releases(table.reviewed)
    faults = [] if releases else [f"translations: `{table.reviewed}` contains no release of torch"]
    ids = repeated([*(row.id for row in table.translation), *(note.id for note in table.note)])
    faults += [f"{id}: {times} rows have this id" for id, times in ids]
    for row in table.translation:
        faults += [f"{row.id}: {fault}" for fault in _faults_of_row(row, releases, tables)]
        if resolves is not None:
            faults += [f"{row.id}: torch {torch} has no {op}" for op in _unresolved(row, resolves, torch)]
    for note in table.note:
        wrong = (*empty_fields(note, "to", "evidence"), *_unspoken((note.says,), note.evidence))
        faults += [f"{note.id}: {fault}" for fault in wrong]
        if resolves is not None:
            faults += [f"{note.id}: torch {torch} has no {op}" for op in note.seen if not resolves(op)]
    return [*faults, *_claimed_twice(table)]


def _faults_of_row(row: Translation, releases: tuple[str, ...], tables: Mapping[Backend, Table]) -> Iterator[str]:
    yield from empty_fields(row, "to", "ops", "becomes", "evidence")
    yield from _unspoken((row.why, *(c.why for c in row.becomes if c.why)), row.evidence)
    for number, candidate in enumerate(row.becomes):
        yield from _faults_of_candidate(number, candidate, row, releases)
    yield from _unjudged(row, tables)
    yield from _gaps(row, releases)


def _unresolved(row: Translation, resolves: Resolves, torch: str) -> Iterator[str]:
    """torch's own ops that the row names for version ``torch``, but that this version does not have."""
    recorded = row.ops if speaks_of(row.recorded_by, torch) else ()
    named = (*recorded, *(c.op for c in row.becomes if c.op not in ("", STAYS) and speaks_of(c.torch, torch)))
    return (op for op in dict.fromkeys(named) if op.partition(".")[0] in TORCH_NAMESPACES and not resolves(op))


def _unspoken(texts: tuple[str, ...], evidence: tuple[RuleEvidence, ...]) -> Iterator[str]:
    yield from (f"not a plain sentence: {text!r}" for text in texts if not is_sentence(text))
    yield from bad_references(evidence)


def _faults_of_candidate(
    number: int, candidate: TargetOp, row: Translation, releases: tuple[str, ...]
) -> Iterator[str]:
    if not candidate.op and not candidate.why:
        yield f"candidate {number} names no op and does not say why"
    if candidate.op and candidate.why:
        yield f"candidate {number} has an op; its rule says why"
    for key in candidate.when:
        if len(wanted_values(candidate, key)) == len(DOMAINS[key]):
            yield f"candidate {number} lists every value of {key}; leave the key out"
    live = [release for release in releases if speaks_of(candidate.torch, release)]
    if not live:
        yield f"candidate {number} is dead: `{candidate.torch}` contains no reviewed release"
    for earlier, other in enumerate(row.becomes[:number]):
        shared = [release for release in live if speaks_of(other.torch, release)]
        is_same = (other.op, other.facts) == (candidate.op, candidate.facts)
        if is_same and shared and _within(candidate, other):
            yield f"overlap in torch {shared[0]}: candidate {number} holds only where {earlier} does, for the same op"


def _within(inner: TargetOp, outer: TargetOp) -> bool:
    """Return whether ``outer`` holds whenever ``inner`` does."""
    return all(wanted_values(inner, key) <= wanted_values(outer, key) for key in outer.when)


def _unjudged(row: Translation, tables: Mapping[Backend, Table]) -> Iterator[str]:
    """Candidates that have no rule, unless the table is a deny list."""
    ops = dict.fromkeys(candidate.op for candidate in row.becomes if candidate.op not in ("", STAYS))
    for table in (tables[backend] for backend in row.to if backend in tables):
        for op in ops:
            if table.find(op) is None and not (table.deny_list and op.partition(".")[0] in TORCH_NAMESPACES):
                yield f"the {table.backend} table has no rule for {op}"


def _gaps(row: Translation, releases: tuple[str, ...]) -> Iterator[str]:
    """Calls without a candidate, each with the first release in which they have none."""
    holes: dict[str, str] = {}
    for release in releases:
        live = [candidate for candidate in row.becomes if speaks_of(candidate.torch, release)]
        asked = [(candidate, {key: wanted_values(candidate, key) for key in candidate.when}) for candidate in live]
        for hole in uncovered(when for _, when in asked):
            where = ", ".join(in_words(key, values) for key, values in hole.items()) or "any call"
            holes.setdefault(where, release)
    yield from (f"gap in torch {release}: no candidate for {where}" for where, release in islice(holes.items(), 1))


def _claimed_twice(table: Translations) -> Iterator[str]:
    """Ops that two rows translate for one target, a packet and its overload included."""
    for backend in dict.fromkeys(b for row in table.translation for b in row.to):
        claims: defaultdict[str, list[str]] = defaultdict(list)
        for row in (row for row in table.translation if backend in row.to):
            for op in row.ops:
                claims[op].append(row.id)
        for op, ids in claims.items():
            both = [*ids, *(claims.get(op.rpartition(".")[0], []) if op.count(".") == 2 else [])]
            if len(both) > 1:
                yield f"{op}: claimed by {' and '.join(both)} for {backend}"
