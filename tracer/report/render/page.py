"""Blocks as HTML: one page that opens offline, asks nobody for anything, and shows every name as text."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

import tracer
from tracer.errors import ReportError
from tracer.names import SEVERITY, Detail, Phase, Verdict
from tracer.plain import LINE_NUMBER, one_line, visible
from tracer.report import Report
from tracer.report import blocks as said
from tracer.report.blocks import PAGE, Reader, Words, flat
from tracer.report.finding_columns import details, on_page
from tracer.report.sections.answers import head_of
from tracer.report.sections.findings import accepted_in_words, like_draws
from tracer.report.sections.order import sections_of
from tracer.report.sections.process import command
from tracer.report.words import VERDICTS, plural

_PACKAGE = Path(__file__).resolve().parent.parent.parent
#: The one ``export`` of the bundle, an ES module: ``export{a as DataTable,b as default,c as jQuery};``
_EXPORT = re.compile(r"\bexport\s*\{([^{}]*)\}\s*;?")
_JQUERY = re.compile(r"([\w$]+)\s+as\s+jQuery\b")
#: Characters of one string that the page's static parts show; the table's rows open to all of it.
_LONGEST = 480
#: Rows of a table and changes of the plan that stand unfolded.
_ROWS_OPEN, _STEPS_OPEN = 12, 6
_WHOLE = Markup('<span class="whole">{}</span>')
_NOTEBOOK = Reader(detail=Detail.BRIEF, rows=10, changes=6, findings=10)


def render(report: Report) -> str:
    """The whole page. Scripts are allowed by their hash alone, so that no injected one could run."""
    texts = assets()
    bundle = datatables_script() if report.findings else None
    scripts = [script for script in (bundle, texts["script.js"]) if script]
    template = page_environment().get_template("report.html")
    return template.render(
        head=head_of(report),
        sections=list(sections_of(report, PAGE)),
        version=tracer.__version__,
        style=Markup(texts["style.css"]),
        bundle=Markup(bundle) if bundle else None,
        script=Markup(texts["script.js"]),
        script_hashes=" ".join(  # as a Content-Security-Policy spells them
            f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
        ),
        data=Markup(findings_json(report)),
    )


def to_notebook(report: Report) -> str:
    """A fragment for a notebook cell: the headline, the answers, the plan and the first findings; no script."""
    sections = list(sections_of(report, _NOTEBOOK))
    template = page_environment().get_template("notebook.html")
    return template.render(head=head_of(report), sections=sections, unseen=len(report.blind_spots))


@lru_cache(maxsize=1)
def page_environment() -> Environment:
    """Templates: autoescape for every template whatever its name; an undefined name is an error."""
    environment = Environment(
        loader=FileSystemLoader(template_folder()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        words=VERDICTS,
        plural=plural,
        said=said_in_html,
        said_plainly=lambda words: said_in_html(words, has_style=False),
        badge=_badge,
        kind_of=lambda block: type(block).__name__.lower(),
        table_open=_ROWS_OPEN,
        steps_open=_STEPS_OPEN,
    )
    environment.filters.update(
        shown=lambda text: one_line(str(text), _LONGEST),
        breakable=lambda text: _whole_numbers(one_line(str(text), _LONGEST), _broken),
        pasted=lambda text: visible(str(text)),
        grouped=lambda count: f"{count:,}",
    )
    return environment


def _prose(text: str) -> Markup:
    """``text`` with what stands between backticks as code; tables write code so. Every piece is escaped."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return _whole_numbers(text)
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if index % 2 else _whole_numbers(piece)
        for index, piece in enumerate(pieces)
    )


def said_in_html(words: Words, *, has_style: bool = True) -> Markup:
    """``words`` as HTML; every piece is escaped. Without a style, signs and breaks of lines do what colours do."""
    return Markup().join(_piece(piece, has_style) for piece in flat(words))


def _piece(piece: Words, has_style: bool) -> Markup:
    if isinstance(piece, said.Code):
        return Markup('<span class="code">{}</span>').format(_whole_numbers(one_line(piece.text, _LONGEST), _broken))
    if isinstance(piece, said.Badge):
        words = VERDICTS[piece.verdict]
        label = visible(piece.label) or words.label
        return _badge(piece.verdict, label) if has_style else Markup("{} {}").format(words.sign, label)
    if isinstance(piece, said.Soft):
        span = Markup('<span class="{}said">{{}}</span>').format("faint " if piece.is_faint else "")
        return (span if has_style else Markup("<br>{}")).format(said_in_html(piece.words, has_style=has_style))
    if isinstance(piece, said.Strong):
        return Markup("<strong>{}</strong>").format(said_in_html(piece.words, has_style=has_style))
    if isinstance(piece, said.Link):
        return Markup(' <a class="to" hidden href="#{}">{}</a>').format(piece.anchor, piece.text)
    text = str(piece)
    before, after = (" " if end.isspace() else "" for end in (text[:1], text[-1:]))
    return Markup("{}{}{}").format(before, _prose(one_line(text, _LONGEST)), after)


