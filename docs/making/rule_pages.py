"""One page a rule, and one a row of the table of settings, each under the same headings.

A rule that was inherited from another backend's table has a page too: what a report names, an address leads to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tracer.names import Backend, Differs
from tracer.report.sections.rules import cases_in_words, from_to
from tracer.tables.compiled import with_compiled
from tracer.tables.explaining import Examples, VersionSpan, load_examples, program, spans
from tracer.tables.loading import load_libraries, load_tables
from tracer.tables.rules import (
    CATEGORIES,
    RESERVED,
    AnsweredRule,
    Case,
    LibraryRule,
    Rule,
    RuleTable,
    SettingRow,
    load_rows,
)

HEADINGS = (
    "What happens",
    "Where",
    "By version and setting",
    "What to write instead",
    "Example",
    "Evidence",
)
INDEX = "index.md"
_MADE = f"Made from the determinism tables. [All rules and settings]({INDEX})"
_NO_EXAMPLE = "None: its ops come with packages that torch does not bring."
_COMPILED = "Any function with such a call behind `torch.compile`; `tracer run` shows the kernels that it becomes."
_NO_CALL = (
    "No call makes it: `tracer doctor` looks at a process, `tracer run` at a script, and `tracer explain {id}` says"
    " what both hold it against."
)
#: A line that begins so is a list's, a heading's or a quotation's to Markdown.
_MARKER = re.compile(r"^(?=[-+*#>=|] )|^(\d+)(?=[.)] )")

#: What could begin or end emphasis, a link or a cell; an underscore inside a name does neither.
_MARKUP = re.compile(r"[*\[\]|]|(?<!\w)_|_(?!\w)")


class Page(NamedTuple):
    """One file of the site's folder ``rules/``."""

    name: str
    text: str


def rule_pages() -> Iterator[Page]:
    """Every page, the index last."""
    examples, tables, libraries = load_examples(), load_tables(), load_libraries()
    heirs = _heirs(tables.values())
    for backend, table in tables.items():
        for rule in table.rule:
            told = spans(rule, table.reviewed)
            yield _page(rule.id, told, _of_rule(rule, told, backend, examples, heirs.get(rule.id, ())))
    compiled = [(backend, rule) for backend, table in with_compiled(tables).items() for rule in table.compiled]
    for backend, one in compiled:
        told = spans(one, one.reviewed)
        yield _page(one.id, told, _of_rule(one, told, backend, examples, ()))
    for rule in libraries.rule:
        told = spans(rule, libraries.reviewed)
        yield _page(rule.id, told, _of_rule(rule, told, None, examples, ()))
    settings = load_rows()
    for row in settings.row:
        told = spans(row, settings.reviewed) if row.case else ()
        yield _page(row.id, told, _of_row(row, told))
    yield Page(INDEX, _index(tables.values(), [one for _, one in compiled], libraries.rule, settings.row))


def _page(id: str, told: Sequence[VersionSpan], sections: Mapping[str, str]) -> Page:
    parts = [f"# {id}", _answer(told), *(f"## {heading}\n\n{sections[heading]}" for heading in HEADINGS), _MADE]
    return Page(f"{id}.md", "\n\n".join(parts) + "\n")


def _answer(told: Sequence[VersionSpan]) -> str:
    """What most readers came for, in a line; a search shows it too."""
    if not told:
        return "It makes no finding."
    newest = told[-1]
    as_is, in_mode = (" or ".join(map(str, verdicts)) for verdicts in (newest.as_is, newest.in_mode))
    return f"By default: **{as_is}**. Under deterministic mode: **{in_mode}**. (torch {newest.last})"


def _of_rule(
    rule: Rule, told: Sequence[VersionSpan], backend: Backend | None, examples: Examples, heirs: Sequence[str]
) -> dict[str, str]:
    where = [f"Backend: {backend}" if backend else f"Backends: {_backends_of(rule)}"]
    where.append(f"Ops: {_code(rule.ops)}")
    if rule.runs_as:
        where.append(f"Runs as: {_text(rule.runs_as)}")
    if rule.apis:
        where.append(f"APIs: {_code(rule.apis)}")
    if rule.kernels:
        where.append(f"Kernels: {'; '.join(f'{_code((op,))} runs {names}' for op, names in rule.kernels.items())}")
    if heirs:
        where.append(f"Inherited, as weaker evidence: {_links(heirs)}")
    if backend and is_inherited(rule):
        where.append(f"Inherited from {_links([rule.id.removeprefix(f'{backend}-')])}")
    example = examples.of(rule)
    shown = _COMPILED if isinstance(rule, AnsweredRule) else _NO_EXAMPLE
    if example is not None:
        shown = _block("python", program(example, backend or Backend.CUDA))
        if example.cuda_only:
            shown = f"Needs such a device: {_text(example.cuda_only)}.\n\n{shown}"
    return {
        "What happens": _what_happens(rule),
        "Where": _list(where),
        "By version and setting": _history(told, "call"),
        "What to write instead": _text(rule.remedy),
        "Example": shown,
        "Evidence": _evidence(rule),
    }


