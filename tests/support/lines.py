"""Finding groups and lines in tests of the recorder."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

from tracer import CallGroup, DeterminismTracer


def record(function: Callable[[], object], model: Any = None, **options: Any) -> DeterminismTracer:
    """Run ``function`` under a tracer and give the tracer back."""
    tracer = DeterminismTracer(model, **options)
    with tracer:
        function()
    return tracer


def groups(tracer: DeterminismTracer, op: str, **fields: Any) -> list[CallGroup]:
    """The recorded groups of ``op`` (a packet or an overload) whose fields are as given."""
    return [
        group
        for group in tracer.trace.calls
        if (group.op == op or group.op.rpartition(".")[0] == op)
        and all(getattr(group, name) == value for name, value in fields.items())
    ]


def one(tracer: DeterminismTracer, op: str, **fields: Any) -> CallGroup:
    """The only such group."""
    found = groups(tracer, op, **fields)
    assert len(found) == 1, f"{op} {fields}: {found or tracer.trace.calls}"
    return found[0]


def line_of(function: Callable[..., Any], text: str) -> int:
    """The number of the only line of ``function`` that holds ``text``."""
    code: CodeType = inspect.unwrap(function).__code__
    source, first = inspect.getsourcelines(code)
    found = [first + index for index, line in enumerate(source) if text in line]
    assert len(found) == 1, (text, found)
    return found[0]


def lines(found: list[CallGroup]) -> set[int]:
    """The line numbers of ``found``."""
    return {int(group.location.rpartition(":")[2]) for group in found}
