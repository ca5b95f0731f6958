"""What a report says, as typed blocks: sections make them; page, terminal and Markdown draw every kind of them.

A block knows nothing of formats. A picture, which only a page draws, brings blocks that say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeVar

import msgspec

from tracer.names import Detail, Verdict

# --- words ------------------------------------------------------------------------------------------------


class Code(msgspec.Struct, frozen=True):
    """A name or a place: an op, a module, ``train.py:10``."""

    text: str


class Strong(msgspec.Struct, frozen=True):
    """Words that are looked for first."""

    words: Words


class Badge(msgspec.Struct, frozen=True):
    """A verdict: its sign, its colour, and its own label or another."""

    verdict: Verdict
    label: str = ""


class Soft(msgspec.Struct, frozen=True):
    """Words of less weight, on a line of their own where there is room; else behind ``join``."""

    words: Words
    join: str = ", "
    is_faint: bool = True


class Link(msgspec.Struct, frozen=True):
    """A way to another place of the page; nothing where there is none."""

    text: str
    anchor: str


Words = str | Code | Strong | Badge | Soft | Link | tuple["Words", ...]
"""A sentence, whose names may stand between backticks; or pieces of one."""


# --- blocks -----------------------------------------------------------------------------------------------


class Tone(Enum):
    """The weight of a paragraph."""

    PLAIN = "plain"
    LEAD = "lead"
    """The first paragraph of a section."""
    QUIET = "quiet"
    STRONG = "strong"


class Width(Enum):
    """The room that a column needs."""

    USUAL = ""
    BRIEF = "brief"
    LONG = "long"
    FIGURE = "figure"
    """A number, at the right."""


class Paragraph(msgspec.Struct, frozen=True):
    """A sentence or several."""

    words: Words
    tone: Tone = Tone.PLAIN


class Heading(msgspec.Struct, frozen=True):
    """The name of a part of a section."""

    text: str


class Sample(msgspec.Struct, frozen=True):
    """Lines to copy."""

    code: str
    named: str
    """The text to copy: ``the code of change 3``."""


class Bullets(msgspec.Struct, frozen=True):
    """A list without an order, or with one."""

    items: tuple[Words, ...]
    left_out: int = 0
    elsewhere: str = "the JSON report has"
    """The place that holds those that were left out, with its verb."""


class Row(msgspec.Struct, frozen=True):
    """One thing and what is said of it."""

    key: Words
    aside: Words = ""
    blocks: tuple[Block, ...] = ()


class Rows(msgspec.Struct, frozen=True):
    """Things, each with several sentences."""

    rows: tuple[Row, ...]
    anchor: str = ""
    """The prefix of a row's address, before its number."""
    left_out: int = 0
    elsewhere: str = "the JSON report has"
    is_numbered: bool = False
    is_spaced: bool = False
    """Whether each stands apart where there are lines alone."""


class Column(msgspec.Struct, frozen=True):
    """A column of a table."""

    head: str
    """The column's heading: ``Drawn by``. On one line it stands before the cell."""
    width: Width = Width.USUAL


