"""Calls made up to test the tables, by subject; each family says to which set it belongs (``evidence/made.py``).

Nobody looked at what a build does with a set before the tables were judged by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib import import_module

from benchmarks.evidence.calls.making import FAMILIES
from benchmarks.evidence.made import Made
from tests.support.samples import Sample, seed_everything

#: In the order in which their calls are made.
SUBJECTS = (
    "indexing",
    "embeddings",
    "layers",
    "images",
    "losses",
    "attention",
    "linear_algebra",
    "reductions",
    "sparse",
    "draws",
    "whole_steps",
    "transforms",
    "algorithms",
    "routes",
)
for subject in SUBJECTS:
    import_module(f"{__name__}.{subject}")


def made_up(as_part_of: Made) -> Iterator[Sample]:
    """Every call of a set, tensors on the CPU; a call of the same name as one before has the next number."""
    numbers: Counter[str] = Counter()
    for family in FAMILIES[as_part_of]:
        seed_everything(0)
        for name, function, args in family():
            yield Sample(name, numbers[name], str(args[0].dtype).removeprefix("torch."), function, args)
            numbers[name] += 1
