"""``command-line.md`` of the site: every command as click knows it, so that the page and ``--help`` cannot part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from textwrap import dedent

import click

from tracer.cli.main import tracer

HEAD = """\
# The command line

Options before a script are the tracer's, all after it are the script's. `tracer COMMAND --help` says the same in a
terminal. Exit codes: 0 clean, 1 a gate failed, 2 wrong usage or broken input (one line on standard error), 3 the trace
is partial. `tracer run` exits as the script does.
"""


def command_page() -> str:
    """The page, whole: the commands in the order of use, each command of a group under it."""
    return "\n".join([HEAD, *_sections(tracer, None, "tracer")])


def _sections(command: click.Command, parent: click.Context | None, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield f"## {context.command_path}\n"
    yield from _described(cleandoc(command.help or ""))
    yield f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```\n"
    yield from _options(command, context)
    yield from _described(cleandoc(command.epilog or ""))
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None, below
            yield from _sections(found, context, below)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """The options with what click's own help says of each."""
    records = [
        record
        for option in command.get_params(context)
        if isinstance(option, click.Option) and "--help" not in option.opts
        if (record := option.get_help_record(context))
    ]
    if records:
        yield "| option | what it does |\n|---|---|"
        for names, said in records:
            yield f"| `{_cell(names)}` | {_cell(said)} |"
        yield ""


def _described(text: str) -> Iterator[str]:
    """Paragraphs as they are; those that click is told not to wrap become a block of code under their first line."""
    for paragraph in re.split(r"\n\s*\n", text.strip()) if text else ():
        lines = paragraph.splitlines()
        if lines[0].strip() != "\b":
            yield _plain(" ".join(line.strip() for line in lines)) + "\n"
            continue
        yield f"{lines[1].strip()}\n"
        yield f"```console\n{_prompted(lines[2:])}\n```\n"


def _prompted(lines: list[str]) -> str:
    return "\n".join(f"$ {line}" for line in dedent("\n".join(lines)).splitlines())


def _plain(text: str) -> str:
    return re.sub(r"[\[\]<*]", r"\\\g<0>", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
