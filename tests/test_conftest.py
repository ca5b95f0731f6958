"""What a worker of pytest-xdist says of a test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest

from tests import conftest

PLAIN = {"durations": None, "verbose": -1, "xmlpath": None}


def report(when: Literal["setup", "call", "teardown"], outcome: Literal["passed", "failed", "skipped"]) -> Any:
    return pytest.TestReport("test.py::test", ("test.py", 1, "test"), {"test": 1}, outcome, None, when)


def told(
    monkeypatch: pytest.MonkeyPatch, *reports: Any, worker: bool = True, last: bool = False, **options: Any
) -> Any:
    """The reports that leave a worker; None where pytest itself tells them."""
    monkeypatch.setattr(conftest, "runtestprotocol", lambda *args, **kwargs: list(reports))
    sent: list[Any] = []
    item: Any = SimpleNamespace(
        config=SimpleNamespace(option=SimpleNamespace(**PLAIN | options), **({"workerinput": {}} if worker else {})),
        ihook=SimpleNamespace(pytest_runtest_logreport=lambda report: sent.append((report.when, report.outcome))),
    )
    return sent if conftest.pytest_runtest_protocol(item, None if last else item) else None


def test_of_a_test_that_passed_its_call_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = [report(when, "passed") for when in ("setup", "call", "teardown")]
    assert told(monkeypatch, *passed) == [("call", "passed")]


def test_what_did_not_pass_is_told_wherever_it_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    first, call, last = report("setup", "passed"), report("call", "passed"), report("teardown", "passed")
    assert told(monkeypatch, report("setup", "failed"), last) == [("setup", "failed")]
    assert told(monkeypatch, report("setup", "skipped"), last) == [("setup", "skipped")]
    assert told(monkeypatch, first, report("call", "failed"), last) == [("call", "failed")]
    assert told(monkeypatch, first, call, report("teardown", "failed")) == [("call", "passed"), ("teardown", "failed")]


def test_everything_is_told_where_it_is_asked_for_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({"durations": 25}, {"verbose": 1}, {"xmlpath": "report.xml"}, {"last": True}, {"worker": False}):
        assert told(monkeypatch, report("setup", "passed"), **options) is None, options  # type: ignore[arg-type]