class Table(msgspec.Struct, frozen=True):
    """Rows of cells; the first cell names the row."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Words, ...], ...]
    noun: str = "row"
    left_out: int = 0
    elsewhere: str = "the JSON report has"
    is_grouped: bool = False
    """Whether its cells hold several lines each. A terminal then draws what the rows share in their first cell once."""
    is_grid: bool = False
    """Whether a terminal draws it as a grid, where it has the columns."""


class Pairs(msgspec.Struct, frozen=True):
    """Names with their values."""

    pairs: tuple[tuple[str, Words], ...]
    caption: str
    anchor: str = ""


class Beside(msgspec.Struct, frozen=True):
    """Blocks that stand side by side where there is room."""

    blocks: tuple[Block, ...]


class StepLine(msgspec.Struct, frozen=True):
    """A line of the program that a step is about."""

    place: str
    what: str
    """The ops that ran there, and how often."""
    source: str = ""
    """Its text, where it is at hand."""


class Step(msgspec.Struct, frozen=True):
    """One thing to do."""

    number: int
    title: str
    remedy: str
    code: str
    where: str
    needs: tuple[str, ...]
    worth: str
    whys: tuple[str, ...] = ()
    """A reason for each op, the worst first."""
    lines: tuple[StepLine, ...] = ()
    """The lines with the most calls."""
    more_lines: int = 0

    @property
    def why(self) -> str:
        """All reasons."""
        return " ".join(self.whys)

    @property
    def advice(self) -> str:
        """The action, then how, as one sentence."""
        return f"{self.title}: {self.remedy}" if self.remedy else self.title


class Steps(msgspec.Struct, frozen=True):
    """Actions, in this order."""

    steps: tuple[Step, ...]
    left_out: int = 0


class Figure(msgspec.Struct, frozen=True):
    """One number of an answer."""

    value: int
    label: str
    verdict: Verdict | None = None
    """The verdict whose colour and sign it bears, if it is about one."""
    sites: int | None = None
    """Distinct places behind the count, where that says something."""


class Card(msgspec.Struct, frozen=True):
    """A question, the sentence to take away, and its figures."""

    question: str
    sentence: str
    figures: tuple[Figure, ...]


class Cards(msgspec.Struct, frozen=True):
    """Questions and their answers."""

    cards: tuple[Card, ...]


class TallyBlock(msgspec.Struct, frozen=True):
    """Calls by verdict, worst first."""

    counts: tuple[tuple[Verdict, int], ...]
    total: int


class Fold(msgspec.Struct, frozen=True):
    """Blocks that need not be seen at once. Where nothing unfolds, the summary and ``brief`` stand for them."""

    summary: str
    blocks: tuple[Block, ...]
    brief: Words = ""
    is_open: bool = False


class Picture(msgspec.Struct, frozen=True):
    """A picture that a page draws under ``name``, and the blocks that say the same elsewhere."""

    name: str
    data: Any
    blocks: tuple[Block, ...] = ()


Block = (
    Paragraph | Heading | Sample | Bullets | Rows | Table | Pairs | Beside | Steps | Cards | TallyBlock | Fold | Picture
)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One section of a report."""

    anchor: str
    title: str
    """Empty for one whose blocks bear titles of their own."""
    blocks: tuple[Block, ...]
    label: str = ""
    """The name where there is little room; by default the title."""
    count: int | None = None
    """The number of items in it, shown beside its title."""
    gist: Words = ""
    """The terminal's text in place of its blocks where one screen must do; empty where nothing is shorter."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The text above all sections."""

    verdict: Verdict
    headline: str
    caveats: tuple[str, ...] = ()
    """What the headline would say too much without: clauses, each of which every reader is shown."""
    kicker: str
    compared: str = ""
    """Of runs that were compared: how much."""
    of_tables: tuple[Verdict, str] | None = None
    """Of runs that were compared: what the tables say of the first."""
    traced: str
    """The recording."""
    judged: str
    """The target and the settings that it was judged for, as a sentence."""
    target: tuple[tuple[str, str], ...]
    """The same as names and values."""
    tally: TallyBlock
    conditions: str = ""
    """What calls hang on that are conditional: ``if values tie``."""
    in_mode: tuple[Figure, ...]
    """The effect of deterministic mode on calls."""
    findings: int
    guarantee: str
    banners: tuple[str, ...]


# --- readers ----------------------------------------------------------------------------------------------


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """For whom sections are made: how much is told, and how many of one kind are listed."""

    detail: Detail
    rows: int
    changes: int | None = None
    findings: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it reads everything."""
        return self.detail is Detail.WHOLE

    @property
    def is_one_screen(self) -> bool:
        """Whether the plan, with its lines, stands for the table of findings."""
        return self.detail is Detail.USUAL and self.findings == 0


#: The page, where rows fold and scripts filter.
PAGE = Reader(detail=Detail.WHOLE, rows=200, changes=100, findings=200)

# --- in fewer words ---------------------------------------------------------------------------------------


def lead(words: Words) -> Paragraph:
    """Return the first paragraph of a section."""
    return Paragraph(words, Tone.LEAD)


def quiet(words: Words) -> Paragraph:
    """A paragraph of less weight."""
    return Paragraph(words, Tone.QUIET)


def paragraphs(*sentences: Words, tone: Tone = Tone.PLAIN) -> tuple[Paragraph, ...]:
    """A paragraph for each of ``sentences`` that says something."""
    return tuple(Paragraph(words, tone) for words in sentences if flat(words))


def columns(*heads: str, brief: str = "", long: str = "", figures: Sequence[str] = ()) -> tuple[Column, ...]:
    """A column a head; those that are named again are of that width."""
    widths = {brief: Width.BRIEF, long: Width.LONG, **dict.fromkeys(figures, Width.FIGURE)}
    return tuple(Column(head, widths.get(head, Width.USUAL)) for head in heads)


def table(heads: Sequence[str], rows: Sequence[tuple[Words, ...]], noun: str, most: int, **widths: Any) -> Table:
    """A table of the first ``most`` of ``rows``; ``widths``: see ``columns``."""
    shown, left_out = first(rows, most)
    return Table(columns(*heads, **widths), shown, noun=noun, left_out=left_out)


Item = TypeVar("Item")


def first(items: Sequence[Item], most: int | None) -> tuple[tuple[Item, ...], int]:
    """As many of ``items`` as are listed, and how many are not."""
    shown = tuple(items if most is None else items[:most])
    return shown, len(items) - len(shown)


def flat(words: Words) -> tuple[Words, ...]:
    """``words`` as pieces, none of which is a sequence; empty ones are left out."""
    if isinstance(words, tuple):
        return tuple(piece for part in words for piece in flat(part))
    if isinstance(words, Code):
        return (words,) if words.text else ()
    if isinstance(words, (Soft, Strong)):
        return (words,) if flat(words.words) else ()
    return (words,) if words else ()
