"""Adding a cause of divergence, or what shows it, is a line in ``divergence.causes``: comparing and reports know it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.declared import ROOT, run_with
from tracer.divergence.causes import RootCause, Shows

ADDED = {
    '    UNKNOWN = "unknown"': '    EVICTION = "eviction", "by an evicted page"',
    "    SETTINGS = ": (
        '    EVICTED = "evicted", RootCause.EVICTION, (RootKind.WROTE,), lambda _: True, "a page was evicted"'
    ),
}
PROGRAM = """
import json
from pathlib import Path
from tests.divergence.recorded import Recorder
from tracer.divergence.comparing import compare_recordings
from tracer.report.sections.runs import divergence_headline

record = Recorder(Path())
found = compare_recordings(record(), record(kernel=2))
(root,) = found.roots
print(json.dumps([root.cause.value, root.shows.value, root.why, divergence_headline(found)]))
"""


def test_a_declared_cause_is_decided_in_its_turn_and_worded(tmp_path: Path) -> None:
    cause, shows, why, headline = run_with(tmp_path, "tracer/divergence/causes.py", ADDED, PROGRAM)
    assert (cause, shows, why) == ("eviction", "evicted", "a page was evicted")
    assert headline.endswith("(aten.index_put_.default), by an evicted page.")


@pytest.mark.parametrize("cause", list(RootCause), ids=str)
def test_each_cause_is_shown_by_something_or_by_a_value_that_came_in(cause: RootCause) -> None:
    assert cause.words.startswith("by ")
    assert cause.entered or any(shows.cause is cause for shows in Shows)


@pytest.mark.parametrize("cause", list(RootCause), ids=str)
def test_each_cause_has_its_row_in_the_documentation(cause: RootCause) -> None:
    page = (ROOT / "docs" / "values.md").read_text(encoding="utf-8")
    assert page.count(f"\n| `{cause}` | ") == 1


@pytest.mark.parametrize("shows", list(Shows), ids=str)
def test_what_always_holds_is_tried_last_of_its_way(shows: Shows) -> None:
    assert shows.ways
    later = list(Shows)[list(Shows).index(shows) + 1 :]
    for way in shows.ways if shows.holds is Shows.KERNEL.holds else ():
        assert not any(way in other.ways for other in later)
