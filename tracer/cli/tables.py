"""``tracer tables``: the determinism tables, listed, shown and proven."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

import click

from tracer.cli.options import option, tables_for
from tracer.cli.output import show, show_blocks

if TYPE_CHECKING:
    from tracer.report.blocks import Block

FAULTY = 1

EXAMPLES = """\b
Examples:
  tracer tables list
  tracer tables list --backend cuda
  tracer tables list --settings
  tracer tables show cuda-scatter-reduce
  tracer tables show aten.index_put_ --backend cpu
  tracer tables lint"""


@click.group("tables", epilog=EXAMPLES, no_args_is_help=False)
def command() -> None:
    """List, show and prove the determinism tables: one reviewed file a backend."""


@command.command("list", short_help="The tables, or one table's rules.")
@option("--backend", "B", "List this table's rules.")
@click.option("--settings", is_flag=True, help="List the table of settings; with --backend what bears on it.")
def list_tables(backend: str | None, settings: bool) -> int:
    """List the tables with what each covers, or with --backend one table's rules."""
    from tracer.report.blocks import Paragraph
    from tracer.report.sections.rules import overview_blocks, rows_blocks, rules_blocks
    from tracer.tables.rules import load_rows

    tables = tables_for(backend)
    blocks: Iterable[Block]
    if settings:
        blocks = rows_blocks(load_rows(), () if backend is None else tables.keys())
    elif backend is None:
        line = f"Settings, seeds, memory, data loading: {len(load_rows().row)} rows; --settings lists them."
        blocks = chain(overview_blocks(tuple(tables.values())), [Paragraph(line)])
    else:
        (table,) = tables.values()
        blocks = rules_blocks(table)
    show_blocks(blocks, unfolds=True)
    return 0


@command.command("show", short_help="One rule whole, by version and setting.")
@click.argument("name", metavar="RULE|OP|SETTING")
@option("--backend", "B", "Look in this table only.")
def show_rule(name: str, backend: str | None) -> int:
    """Show a rule, each rule for an op or API, or a setting's rows: every version and condition, words, evidence."""
    from tracer.report.sections.rules import row_blocks, rule_blocks
    from tracer.tables.explaining import find_rows, find_rules, load_examples, refusal
    from tracer.tables.rules import load_rows

    tables, settings = tables_for(backend), load_rows()
    rules_by_backend = find_rules(name, tables)
    rows = [row for row in find_rows(name, settings) if not row.backends or tables.keys() & set(row.backends)]
    if not rules_by_backend and not rows:
        raise refusal(name, tables)
    rules = ((rule, tables[device]) for device in rules_by_backend for rule in rules_by_backend[device])
    shown = [rule_blocks(rule, table, load_examples()) for rule, table in rules]
    shown += [row_blocks(row, settings) for row in rows]
    show_blocks(*shown, unfolds=True)
    return 0


@command.command("lint", short_help="Prove every table: no gap, no overlap, no claim without evidence.")
def lint() -> int:
    """Prove every table, for every version that it was reviewed for.

    One line a fault, led by the file and the rule; exit code 1 where there is one.
    """
    from tracer.tables.lint import counted, faults_of_tables

    faults = faults_of_tables()
    for line in faults or [counted()]:
        show(line)
    return FAULTY if faults else 0
