"""Facts of attention: head sizes, and which kernels were disabled around the call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.facts.argument_readers import Args, Kwargs, Reader, getters, of_arguments
from tracer.facts.fact import Makes, Services, Test, asked, marked

if TYPE_CHECKING:
    import torch


class _Product(threading.local):
    """Sizes of the thread's last batched matrix product."""

    rows = head = columns = -1


_LAST = _Product()


def _note_product(args: Args, kwargs: Kwargs) -> bool:
    first, second = args[0].shape, args[1].shape
    _LAST.rows, _LAST.head, _LAST.columns = first[-2], first[-1], second[-1]
    return False


def _head(wrong: Callable[[int], bool], *, notes: bool = False) -> Makes:
    """Attention: whether the query's or value's head size is ``wrong``. The softmax of the math path is judged by the
    matrix product before it, which computed the scores. ``notes``: store these products."""

    def make(func: Any, services: Services) -> Reader | None:
        if getters(func, "query", "value"):
            return of_arguments("query", "value")(lambda q, v: wrong(q.shape[-1]) or wrong(v.shape[-1]))(func, services)
        if getters(func, "self", "mat2"):
            return _note_product if notes else None
        return of_arguments("self")(lambda scores: _is_last_product(scores) and wrong(_LAST.head))(func, services)

    return make


def _is_last_product(scores: torch.Tensor) -> bool:
    """Return whether the last stored product computed ``scores``."""
    return scores.shape[-2:] == (_LAST.rows, _LAST.columns)


def _may_fuse(func: Any, services: Services) -> Reader | None:
    """``sdpa_kernel`` may have disabled every fused backend."""
    from torch.backends import cuda

    return lambda args, kwargs: any(
        (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled())
    )


def _is_efficient_off(func: Any, services: Services) -> Test | None:
    from torch.backends import cuda

    return lambda args, kwargs: not cuda.mem_efficient_sdp_enabled()


FACTS = (
    asked("sdp.fused", _may_fuse, "May it take a fused kernel, or is it restricted to SDPBackend.MATH?"),
    marked("sdp.head_not_of_4", _head(lambda size: size % 4 != 0), "Is the head size not a multiple of 4?"),
    marked("sdp.head_not_of_8", _head(lambda size: size % 8 != 0, notes=True), "Is the head size not a multiple of 8?"),
    marked("sdp.head_gt_256", _head(lambda size: size > 256), "Is the head size above 256?"),
    marked(
        "sdp.shares_heads",
        of_arguments("query", "key", "value")(
            lambda query, key, value: not query.shape[-3:-2] == key.shape[-3:-2] == value.shape[-3:-2]
        ),
        "Do several query heads share one head of keys or values (enable_gqa)?",
    ),
    marked("sdp.efficient_off", _is_efficient_off, "Was the memory-efficient kernel disabled around the call?"),
)
