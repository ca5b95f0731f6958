"""Names come from anywhere: whatever they hold stays text, in every format."""

from __future__ import annotations

import csv
import io
import json
import re
from functools import cache
from html import unescape
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.report.samples import HOSTILE, full_report, hostile_process_report, hostile_report
from tests.support.slow import slow_unless
from tracer.plain import encodable, one_line, visible
from tracer.report import Report
from tracer.report.json_format import Document
from tracer.report.render import page as html

ANY_TEXT = st.text(st.characters(), max_size=40) | st.sampled_from(HOSTILE)
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without DataTables, so that reading it many times stays quick."""
    monkeypatch.setattr(html, "datatables_script", lambda: "void 0")


class Page(HTMLParser):
    """Counts elements and event handlers, and keeps what the data element holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.handlers: list[str] = []
        self.data = ""
        self._in_data = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self._in_data = ("type", "application/json") in attrs

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data


def check_html(made: Report, texts: tuple[str, ...]) -> None:
    text = made.to_html()
    text.encode("utf-8")
    page = Page(text)
    assert page.tags["script"] == 3
    assert page.handlers == []
    assert not {"img", "svg", "iframe"} & set(page.tags)
    data = json.loads(page.data)
    assert len(data["rows"]) == len(made.findings)
    assert {visible(one) for one in texts} <= set(data["strings"])


def check_csv(made: Report) -> None:
    text = made.to_csv()
    text.encode("utf-8")
    table = list(csv.reader(io.StringIO(text, newline="")))
    assert len(table) == len(made.findings) + 1
    assert {len(row) for row in table} == {15}
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in table for cell in row)


def check_json(made: Report) -> None:
    text = made.to_json()
    text.encode("utf-8")
    document = msgspec.json.decode(text, type=Document)
    assert [one.why for one in document.judgement.findings] == [encodable(one.why) for one in made.findings]


def check_text(made: Report) -> None:
    for color in (False, True):
        text = made.to_text(width=80, color=color, limit=None)
        text.encode("utf-8")
        bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", bare)
        assert color or "\x1b" not in text


def test_known_hostile_strings_stay_text_in_every_format(light: None) -> None:
    made = hostile_report(*HOSTILE)
    check_html(made, HOSTILE)
    check_csv(made)
    check_json(made)
    check_text(made)
    assert Page(made._repr_html_()).tags.get("script") is None
    assert len(made.to_dataframe()) == len(made.findings)


@given(ANY_TEXT)
@QUICK
def test_any_string_stays_text_on_the_page(light: None, text: str) -> None:
    check_html(hostile_report(text), (text,))


@given(ANY_TEXT)
@QUICK
def test_any_string_stays_text_elsewhere(text: str) -> None:
    made = hostile_report(text)
    check_csv(made)
    check_json(made)
    check_text(made)


#: All of them in one name, and those that do harm where they begin one; each by itself in ``make test-all``.
TOGETHER = " ".join(HOSTILE[:-1])


@pytest.mark.parametrize("text", slow_unless([TOGETHER, *HOSTILE[6:11]], [TOGETHER, *HOSTILE]))
def test_known_hostile_strings_of_the_process_stay_text_in_every_format(light: None, text: str) -> None:
    check_process(hostile_process_report(text), text)


@given(ANY_TEXT)
@QUICK
def test_any_string_of_the_process_stays_text(light: None, text: str) -> None:
    check_process(hostile_process_report(text), text)


def tags(made: Report) -> dict[str, int]:
    """Elements of the page by name; of those that a name may be shown in, as code or a line's number, nothing."""
    return {tag: n for tag, n in Page(made.to_html()).tags.items() if tag not in {"code", "span", "wbr"}}


@cache
def plain_tags(text: str) -> dict[str, int]:
    """What the page of a name that means no harm is made of."""
    return tags(hostile_process_report(text))


def check_process(made: Report, text: str) -> None:
    check_html(made, (text,))
    check_csv(made)
    check_json(made)
    check_text(made)
    assert tags(made) == plain_tags(text and "plain")
    assert Page(made._repr_html_()).tags.get("script") is None


@given(st.text(st.characters()))
def test_visible_text_acts_on_nothing(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    shown.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)


def test_letters_of_every_script_stay_as_they_are() -> None:
    for text in ("größe.py", "モデル.層", "модель", "مدل", "emoji 👩‍🔬", "a\nb\tc"):
        assert visible(text) == text


@given(st.text(max_size=200), st.integers(3, 80))
def test_one_line_keeps_both_ends(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


def test_scripts_run_by_their_hash_alone(light: None) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', full_report().to_html())
    assert policy
    rules = unescape(policy.group(1))
    assert rules.startswith("default-src 'none'")
    scripts = rules.split("script-src")[1].split(";")[0]
    assert scripts.count("sha256-") == 2
    assert "unsafe" not in scripts
