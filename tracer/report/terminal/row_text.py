"""A row of the table of settings in a terminal, and the table as a list."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from tracer.names import About, Backend, Differs
from tracer.report.terminal.rule_text import conditions_parts, from_to, words_parts
from tracer.report.terminal.terminal import Prose
from tracer.report.wording.words import ABOUT, plural
from tracer.tables.explaining import spans
from tracer.tables.settings.rows import CATEGORIES, RESERVED, EnvironmentTable, Row
from tracer.tables.versions import speaks_of


def row_parts(row: Row, table: EnvironmentTable, width: int, version: str = "") -> Iterator[RenderableType]:
    """One row whole, or with a ``version`` what it says of that release."""
    yield Prose(row.id, style="bold underline")
    yield _indented(f"{_kind(row)}: {row.name}")
    if row.aliases:
        yield _indented(f"Also: {', '.join(row.aliases)}")
    if row.backends:
        yield _indented(f"Bears on: {', '.join(map(str, row.backends))}")
    if row.needs:
        yield _indented(f"Matters to: {'; '.join(RESERVED.get(need, need) for need in row.needs)}")
    if row.differs is Differs.MACHINES:
        yield _indented("Two runs agree whatever it is; other machines or versions may answer otherwise.")
    if row.safe:
        default = "" if row.default is None else f"; unset means {row.default}"
        yield _indented(f"Safe: {' or '.join(map(str, row.safe))}{default}")
    if row.torch:
        yield _indented(f"torch: {row.torch}")
    for span in spans(row, table.reviewed):
        if version and not _holds(span.first, span.last, version):
            continue
        yield Padding(Text(f"torch {from_to(span)}", style="bold"), (0, 0, 0, 2))
        yield from conditions_parts(span.rows, width, heading="Where", rest="case")
    yield from words_parts(row, below_remedy=tuple(_pasted(row)))


def _pasted(row: Row) -> Iterator[RenderableType]:
    """The lines to paste, and where they must stand."""
    for line in row.code.rstrip().splitlines():
        yield Padding(Text(line), (0, 0, 0, 6))
    if row.code and row.where:
        yield _indented(f"Where: {row.where}")


def rows_parts(
    table: EnvironmentTable, backends: Collection[Backend] = (), width: int = 80
) -> Iterator[RenderableType]:
    """The table's rows by heading, a line each where it fits; those of ``backends`` alone, where some are named."""
    rows = [row for row in table.row if not backends or not row.backends or set(backends) & set(row.backends)]
    yield Text(f"Settings and what else no op shows: {plural(len(rows), 'row')}", style="bold")
    for category in CATEGORIES:
        ours = [row for row in rows if row.category == category]
        if ours:
            yield Text()
            yield Prose(category, style="bold underline")
        for row in ours:
            name = f"{row.name}{'' if row.differs is Differs.RUNS else ' *'}"
            if len(row.id) + 2 + len(name) <= width:
                yield Prose(f"{row.id}  {name}")
            else:
                yield Prose(row.id, overflow="fold")
                yield _indented(name)
    yield Text()
    yield Prose("*: makes no two runs differ, only machines, versions or values.", style="dim")


def row_explanation(rows: Sequence[Row], table: EnvironmentTable, width: int, version: str) -> Iterator[RenderableType]:
    """Every row that a name stands for, for one release."""
    minor = ".".join(version.split(".")[:2])
    for number, row in enumerate(rows):
        if number:
            yield Text()
        if speaks_of(row.torch, minor):
            yield from row_parts(row, table, width, minor)
        else:
            yield Prose(row.id, style="bold underline")
            yield _indented(f"{row.name} is of torch {row.torch}, not of {minor}.")


def _kind(row: Row) -> str:
    return "Setting" if row.about is About.SETTING else ABOUT[row.about].label.capitalize()


def _holds(first: str, last: str, version: str) -> bool:
    return speaks_of(f">={first}", version) and speaks_of(f"<={last}", version)


def _indented(text: str) -> RenderableType:
    return Padding(Prose(text), (0, 0, 0, 2))
