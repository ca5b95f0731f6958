"""Blocks in a terminal, as wide as it is. Colour only repeats what a sign and a word already say; a pipe has none."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.containers import Lines
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table as Grid
from rich.text import Text

from tracer.names import Detail, Verdict
from tracer.plain import LaidOut, breaks, is_terminal, one_line, visible
from tracer.report import Report
from tracer.report import blocks as said
from tracer.report.blocks import Block, Reader, Section, Width, Words, flat
from tracer.report.sections.answers import head_of
from tracer.report.sections.order import sections_of
from tracer.report.words import VERDICTS, plural

#: Characters of one sentence and of one name that are shown unless all is; the middle of a longer one is left out.
_LONGEST, _LONGEST_NAME, _ALL = 480, 240, 2_000
#: Rows of one kind, and changes of the plan.
_ROWS, _CHANGES = 12, 6
#: Lines of one screen; where the plan needs more, fewer of its changes are listed, and the others counted.
_SCREEN = 40
#: Of so many lines and reasons of a change, all but one give way before a change does.
_LINES = 3
#: Rows of findings on one screen, where the plan names their lines.
SHOWN = 0
_FILE_WIDTH = 100
#: Columns from which a grid is one.
_GRID_FROM = 64
_NOTHING_BUT_TEXT: dict[str, Any] = dict.fromkeys(("highlight", "emoji", "markup", "legacy_windows"), False)
_MORE = "--verbose has each finding, why, and the evidence; -o report.html makes a page of it."
#: What a terminal is told of what is no report.
READER = Reader(detail=Detail.USUAL, rows=20)


class Prose(Text):
    """Text whose paths and ops break after a separator where they must, and never inside a line number."""

    def wrap(self, console: Console, width: int, **layout: Any) -> Lines:
        """As ``Text.wrap``, with the breaks put in first."""
        parts = self.divide(breaks(self.plain, width))
        text = self.blank_copy("\n").join(parts) if len(parts) > 1 else self
        return Text.wrap(text, console, width, **layout)


def heading(text: str) -> RenderableType:
    """A section's name, after an empty line."""
    return Padding(Prose(text, style="bold underline"), (1, 0, 0, 0))


def indented(text: str | RenderableType, columns: int = 2, *, style: str = "") -> RenderableType:
    """A paragraph, or another part, that begins ``columns`` from the left."""
    part = Prose(text, style=style) if isinstance(text, str) else text
    return _Hanging("", part, columns) if isinstance(part, Text) else Padding(part, (0, 0, 0, columns))


def hanging(mark: str, text: str | Text, columns: int) -> RenderableType:
    """``mark`` and a paragraph, whose further lines begin below its first word."""
    return _Hanging(f"{mark} ", Prose(text) if isinstance(text, str) else text, columns)


class _Hanging:
    """A paragraph behind a mark; rich's own grids and paddings measure and crop it four times over."""

    def __init__(self, mark: str, text: Text, columns: int) -> None:
        self._mark, self._text, self._columns = mark, text, columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        mark = f"{'':{self._columns}}{self._mark}"
        lines = self._text.wrap(console, max(options.max_width - cell_len(mark), 1), overflow="fold")
        for line in lines:
            yield Segment(mark)
            # Without spans a text renders as if it had no style.
            yield from Segment.apply_style(line.render(console), console.get_style(self._text.style))
            yield Segment.line()
            mark = " " * cell_len(mark)


class UnbrokenCode:
    """Lines of code, which are never broken: what is copied from here runs."""

    def __init__(self, code: str, columns: int) -> None:
        self._lines = [f"{'':{columns}}{line}".rstrip() for line in code.splitlines()]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._lines:
            yield Segment(f"{line}\n", Style(bold=True))


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
        **_NOTHING_BUT_TEXT,
    )
    for part in parts(console.width):
        console.print(_Inert(part), crop=False)
    lines = "\n".join(line.rstrip() for line in target.getvalue().splitlines())
    return LaidOut(lines.strip("\n") + "\n")


