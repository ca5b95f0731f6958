"""Every page of the site by its path there: those that somebody wrote, and those made from code and tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from posixpath import normpath

from docs.making.api_page import api_page
from docs.making.command_page import command_page
from docs.making.rule_pages import rule_pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Where the site shows what stands outside ``docs/``.
BROUGHT_IN = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
#: Pages that the site alone has; what stands in git does not link to them, so that it reads the same there.
COMMAND_LINE, API = "command-line.md", "api.md"
_LINK = re.compile(r"(?:(?<=\]\()|(?<=src=\")|(?<=srcset=\"))(?!https?:|#)([^)#\s\"]+)")
_FENCE = re.compile(r"(?ms)^```.*?^```$")
_RULE = re.compile(r"(?<!\[)`([a-z]+-[a-z0-9-]+)`")


def site_pages() -> dict[str, str]:
    """Path in the site to Markdown."""
    rules = {f"rules/{page.name}": page.text for page in rule_pages()}
    written = {path.relative_to(ROOT).as_posix(): path for path in written_pages()}
    pages = {place_of(name): _moved(path.read_text(encoding="utf-8"), name) for name, path in written.items()}
    ids = {PurePosixPath(path).stem for path in rules} - {"index"}
    return {
        **{path: _linked(text, ids) for path, text in pages.items()},
        COMMAND_LINE: command_page(),
        API: api_page(),
        **rules,
    }


def written_pages() -> list[Path]:
    """The files that somebody wrote, with the counts of the tables, which stand in git beside them."""
    return [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in BROUGHT_IN)]


def place_of(name: str) -> str:
    """Where the site has a file of the repository."""
    return BROUGHT_IN.get(name, name.removeprefix("docs/"))


def _moved(text: str, name: str) -> str:
    """``text`` with its links between files of the repository turned into links between pages of the site."""
    folder = PurePosixPath(name).parent

    def moved(found: re.Match[str]) -> str:
        return place_of(normpath(str(folder / found[0])))

    return _outside_code(text, lambda part: _LINK.sub(moved, part))


def _linked(text: str, ids: set[str]) -> str:
    """Where a page names a rule, it leads to the rule's page; headings and code stay as they are."""

    def linked(found: re.Match[str]) -> str:
        return f"[{found[0]}](rules/{found[1]}.md)" if found[1] in ids else found[0]

    return _outside_code(text, lambda part: _RULE.sub(linked, part))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """``text`` with ``change`` made of what stands outside of fenced blocks."""
    parts, end = [], 0
    for block in _FENCE.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])
