"""Additions that certainly meet: work for tens of milliseconds, so that threads are cut off in the middle of it.

A tenth of this agreed in every second run on a machine of two cores. Half of it gave twenty different sums in twenty
runs there, on two cores as on one.
"""

from __future__ import annotations

import torch

#: Numbers that are added up.
MANY = 2_000_000


def additions(places: int = 100) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices that fall together, and what is added at them."""
    return torch.randint(0, places, (MANY,)), torch.randn(MANY)
