"""Exact comparison: the bytes of a tensor, beside everything that a reader of it can tell, and the random streams."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def bits(tensor: torch.Tensor | None) -> Any:
    """A value that two tensors share only if no reader could tell them apart; NaN equals itself."""
    if tensor is None:
        return None
    tensor = tensor.detach()
    if tensor.layout is torch.strided:
        # resolving a lazy negation or conjugation changes no value
        plain = tensor.resolve_conj().resolve_neg()
        if plain.is_quantized:
            plain = plain.int_repr()
        written = torch.empty(plain.shape, dtype=plain.dtype).copy_(plain)
        return (*shape_of(tensor), written.flatten().view(torch.uint8).numpy().tobytes())
    return (*shape_of(tensor), *(bits(part) for part in _parts(tensor)))


def shape_of(tensor: torch.Tensor | None) -> Any:
    """All but the bytes."""
    if tensor is None:
        return None
    strides = tensor.stride() if tensor.layout is torch.strided else ()
    return (str(tensor.dtype), str(tensor.layout), str(tensor.device), tuple(tensor.shape), strides)


def _parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor.to_dense(),)


def seed_everything(seed: int) -> None:
    """Seed torch's, Python's and NumPy's generators."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def random_state() -> Any:
    """Where torch's, Python's and NumPy's generators stand."""
    kind, keys, *rest = np.random.get_state()
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), (kind, keys.tobytes(), *rest)
