"""What a shell may complete, and ``tracer completion``. Completers never fail or print: a shell would show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from tracer.cli.output import show
from tracer.names import Backend, Settings, Verdict

if TYPE_CHECKING:  # a command that completes nothing loads nothing for it
    from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def words(choices: Callable[[], Iterable[str]], *, several: bool = False) -> Completer:
    """Completes one of ``choices``, or the last of ``several`` that commas part."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        before, comma, begun = incomplete.rpartition(",") if several else ("", "", incomplete)
        named = before.split(",") if comma else []
        matching = [choice for choice in choices() if choice.startswith(begun) and choice not in named]
        return [CompletionItem(f"{before}{comma}{choice}") for choice in matching]

    return complete


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leaves it to the shell, which knows its files best."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _declared(module: str, name: str) -> Callable[[], Iterable[str]]:
    """Return the declaration ``name`` of ``module``, which is imported when something is completed."""
    return lambda: getattr(import_module(module), name)


def _releases() -> Sequence[str]:
    from tracer.tables.versions import RELEASES

    return [*reversed(RELEASES), "recorded"]


def _names() -> list[str]:
    """Ids of rules and rows, ops, APIs and settings."""
    from tracer.tables.loading import load_tables
    from tracer.tables.lookup import names_of, rules_of, spelled
    from tracer.tables.settings.rows import load_rows

    rules = [rule for table in load_tables().values() for rule in rules_of(table)]
    names = {name for rule in rules for name in (rule.id, *rule.ops, *map(spelled, rule.apis))}
    names.update(name for row in load_rows().row for name in names_of(row))
    return sorted(names)


def _rules() -> list[str]:
    from tracer.tables.loading import load_tables
    from tracer.tables.lookup import rules_of

    return sorted({rule.id for table in load_tables().values() for rule in rules_of(table)})


DEVICES = tuple(backend.value for backend in Backend if backend is not Backend.RECORDED)
_BACKENDS = tuple(backend.value for backend in Backend)
_SETTINGS = tuple(settings.value for settings in Settings)
_VERDICTS = tuple(verdict.value for verdict in Verdict if verdict is not Verdict.DETERMINISTIC)

backend, backends = words(lambda: _BACKENDS), words(lambda: _BACKENDS, several=True)
device = words(lambda: DEVICES)
settings, settings_pair = words(lambda: _SETTINGS), words(lambda: _SETTINGS, several=True)
release, releases = words(_releases), words(_releases, several=True)
tables = words(_declared("tracer.report.files.exported_tables", "TABLES"))
formats = words(_declared("tracer.report.files.formats", "FORMATS"), several=True)
verdicts = words(lambda: _VERDICTS, several=True)
verdicts_and_new = words(lambda: (*_VERDICTS, "new"), several=True)
names = words(_names)
rules = words(_rules)

SHELLS = ("bash", "zsh", "fish")
#: How each shell is told, once.
INSTALL = {
    "bash": """echo 'eval "$(tracer completion bash)"' >> ~/.bashrc""",
    "zsh": """echo 'eval "$(tracer completion zsh)"' >> ~/.zshrc""",
    "fish": "tracer completion fish > ~/.config/fish/completions/tracer.fish",
}
VARIABLE = "_TRACER_COMPLETE"

EXAMPLES = f"""\b
Examples:
  {INSTALL["bash"]}
  {INSTALL["zsh"]}
  {INSTALL["fish"]}"""


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print the script that makes a shell complete subcommands, options, backends, versions, formats and rules."""
    from click.shell_completion import ShellComplete, get_completion_class

    from tracer.cli.main import tracer

    completion = get_completion_class(shell)
    assert completion is not None, shell
    # Not found.source(): click's for bash runs bash to learn its version, which a script's printer has no need of.
    script = ShellComplete.source(completion(tracer, {}, "tracer", VARIABLE))
    show(f"# Installed by: {INSTALL[shell]}\n{script.strip()}")
    return 0
