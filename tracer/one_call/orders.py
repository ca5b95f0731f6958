"""How far the order of additions could matter: kept data, added up in several random orders on the CPU.

An estimate. It speaks of the data of one recorded call of each group, and of orders drawn at random, which are not
those that a device takes; nothing here runs on the device.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from tracer.errors import UsageError
from tracer.findings import OrderSpread
from tracer.names import About
from tracer.one_call.choosing import calls_of
from tracer.one_call.given import given_by
from tracer.one_call.windows import adaptive_pool, average_pool, resampling
from tracer.report import Report
from tracer.trace.records import CallGroup
from tracer.trace.values import inputs_path

if TYPE_CHECKING:
    import torch

ORDERS = 16

#: Adds up in the order that a permutation gives; ``None`` where the call adds in no order.
Adding = Callable[["torch.Tensor"], "torch.Tensor"]


def order_spreads(report: Report, trace: str | os.PathLike[str]) -> tuple[OrderSpread, ...]:
    """The spread of each finding whose additions were kept, widest first.

    Raises ``UsageError`` in one line where no data were kept, or where they cannot be read.
    """
    source = inputs_path(trace)
    if not any(judged.group.inputs for judged in report.calls) or not source.is_file():
        raise UsageError(
            f"{os.fspath(trace)} holds no inputs to add up again", hint="record it with `tracer run --keep-inputs '*'`"
        )
    try:
        import torch
        from safetensors.torch import load_file

        held = load_file(source)
    except Exception as problem:  # safetensors raises errors of its own
        raise UsageError(f"cannot read {source}: {problem}", hint="it needs torch and safetensors") from problem
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so that the order is the one that was drawn
    try:
        found = list(_spreads(report, held))
    finally:
        torch.set_num_threads(threads)
    return tuple(sorted(found, key=lambda one: (-one.relative, -one.ulp, one.finding)))


def _spreads(report: Report, held: dict[str, Any]) -> Iterator[OrderSpread]:
    for place, finding in enumerate(report.findings):
        if finding.about is not About.CALL:
            continue
        groups = [group for group in calls_of(report, finding) if group.inputs]
        known = [adding for group in groups if (adding := _adding(group, held)) is not None]
        if not known:
            continue
        spreads = [_spread(*adding) for adding in known]
        yield OrderSpread(
            finding=place,
            op=finding.op,
            location=finding.location,
            calls=len(known),
            orders=ORDERS,
            ulp=max(ulp for ulp, _ in spreads),
            relative=max(relative for _, relative in spreads),
        )


def _spread(count: int, add: Adding) -> tuple[int, float]:
    """Over all orders: the widest gap of one element in steps of its last place, and relative to the largest one."""
    import torch

    generator = torch.Generator().manual_seed(0)
    results = torch.stack([add(torch.randperm(count, generator=generator)) for _ in range(ORDERS)])
    low, high = results.amin(0), results.amax(0)
    finite = torch.isfinite(low) & torch.isfinite(high)
    if not finite.any():
        return 0, 0.0
    low, high = low[finite], high[finite]
    largest = torch.maximum(low.abs(), high.abs()).max().double().item()
    gap = (high.double() - low.double()).max().item()
    ulp = int((_in_order(high) - _in_order(low)).max().item())
    return ulp, gap / largest if largest else 0.0


def _in_order(tensor: Any) -> Any:
    """Floats as whole numbers that count them: neighbours differ by one."""
    import torch

    size = tensor.element_size()
    whole = tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[size]).to(torch.int64)
    return torch.where(whole < 0, -(1 << (8 * size - 1)) - whole, whole).double()


def _adding(group: CallGroup, held: dict[str, Any]) -> tuple[int, Adding] | None:
    """How many things a call adds, and what adds them in a given order."""
    try:
        given = given_by(group.arguments)
    except ValueError:
        return None
    for name, value in given.items():
        if isinstance(value, list):
            tensors = [held.get(f"{group.inputs}/{name}.{place}") for place in range(len(value))]
            given[name] = value if all(one is None for one in tensors) else tensors  # else sizes, and the like
        elif (kept := held.get(f"{group.inputs}/{name}")) is not None:
            given[name] = kept
    maker = _MAKERS.get(group.op.split(".")[1].removesuffix("_"))
    if maker is None:
        return None
    try:
        made = maker(given)
        return made if made is not None and made[0] > 1 and _is_float(made[1]) else None
    except (AttributeError, KeyError, IndexError, TypeError, RuntimeError):  # a call of another shape
        return None


def _is_float(add: Adding) -> bool:
    import torch

    return add(torch.arange(2)).dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _index_add(given: dict[str, Any]) -> tuple[int, Adding]:
    into, dim, index, source = given["self"], given["dim"], given["index"], given["source"]

    def add(order: Any) -> Any:
        return into.index_add(dim, index[order], source.index_select(dim, order), alpha=given.get("alpha", 1))

    return index.numel(), add


def _scatter_add(given: dict[str, Any]) -> tuple[int, Adding] | None:
    into, dim, index = given["self"], given["dim"], given["index"]
    source = given["src"][tuple(slice(size) for size in index.shape)]
    reduce = given.get("reduce", "sum")
    if reduce not in ("sum", "mean", "prod") or not index.dim():
        return None
    more = given.get("include_self", True)

    def add(order: Any) -> Any:
        shuffled = index.index_select(dim, order), source.index_select(dim, order)
        return into.scatter_reduce(dim, *shuffled, reduce=reduce, include_self=more)

    return index.shape[dim], add


def _index_put(given: dict[str, Any]) -> tuple[int, Adding] | None:
    import torch

    into, indices, values = given["self"], given["indices"], given["values"]
    if not given.get("accumulate", False) or any(one is None or one.dtype is torch.bool for one in indices):
        return None
    shape = torch.broadcast_shapes(*(one.shape for one in indices))
    rest = into.shape[len(indices) :]
    flat = [one.expand(shape).reshape(-1) for one in indices]
    rows = values.expand(*shape, *rest).reshape(-1, *rest)
    return flat[0].numel(), lambda order: into.index_put([one[order] for one in flat], rows[order], accumulate=True)


def _put(given: dict[str, Any]) -> tuple[int, Adding] | None:
    into, index, source = given["self"], given["index"].reshape(-1), given["source"].reshape(-1)
    if not given.get("accumulate", False):
        return None
    return index.numel(), lambda order: into.put(index[order], source[order], accumulate=True)


def _embedding(given: dict[str, Any]) -> tuple[int, Adding] | None:
    gradient, indices = given["grad_output"], given["indices"].reshape(-1)
    rows = gradient.reshape(-1, gradient.shape[-1])
    if given.get("scale_grad_by_freq", False):
        return None
    stays = indices != given.get("padding_idx", -1)
    rows, indices = rows[stays], indices[stays]
    weights = rows.new_zeros(given["num_weights"], rows.shape[-1])
    return indices.numel(), lambda order: weights.index_add(0, indices[order], rows[order])


def _max_pool(given: dict[str, Any], spatial: int) -> tuple[int, Adding]:
    """Gradients of windows that overlap meet at the element that was the largest of several."""
    gradient, pooled, places = given["grad_output"], given["self"], given["indices"]
    index = places.flatten(-spatial).flatten(0, -2)
    source = gradient.flatten(-spatial).flatten(0, -2)
    plane = pooled.new_zeros(index.shape[0], pooled.shape[-spatial:].numel())

    def add(order: Any) -> Any:
        return plane.scatter_add(1, index[:, order], source[:, order]).reshape(pooled.shape)

    return index.shape[1], add


#: Where the backward of a resampling says by how much it was told to scale.
_SCALES = ("scales_d", "scales_h", "scales_w")
_MAKERS: dict[str, Callable[[dict[str, Any]], tuple[int, Adding] | None]] = {
    "index_add": _index_add,
    "scatter_add": _scatter_add,
    "scatter_reduce": _scatter_add,
    "index_put": _index_put,
    "_index_put_impl": _index_put,
    "_unsafe_index_put": _index_put,
    "put": _put,
    "embedding_dense_backward": _embedding,
    "max_pool3d_with_indices_backward": partial(_max_pool, spatial=3),  # in two dimensions nothing is added
    "adaptive_max_pool2d_backward": partial(_max_pool, spatial=2),
    "adaptive_max_pool3d_backward": partial(_max_pool, spatial=3),
    "fractional_max_pool2d_backward": partial(_max_pool, spatial=2),
    "fractional_max_pool3d_backward": partial(_max_pool, spatial=3),
    "avg_pool2d_backward": partial(average_pool, spatial=2),
    "avg_pool3d_backward": partial(average_pool, spatial=3),
    "_adaptive_avg_pool2d_backward": partial(adaptive_pool, spatial=2),
    "_adaptive_avg_pool3d_backward": partial(adaptive_pool, spatial=3),
    "upsample_linear1d_backward": partial(resampling, forward="upsample_linear1d", scales=("scales",)),
    "upsample_bilinear2d_backward": partial(resampling, forward="upsample_linear1d", scales=_SCALES[1:]),
    "upsample_trilinear3d_backward": partial(resampling, forward="upsample_linear1d", scales=_SCALES),
    "upsample_bicubic2d_backward": partial(resampling, forward="upsample_bicubic2d", scales=_SCALES[1:]),
    "_upsample_bilinear2d_aa_backward": partial(resampling, forward="_upsample_bilinear2d_aa", scales=_SCALES[1:]),
    "_upsample_bicubic2d_aa_backward": partial(resampling, forward="_upsample_bicubic2d_aa", scales=_SCALES[1:]),
}
