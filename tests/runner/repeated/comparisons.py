"""Comparisons made by hand, for what is said of several of them."""

from __future__ import annotations

from typing import Any

from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.model import Divergence, Root
from tracer.divergence.repeated import UNVARIED, Repeated, Run, outcomes, with_arms
from tracer.names import Phase
from tracer.runner.repeated.declared import Circumstance

CHANGED = {UNVARIED: "nothing", **{one.value: one.varied.words for one in Circumstance if one.varied is not None}}


def root(line: int = 41, cause: RootCause = RootCause.KERNEL, **fields: Any) -> Root:
    """A root in step 3, forward, of an ``index_put_``."""
    given: dict[str, Any] = {
        "cause": cause,
        "step": 3,
        "call": line,
        "op": "aten.index_put_.default",
        "phase": Phase.FORWARD,
        "module": "net.table",
        "location": f"train.py:{line}",
        "function": "forward",
        "shows": Shows.KERNEL,
        "why": Shows.KERNEL.says,
        "other_call": line,
    }
    return Root(**given | fields)


def divergence(*roots: Root, calls: int = 120, **fields: Any) -> Divergence:
    """A comparison of ``calls`` calls with ``roots``."""
    given: dict[str, Any] = {"follows": calls - 42 if roots else 0, "names": ("run-1", "run-2")}
    return Divergence(agrees=not roots, calls_compared=calls, calls=(calls, calls), roots=roots, **given | fields)


def repeated(unvaried: Divergence, arms: dict[str, Divergence] | None = None, **fields: Any) -> Repeated:
    """Two runs, and one more for each of ``arms``."""
    compared = {UNVARIED: [unvaried], **{arm: [one] for arm, one in (arms or {}).items()}}
    roots = with_arms(compared)
    shown = next((one for several in compared.values() for one in several if not one.agrees), unvaried)
    given: dict[str, Any] = {
        "name": "train.py",
        "runs": (Run(name="run 1", file="run-1.json"), Run(name="run 2", file="run-2.json")),
        "divergence": shown,
        "roots": roots,
        "arms": outcomes(compared, roots, CHANGED, {}),
    }
    return Repeated(**given | fields)
