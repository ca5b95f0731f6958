"""HTML: one page that opens offline, asks nobody for anything, and shows every name as text."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from tracer.names import SEVERITY
from tracer.plain import LINE_NUMBER, one_line, visible
from tracer.plan import place_of
from tracer.report.page.assets import datatables_script, template_folder
from tracer.report.page.page import map_of, page_context
from tracer.report.page.table_data import findings_json
from tracer.report.wording.answers import answers
from tracer.report.wording.headline import headline
from tracer.report.wording.naming import advice_of, needs_in_words, phase_of, subject_of, worth
from tracer.report.wording.portability import targets_shown
from tracer.report.wording.words import VERDICTS, plural, target_words

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Characters of one string that the page's static parts show; the table's rows open to all of it.
_LONGEST = 400
#: Characters of a module path beside its bar.
_BRIEF = 30
_WHOLE = Markup('<span class="whole">{}</span>')
_NOTEBOOK_ROWS = 10
_NOTEBOOK_CHANGES = 6


def render(report: ReportView) -> str:
    """The whole page. Scripts are allowed by their hash alone, so that no injected one could run."""
    assets = _assets()
    bundle = datatables_script() if any(judgement.findings for judgement in targets_shown(report)) else None
    blocks = map_of(report)
    # The picture of two runs comes with them alone.
    picture = assets["parting.js"] if report.repeated is not None else None
    style = assets["style.css"] + (assets["parting.css"] if picture else "")
    scripts = [script for script in (bundle, assets["script.js"], picture) if script]
    return (
        _environment()
        .get_template("report.html")
        .render(
            page_context(report, blocks),
            style=Markup(style),
            bundle=Markup(bundle) if bundle else None,
            script=Markup(assets["script.js"]),
            picture=Markup(picture) if picture else None,
            script_hashes=" ".join(map(_hash, scripts)),
            data=Markup(findings_json(report, blocks)),
        )
    )


def to_notebook(report: ReportView) -> str:
    """A fragment for a notebook cell: the headline, the answers, the plan and the first findings; no script."""
    verdict, line = headline(report)
    backend, settings = target_words(report.judgement)
    return (
        _environment()
        .get_template("notebook.html")
        .render(
            verdict=verdict,
            headline=line,
            backend=backend,
            settings=settings,
            target=report.target,
            banners=report.banners,
            answers=answers(report),
            plan=report.plan[:_NOTEBOOK_CHANGES],
            more_changes=max(0, len(report.plan) - _NOTEBOOK_CHANGES),
            unseen=len(report.blind_spots),
            findings=[
                (finding, subject_of(finding), phase_of(finding), place_of(finding))
                for finding in report.findings[:_NOTEBOOK_ROWS]
            ],
            more=max(0, len(report.findings) - _NOTEBOOK_ROWS),
        )
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Autoescape for every template whatever its name; an undefined name is an error."""
    environment = Environment(
        loader=FileSystemLoader(template_folder()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_kept_templates(),
    )
    environment.globals.update(
        words=VERDICTS, severity=SEVERITY, plural=plural, worth=worth, needs=needs_in_words, advice=advice_of
    )
    environment.filters["shown"] = lambda text: one_line(str(text), _LONGEST)
    environment.filters["placed"] = lambda text: _whole_numbers(one_line(str(text), _LONGEST))
    environment.filters["breakable"] = lambda text: _breakable(one_line(str(text), _LONGEST))
    environment.filters["prose"] = lambda text: _prose(one_line(str(text), _LONGEST))
    environment.filters["pasted"] = lambda text: visible(str(text))
    environment.filters["brief"] = lambda text: one_line(str(text), _BRIEF)
    environment.filters["grouped"] = lambda count: f"{count:,}"
    return environment


class _KeptTemplates(FileSystemBytecodeCache):
    """Templates as compiled, in jinja2's own folder of this user; a disk that takes no more keeps none."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def _kept_templates() -> _KeptTemplates | None:
    """``None`` where Python keeps no bytecode either, or where the user can have no folder of their own."""
    if sys.dont_write_bytecode:
        return None
    try:
        return _KeptTemplates()
    except (OSError, RuntimeError):
        return None


def _prose(text: str) -> Markup:
    """``text`` with what stands between backticks as code; tables write code so. Every piece is escaped."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return _whole_numbers(text)
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if index % 2 else _whole_numbers(piece)
        for index, piece in enumerate(pieces)
    )


def _breakable(text: str) -> Markup:
    """``text`` escaped, with a place to break after each separator of a dotted name."""
    return Markup("<wbr>").join(re.split(r"(?<=[._/])(?=\w)", text))


def _whole_numbers(text: str) -> Markup:
    """``text`` escaped, with each place's line number, ``.py:102``, kept from breaking."""
    if ":" not in text:
        return escape(text)
    pieces: list[Markup] = []
    end = 0
    for match in LINE_NUMBER.finditer(text):
        pieces += escape(text[end : match.start()]), _WHOLE.format(match.group())
        end = match.end()
    return Markup().join([*pieces, escape(text[end:])])


@lru_cache(maxsize=1)
def _assets() -> dict[str, str]:
    """The style and the script as they stand in the page; read as text, never as templates."""
    folder = template_folder()
    names = ("style.css", "script.js", "parting.css", "parting.js")
    return {name: (folder / name).read_text(encoding="utf-8") for name in names}


def _hash(script: str) -> str:
    """``script``'s source expression for a Content-Security-Policy."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
