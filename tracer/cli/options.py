"""Options that several subcommands have, and what commands get of them."""

from __future__ import annotations

import functools
import inspect
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracer.errors import UsageError
from tracer.names import Backend, Detail
from tracer.plain import say

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tracer.runner.script import Task
    from tracer.tables.rules import RuleTable

#: How several runs are reported: on standard output, and as files beside their recordings.
RUN_FORMATS = ("text", "json", "html")

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


#: Devices that a table may exist for.
DEVICES = tuple(backend.value for backend in Backend if backend is not Backend.RECORDED)


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leaves completing a file's name to the shell, which knows its files best."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def option(
    names: str, metavar: str, help: str, *, read: Callable[[str, Any], Any] | None = None, **how: Any
) -> Decorator:
    """An option that takes a value; ``names`` as click takes them, with a space between.

    ``read``: makes what the command gets of the option's spelling and a value that was given.
    """
    if read is not None:

        def callback(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
            return value if value is None or context.resilient_parsing else read(parameter.opts[0], value)

        how["callback"] = callback
    return click.option(*names.split(), metavar=metavar, help=help, **how)


def together(*options: Decorator, into: str = "", by: Callable[..., Any] | None = None) -> Decorator:
    """Adds ``options`` to a command; its help has them in this order.

    ``by`` takes all their values, and the command gets what that returns as ``into``.
    """

    def decorate(command: Command) -> Command:
        changed = command
        if by is not None:
            names = inspect.signature(by).parameters

            @functools.wraps(command)
            def changed(**values: Any) -> Any:
                values[into] = by(**{name: values.pop(name) for name in names})
                return command(**values)

        for add in reversed(options):  # the last one that decorates is the first one of the help
            changed = add(changed)
        return changed

    return decorate


def target_options(*, backend: str, torch: str, settings: str, **how: Any) -> Decorator:
    """``target``: keywords of ``judge``, as recorded by default; each option with its help."""
    how = how or {"default": "recorded", "show_default": True}
    runs_there = "Judge these files, lines, functions or modules for cpu: they run on the host."
    guesses = "Call a torch newer than the tables unknown; guess nothing."

    def target(backend: str, torch_version: str, settings: str, host: tuple[str, ...], strict: bool) -> dict[str, Any]:
        return {"backend": backend, "torch": torch_version, "settings": settings, "host": host, "strict": strict}

    return together(
        option("--backend", "B", backend, **how),
        option("--torch torch_version", "V", torch, **how),
        option("--settings", "S", settings, **how),
        option("--host", "GLOB", runs_there, multiple=True),
        click.option("--strict", is_flag=True, help=guesses),
        into="target",
        by=target,
    )


def _task(window: str, exit_after_steps: bool, as_module: bool, script: str, args: tuple[str, ...]) -> Task:
    from tracer.runner.script import StepRange, Task

    steps = StepRange.parse(window)
    if ":" not in window and steps.start:
        several = f"for the first {window}: --steps 0:{window}"
        say(f"tracer: --steps {window} is step {window} alone, counted from 0; {several}")
    if exit_after_steps and steps.stop is None:
        raise UsageError("--exit-after-steps needs to know the last step", hint="add --steps A:B")
    return Task(target=script, args=args, as_module=as_module, steps=steps, exit_after_steps=exit_after_steps)


_SCRIPT = (
    click.option("-m", "as_module", is_flag=True, help="SCRIPT is a module's name, as for python -m."),
    click.argument("script", shell_complete=files),
    click.argument("args", nargs=-1, type=click.UNPROCESSED, shell_complete=files),
)
#: ``task``: the script, all of whose steps are recorded.
whole_script_options = together(
    *_SCRIPT, into="task", by=lambda as_module, script, args: _task(":", False, as_module, script, args)
)
#: ``task``: the script, and which steps of it are recorded.
script_options = together(
    option("--steps window", "A:B", "Record these optimizer steps only.", default=":"),
    click.option("--exit-after-steps", is_flag=True, help="End the script when they are recorded."),
    *_SCRIPT,
    into="task",
    by=_task,
)


def words(name: str, text: str) -> tuple[str, ...]:
    """The arguments that stand in one word, as a shell parts them."""
    try:
        return tuple(shlex.split(text))
    except ValueError as problem:
        raise UsageError(f"{name} {text!r}: {problem}", hint="close the quotation") from None


def check_script(task: Task) -> None:
    """Raise ``UsageError`` if there is none, before several runs are made of it."""
    if not task.as_module and not os.path.exists(task.target):
        raise UsageError(f"there is no script {task.target}", hint="name a Python file, or a module after -m")


def _detail(quiet: bool, verbose: bool) -> Detail:
    if quiet and verbose:
        raise UsageError("--quiet and --verbose exclude each other", hint="leave one out")
    return Detail.BRIEF if quiet else Detail.WHOLE if verbose else Detail.USUAL


#: ``detail``: how much a terminal shows.
verbosity = together(
    click.option("-q", "--quiet", is_flag=True, help="Print the verdict and the counts alone."),
    click.option("-v", "--verbose", is_flag=True, help="Print every finding, why, and its evidence."),
    into="detail",
    by=_detail,
)


def folder_options(name: str) -> Decorator:
    """``folder`` and ``formats`` of the command ``name``, which makes several runs and leaves their recordings."""
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
            read=_formats,
        ),
    )


def _formats(name: str, text: str) -> list[str]:
    wanted = [word.strip() for word in text.split(",")]
    if unknown := [word for word in wanted if word not in RUN_FORMATS]:
        raise UsageError(f"unknown format {unknown[0]!r}", hint=f"choose from {', '.join(RUN_FORMATS)}")
    return wanted


def tables_for(backend: str | None) -> Mapping[Backend, RuleTable]:
    """The table of ``backend``, or all tables if none is named, with what compilers make of their ops.

    Raises ``UsageError`` in one line.
    """
    from tracer.tables.compiled import with_compiled
    from tracer.tables.loading import existing_tables, load_table, load_tables

    if backend is None:
        return with_compiled(load_tables())
    if backend not in map(str, existing_tables()):
        backends = ", ".join(map(str, existing_tables()))
        raise UsageError(f"there is no table for {backend!r}", hint=f"tables exist for {backends}")
    return with_compiled({Backend(backend): load_table(Backend(backend))})
