"""A comparison as JSON: the fields that ``tracer repeat`` writes too, and what else is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tracer.divergence.model import Divergence, Root

SCHEMA = 1


def leading_fields(
    *, agrees: bool, runs: int, calls_compared: int, first: Root | None, roots: Sequence[Root], arms: Mapping[str, Any]
) -> dict[str, Any]:
    """What every comparison's JSON begins with: ``schema``, ``agrees``, ``runs``, ``calls_compared``, ``first``,
    ``roots``, ``arms``."""
    return {
        "schema": SCHEMA,
        "agrees": agrees,
        "runs": runs,
        "calls_compared": calls_compared,
        "first": first,
        "roots": roots,
        "arms": arms,
    }


def json_form(divergence: Divergence) -> dict[str, Any]:
    """What stands in the JSON of two recordings: the leading fields, and the rest of what is known."""
    rest: dict[str, Any] = msgspec.to_builtins(divergence)
    rest = {name: value for name, value in rest.items() if name not in ("agrees", "calls_compared", "roots")}
    lead = leading_fields(
        agrees=divergence.agrees,
        runs=2,
        calls_compared=divergence.calls_compared,
        first=divergence.first,
        roots=divergence.roots,
        arms={},
    )
    return msgspec.to_builtins(lead) | rest  # type: ignore[no-any-return]