def _badge(verdict: Verdict, label: str = "") -> Markup:
    """A verdict is a sign, a word and a colour, never a colour alone."""
    words = VERDICTS[Verdict(verdict)]
    badge = '<span class="badge v-{}"><span class="sign" aria-hidden="true">{}</span>{}</span>'
    return Markup(badge).format(verdict, words.sign, visible(label) or words.label)


def _broken(text: str) -> Markup:
    """``text`` escaped, with a place to break after each separator of a name."""
    return Markup("<wbr>").join(re.split(r"(?<=[._/])(?=\w)", text))


def _whole_numbers(text: str, around: Callable[[str], Markup] = escape) -> Markup:
    """``text`` escaped by ``around``, but for each place's line number, ``.py:102``, which never breaks."""
    pieces: list[Markup] = []
    end = 0
    for match in re.finditer(LINE_NUMBER, text) if ":" in text else ():
        pieces += around(text[end : match.start()]), _WHOLE.format(match.group())
        end = match.end()
    return Markup().join([*pieces, around(text[end:])])


@lru_cache(maxsize=1)
def assets() -> dict[str, str]:
    """The style and the script as they stand in the page; read as text, never as templates."""
    folder = template_folder()
    return {name: (folder / name).read_text(encoding="utf-8") for name in ("style.css", "script.js")}


# --- the findings as data ---------------------------------------------------------------------------------

# Every string stands once, and rows are numbers: so ten thousand findings stay small.

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_UNSAFE = re.compile("[<>&\u2028\u2029]")


def findings_json(report: Report) -> str:
    """The page's JSON, in which no character can end the element that it stands in, or a line of JavaScript."""
    strings: defaultdict[str, int] = defaultdict()
    strings.default_factory = strings.__len__
    columns = on_page()
    readers = [column.on_page or column.cell for column in columns]
    cells = ([read(finding, report.judgement) for read in readers] for finding in report.findings)
    accepted = {waiver.finding: accepted_in_words(waiver) for waiver in report.accepted or ()}
    data: dict[str, Any] = {
        "fields": [column.name for column in columns],
        "numbers": [column.name for column in columns if column.is_number],
        "details": [{"field": one.name, "label": one.label, "look": one.look.value} for one in details()],
        "rows": [[strings[cell] if isinstance(cell, str) else cell for cell in row] for row in cells],
        # What a gate let pass never stands for what it did not.
        "folds": [group for group in like_draws(report.findings, accepted) if len(group) > 1],
        "torch": visible(report.target.torch),
        "command": visible(command(report)),
        "verdicts": [
            {"name": verdict.value, "sign": VERDICTS[verdict].sign, "label": VERDICTS[verdict].label}
            for verdict in SEVERITY
        ],
        "phases": [phase.value for phase in Phase],
        "accepted": [(position, strings[words]) for position, words in accepted.items()],
    }
    data["strings"] = [visible(text) for text in strings]
    text = msgspec.json.encode(data).decode("utf-8")
    return _UNSAFE.sub(lambda match: _ESCAPES[match.group()], text)


def template_folder() -> Path:
    """Return the folder of the templates: in the package (a wheel), or beside it (an editable install)."""
    for folder in (_PACKAGE / "_templates", _PACKAGE.parent / "templates"):
        if (folder / "report.html").is_file():
            return folder
    raise ReportError("the report's templates are not installed", hint="reinstall determinism-tracer")


@lru_cache(maxsize=1)
def datatables_script() -> str | None:
    """A script that leaves jQuery, with DataTables registered on it, in ``globalThis.tracerTables``.

    The bundle is an ES module, whose exports no inline script could import; its ``export`` becomes an
    assignment. ``None`` where itables is missing or ships another shape: the page then has a plain table.
    """
    try:
        spec = find_spec("itables")
        folders = list(spec.submodule_search_locations or ()) if spec else []
        bundle = (Path(folders[0]) / "html" / "dt_bundle.js").read_text(encoding="utf-8")
    except (IndexError, ImportError, OSError, ValueError):
        return None
    exports = list(_EXPORT.finditer(bundle))
    jquery = _JQUERY.search(exports[-1].group(1)) if exports else None
    if jquery is None:
        return None
    start, end = exports[-1].span()
    return script_safe(f"{bundle[:start]}globalThis.tracerTables={jquery.group(1)};{bundle[end:]}")


def script_safe(source: str) -> str:
    """JavaScript ``source`` that means the same and cannot end the ``<script>`` element it stands in."""
    source = re.sub(r"</(?=script)", r"<\\/", source, flags=re.IGNORECASE)
    source = source.replace("<!--", "\\x3c!--")
    return re.sub(r"<(?=script)", r"\\x3c", source, flags=re.IGNORECASE)
