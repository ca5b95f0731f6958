"""Names come from anywhere: whatever they hold stays text, in every format."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.report.machine_rules import junit_faults, sarif_results
from tests.report.samples import HOSTILE, full_report, hostile_process_report, hostile_report
from tests.support.build import call, environment, finding, report, trace
from tests.support.slow import slow_unless
from tracer import judge
from tracer.findings import Acceptance
from tracer.names import AcceptedBy
from tracer.plain import encodable, one_line, visible
from tracer.report import Report, rendered_as
from tracer.report.json_format import Document
from tracer.report.render import page as html
from tracer.trace.differences import compare_ranks
from tracer.trace.records import TraceSource

ANY_TEXT = st.text(st.characters(), max_size=40) | st.sampled_from(HOSTILE)
QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck))
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: What a report in a notebook's cell is made of; a name that became markup would add another, or an attribute.
CELL_TAGS = {
    *("div", "p", "strong", "br", "ol", "li", "span", "pre", "code"),
    *("table", "thead", "tbody", "tr", "th", "td", "wbr"),
}
CELL_ATTRIBUTES = {"style", "class", "scope", "value"}


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without DataTables, so that reading it many times stays quick."""
    monkeypatch.setattr(html, "datatables_script", lambda: "void 0")


class Page(HTMLParser):
    """Counts elements, and keeps the attributes, the text, and what the data element holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.attributes: set[str] = set()
        self.said = ""
        self.data = ""
        self._in_data = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes |= {name for name, _ in attrs}
        self._in_data = ("type", "application/json") in attrs

    @property
    def handlers(self) -> list[str]:
        """Attributes that would run a script."""
        return sorted(name for name in self.attributes if name.startswith("on"))

    def handle_data(self, data: str) -> None:
        self.said += data
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


def check_csv(made: Report, table: str = "findings") -> None:
    text = made.to_csv(table)
    text.encode("utf-8")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert len(rows) == len(made.to_dataframe(table)) + 1
    assert {len(row) for row in rows} == {len(text.partition("\n")[0].split(","))}
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row)


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
        assert "\t" not in bare
        assert not ACTING.search(bare)
        assert color or "\x1b" not in text


def check_all(made: Report, *texts: str) -> None:
    """``texts``: those that stand among the findings."""
    check_html(made, texts)
    check_csv(made)
    check_json(made)
    check_text(made)
    cell = Page(made._repr_html_())
    assert cell.tags.keys() <= CELL_TAGS
    assert cell.attributes <= CELL_ATTRIBUTES
    assert not ACTING.search(cell.said)
    sarif_results(made)
    assert junit_faults(ElementTree.fromstring(rendered_as("junit", made))) == []
    for token in MarkdownIt("commonmark").enable("table").parse(rendered_as("markdown", made)):
        assert token.type != "html_block"
        for child in token.children or ():
            assert child.type not in ("html_inline", "link_open", "image", "em_open", "hardbreak"), token.content


def of_ranks(text: str, *, apart: int = 1, calls: int = 1) -> Report:
    """A report on two ranks; the second one calls and draws ``apart`` times more, at ``text``."""
    made = report(finding())
    return replace(
        made,
        ranks=compare_ranks(
            trace(
                *(call(op=f"{text}{n}", module=text, location=f"{text}:{n}", count=1 + more) for n in range(calls)),
                environment=environment(num_threads=1 + more, variables={text: str(more)}),
                sources=(TraceSource(rank=rank),),
            )
            for rank, more in enumerate((0, apart))
        ),
    )


def behind_a_gate(text: str) -> Report:
    """A report on a gate that accepted two of three findings for ``text``."""
    made = report(finding(), finding("cuda-b"), finding("cuda-c"))
    by = (AcceptedBy.BASELINE, AcceptedBy.COMMENT)
    accepted = tuple(Acceptance(finding=place, by=one, reason=text) for place, one in enumerate(by))
    return replace(made, accepted=accepted, failing=frozenset({2}))


#: Reports that have ``text`` in every field of theirs, and whether it is a string of the findings.
MAKERS: dict[str, tuple[Callable[[str], Report], bool]] = {
    "calls": (hostile_report, True),
    "process": (hostile_process_report, True),
    "ranks": (of_ranks, False),
    "gate": (behind_a_gate, False),
}


def tags(made: Report) -> dict[str, int]:
    """Elements of the page by name; of those that a name may be shown in, as code or a line's number, nothing."""
    return {tag: n for tag, n in Page(made.to_html()).tags.items() if tag not in {"code", "span", "wbr"}}


@cache
def plain_tags(maker: str, text: str) -> dict[str, int]:
    """What the page of a name that means no harm is made of."""
    return tags(MAKERS[maker][0](text))


#: All of them in one name, and those that do harm where they begin one; each by itself in ``make test-all``.
TOGETHER = " ".join(HOSTILE[:-1])


@pytest.mark.parametrize("text", slow_unless([TOGETHER, *HOSTILE[6:11]], [TOGETHER, *HOSTILE]))
@pytest.mark.parametrize("maker", MAKERS)
def test_known_hostile_strings_stay_text_in_every_format(light: None, maker: str, text: str) -> None:
    make, is_of_findings = MAKERS[maker]
    made = make(text)
    check_all(made, *((text,) if is_of_findings else ()))
    assert tags(made) == plain_tags(maker, "plain")


def test_hostile_strings_of_many_findings_stay_text(light: None) -> None:
    check_all(hostile_report(*HOSTILE), *HOSTILE)
    facts = {"device": "cpu", **{text: text for text in HOSTILE}}
    check_csv(judge(trace(*(call(module=one, location=one, function=one, facts=facts) for one in HOSTILE))), "calls")


@pytest.mark.parametrize("maker", ["calls", "process"])
@given(text=ANY_TEXT)
@QUICK
def test_any_string_stays_text(light: None, maker: str, text: str) -> None:
    check_all(MAKERS[maker][0](text), text)


@given(st.text(st.characters()))
def test_visible_text_acts_on_nothing(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    shown.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)


@pytest.mark.parametrize("text", ["größe.py", "モデル.層", "модель", "مدل", "emoji 👩‍🔬", "a\nb\tc"])
def test_letters_of_every_script_stay_as_they_are(text: str) -> None:
    assert visible(text) == text


@given(st.text(max_size=200), st.integers(3, 80))
def test_one_line_keeps_both_ends(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


SENTENCE = "this sentence of several short words is longer than the line that it is to stand on, and says nothing"


@pytest.mark.parametrize("limit", [30, 31, 60, 90])
def test_a_sentence_that_is_too_long_loses_words_from_its_middle_and_no_part_of_one(limit: int) -> None:
    head, tail = one_line(SENTENCE, limit).split("…")
    assert SENTENCE.startswith(f"{head} ")
    assert SENTENCE.endswith(f" {tail}")


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [("/".join("abcdefghij" * 9), 20, "a/b/c/d/e…/f/g/h/i/j"), ("exactly so", 10, "exactly so")],
)
def test_a_word_that_is_longer_than_the_line_is_cut_and_what_fits_stays(text: str, limit: int, line: str) -> None:
    assert one_line(text, limit) == line


def test_scripts_run_by_their_hash_alone(light: None) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', full_report().to_html())
    assert policy
    rules = unescape(policy.group(1))
    assert rules.startswith("default-src 'none'")
    scripts = rules.split("script-src")[1].split(";")[0]
    assert scripts.count("sha256-") == 2
    assert "unsafe" not in scripts
