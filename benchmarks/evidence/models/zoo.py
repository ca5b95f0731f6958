"""All steps, in the order by which optimizers and regimes change."""

from __future__ import annotations

from benchmarks.evidence.models import graph_steps, loss_steps, transformers_steps, vision_steps
from benchmarks.evidence.models.step import Step


def steps() -> list[Step]:
    """Every step; its place chooses how it trains."""
    return [step for source in (transformers_steps, vision_steps, graph_steps, loss_steps) for step in source.steps()]
