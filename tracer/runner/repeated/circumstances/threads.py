"""One thread for what torch computes on the CPU, in a process that runs already."""

from __future__ import annotations

from tracer.runner.repeated.circumstances.replacing import Replacements


def compute_with_one(replaced: Replacements) -> None:
    """Have torch compute with one thread."""
    import torch

    number = torch.get_num_threads()
    torch.set_num_threads(1)
    replaced.then(lambda: torch.set_num_threads(number))
