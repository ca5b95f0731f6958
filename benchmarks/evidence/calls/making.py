"""What calls made up are made with: whose set they are, and the tensors and layers that many of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from benchmarks.evidence.made import Made

#: A call's name, its function and its tensors.
Call = tuple[str, Callable[..., Any], tuple[Any, ...]]
Calls = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]
#: Calls of one kind that belong to one set.
Family = Callable[[], Iterator[Call]]
FAMILIES: dict[Made, list[Family]] = {}
ATEN = torch.ops.aten
HALVES = (("half", torch.float16), ("bfloat16", torch.bfloat16))
KINDS = (
    ("", torch.float32),
    ("half", torch.float16),
    ("bfloat16", torch.bfloat16),
    ("double", torch.float64),
    ("complex", torch.complex64),
    ("int64", torch.int64),
    ("int32", torch.int32),
    ("bool", torch.bool),
)


def made(as_part_of: Made) -> Callable[[Family], Family]:
    """Says of a family to which set it belongs."""

    def note(family: Family) -> Family:
        FAMILIES.setdefault(as_part_of, []).append(family)
        return family

    return note


def leaf(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers that ask for a gradient."""
    return torch.randn(size).to(dtype).requires_grad_()


def built(make: Callable[[], Any]) -> Callable[..., Any]:
    """A layer made where its first tensor is, then called."""

    def call(x: torch.Tensor, *others: Any) -> Any:
        torch.manual_seed(0)
        return make().to(x.device, x.dtype)(x, *others)

    return call


def nhwc(x: torch.Tensor) -> torch.Tensor:
    kind = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
    return x.contiguous(memory_format=kind)


def trained(make: Callable[[], nn.Module]) -> Callable[..., Any]:
    """A function that makes the layer, runs it and asks for the gradients of its parameters."""

    def run(x: torch.Tensor, *others: Any) -> Any:
        layer = make().to(x.device)
        if x.is_floating_point() or x.is_complex():
            layer = layer.to(x.dtype)
        out = layer(x, *others)
        first = out[0] if isinstance(out, tuple) else out
        of_parameters = [one for one in layer.parameters() if one.requires_grad]
        if of_parameters:
            torch.autograd.grad(first.abs().sum(), of_parameters, retain_graph=True, allow_unused=True)
        return first

    return run


def of_kind(kind: torch.dtype, *size: int) -> torch.Tensor:
    x = torch.randn(size).mul(3).to(kind)
    return x.requires_grad_() if x.is_floating_point() or x.is_complex() else x
