"""Ops whose result has a shape that hangs on values: its shape on fake tensors. Checked on torch 2.13.0.

What the rules return on the meta device stands for a fake tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

_ATEN = torch.ops.aten

Tensors = torch.Tensor | tuple[torch.Tensor, ...]
Values = Callable[[torch.Tensor], torch.Tensor | None]
"""A real tensor with the values of a fake one; ``None`` if they are not known, and a stand-in is taken."""


def _sized(shape: Iterable[int], dtype: torch.dtype = torch.long) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _nonzero(values: Values, tensor: torch.Tensor) -> Tensors:
    values(tensor)
    return _sized((tensor.numel(), tensor.dim()))


def _unique(values: Values, tensor: torch.Tensor, *_: object, **__: object) -> Tensors:
    return _distinct(values, tensor, None)


def _unique_consecutive(
    values: Values,
    tensor: torch.Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensors:
    return _distinct(values, tensor, dim)


def _unique_dim(values: Values, tensor: torch.Tensor, dim: int, *_: object, **__: object) -> Tensors:
    return _distinct(values, tensor, dim)


def _distinct(values: Values, tensor: torch.Tensor, dim: int | None) -> Tensors:
    """Values, the position of each element among them, and how often each occurs."""
    values(tensor)
    shape = (tensor.numel(),) if dim is None else tensor.shape
    counts = _sized((shape[dim or 0],))
    return _sized(shape, tensor.dtype), _sized(tensor.shape) if dim is None else counts, counts


def _repeat_interleave(values: Values, repeats: torch.Tensor, *, output_size: int | None = None) -> Tensors:
    if output_size is None:
        values(repeats)
    return _sized((repeats.numel() if output_size is None else output_size,), repeats.dtype)


def _bincount(values: Values, tensor: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> Tensors:
    real = values(tensor)
    largest = (1 if real is None else int(real.max())) if tensor.numel() else -1
    dtype = torch.long if weights is None else torch.float if weights.dtype is torch.float else torch.double
    return _sized((max(minlength, largest + 1),), dtype)


def _masked_select(values: Values, tensor: torch.Tensor, mask: torch.Tensor) -> Tensors:
    shape, real = torch.broadcast_shapes(tensor.shape, mask.shape), values(mask)
    return _sized((shape.numel() if real is None else int(real.expand(shape).sum()),), tensor.dtype)


def _packed(values: Values, data: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Tensors:
    """The batch sizes are a real tensor: recurrent layers read them in C++."""
    batch, longest = (data.shape[0], data.shape[1]) if batch_first else (data.shape[1], data.shape[0])
    real = values(lengths)
    steps = [longest] * batch if real is None else real.tolist()
    sizes = torch.tensor([sum(step > at for step in steps) for at in range(max(steps, default=0))])
    return _sized((sum(steps), *data.shape[2:]), data.dtype), sizes


def _ctc_loss(
    values: Values, scores: torch.Tensor, targets: torch.Tensor, _: Any, lengths: Any, *__: object, **___: object
) -> Tensors:
    """The loss, and alignments as long as the longest target."""
    steps, batch = scores.shape[0], scores.shape[1] if scores.dim() == 3 else 1
    real = values(lengths) if isinstance(lengths, torch.Tensor) else torch.tensor(lengths)
    longest = targets.shape[-1] if targets.dim() > 1 else targets.numel() // max(batch, 1)
    if real is not None and real.numel():
        longest = int(real.max())
    return _sized((batch,), scores.dtype), _sized((batch, steps, 2 * longest + 1), scores.dtype)


#: By overload: its result. Where values are not known, every element is selected, differs from all others, and is 1;
#: lengths are as long as can be.
UNSIZED: dict[Any, Callable[..., Tensors]] = {
    _ATEN.nonzero.default: _nonzero,
    _ATEN._unique2.default: _unique,
    _ATEN.unique_consecutive.default: _unique_consecutive,
    _ATEN.unique_dim.default: _unique_dim,
    _ATEN.unique_dim_consecutive.default: _unique_dim,
    _ATEN.repeat_interleave.Tensor: _repeat_interleave,
    _ATEN.bincount.default: _bincount,
    _ATEN.masked_select.default: _masked_select,
    _ATEN._pack_padded_sequence.default: _packed,
    _ATEN._ctc_loss.default: _ctc_loss,
    _ATEN._ctc_loss.Tensor: _ctc_loss,
}


def positions(values: Values, index: Any) -> tuple[Any, ...]:
    """An index; in place of a mask the positions that it selects."""
    if not isinstance(index, torch.Tensor) or index.dtype not in (torch.bool, torch.uint8):
        return (index,)
    mask = values(index)
    if mask is None:
        return tuple(_sized((index.numel(),)) for _ in range(index.dim()))
    return mask.nonzero(as_tuple=True)
