"""Pages that are made from the tables, or that show how to write them, agree with the tables and the lint."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.tables.samples import HEAD
from tracer.tables.lint.rule_lint import lint_table
from tracer.tables.loading import load_libraries, load_tables, parse_table
from tracer.tables.settings.rows import CATEGORIES, load_rows

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def make_docs() -> Iterator[ModuleType]:
    """``docs/make_docs.py``, which is no part of the package; it finds what lies beside it as a script does."""
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "docs" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "docs"))
    yield module
    sys.modules.pop("rule_pages", None)


def test_the_page_of_tables_is_up_to_date(make_docs: ModuleType) -> None:
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    assert page == make_docs.tables_page(), "run `make docs`"


def test_the_page_of_tables_has_a_line_for_each_rule(make_docs: ModuleType) -> None:
    rules = [rule.id for table in load_tables().values() for rule in table.rule]
    rules += [rule.id for rule in load_libraries().rule]
    rules += [row.id for category in CATEGORIES for row in load_rows().row if row.category == category]
    assert re.findall(r"^\| `([a-z0-9-]+)` \|", make_docs.tables_page(), re.MULTILINE) == rules


def test_the_pages_of_rules_are_up_to_date(make_docs: ModuleType) -> None:
    made = {page.name: page.text for page in make_docs.rule_pages()}
    found = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "rules").iterdir()}
    assert found.keys() == made.keys(), "run `make docs`"
    assert [name for name, text in made.items() if found[name] != text] == [], "run `make docs`"


def test_every_rule_has_a_page_under_the_same_headings(make_docs: ModuleType) -> None:
    pages = {page.name: page.text for page in make_docs.rule_pages()}
    index = pages.pop("index.md")
    rules = {rule.id for table in load_tables().values() for rule in table.rule}
    rules |= {rule.id for rule in load_libraries().rule} | {row.id for row in load_rows().row}
    assert set(re.findall(r"^- \[([a-z0-9-]+)\]", index, re.MULTILINE)) == rules
    assert set(re.findall(r"\(([a-z0-9-]+\.md)\)", index)) == pages.keys()
    for name, text in pages.items():
        outside = re.sub(r"(?ms)^```.*?^```$", "", text)
        headings = re.findall(r"^## (.*)$", outside, re.MULTILINE)
        assert tuple(headings) == make_docs.HEADINGS, name
        assert all(part.strip() for part in outside.split("\n## ")[1:]), name


def test_a_page_wraps_without_making_lists_or_markup(make_docs: ModuleType) -> None:
    """A line that begins with a number, a dash or a sign would be read as another item than it is."""
    for page in make_docs.rule_pages():
        outside = re.sub(r"(?ms)^```.*?^```$", "", page.text)
        for line in outside.splitlines():
            assert not re.match(r"\s+([-+*#>=]|\d+[.)]) |([+*>=]|\d+[.)]) ", line), (page.name, line)


def test_the_readmes_rule_is_ten_lines_that_the_lint_accepts() -> None:
    assert len(EXAMPLE.splitlines()) == 10
    table = parse_table(HEAD + EXAMPLE, "README.md")
    assert lint_table(table) == []


def test_the_readmes_rule_says_what_the_table_says() -> None:
    (shown,) = parse_table(HEAD + EXAMPLE, "README.md").rule
    real = next(rule for table in load_tables().values() for rule in table.rule if rule.id == shown.id)
    assert set(shown.ops) <= set(real.ops)
    assert shown.cause == real.cause
    assert {str(case.when): case.verdict for case in shown.case} == {str(case.when): case.verdict for case in real.case}


def test_the_readmes_rule_with_a_case_left_out_is_refused() -> None:
    broken = EXAMPLE.replace('["off", "warn"]', '"off"')
    assert broken != EXAMPLE
    assert lint_table(parse_table(HEAD + broken, "README.md")) == [
        "cuda-median-indices: gap in torch 1.11: no case for deterministic_mode = warn"
    ]
