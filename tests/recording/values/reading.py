"""Reading what was recorded, for tests: a call as a row of words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tracer import DeterminismTracer
from tracer.trace.values import Mark, Values, read_values


class Row(NamedTuple):
    """One recorded call."""

    op: str
    inputs: int
    outputs: int
    origins: tuple[int, ...]
    numbers: str
    mark_bits: Mark


def rows(values: Values) -> list[Row]:
    """Every call in order."""
    found = []
    for call, group in enumerate(values.group):
        first, last = values.origin_start[call], values.origin_start[call + 1]
        found.append(
            Row(
                values.groups[group].op.removeprefix("aten."),
                int(values.inputs[call]),
                int(values.outputs[call]),
                tuple(int(one) for one in values.origins[first:last]),
                values.texts.get(int(values.numbers[call]), ""),
                Mark(int(values.mark_bits[call])),
            )
        )
    return found


def entries(values: Values) -> list[tuple[str, str, int]]:
    """Kind, name and position of every entry."""
    return [
        (str(values.names[name].kind), values.names[name].name, int(position))
        for name, position in zip(values.entries.name, values.entries.position, strict=True)
    ]


def moments(values: Values) -> dict[tuple[str, str, int, int], int]:
    """Digest of every moment, by kind, name, position and step; the last one where several were said."""
    of = values.moments
    return {
        (str(values.names[name].kind), values.names[name].name, int(position), int(step)): int(digest)
        for name, position, digest, step in zip(of.name, of.position, of.digest, of.step, strict=True)
    }


def recorded(path: Path, step: Callable[[], Any], **options: Any) -> Values:
    """The values of ``step()``."""
    with DeterminismTracer(values=path, **options) as tracer:
        step()
    assert tracer._session.recorder.values is not None
    assert tracer._session.recorder.values.calls.failures == 0
    return read_values(path)