class _Inert:
    """A part whose text cannot control the terminal: all output passes through here."""

    def __init__(self, part: RenderableType) -> None:
        self._part = part

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._part, options):
            yield Segment(visible(segment.text), segment.style)


def render(report: Report) -> str:
    """The report as a text file: plain, 100 columns, a row for each answer that findings share."""
    return to_text(report, width=_FILE_WIDTH, color=False, limit=None)


def to_text(
    report: Report, *, width: int | None, color: bool | None, limit: int | None, detail: Detail = Detail.USUAL
) -> LaidOut:
    """The report as text; ``None`` asks the terminal for width and colour, and shows every row of findings.

    In brief it is the verdict and the counts; usually one screen; whole, every change and finding, with the reasons and
    the evidence.
    """
    if detail is Detail.WHOLE:
        return _laid_out(report, Reader(detail=detail, rows=_ALL), width, color)
    for changes in range(_CHANGES, 0, -1):
        reader = Reader(detail=detail, rows=_ROWS, changes=changes, findings=limit)
        for tightness in range(_LINES):
            text = _laid_out(report, reader, width, color, tightness=tightness)
            if not reader.is_one_screen or text.count("\n") <= _SCREEN:
                return text
    return text


def _laid_out(report: Report, reader: Reader, width: int | None, color: bool | None, *, tightness: int = 0) -> LaidOut:
    def parts(columns: int) -> Iterator[RenderableType]:
        drawing = Drawing(columns, unfolds=reader.is_whole, tightness=tightness)
        yield from drawing.head(head_of(report), is_brief=reader.detail is Detail.BRIEF)
        if reader.detail is Detail.BRIEF:
            return
        brief = []
        for section in sections_of(report, reader):
            if flat(section.gist) and not reader.is_whole:
                brief.append(section)
            else:
                yield from drawing.section(section)
        yield from drawing.gists(brief)

    return printed(parts, width=width, color=color)


def drawn(blocks: Iterable[Block], *, unfolds: bool = False) -> Callable[[int], Iterator[RenderableType]]:
    """Return a function that draws ``blocks`` in the number of columns that ``printed`` passes."""
    return lambda width: Drawing(width, unfolds=unfolds).blocks(blocks, 0)


