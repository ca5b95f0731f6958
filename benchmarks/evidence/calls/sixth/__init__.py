"""A sixth set of calls made up to test the tables, after the rules had been mended by the fifth; see ``calls.last``.

What a user's own code calls, module by module and page by page of torch's documentation: layers with the gradients of
their parameters, losses in every reduction, indices of every kind, switches of deterministic mode set within a step.
Written down, and recorded, before anybody looked at what the tables say of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.evidence.calls.sixth import algebra, attended, habitual, indexed, layered, scored, stepped
from tests.support.samples import Sample, seed_everything


def made_up_sixth() -> Iterator[Sample]:
    """Every call, tensors on the CPU."""
    seed_everything(0)
    numbers: dict[str, int] = {}
    for module in (layered, scored, indexed, algebra, attended, stepped, habitual):
        for name, function, args in module.made():
            number = numbers[name] = numbers.get(name, -1) + 1
            yield Sample(name, number, str(args[0].dtype).removeprefix("torch."), function, args)
