"""The published JSON Schemas: made from the models, current, and what reports and traces are held against."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from docs.making.json_schemas import schemas
from tests.report.samples import HOSTILE, full_report, hostile_process_report, hostile_report, process_report
from tests.support.build import call, event, finding, generator, loader, read, report, trace
from tests.trace.strategies import traces
from tracer.findings import Acceptance
from tracer.names import AcceptedBy, Overlap
from tracer.report import Report
from tracer.session import judge
from tracer.trace import Trace
from tracer.trace.differences import compare_ranks
from tracer.trace.records import Allocation, OverlapWrite, TraceSource

DOCS = Path(__file__).parents[2] / "docs"
NAMES = ("report.schema.json", "trace.schema.json")
QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck))


@cache
def published(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((DOCS / name).read_text(encoding="utf-8"))
    return schema


@cache
def strictest(name: str) -> Any:
    """A validator that refuses fields that the schema does not name, too."""
    schema = deepcopy(published(name))
    for part in schema["$defs"].values():
        if "properties" in part:
            part["additionalProperties"] = False
    return jsonschema.Draft202012Validator(schema)


def faults(name: str, text: str) -> list[str]:
    return [f"{one.json_path}: {one.message}" for one in strictest(name).iter_errors(json.loads(text))]


def test_the_schemas_are_up_to_date() -> None:
    made = schemas()
    assert set(made) == set(NAMES)
    for name, text in made.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, "run `python docs/making/write.py`"


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_by_its_draft_and_explains_its_classes(name: str) -> None:
    schema = published(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    assert [title for title, part in schema["$defs"].items() if "description" not in part] == []
    assert "``" not in json.dumps(schema)


def gated() -> Report:
    """A report behind a gate, of two ranks that differ."""
    by_lock = Acceptance(finding=0, by=AcceptedBy.BASELINE, reason="seen")
    accepted = (by_lock, Acceptance(finding=1, by=AcceptedBy.SELECTION))
    ranks = compare_ranks(trace(call(count=1 + rank), sources=(TraceSource(rank=rank),)) for rank in (0, 1))
    return replace(full_report(), accepted=accepted, failing=frozenset({2, 3}), ranks=ranks)


def hostile() -> Report:
    return hostile_report(*HOSTILE)


def hostile_process() -> Report:
    return hostile_process_report(" ".join(HOSTILE))


def judged() -> Report:
    return judge(whole_trace(), backend="cuda")


@pytest.mark.parametrize(
    "made",
    [full_report, process_report, gated, report, judged, hostile, hostile_process],
    ids=lambda made: made.__name__,
)
def test_reports_are_what_the_schema_says(made: Callable[[], Report]) -> None:
    assert faults("report.schema.json", made().to_json()) == []


def whole_trace() -> Trace:
    """A trace with something in every field."""
    return trace(
        call(),
        events=(event(),),
        generators=(generator(),),
        allocations=(Allocation(op="aten.empty.memory_format", bytes=4),),
        unwritten_reads=(read(),),
        overlaps=(OverlapWrite(op="aten.add_.Tensor", kind=next(iter(Overlap))),),
        loaders=(loader(),),
        differing_settings=("num_threads",),
    )


def test_a_saved_trace_is_what_the_schema_says(tmp_path: Path) -> None:
    whole_trace().save(tmp_path / "t.json")
    assert faults("trace.schema.json", (tmp_path / "t.json").read_text(encoding="utf-8")) == []


@QUICK
@given(traces)
def test_any_trace_is_what_the_schema_says(made: Trace) -> None:
    assert faults("trace.schema.json", msgspec.json.encode(made).decode("utf-8")) == []


def altered(path: tuple[Any, ...], value: Any) -> list[str]:
    """Faults of a report in which ``path`` holds ``value``, or nothing for ``...``; by the schema as published."""
    document = json.loads(report(finding()).to_json())
    place = document
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    validator = jsonschema.Draft202012Validator(published("report.schema.json"))
    return [one.message for one in validator.iter_errors(document)]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("plan",), ...),
        (("judgement", "findings", 0, "rule"), ...),
        (("judgement", "findings", 0, "verdict"), "fine"),
        (("judgement", "findings", 0, "count"), "many"),
        (("judgement", "tally", "as_is"), {"fine": 3}),
        (("judgement", "target", "backend"), "abacus"),
    ],
)
def test_what_is_wrong_is_refused(path: tuple[Any, ...], value: Any) -> None:
    assert altered(path, value)


def test_a_field_of_a_later_release_is_let_through() -> None:
    assert altered(("judgement", "findings", 0, "added_later"), "x") == []
