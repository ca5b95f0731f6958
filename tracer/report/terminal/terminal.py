"""Printing for a terminal: rich's layout in as many columns as there are, colour on a terminal only."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable

from rich.console import Console, ConsoleOptions, JustifyMethod, OverflowMethod, RenderableType, RenderResult
from rich.containers import Lines
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tracer.plain import LaidOut, breaks, is_terminal, visible


class Prose(Text):
    """Text whose paths and ops break after a separator where they must, and never inside a line number."""

    def wrap(
        self,
        console: Console,
        width: int,
        *,
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        tab_size: int = 8,
        no_wrap: bool | None = None,
    ) -> Lines:
        """As ``Text.wrap``, with the breaks put in first."""
        parts = self.divide(breaks(self.plain, width))
        text = self.blank_copy("\n").join(parts) if len(parts) > 1 else self
        return Text.wrap(text, console, width, justify=justify, overflow=overflow, tab_size=tab_size, no_wrap=no_wrap)


def heading(text: str) -> RenderableType:
    """A section's name, after an empty line."""
    return Padding(Prose(text, style="bold underline"), (1, 0, 0, 0))


def indented(text: str, columns: int = 2, *, style: str = "") -> RenderableType:
    """A paragraph that begins ``columns`` from the left."""
    return Padding(Prose(text, style=style, overflow="fold"), (0, 0, 0, columns))


def hanging(mark: str, text: str, columns: int = 2, *, style: str = "") -> RenderableType:
    """``mark`` and a paragraph, whose further lines begin below its first word."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Prose(mark), Prose(text, style=style))
    return Padding(grid, (0, 0, 0, columns))


def printed(
    parts: Callable[[int], Iterable[RenderableType]], *, width: int | None = None, color: bool | None = None
) -> LaidOut:
    """``parts`` of a width in columns, laid out as text that acts on no terminal but by our own colours.

    ``None`` asks the terminal: its width, and colour unless the output goes elsewhere or ``NO_COLOR`` is set.
    """
    if color is None:
        color = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
    if width is None:
        width = shutil.get_terminal_size((80, 24)).columns
    target = io.StringIO()
    console = Console(
        file=target,
        width=max(width, 20),
        force_terminal=color,
        color_system="256" if color else None,
        no_color=not color,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    for part in parts(console.width):
        console.print(_Inert(part))
    return LaidOut("\n".join(line.rstrip() for line in target.getvalue().splitlines()) + "\n")


class _Inert:
    """A part whose text acts on nothing, wherever it came from: the one place that all of it passes."""

    def __init__(self, part: RenderableType) -> None:
        self._part = part

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._part, options):
            yield Segment(visible(segment.text), segment.style)
