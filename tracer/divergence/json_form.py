"""A comparison as JSON: the fields that ``tracer repeat`` writes too, and what else is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tracer.divergence.model import Divergence

SCHEMA = 1


def json_form(divergence: Divergence, *, runs: int = 2, arms: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What stands in the JSON: ``schema``, ``agrees``, ``runs``, ``calls_compared``, ``first``, ``roots``, ``arms``."""
    told: dict[str, Any] = msgspec.to_builtins(divergence)
    for field in ("agrees", "calls_compared", "roots"):
        told.pop(field)
    roots = [msgspec.to_builtins(root) for root in divergence.roots]
    return {
        "schema": SCHEMA,
        "agrees": divergence.agrees,
        "runs": runs,
        "calls_compared": divergence.calls_compared,
        "first": roots[0] if roots else None,
        "roots": roots,
        "arms": dict(arms or {}),
        **told,
    }
