"""Calls made up to test the tables, written after the rules were: parameters that torch's operator database lacks.

Nobody looked at what a build does with them before the tables were judged by them. Whoever mends a rule because of one
writes new ones, so that the figures go on meaning something.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.evidence.calls import layers, tensor_calls, training
from tests.support.samples import Sample, seed_everything


def made_up() -> Iterator[Sample]:
    """Every call, tensors on the CPU."""
    seed_everything(0)
    yield from layers.samples()
    yield from tensor_calls.samples()
    yield from training.samples()
