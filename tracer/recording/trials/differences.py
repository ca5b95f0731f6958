"""How far two results lie apart: in units of the last place, and as a part of the larger number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

_BITS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}
_MOST = 2**62


class Apart(NamedTuple):
    """The largest difference between two results."""

    ulp: int = 0
    relative: float = 0.0


def apart(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> Apart:
    """Of all floating-point numbers in ``one`` and ``other``; what is no such number is passed over."""
    found = [_of(left, right) for left, right in zip(one, other, strict=False) if left.shape == right.shape]
    return Apart(max((each.ulp for each in found), default=0), max((each.relative for each in found), default=0.0))


def _of(one: torch.Tensor, other: torch.Tensor) -> Apart:
    if one.dtype is not other.dtype or one.layout is not torch.strided or other.layout is not torch.strided:
        return Apart()
    if one.is_complex():
        one, other = torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj())
    kind = _BITS.get(one.dtype)
    if kind is None or not one.numel():
        return Apart()
    left, right = one.resolve_neg().reshape(-1), other.resolve_neg().reshape(-1)
    differs = left.view(kind) != right.view(kind)
    left, right = left[differs], right[differs]
    if not left.numel():
        return Apart()
    is_number = left.isfinite() & right.isfinite()
    lost = not bool(is_number.all())
    left, right = left[is_number], right[is_number]
    if not left.numel():
        return Apart(0, 1.0)
    places = _places_between(left.view(kind), right.view(kind))
    wide_left, wide_right = left.double(), right.double()
    largest = torch.maximum(wide_left.abs(), wide_right.abs()).clamp_min(5e-324)
    relative = float(((wide_left / largest) - (wide_right / largest)).abs().max())
    return Apart(min(_MOST, int(places.max())), 1.0 if lost else min(1.0, relative))


def _places_between(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """How many representable numbers lie between each two, from their bits."""
    mask = torch.iinfo(one.dtype).max
    near, far = ((bits & mask).to(torch.int64) for bits in (one, other))
    # On two sides of zero the ways to it add up; halves of the widest would not fit otherwise.
    return torch.where(
        (one < 0) == (other < 0), (near - far).abs(), near.clamp_max(_MOST // 2) + far.clamp_max(_MOST // 2)
    )
