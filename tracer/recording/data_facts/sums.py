"""Which sums come out alike in whichever order they are added: of two onto zero, and of small whole numbers."""

from __future__ import annotations

import torch

#: Whole numbers up to 2 to this power are exact, and so is every sum of them that stays below it.
_EXACT_BITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def are_zeros(target: torch.Tensor) -> bool:
    """Is nothing there yet?"""
    return not bool(target.any())


def holds_nan(added: torch.Tensor) -> bool:
    """Is a NaN among them? Of two that meet, the first one's payload stays."""
    return bool(added.isnan().any())


def add_exactly(target: torch.Tensor | None, added: torch.Tensor, most: int, factor: float = 1) -> bool:
    """Is every sum of ``target`` and at most ``most`` of ``added``, times ``factor``, exact? ``None``: onto zeros."""
    bits = _EXACT_BITS.get(added.dtype)
    if bits is None or factor != int(factor) or not added.numel():
        return bits is not None and not added.numel()
    reach = _largest_whole(added)
    onto = 0.0 if target is None or not target.numel() else _largest_whole(target)
    return bool(most * reach * abs(factor) + onto <= 2**bits)


def _largest_whole(numbers: torch.Tensor) -> float:
    """The largest absolute value; infinite where one is no whole number."""
    largest = float(numbers.abs().max())  # NaN and infinity come through
    if largest != largest or not bool((numbers == numbers.round()).all()):
        return float("inf")
    return largest
