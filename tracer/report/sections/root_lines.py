"""The lines at which runs begin to differ, in words: what each is, its values, the way to the first call, the proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from tracer.divergence.lines import LineKind, LineSource
from tracer.divergence.model import Root
from tracer.divergence.repeated import HeldLine, Repeated, remedy_of, rows_of
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Words, first
from tracer.report.words import joined, plural
from tracer.trace.lines import RESULT, LineMark

#: Lines that are listed, and those on the way of one.
_MOST, _MOST_ON_THE_WAY = 12, 8
_GENERATORS = {"python": "Python's `random`", "numpy": "NumPy's global generator", "torch": "torch's default generator"}


def line_sentence(repeated: Repeated) -> str:
    """The first line at which the runs begin to differ, and its proof, without a full stop; empty if none is known."""
    roots = (*repeated.numbered, *(held.first for held in repeated.held if held.first is not None))
    proven = repeated.proven_lines  # a run has shown that those reach it
    sources = [replace(each, is_followed=each.is_followed or each.location in proven) for each in repeated.sources]
    named = line_clause(sources, roots, repeated.second, repeated.texts)
    return ". ".join(filter(None, (named, proof_of(repeated)))) if named else ""


def line_clause(
    sources: Sequence[LineSource],
    roots: Sequence[Root],
    second: str = "the second run",
    texts: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The first line that reaches a call, both values, and where it does; empty if none is known."""
    source = next((source for source in sources if source.reaches), None)
    if source is None:
        return ""
    reaches, places = "", source.path[-1:] or (source.location, source.called_from)
    at_end = (root for root in roots if (root.called_from or root.location) in places)
    root = next(at_end, next(iter(roots), None))
    if root is not None and root.cause.is_from_lines:
        place = root.called_from or root.location
        at = " there" if place in (source.location, source.called_from) else f" at {place}" if place else ""
        reaches = f"; it {'reaches' if source.is_followed else 'may reach'} {root.op.removesuffix('.default')}{at}"
    own = source.called_from or source.location
    text = texts.get(own, "")
    place = f"{own}, which leads to {source.location}" if source.called_from else own
    named = f"`{text}` ({place})" if text else place
    values = _values_of(source, second)
    if source.source and len(source.names) == 1 and RESULT not in source.names:
        values = values.replace("(", f"({_named(source)}: ", 1)
    return f"{named} {what_it_does(source)}{values}{reaches}"


def what_it_does(source: LineSource) -> str:
    """``reads the clock``."""
    if source.comes_of:
        return f"takes what comes of {joined(source.comes_of)}, and what else may enter behind"
    if source.kind is LineKind.DRAW:
        name = _GENERATORS.get(source.generator, f"the generator of {source.generator}")
        return f"draws from {name}, which no fixed seed set"
    if rows := rows_of(source):
        return joined([row.name for row in rows])
    if source.kind is LineKind.BRANCH:
        return "decides otherwise which line comes next"
    named = _named(source)
    hidden = f"; what is in {source.opaque} no value shows" if source.opaque else ""
    if not named:
        return f"gives a call other values although nothing that it reads was seen to differ{hidden}"
    agrees = "nothing that it reads was seen to differ" if source.is_blind else "all that it reads agrees"
    return f"gives {named} another value although {agrees}{hidden}"


def _named(source: LineSource) -> str:
    """What differs there."""
    return joined([f"`{name}`" if " " not in name else name for name in _names(source)[:3]])


def _names(source: LineSource) -> tuple[str, ...]:
    """The names that differ: of what a loop takes no part that only its class knows."""
    parts = Counter(name.partition(".")[0] for name in source.names if LineMark.ITERATES in source.may_call)
    owners = (name.partition("." if parts[name.partition(".")[0]] > 1 else "._")[0] for name in source.names)
    return tuple(dict.fromkeys(owners)) if parts else source.names


