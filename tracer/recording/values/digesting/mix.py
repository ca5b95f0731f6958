"""The digest of a tensor that stays on its device: each word mixed with its position, and all of them summed.

A word is eight bytes of the elements in logical order, zeros after the last. A sum of integers is the same in every
order, so that neither threads nor blocks matter. This is the plain torch version; ``triton_mix`` is the same on a GPU
in one pass.
"""

from __future__ import annotations

from typing import Any

import torch

from tracer.recording.values.digesting.digests import address_of, digest_bytes, is_contiguous, is_lazy

_WORD = 8
_CHUNK = 1 << 20


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


#: Added once for each position (2**64 over the golden ratio), and the multipliers, all odd.
STRIDE = _signed(0x9E3779B97F4A7C15)
FIRST = _signed(0xBF58476D1CE4E5B9)
SECOND = _signed(0x94D049BB133111EB)
#: Bits that words are shifted by.
SHIFTS = (30, 27, 31)


def mixed_sum(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of a dense tensor's mixed words, as an int64 of no dimension on its device."""
    data = plain(tensor).view(torch.uint8)
    whole = data.numel() // _WORD * _WORD
    total = torch.zeros((), dtype=torch.int64, device=data.device)
    body = data[:whole].view(torch.int64) if whole else data[:0].to(torch.int64)
    for first in range(0, body.numel(), _CHUNK):
        total += _mix(body[first : first + _CHUNK], first)
    if whole < data.numel():
        tail = torch.zeros(_WORD, dtype=torch.uint8, device=data.device)
        tail[: data.numel() - whole] = data[whole:]
        total += _mix(tail.view(torch.int64), whole // _WORD)
    return total


def _mix(words: torch.Tensor, first: int) -> torch.Tensor:
    positions = torch.arange(first + 1, first + 1 + words.numel(), dtype=torch.int64, device=words.device)
    mixed = words + positions * STRIDE
    mixed = (mixed ^ _shifted(mixed, SHIFTS[0])) * FIRST
    mixed = (mixed ^ _shifted(mixed, SHIFTS[1])) * SECOND
    return (mixed ^ _shifted(mixed, SHIFTS[2])).sum()


def _shifted(words: torch.Tensor, by: int) -> torch.Tensor:
    """Shifted to the right, zeros coming in."""
    return (words >> by) & ((1 << (64 - by)) - 1)


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the elements lie in logical order where eight bytes can be read at a time, as they are."""
    return bool(is_contiguous(tensor) and not address_of(tensor) % _WORD and not is_lazy(tensor))


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of ``tensor`` in logical order, where eight bytes can be read at a time, in one row."""
    resolved = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    is_row = address_of(resolved) % _WORD == 0 and (not resolved.numel() or resolved.stride(0) == 1)
    return resolved if is_row else resolved.clone(memory_format=torch.contiguous_format)


def finished(total: int, seed: Any) -> int:
    """The digest from a sum, once that is on the host."""
    return digest_bytes((total & ((1 << 64) - 1)).to_bytes(8, "little"), seed)
