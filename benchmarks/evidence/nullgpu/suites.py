"""Samples by suite: torch's operator database, and calls that it does not make."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from benchmarks.evidence.calls import made_up
from benchmarks.evidence.extra import left_out
from benchmarks.evidence.made import SETS
from tests.support.samples import Sample, operator_database, samples_of

#: Samples of each entry by dtype: float32 tells most; integers, complex numbers and masks take other routes, and
#: attention has kernels for half the width alone.
COUNTS: Mapping[torch.dtype, int] = {
    torch.float32: 6,
    torch.int64: 3,
    torch.bfloat16: 2,
    torch.complex64: 1,
    torch.bool: 1,
}


def operators() -> Iterator[Sample]:
    """The operator database of the torch that runs, a bounded number of samples of each entry and dtype."""
    for op in operator_database():
        if "jiterator" in op.name:
            continue
        for dtype, count in COUNTS.items():
            if dtype not in op.supported_dtypes("cpu"):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    yield from samples_of(op, "cpu", dtype, count)
            except Exception:  # samples that this release cannot make without a device
                continue


#: Torch's own samples, what its database leaves out, and each set of calls made up.
SUITES: Mapping[str, Callable[[], Iterator[Sample]]] = {
    "opinfo": operators,
    "extra": partial(left_out, "cpu"),
    **{made.suite: partial(made_up, made) for made in SETS},
}


def suite_of(name: str) -> Iterator[Sample]:
    """The samples of a suite, tensors on the CPU."""
    return SUITES[name]()


def fingerprint(sample: Sample) -> str:
    """Four letters that stand for the sample's shapes, dtypes and other arguments."""

    def told(leaf: Any) -> str:
        if isinstance(leaf, torch.Tensor):
            strides = leaf.stride() if leaf.layout is torch.strided else ()
            return f"{tuple(leaf.shape)}{leaf.dtype}{leaf.layout}{strides}{leaf.requires_grad}"
        is_plain = isinstance(leaf, (bool, int, float, complex, str, type(None), torch.dtype))
        return repr(leaf) if is_plain else type(leaf).__name__

    leaves = pytree.tree_leaves((sample.args, sample.kwargs))
    names = sorted(sample.kwargs)
    return f"{zlib.crc32(' '.join((*names, *map(told, leaves))).encode()) & 0xFFFF:04x}"
