"""Blocks as Markdown for a pull request's comment or a job's summary, cut where GitHub would refuse more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tracer.names import Detail
from tracer.plain import one_line, visible
from tracer.report import Report
from tracer.report import blocks as said
from tracer.report.blocks import Block, Reader, Width, Words, flat
from tracer.report.sections.answers import head_of
from tracer.report.sections.order import sections_of
from tracer.report.words import VERDICTS, plural

#: Bytes; GitHub refuses a summary of more than 1 MiB, and of a comment more than 65,536 characters.
LIMIT = 900_000
#: What stands in place of what did not fit, and the parts that must stand before it: the heading and the verdict.
_CUT = "\n\nThe rest did not fit; the HTML report has it all.\n"
_FIRST = 3
_READER = Reader(detail=Detail.BRIEF, rows=12, changes=20, findings=100)
#: Characters of one name or sentence, and of a cell.
_LONGEST, _LONGEST_CELL = 480, 200
#: What Markdown or GitHub would act on: emphasis, code, links, tables, HTML, mentions, issue numbers, headings.
_ACTS = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~@:&$^=])")


def render(report: Report) -> str:
    """The report in at most ``LIMIT`` bytes, cut between rows and items; empty where not even its first lines fit."""
    room = LIMIT - len(_CUT)
    parts: list[str] = []
    for part in _parts(report):
        size = len(part.encode("utf-8")) + 1
        if size > room:
            return "\n".join(parts) + _CUT if len(parts) >= _FIRST else ""
        room -= size
        parts.append(part)
    return "\n".join(parts) + "\n"


def _parts(report: Report) -> Iterator[str]:
    head = head_of(report)
    caveats = "".join(f"; {_plain(caveat)}" for caveat in head.caveats)
    yield from (f"## {head.kicker}", "", f"**{_plain(head.headline)}**{caveats}", "", _plain(head.judged), "")
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in head.tally.counts)
    yield _plain(f"{plural(head.tally.total, 'call')}: {counts}.") if counts else "Nothing was recorded."
    for banner in head.banners:
        yield f"\n> {_plain(banner)}"
    for section in sections_of(report, _READER):
        if section.title:
            yield f"\n### {section.title}{'' if section.count is None else f' ({section.count:,})'}"
        yield from _blocks(section.blocks)


def _blocks(blocks: Iterable[Block]) -> Iterator[str]:
    """Each kind of block, a part each: what stands in one part is cut together."""
    for block in blocks:
        if isinstance(block, said.Paragraph):
            text = _words(block.words)
            yield f"\n**{text}**" if block.tone is said.Tone.STRONG else f"\n{text}"
        elif isinstance(block, said.Heading):
            yield f"\n#### {block.text}"
        elif isinstance(block, said.Sample):
            yield "\n" + "\n".join(_fenced(block.code, ""))
        elif isinstance(block, said.Bullets):
            yield ""
            yield from (f"- {_words(item)}" for item in block.items)
            yield from _left_out(block)
        elif isinstance(block, said.Rows):
            for row in block.rows:
                aside = f" ({_words(row.aside)})" if flat(row.aside) else ""
                yield f"\n**{_words(row.key)}**{aside}"
                yield from _blocks(row.blocks)
            yield from _left_out(block)
        elif isinstance(block, said.Table):
            yield "\n| " + " | ".join(column.head for column in block.columns) + " |"
            yield "|" + "|".join("---:" if column.width is Width.FIGURE else "---" for column in block.columns) + "|"
            yield from (f"| {' | '.join(_words(cell, _LONGEST_CELL) for cell in row)} |" for row in block.rows)
            yield from _left_out(block)
        elif isinstance(block, said.Pairs):
            yield f"\n{_plain(block.caption)}:\n"
            yield from (f"- {_plain(name)}: {_words(value)}" for name, value in block.pairs)
        elif isinstance(block, said.Steps):
            yield ""
            yield from map(_step, block.steps)
            if block.left_out:
                yield f"\n{block.left_out:,} more."
        elif isinstance(block, said.Cards):
            for card in block.cards:
                yield f"\n**{_plain(card.question)}**\n\n{_plain(card.sentence)}"
        elif isinstance(block, said.TallyBlock):
            yield ""
            yield from (f"- {_words(said.Badge(verdict))}: {count:,}" for verdict, count in block.counts)
        elif isinstance(block, said.Fold):
            brief = _words(block.brief)
            yield f"\n{_plain(block.summary)}{f': {brief}' if brief else ''}."
        else:
            yield from _blocks(block.blocks)


def _step(step: said.Step) -> str:
    needs = (f"{need[:1].lower()}{need[1:]}" for need in step.needs)
    aside = "; ".join(filter(None, (_plain(step.where), *needs, step.worth)))
    lines = "; ".join(f"{line.place} {line.what}" for line in step.lines)
    more = f"; {plural(step.more_lines, 'more line')}" if step.more_lines else ""
    below = {"Lines": lines and f"{lines}{more}.", "Why": step.why}
    told = (f"   {name}: {_plain(text)}" for name, text in below.items() if text)
    return "\n".join((f"{step.number}. {_plain(step.advice)} ({aside})", *_fenced(step.code, "   "), *told))


def _fenced(code: str, indent: str) -> list[str]:
    if not code:
        return []
    shown = visible(code)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return [f"{indent}{fence}python", *(f"{indent}{line}" for line in shown.splitlines()), f"{indent}{fence}"]


def _left_out(block: said.Bullets | said.Rows | said.Table) -> Iterator[str]:
    if block.left_out:
        yield f"\n{block.left_out:,} more; {block.elsewhere} them all."


def _words(words: Words, longest: int = _LONGEST) -> str:
    """Every piece on one line."""
    text = ""
    for piece in flat(words):
        if isinstance(piece, str):
            line = _plain(piece, longest)
            text += f"{' ' * piece[:1].isspace()}{line}{' ' * (piece[-1:].isspace() and bool(line))}"
        elif isinstance(piece, said.Code):
            text += _plain(piece.text, longest)
        elif isinstance(piece, said.Strong):
            text += _words(piece.words, longest)
        elif isinstance(piece, said.Badge):
            verdict = VERDICTS[piece.verdict]
            text += _plain(f"{verdict.sign} {piece.label or verdict.label}", longest)
        elif isinstance(piece, said.Soft):
            text += f"{piece.join if text else ''}{_words(piece.words, longest)}"
    return text


def _plain(text: str, longest: int = _LONGEST) -> str:
    """``text`` on one line, shown as it is: nothing in it is markup, a mention or a link."""
    return _ACTS.sub(r"\\\1", one_line(text, longest)).replace("\\.", ".").replace("\\-", "-")
