"""What a shell may complete: the closed words of options, versions, files, and the names that tables know.

Nothing here may fail or print: a shell shows either where the user was typing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import click
from click.shell_completion import CompletionItem

from tracer.names import Backend, Settings, Verdict

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def words(choices: Callable[[], Iterable[str]], *, several: bool = False) -> Completer:
    """Completes one of ``choices``, or the last of ``several`` that commas part."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, begun = incomplete.rpartition(",") if several else ("", "", incomplete)
        named = before.split(",") if comma else []
        found = [choice for choice in choices() if choice.startswith(begun) and choice not in named]
        return [CompletionItem(f"{before}{comma}{choice}") for choice in found]

    return complete


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leaves it to the shell, which knows its files best."""
    return [CompletionItem(incomplete, type="file")]


def _backends() -> list[str]:
    return [backend.value for backend in Backend]


def _devices() -> list[str]:
    return [backend.value for backend in Backend if backend is not Backend.RECORDED]


def _settings() -> list[str]:
    return [Setting.value for Setting in Settings]


def _verdicts() -> list[str]:
    return [verdict.value for verdict in Verdict if verdict is not Verdict.DETERMINISTIC]


def _formats() -> Sequence[str]:
    from tracer.report.files.formats import FORMATS

    return list(FORMATS)


def _tables() -> Sequence[str]:
    from tracer.report.files.exported_tables import TABLES

    return list(TABLES)


def _releases() -> Sequence[str]:
    from tracer.tables.versions import RELEASES

    return [*reversed(RELEASES), "recorded"]


def _names() -> list[str]:
    """Ids of rules and rows, ops, APIs and settings."""
    from tracer.tables.loading import load_tables
    from tracer.tables.lookup import names_of, rules_of, spelled
    from tracer.tables.settings.rows import load_rows

    rules = [rule for table in load_tables().values() for rule in rules_of(table)]
    known = {name for rule in rules for name in (rule.id, *rule.ops, *map(spelled, rule.apis))}
    known.update(name for row in load_rows().row for name in names_of(row))
    return sorted(known)


def _rules() -> list[str]:
    from tracer.tables.loading import load_tables
    from tracer.tables.lookup import rules_of

    return sorted({rule.id for table in load_tables().values() for rule in rules_of(table)})


backend, backends = words(_backends), words(_backends, several=True)
device = words(_devices)
settings, settings_pair = words(_settings), words(_settings, several=True)
release, releases = words(_releases), words(_releases, several=True)
tables = words(_tables)
formats = words(_formats, several=True)
verdicts = words(_verdicts, several=True)
verdicts_and_new = words(lambda: [*_verdicts(), "new"], several=True)
names = words(_names)
rules = words(_rules)
