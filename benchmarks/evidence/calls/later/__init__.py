"""A second set of calls made up to test the tables, written after the rules had been mended by the first.

Nobody looked at a rule, or at what a build does, while writing them. How the tables did on them at first sight stands
in the documentation's page on CUDA builds; since then rules were mended by them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.evidence.calls.later import images, indices, programs
from tests.support.samples import Sample, seed_everything

Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made_up_later() -> Iterator[Sample]:
    """Every call, tensors on the CPU."""
    seed_everything(0)
    numbers: dict[str, int] = {}
    for name, function, args in (*images.made(), *indices.made(), *programs.made()):
        number = numbers[name] = numbers.get(name, -1) + 1
        yield Sample(name, number, str(args[0].dtype).removeprefix("torch."), function, args)
