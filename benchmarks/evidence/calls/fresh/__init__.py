"""A fourth set of calls made up to test the tables, after the rules had been mended by the third.

By reach rather than by rule: ops called below the public API, in place, into given results and by lists; dtypes and
layouts that are seldom used; whole algorithms. Scored once before anything else was done; how the tables did at first
sight stands in the documentation's page on CUDA builds.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.evidence.calls.fresh import computed, drawn, learnt, pictured, programmed, shaped, written
from tests.support.samples import Sample, seed_everything


def made_up_fresh() -> Iterator[Sample]:
    """Every call, tensors on the CPU."""
    seed_everything(0)
    numbers: dict[str, int] = {}
    for name, function, args in (
        *written.made(),
        *shaped.made(),
        *computed.made(),
        *learnt.made(),
        *drawn.made(),
        *programmed.made(),
        *pictured.made(),
    ):
        number = numbers[name] = numbers.get(name, -1) + 1
        yield Sample(name, number, str(args[0].dtype).removeprefix("torch."), function, args)
