"""All steps, in the order by which optimizers and regimes change."""

from __future__ import annotations

from benchmarks.evidence.models import (
    dense_steps,
    graph_steps,
    language_steps,
    loss_steps,
    network_steps,
    objective_steps,
    perception_steps,
    transformers_steps,
    vision_steps,
)
from benchmarks.evidence.models.step import Step

SOURCES = (
    *(transformers_steps, vision_steps, graph_steps, loss_steps),
    *(language_steps, perception_steps, network_steps, objective_steps),
    dense_steps,
)


def steps() -> list[Step]:
    """Every step; its place chooses how it trains."""
    return [step for source in SOURCES for step in source.steps()]