class Drawing:
    """Draws blocks, one kind after the other, in ``width`` columns."""

    def __init__(self, width: int, *, unfolds: bool = False, tightness: int = 0) -> None:
        """``tightness``: so many lines and reasons fewer of each change, and only names of what else was recorded."""
        self.width, self.unfolds, self.tightness = width, unfolds, tightness
        self.longest, self.longest_name = (_ALL, _ALL) if unfolds else (_LONGEST, _LONGEST_NAME)

    # --- a report ---

    def head(self, head: said.Head, *, is_brief: bool) -> Iterator[RenderableType]:
        """The verdict, what was judged and what every reader must know first unless it is brief, and the counts."""
        words = VERDICTS[head.verdict]
        yield Prose(f"{words.sign} {one_line(head.headline, 4 * self.longest)}.", style=f"bold {words.style}")
        for caveat in head.caveats:
            yield indented(f"{one_line(f'{caveat[:1].upper()}{caveat[1:]}', 4 * self.longest)}.")
        if not is_brief:
            yield Prose(f"{one_line(head.judged, self.longest)} {head.guarantee}", style="dim")
            for banner in head.banners:
                yield Prose(f"Note: {one_line(banner, self.longest)}", style="bold")
        counts = {verdict: f"{count:,} {VERDICTS[verdict].label}" for verdict, count in head.tally.counts}
        if head.conditions and Verdict.CONDITIONAL in counts:
            counts[Verdict.CONDITIONAL] += f" ({head.conditions})"
        calls = ", ".join(counts.values())
        findings = plural(head.findings, "finding")
        yield Prose(f"{findings}; {plural(head.tally.total, 'call')}{f': {calls}' if calls else ''}")

    def gists(self, sections: Sequence[Section]) -> Iterator[RenderableType]:
        """Sections a few words each, or where lines are few by their names; and where there is more."""
        items = tuple((said.Strong(f"{section.title}: "), section.gist) for section in sections)
        if items and self.tightness:
            yield Prose(f"Recorded too, in --verbose: {', '.join(section.title.lower() for section in sections)}.")
        elif items:
            yield Prose("What else was recorded", style="bold underline")
            yield from self._bullets(said.Bullets(items), 2)
        yield Prose(_MORE, style="dim")

    def section(self, section: Section) -> Iterator[RenderableType]:
        """Its title and its blocks."""
        if section.title:
            yield heading(section.title if section.count is None else f"{section.title} ({section.count:,})")
        yield from self.blocks(section.blocks, 2)

    # --- blocks ---

    def blocks(self, blocks: Iterable[Block], left: int) -> Iterator[RenderableType]:
        """Each of ``blocks``, ``left`` columns from the left."""
        for block in blocks:
            yield from getattr(self, f"_{type(block).__name__.lower()}")(block, left)

    def _paragraph(self, block: said.Paragraph, left: int) -> Iterator[RenderableType]:
        style = {said.Tone.QUIET: "dim", said.Tone.STRONG: "bold"}.get(block.tone, "")
        yield indented(self.prose(block.words, style), left)

    def _heading(self, block: said.Heading, left: int) -> Iterator[RenderableType]:
        yield Padding(Prose(block.text, style="bold"), (1, 0, 0, left)) if left else heading(block.text)

    def _sample(self, block: said.Sample, left: int) -> Iterator[RenderableType]:
        yield UnbrokenCode(block.code, left + 3)

    def _bullets(self, block: said.Bullets, left: int) -> Iterator[RenderableType]:
        for item in block.items:
            yield hanging("-", self.prose(item), left)
        yield from self._left_out(block, left)

    def _rows(self, block: said.Rows, left: int) -> Iterator[RenderableType]:
        for number, row in enumerate(block.rows, 1):
            if block.is_spaced:
                yield Text()
            key = self.prose(row.key, "bold")
            if flat(row.aside):
                key.append(", ", style="not bold").append_text(self.prose(row.aside, "not bold"))
            yield hanging(f"{number}.", key, left) if block.is_numbered else indented(key, left)
            yield from self.blocks(row.blocks, left + (3 if block.is_numbered else 2))
        yield from self._left_out(block, left)

    def _table(self, block: said.Table, left: int) -> Iterator[RenderableType]:
        if block.is_grouped:
            yield from self._grouped(block, left)
        elif block.is_grid and self.width >= _GRID_FROM:
            grid = Grid(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
            for column in block.columns:
                justify: JustifyMethod = "right" if column.width is Width.FIGURE else "left"
                grid.add_column(column.head, overflow="fold", justify=justify)
            for row in block.rows:
                grid.add_row(*(self.prose(cell, below=True) for cell in row))
            yield from (Text(), indented(grid, left), Text())
        else:
            for row in block.rows:  # ``cpu: state # seeded, at train.py:9; drawn by 24 calls``
                line, join = self.prose(row[0]), ": "
                for column, cell in zip(block.columns[1:], row[1:], strict=True):
                    if text := self.prose(cell):
                        line.append(f"{join}{column.head.lower()} " if column.head else join).append_text(text)
                        join = "; "
                yield hanging("-", line, left)
        yield from self._left_out(block, left)

    def _grouped(self, block: said.Table, left: int) -> Iterator[RenderableType]:
        """Rows below what their first cells share: the figure, then the name and what to do, then the rest."""
        above: Words = ()
        for shared, figure, name, advice in block.rows:
            if shared != above:
                yield indented(self.prose(shared), left)
                above = shared
            rest = tuple(piece for piece in flat(name) if isinstance(piece, said.Soft))
            text = self.prose(tuple(piece for piece in flat(name) if piece not in rest))
            if advised := self.prose(advice):
                text.append(": ").append_text(advised)
            yield hanging(f"{'':>{max(0, 6 - len(str(figure)))}}{figure}", text, left)
            if below := self.prose(tuple(msgspec.structs.replace(piece, join="; ") for piece in rest)):
                yield indented(below, left + 7)

    def _pairs(self, block: said.Pairs, left: int) -> Iterator[RenderableType]:
        yield indented(f"{block.caption}:", left, style="bold")
        for name, value in block.pairs:
            yield indented(Prose(f"{one_line(name, self.longest_name)}: ").append_text(self.prose(value)), left + 2)

    def _beside(self, block: said.Beside | said.Picture, left: int) -> Iterator[RenderableType]:
        yield from self.blocks(block.blocks, left)

    _picture = _beside

    def _steps(self, block: said.Steps, left: int) -> Iterator[RenderableType]:
        for step in block.steps:
            yield hanging(f"{step.number}.", Prose(one_line(step.advice, self.longest), style="bold"), left)
            for line in visible(step.code).splitlines():
                if line and (self.unfolds or line != "import torch"):
                    yield indented(line, left + 5, style="bold")
            place = one_line(step.where, self.longest_name)
            below = "; ".join(filter(None, (place, step.worth if self.unfolds or not step.lines else "")))
            yield indented(". ".join(filter(None, (below, *step.needs))), left + 3, style="dim")
            if step.lines:
                shown = step.lines[: max(len(step.lines) - self.tightness, 1)]
                left_out = len(step.lines) - len(shown) + step.more_lines
                places = "; ".join(f"{one_line(line.place, 80)} {line.what}" for line in shown)
                more = f"; {plural(left_out, 'more line')}" if left_out else ""
                yield indented(f"Lines: {places}{more}", left + 3)
            if whys := step.whys[: max(len(step.whys) - self.tightness, 1)]:
                yield indented(f"Why: {one_line(' '.join(whys), self.longest)}", left + 3)
        if block.left_out:
            yield indented(f"{plural(block.left_out, 'more change')}: --verbose.", left)

    def _cards(self, block: said.Cards, left: int) -> Iterator[RenderableType]:
        yield Prose()
        for card in block.cards:
            yield Prose(card.question, style="bold")
            yield indented(one_line(card.sentence), left)

    def _tallyblock(self, block: said.TallyBlock, left: int) -> Iterator[RenderableType]:
        grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
        grid.add_column()
        grid.add_column(justify="right")
        for verdict, count in block.counts:
            grid.add_row(self.prose(said.Badge(verdict)), f"{count:,}")
        grid.add_row("  all", f"{block.total:,}")
        yield indented(grid, left)

    def _fold(self, block: said.Fold, left: int) -> Iterator[RenderableType]:
        brief = self.prose(block.brief)
        if self.unfolds:
            yield indented(f"{block.summary}:", left, style="bold")
            yield from self.blocks(block.blocks, left + 2)
        else:
            summary = Prose(f"{block.summary}{': ' if brief else '.'}", style="dim")
            yield indented(summary.append_text(brief).append("." if brief else ""), left)

    # --- pieces ---

    def prose(self, words: Words, style: str = "", *, below: bool = False) -> Prose:
        """``words`` as one text; what is soft stands on lines of its own where it may, ``below`` the rest."""
        text = Prose(style=style, overflow="fold")
        for piece in flat(words):
            if isinstance(piece, str):  # with the spaces that part it from what stands beside it
                line = one_line(piece, self.longest)
                text.append(f"{' ' * piece[:1].isspace()}{line}{' ' * (piece[-1:].isspace() and bool(line))}")
            elif isinstance(piece, said.Code):
                text.append(one_line(piece.text, self.longest_name))
            elif isinstance(piece, said.Strong):
                text.append_text(self.prose(piece.words, "bold"))
            elif isinstance(piece, said.Badge):
                verdict = VERDICTS[piece.verdict]
                text.append(f"{verdict.sign} {piece.label or verdict.label}", style=verdict.style)
            elif isinstance(piece, said.Soft):
                inner = self.prose(piece.words, "not bold dim" if below and piece.is_faint else "not bold")
                if inner:
                    text.append("\n" if below else piece.join if text else "").append_text(inner)
        return text

    def _left_out(self, block: said.Bullets | said.Rows | said.Table, left: int) -> Iterator[RenderableType]:
        if block.left_out:
            yield indented(f"{block.left_out:,} more; {block.elsewhere} them all.", left, style="dim")
