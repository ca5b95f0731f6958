"""A third set of calls made up to test the tables, by someone who read neither them nor what a build does.

Written after the rules had been mended by the second set, and scored once before anything else was done. How the
tables did on them at first sight stands in the documentation's page on CUDA builds.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.evidence.calls.unseen import layered, lossy, modelled, placed, reduced
from tests.support.samples import Sample, seed_everything


def made_up_unseen() -> Iterator[Sample]:
    """Every call, tensors on the CPU."""
    seed_everything(0)
    numbers: dict[str, int] = {}
    for name, function, args in (*layered.made(), *placed.made(), *reduced.made(), *lossy.made(), *modelled.made()):
        number = numbers[name] = numbers.get(name, -1) + 1
        yield Sample(name, number, str(args[0].dtype).removeprefix("torch."), function, args)
