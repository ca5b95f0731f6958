"""All steps, in the order by which optimizers and regimes change. Their modules lie in ``whole_steps.tar.xz``."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from benchmarks.evidence import models
from benchmarks.evidence.archives import add_modules
from benchmarks.evidence.models.step import Step

SOURCES = (
    *("transformers", "vision", "graph", "loss"),
    *("language", "perception", "network", "objective"),
    "dense",
)


@cache
def steps() -> tuple[Step, ...]:
    """Every step; its place chooses how it trains."""
    add_modules("whole_steps", models)
    sources = [import_module(f"{models.__name__}.{source}_steps") for source in SOURCES]
    return tuple(step for source in sources for step in source.steps())
