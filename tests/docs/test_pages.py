"""The documentation's pages: made from tables and code in memory, they agree with both; every link leads somewhere."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from functools import cache
from importlib import import_module
from pathlib import Path
from posixpath import dirname, normpath
from textwrap import dedent
from typing import Any

import click
import pytest
import yaml

import tracer
from docs.making.api_page import public_names
from docs.making.pages import API, COMMAND_LINE, DOCS, ROOT, place_of, site_pages, written_pages
from docs.making.rule_pages import HEADINGS
from docs.making.tables_page import tables_page
from tests.tables.samples import HEAD, parse_table
from tracer.cli.main import COMMANDS
from tracer.cli.main import tracer as command_line
from tracer.tables.compiled import load_compilers
from tracer.tables.lint import faults_of
from tracer.tables.loading import load_libraries, load_tables
from tracer.tables.rules import CATEGORIES, load_rows

ADDING = (DOCS / "adding-a-rule.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```toml\n(.*?)```", ADDING, re.DOTALL)[0]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|(?:!\[[^\]]*\]\(|src(?:set)?=\")([^)\s\"]+)[)\"]")


@cache
def pages() -> dict[str, str]:
    """The whole site, made once for this module."""
    return site_pages()


def rule_pages() -> dict[str, str]:
    return {path.removeprefix("rules/"): text for path, text in pages().items() if path.startswith("rules/")}


def outside_code(text: str) -> str:
    return re.sub(r"(?ms)^```.*?^```$", "", text)


def links_of(text: str) -> list[str]:
    prose = re.sub(r"`[^`\n]*`", "code", outside_code(text))
    return [page or image for page, image in LINK.findall(prose)]


def anchors_of(text: str) -> set[str]:
    """What a heading can be reached by, as Python-Markdown spells it."""
    headings = re.findall(r"^#+ (.*)$", outside_code(text), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


def rules() -> list[str]:
    """Every rule and row, in the order of the page of tables."""
    named = [rule.id for made in (load_tables(), load_compilers()) for table in made.values() for rule in table.rule]
    named += [rule.id for rule in load_libraries().rule]
    return named + [row.id for category in CATEGORIES for row in load_rows().row if row.category == category]


def test_the_page_of_tables_is_up_to_date_and_has_a_line_for_each_rule() -> None:
    assert (DOCS / "tables.md").read_text(encoding="utf-8") == tables_page(), "run `python docs/making/write.py`"
    assert re.findall(r"^\| `([a-z0-9-]+)` \|", tables_page(), re.MULTILINE) == rules()


def test_every_rule_has_a_page_under_the_same_headings() -> None:
    made = rule_pages()
    index = made.pop("index.md")
    assert {name.removesuffix(".md") for name in made} == set(rules())
    assert set(re.findall(r"^- \[([a-z0-9-]+)\]\(\1\.md\)", index, re.MULTILINE)) == set(rules())
    for name, text in made.items():
        headings = re.findall(r"^## (.*)$", outside_code(text), re.MULTILINE)
        assert tuple(headings) == HEADINGS, name
        assert all(part.strip() for part in outside_code(text).split("\n## ")[1:]), name


def test_a_rules_page_answers_in_its_first_line() -> None:
    first = rule_pages()["cuda-index-add.md"].splitlines()[2]
    assert first.startswith(
        "By default: **nondeterministic or deterministic**. Under deterministic mode: **raises or deterministic**."
    )


def test_a_paragraph_of_a_rule_is_not_read_as_a_list() -> None:
    """A line that begins with a number, a dash or a sign would be read as another item than it is."""
    for name, text in rule_pages().items():
        for line in outside_code(text).splitlines():
            assert not re.match(r"(- )?([-+*#>=]|\d+[.)]) (?!#)", line) or line.startswith(("# ", "- ")), (name, line)
            assert not re.match(r"- ([-+*#>=]|\d+[.)]) ", line), (name, line)


def test_every_link_of_the_site_leads_to_a_page_and_a_heading() -> None:
    made, broken = pages(), []
    for path, text in made.items():
        for link in links_of(text):
            target, _, anchor = link.partition("#")
            if target.startswith(("https://", "http://")):
                continue
            place = normpath(f"{dirname(path)}/{target}".lstrip("/")) if target else path
            if (place not in made and not (DOCS / place).is_file()) or (
                anchor and anchor not in anchors_of(made[place])
            ):
                broken.append((path, link))
    assert broken == []


@pytest.mark.parametrize("page", written_pages(), ids=lambda page: page.name)
def test_a_written_pages_links_lead_somewhere_in_the_repository_too(page: Path) -> None:
    """It is read on GitHub, where the pages that the site makes are not."""
    targets = [link.partition("#")[0] for link in links_of(page.read_text(encoding="utf-8"))]
    assert [one for one in targets if one and "://" not in one and not (page.parent / one).is_file()] == []


def test_where_a_page_names_a_rule_the_site_leads_to_it() -> None:
    assert "[`cuda-index-add`](rules/cuda-index-add.md)" in pages()["tables.md"]
    assert "](rules/" not in (DOCS / "tables.md").read_text(encoding="utf-8")


def navigation() -> list[str]:
    """Each page that the site's navigation names."""

    def walk(part: Any) -> list[str]:
        if isinstance(part, str):
            return [part]
        return [path for below in (part.values() if isinstance(part, dict) else part) for path in walk(below)]

    class Loader(yaml.SafeLoader):
        """mkdocs.yml may name Python objects; only its navigation is read here."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    return walk(yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)["nav"])


def test_the_navigation_names_every_page_but_those_of_rules() -> None:
    single = {path for path in pages() if not path.startswith("rules/")} | {"rules/index.md"}
    assert sorted(navigation()) == sorted(single), "mkdocs.yml, nav: name the new page there"


def test_the_page_of_commands_has_every_command_and_option() -> None:
    page = pages()[COMMAND_LINE]
    for name in COMMANDS:
        command = command_line.get_command(click.Context(command_line), name)
        assert command is not None
        (section,) = re.findall(rf"(?ms)^## tracer {name}$(.*?)(?=^## |\Z)", page)
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        assert [one.opts for one in options if not any(spelling in section for spelling in one.opts)] == []
        assert "Examples:" in section
    assert "\b" not in page


def shown_commands() -> list[str]:
    """Each command line of the tracer's in a block of README and docs."""
    blocks = [
        block
        for page in written_pages()
        for block in re.findall(r"```(?:console|yaml)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    return sorted({line for block in blocks for line in re.findall(r"(?m)^ *(?:\$|- run:) tracer ([^#\n]*)", block)})


def understood(shown: str) -> None:
    """Parsed, with neither its files nor its values looked at."""
    args = [word for word in shlex.split(shown) if word != ">"]
    context = click.Context(command_line, info_name="tracer")
    command: click.Command | None = command_line
    while isinstance(command, click.Group):
        command = command.get_command(context, args.pop(0))
    assert command is not None
    below = click.Context(command, parent=context, **command.context_settings)
    command.make_parser(below).parse_args(args)


@pytest.mark.parametrize("shown", shown_commands())
def test_a_command_that_a_page_shows_is_understood(shown: str) -> None:
    understood(shown)


def test_a_command_with_an_unknown_option_would_be_noticed() -> None:
    with pytest.raises(click.NoSuchOption):
        understood("report trace.json --backnd cuda")


def test_the_page_of_the_interface_has_every_public_name() -> None:
    directives = re.findall(r"^::: ([\w.]+)$", pages()[API], re.MULTILINE)
    shown = {directive.rpartition(".")[2]: directive.rpartition(".")[0] for directive in directives}
    assert set(public_names()) <= set(shown)
    for name in public_names():
        assert getattr(import_module(shown[name]), name) is getattr(tracer, name)


def test_every_field_of_a_public_class_says_what_it_holds() -> None:
    """The page of the interface leaves out what has no docstring."""
    silent = []
    for name in public_names():
        found = getattr(tracer, name)
        if not isinstance(found, type):
            continue
        (tree,) = ast.parse(dedent(inspect.getsource(found))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, [*tree.body[1:], None], strict=True):
            said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and not said:
                silent.append(f"{name}.{field.target.id}")
    assert [field for field in silent if not field.rpartition(".")[2].startswith("_")] == []


def test_the_readme_is_read_in_one_go() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert place_of("README.md") == "index.md"


def test_the_shown_rule_is_ten_lines_that_the_lint_accepts_and_says_what_the_table_says() -> None:
    assert len(EXAMPLE.splitlines()) == 10
    table = parse_table(HEAD + EXAMPLE, "adding-a-rule.md")
    assert list(faults_of(table)) == []
    (shown,) = table.rule
    (real,) = (rule for table in load_tables().values() for rule in table.rule if rule.id == shown.id)
    assert set(shown.ops) <= set(real.ops)
    assert shown.cause == real.cause
    assert {str(case.when): case.verdict for case in shown.case} == {str(case.when): case.verdict for case in real.case}


def test_the_shown_rule_with_a_case_left_out_is_refused() -> None:
    broken = EXAMPLE.replace('{ verdict = "conditional" }', "")
    assert broken != EXAMPLE
    assert list(faults_of(parse_table(HEAD + broken, "adding-a-rule.md"))) == [
        "cuda-median-indices: the last case has conditions: what no other case takes is left without one"
    ]
