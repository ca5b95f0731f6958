"""``tracer explain``: what the tables say of a name, without a trace."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING

import click

from tracer.cli.options import option, tables_for
from tracer.cli.output import show_blocks
from tracer.tables.versions import RELEASES, named_release

if TYPE_CHECKING:
    from tracer.report.blocks import Block

EXAMPLES = """\b
Examples:
  tracer explain torch.cumsum
  tracer explain F.interpolate --backend cuda --torch 2.6
  tracer explain aten.index_add_
  tracer explain cuda-index-put
  tracer explain CUBLAS_WORKSPACE_CONFIG

A verdict speaks of two runs on the same machine, versions and settings. A call whose verdict hangs on its
arguments or dtype is listed with all of its answers."""


@click.command("explain", epilog=EXAMPLES)
@click.argument("name", metavar="OP|API|RULE|SETTING")
@option("--backend", "B", "Ask one table; by default every table answers.")
@option("--torch version", "V", "Answer for this version; by default the installed torch's, else the newest reviewed.")
def command(name: str, backend: str | None, version: str | None) -> int:
    """Print what each backend's table says about an op, a torch API or a rule, or what the tables say about a setting.

    For each: the verdict under torch's default settings and under deterministic mode, its conditions, why, what to
    write instead, the evidence, the versions at which it changed, and a program that triggers it. Neither torch nor
    the device is needed.
    """
    from tracer.report.sections.rules import explanation_blocks, row_explanation
    from tracer.tables.compiled import with_compiled
    from tracer.tables.explaining import explain, find_rows, find_rules, load_examples
    from tracer.tables.loading import load_tables
    from tracer.tables.rules import load_rows, load_translations

    asked, settings, tables = version or RELEASES[-1], load_rows(), with_compiled(load_tables())
    if version is None:
        with suppress(PackageNotFoundError):
            asked = installed_version("torch")  # without importing it
    asked_tables = tables_for(backend)
    rows = [row for row in find_rows(name, settings) if not row.backends or asked_tables.keys() & set(row.backends)]
    texts: list[Iterable[Block]] = []
    if not rows or find_rules(name, tables):
        answers = explain(name, tables, asked, asked_tables, load_translations())
        texts.append(explanation_blocks(name, answers, load_examples()))
    if rows:
        texts.append(row_explanation(rows, settings, named_release(asked)))
    show_blocks(*texts, unfolds=True)
    return 0
