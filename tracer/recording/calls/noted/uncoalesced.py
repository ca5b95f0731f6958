"""Does a dense tensor meet a sparse one that may hold several entries for one place? Takes constant time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tracer.recording.calls.arguments import MISSING, Reader, argument_getter
from tracer.recording.storage.indices import Indices
from tracer.recording.torch_private import seams


def meets_uncoalesced(func: Any, indices: Indices) -> Reader | None:
    """A reader of ``operands.uncoalesced``: adding a sparse tensor onto a dense one, pair by pair where lists are
    added, or making it dense, which adds it onto zeros; ``None`` where ``func`` does neither.

    A tensor made from the indices of one whose entries were brought together does not say that its own are, as in
    ``torch.optim.SparseAdam``: what the step did to make them is known.
    """
    others = argument_getter(func, "other")
    if argument_getter(func, "self") is None or (others is None and "to_dense" not in str(func)):
        return None

    def may_share(sparse: Any) -> bool:
        return _is_sparse(sparse) and not seams.is_coalesced(sparse) and not _is_distinct(sparse, indices)

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if others is None:
            return True if may_share(args[0]) else MISSING
        onto, other = args[0], others(args, kwargs)
        if isinstance(other, torch.Tensor):
            return True if not _is_sparse(onto) and may_share(other) else MISSING
        if not isinstance(other, (list, tuple)):
            return MISSING
        pairs = zip(onto, other, strict=False)
        return True if any(not _is_sparse(one) and may_share(added) for one, added in pairs) else MISSING

    return read


def _is_sparse(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_sparse


def _is_distinct(sparse: torch.Tensor, indices: Indices) -> bool:
    """Along one sparse dimension a row of distinct numbers names each place once."""
    return bool(indices.live) and sparse.sparse_dim() == 1 and indices.distinct_along(seams.indices_of(sparse), 1)
