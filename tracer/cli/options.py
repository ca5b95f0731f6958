"""Options that several subcommands have, and what they ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracer.errors import UsageError
from tracer.names import Backend, Detail

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tracer.runner import Steps
    from tracer.runner.repeated.launching import Task
    from tracer.tables.rules import Table

#: How several runs are reported: on standard output, and as files beside their recordings.
FORMATS = ("text", "json", "html")

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


#: Devices that a table may exist for.
DEVICES = tuple(backend.value for backend in Backend if backend is not Backend.RECORDED)


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leaves completing a file's name to the shell, which knows its files best."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def option(names: str, metavar: str, help: str, **how: Any) -> Decorator:
    """An option that takes a value; ``names`` as click takes them, with a space between."""
    return click.option(*names.split(), metavar=metavar, help=help, **how)


def together(*options: Decorator) -> Decorator:
    """Adds ``options`` to a command; its help has them in this order."""

    def decorate(command: Command) -> Command:
        for add in reversed(options):  # the last one that decorates is the first one of the help
            command = add(command)
        return command

    return decorate


def target_options(*, backend: str, torch: str, settings: str, **how: Any) -> Decorator:
    """``--backend``, ``--torch`` (``torch_version``) and ``--settings``, each with its help; as recorded by default."""
    how = how or {"default": "recorded", "show_default": True}
    return together(
        option("--backend", "B", backend, **how),
        option("--torch torch_version", "V", torch, **how),
        option("--settings", "S", settings, **how),
    )


host_option = option(
    "--host", "GLOB", "Judge these files, lines, functions or modules for cpu: they run on the host.", multiple=True
)
strict_option = click.option(
    "--strict", is_flag=True, help="Call a torch newer than the tables unknown; guess nothing."
)
window_options = together(
    option("--steps window", "A:B", "Record these optimizer steps only.", default=":"),
    click.option("--exit-after-steps", is_flag=True, help="End the script when they are recorded."),
)
script_arguments = together(
    click.option("-m", "as_module", is_flag=True, help="SCRIPT is a module's name, as for python -m."),
    click.argument("script", shell_complete=files),
    click.argument("args", nargs=-1, type=click.UNPROCESSED, shell_complete=files),
)
verbosity = together(
    click.option("-q", "--quiet", is_flag=True, help="Print the verdict and the counts alone."),
    click.option("-v", "--verbose", is_flag=True, help="Print every finding, why, and its evidence."),
)


def folder_options(name: str) -> Decorator:
    """``-o`` and ``--format`` of the command ``name``, which makes several runs and leaves their recordings."""
    return together(
        option(
            "-o --output folder",
            "FOLDER",
            f"Where the recordings go, and {name}.json and {name}.html.",
            type=click.Path(path_type=Path),
            default=Path(name),
            show_default=True,
        ),
        option(
            "--format formats",
            "F[,F]",
            "text on standard output; json and html in FOLDER.",
            default="text",
            show_default=True,
        ),
    )


def steps_in(window: str, *, exit_after_steps: bool) -> Steps:
    """The steps that ``--steps`` names. Raises ``UsageError`` in one line."""
    from tracer.runner import Steps

    steps = Steps.parse(window)
    if exit_after_steps and steps.stop is None:
        raise UsageError("--exit-after-steps needs to know the last step", hint="add --steps A:B")
    return steps


def task_of(script: str, args: tuple[str, ...], window: str, *, as_module: bool, exit_after_steps: bool) -> Task:
    """The script that several runs are made of, with its steps. Raises ``UsageError`` in one line."""
    from tracer.runner.repeated.launching import Task

    steps = steps_in(window, exit_after_steps=exit_after_steps)
    if not as_module and not os.path.exists(script):
        raise UsageError(f"there is no script {script}", hint="name a Python file, or a module after -m")
    return Task(
        target=script,
        args=args,
        as_module=as_module,
        start=steps.start,
        stop=steps.stop,
        exit_after_steps=exit_after_steps,
    )


def formats_in(formats: str) -> list[str]:
    """The formats that ``--format`` of ``folder_options`` names. Raises ``UsageError`` in one line."""
    wanted = [word.strip() for word in formats.split(",")]
    if unknown := [word for word in wanted if word not in FORMATS]:
        raise UsageError(f"unknown format {unknown[0]!r}", hint=f"choose from {', '.join(FORMATS)}")
    return wanted


def detail_of(*, quiet: bool, verbose: bool) -> Detail:
    """Return the detail for ``--quiet`` and ``--verbose``. Raises ``UsageError`` for both."""
    if quiet and verbose:
        raise UsageError("--quiet and --verbose exclude each other", hint="leave one out")
    return Detail.BRIEF if quiet else Detail.WHOLE if verbose else Detail.USUAL


def tables_for(backend: str | None) -> Mapping[Backend, Table]:
    """The table of ``backend``, or all tables if none is named, with what compilers make of their ops.

    Raises ``UsageError`` in one line.
    """
    from tracer.tables.compilers import with_compiled
    from tracer.tables.loading import existing_tables, load_table, load_tables

    if backend is None:
        return with_compiled(load_tables())
    if backend not in map(str, existing_tables()):
        backends = ", ".join(map(str, existing_tables()))
        raise UsageError(f"there is no table for {backend!r}", hint=f"tables exist for {backends}")
    return with_compiled({Backend(backend): load_table(Backend(backend))})
