"""A pytest plugin: each test's body runs in a block, and what became of it is written down, a line of JSON a test.

``others_suites.py`` starts it. ``OTHERS_BLOCK`` names the block: plain, empty, recorder, values or trials.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch

from tests.support.modes import EmptyMode
from tracer import DeterminismTracer

_found: dict[str, dict[str, Any]] = {}


def _block() -> AbstractContextManager[Any]:
    kind = os.environ["OTHERS_BLOCK"]
    if kind == "recorder":
        return DeterminismTracer()
    if kind == "values":
        return DeterminismTracer(values=True)
    if kind == "trials":
        return DeterminismTracer(trials=2)
    return EmptyMode() if kind == "empty" else nullcontext()  # type: ignore[no-untyped-call]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep as many tests as were asked for, spread over the suite."""
    most = int(os.environ["OTHERS_TESTS"])
    if len(items) > most:
        items[:] = [items[index * len(items) // most] for index in range(most)]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """The body of one test, from the same seeds in each run."""
    torch.manual_seed(0)
    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)
    with _block():
        yield
    states = [torch.get_rng_state().numpy().tobytes(), random.getstate()]
    if numpy is not None:
        states.append([part.tobytes() if hasattr(part, "tobytes") else part for part in numpy.random.get_state()])
    digest = hashlib.blake2b(repr(states).encode(), digest_size=8).hexdigest()
    _found.setdefault(item.nodeid, {})["generators"] = digest


def pytest_warning_recorded(warning_message: Any, nodeid: str) -> None:
    """A warning that a test raised."""
    text = f"{warning_message.category.__name__}: {warning_message.message}"
    _found.setdefault(nodeid, {}).setdefault("warnings", []).append(text)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """How a test ended; its error's last line, which holds the values that differed."""
    if report.when == "call" or report.outcome != "passed":
        found = _found.setdefault(report.nodeid, {})
        found["outcome"] = report.outcome
        lines = report.longreprtext.strip().splitlines()
        found["error"] = lines[-1] if lines else ""


def pytest_sessionfinish() -> None:
    """Write everything down."""
    with open(os.environ["OTHERS_RESULTS"], "w", encoding="utf-8") as file:
        json.dump(_found, file)