def _values_of(source: LineSource, second: str) -> str:
    """Both values, where these are numbers of what is named."""
    is_shown = source.first != source.second and _names(source) == source.names
    return f" ({source.first}, in {second} {source.second})" if is_shown else ""


def proof_of(repeated: Repeated) -> str:
    """What holding lines showed, without a full stop; empty where none was held."""
    proven = next((held for held in repeated.held_lines if held.agrees), None)
    named = next((source.location for source in repeated.reaching), "")
    if proven is not None:
        there = "there" if proven.lines == (named,) and not proven.at else f"at {proven.at or joined(proven.lines)}"
        if any(source.location in proven.lines and named in source.comes_of for source in repeated.sources):
            there += ", which takes what comes of it"
        if repeated.otherwise:
            return f"Given the recorded runs' values {there}, one that is not recorded leaves what they do"
        return f"Given one run's values {there}, another agrees with it"
    if repeated.cause is not None:  # which is said, and shows more
        return ""
    if (beside := repeated.diverging_held) is not None:
        return f"It is what differs first when {beside.clause}"
    if (vain := next((held for held in repeated.held_lines if held.is_in_vain), None)) is not None:
        there = "there" if vain.lines == (named,) else f"at {joined(vain.lines)}"
        values, other = ("the recorded runs'", "one") if repeated.otherwise else ("one run's", "another")
        return f"Given {values} values {there}, {other} still differs: something else reaches it too"
    problem = next((held.problem for held in repeated.held_lines if held.problem), "")
    return f"It is named without proof: {problem}" if problem else ""


def root_line_blocks(
    sources: Sequence[LineSource],
    reader: Reader,
    *,
    second: str = "the second run",
    texts: Mapping[str, str] = MappingProxyType({}),
    held: Sequence[HeldLine] = (),
    note: str = "",
    possible: Sequence[LineSource] = (),
) -> Iterator[said.Block]:
    """The root lines that reach a call, each with values, way and what holding it showed; the others in one line."""
    reaching = [source for source in sources if source.reaches]
    titled = ("Where they begin to differ", reaching), ("What may explain it, without proof", possible)
    for title, listed in titled:
        if listed:
            shown, left_out = first(listed, min(_MOST, reader.rows))
            yield said.Heading(title)
            yield said.Rows(tuple(_row(source, second, texts, held) for source in shown), left_out=left_out)
    others = [source for source in sources if not source.reaches]
    if others and reader.is_whole and not possible:
        named = ", ".join(source.location for source in others[:_MOST])
        yield said.quiet(f"Differ too, and reach no call that was compared: {named}.")
    if note:
        yield said.quiet(f"Of lines: {note}.")


def _row(source: LineSource, second: str, texts: Mapping[str, str], held: Sequence[HeldLine]) -> said.Row:
    called: Words = (" (called from ", said.Code(source.called_from), ")") if source.called_from else ""
    text = texts.get(source.location, "")
    values = _values_of(source, second)
    names = _named(source)
    times = f", {plural(source.calls, 'time')}" if source.calls > 1 else ""
    drew = f"It did so {times[2:]}." if times and source.kind is LineKind.DRAW else ""
    differ = f"What differs: {names}{values}{times}." if names else drew
    way = tuple(source.path[:_MOST_ON_THE_WAY])
    shows = []
    for each in held:
        others = f" together with {len(each.lines) - 1} more" if len(each.lines) > 1 else ""
        where = f"{f' at {each.at}' if each.at else ''}{others}"
        result = f"Not proven{where}: {each.problem}."
        if not each.problem:
            result = f"Held{where}: the runs {'agree' if each.agrees else 'still differ'}."
        shows += [result] if source.location in each.lines else []
    return said.Row(
        (said.Code(source.location), called, " ", said.Code(text) if text else ""),
        blocks=(
            said.Paragraph(f"It {what_it_does(source)}."),
            *said.paragraphs(
                differ,
                f"From there: {', '.join(way)}." if way else "",
                *shows,
                "" if source.comes_of else remedy_of(source),
            ),
        ),
    )
