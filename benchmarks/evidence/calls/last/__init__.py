"""A fifth set of calls made up to test the tables, after the rules had been mended by the fourth; see ``calls.fresh``.

Smaller than the others, and of what they have least of: the public functions in the shapes, dtypes and switches in
which training scripts call them, written down without a look at a rule or at a result.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.evidence.calls.last import routed, scripted
from tests.support.samples import Sample, seed_everything


def made_up_last() -> Iterator[Sample]:
    """Every call, tensors on the CPU."""
    seed_everything(0)
    numbers: dict[str, int] = {}
    for name, function, args in (*routed.made(), *scripted.made()):
        number = numbers[name] = numbers.get(name, -1) + 1
        yield Sample(name, number, str(args[0].dtype).removeprefix("torch."), function, args)