def _of_row(row: SettingRow, told: Sequence[VersionSpan]) -> dict[str, str]:
    where = [f"Name: {_code((row.name,))}"]
    if row.aliases:
        where.append(f"Also: {_code(row.aliases)}")
    where.append(f"About: {row.category}")
    if row.backends:
        where.append(f"Backends: {', '.join(map(str, row.backends))}")
    if row.needs:
        where.append(f"Matters to: {'; '.join(_text(RESERVED.get(need, need)) for need in row.needs)}")
    if row.differs is Differs.MACHINES:
        where.append("Two runs agree whatever it is; other machines or versions may answer otherwise.")
    if row.safe:
        default = "" if row.default is None else f"; unset means `{row.default}`"
        where.append(f"Safe: {' or '.join(f'`{value}`' for value in row.safe)}{default}")
    if row.torch:
        where.append(f"torch: `{row.torch}`")
    instead = [_text(row.remedy)]
    if row.code:
        language = "sh" if row.code.lstrip().startswith(("export ", "$")) else "python"
        instead.append(_block(language, row.code))
        if row.where:
            instead.append(f"Where: {_text(row.where)}.")
    return {
        "What happens": _what_happens(row),
        "Where": _list(where),
        "By version and setting": _history(told, "case") or "It makes no finding.",
        "What to write instead": "\n\n".join(instead),
        "Example": _NO_CALL.format(id=row.id),
        "Evidence": _evidence(row),
    }


def _what_happens(rule: Rule | SettingRow) -> str:
    notes = dict.fromkeys(case.why for case in rule.case if case.why and case.why != rule.why)
    parts = [f"Cause: {rule.cause}.", _text(rule.why)]
    if notes:
        parts.append(_list(map(_text, notes)))
    return "\n\n".join(parts)


def _evidence(rule: Rule | SettingRow) -> str:
    return _list(f"{row.kind}: {_text(row.ref)}" for row in rule.evidence) or "None is cited."


def _history(told: Sequence[VersionSpan], rest: str) -> str:
    return "\n\n".join(f"### torch {from_to(span)}\n\n{_grid(span.cases, rest)}" for span in told)


def _grid(cases: Sequence[Case], rest: str) -> str:
    lines = [f"| {rest}s: the first that fits decides | verdict |", "|---|---|"]
    for case in cases:
        words = "<br>".join(map(_escaped, cases_in_words(case, rest, is_first=case is cases[0])))
        cells = [words, f"{case.verdict}, through `{case.route}`" if case.route else str(case.verdict)]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _index(
    tables: Iterable[RuleTable],
    compiled: Sequence[AnsweredRule],
    libraries: Sequence[LibraryRule],
    rows: Sequence[SettingRow],
) -> str:
    parts = [
        "# Rules and settings, a page each",
        "Made from the determinism tables. [What the tables cover](../tables.md) counts them; `tracer explain` prints"
        " what a page says, for one version of torch.",
    ]
    for table in tables:
        parts += [f"## {table.backend}", "\n".join(map(_line, table.rule))]
    for name in dict.fromkeys(rule.compiler for rule in compiled):
        ours = [rule for rule in compiled if rule.compiler == name]
        parts += [f"## Compiled by {name.capitalize()}", "\n".join(map(_line, ours))]
    parts += ["## Libraries", "\n".join(map(_line, libraries))]
    for category in CATEGORIES:
        named = [row for row in rows if row.category == category]
        if named:
            lines = [f"- {_links([row.id])}: `{row.name}`" for row in named]
            parts += [f"## Settings: {category}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _line(rule: Rule) -> str:
    """A rule in the index, with the names that users search for."""
    names = f": {_code(rule.apis[:3])}" if rule.apis else ""
    return f"- {_links([rule.id])}{names}"


def _heirs(tables: Iterable[RuleTable]) -> dict[str, list[str]]:
    """Rules to those that were inherited from them."""
    heirs: dict[str, list[str]] = {}
    for table in tables:
        for rule in table.rule:
            if is_inherited(rule):
                heirs.setdefault(rule.id.removeprefix(f"{table.backend}-"), []).append(rule.id)
    return heirs


def _backends_of(rule: Rule) -> str:
    named = rule.backends if isinstance(rule, LibraryRule) else ()
    return ", ".join(map(str, named)) or "every one"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _links(ids: Iterable[str]) -> str:
    return ", ".join(f"[{id}]({id}.md)" for id in ids)


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text.strip()}\n```"


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _text(text: str) -> str:
    """``text`` as one line of plain characters, whose begin is no list's to Markdown."""
    return _MARKER.sub(r"\1\\", _escaped(" ".join(text.split())))


def _escaped(text: str) -> str:
    """What Markdown would read as markup outside of code, as plain characters."""
    parts = text.split("`")
    for place in range(0, len(parts), 2):
        parts[place] = _MARKUP.sub(r"\\\g<0>", parts[place]).replace("&", "&amp;").replace("<", "&lt;")
    return "`".join(parts)


def is_inherited(rule: Rule) -> bool:
    """Return whether a rule was inherited from another backend's table."""
    return bool(rule.evidence) and all(row.inherited_from is not None for row in rule.evidence)
