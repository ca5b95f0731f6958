"""Lints all packaged tables: what ``tracer tables lint`` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Union

from tracer.errors import TableError
from tracer.names import TORCH_NAMESPACES
from tracer.tables.compilers import COMPILERS, CompilerTable, load_compiler, load_compilers
from tracer.tables.examples import EXAMPLES, lint_examples, load_examples
from tracer.tables.lint.measured import faults_of_measurements
from tracer.tables.lint.row_lint import lint_rows
from tracer.tables.lint.rule_lint import lint_classes, lint_compiler, lint_libraries, lint_table
from tracer.tables.lint.translation_lint import Resolves, lint_translations
from tracer.tables.loading import existing_tables, load_classes, load_libraries, load_table, load_tables, table_file
from tracer.tables.rules import ClassTable, LibraryTable, Rule, Table
from tracer.tables.settings.rows import ROWS, EnvironmentTable, load_rows
from tracer.tables.translation import TRANSLATIONS, load_translations
from tracer.tables.versions import speaks_of

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
    faults = [fault for table in tables for fault in _faults(*table, resolves, torch)]
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


def _faults(
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
