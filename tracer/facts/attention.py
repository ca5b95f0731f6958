"""Facts of attention: head sizes, and which kernels were switched off around the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.facts.argument_readers import Args, Kwargs, Reader, getters, of_arguments
from tracer.facts.fact import Makes, Services, Test, asked, marked

if TYPE_CHECKING:
    import torch


def _head(wrong: Callable[[int], bool]) -> Makes:
    """Attention: is some head size ``wrong``, the query's or the value's? A product is asked as if it were one."""

    def make(func: Any, services: Services) -> Reader | None:
        if getters(func, "self", "mat2") and not getters(func, "query", "value"):
            return _head_of_product(wrong)
        return of_arguments("query", "value")(lambda q, v: wrong(q.shape[-1]) or wrong(v.shape[-1]))(func, services)

    return make


def _head_of_product(wrong: Callable[[int], bool]) -> Test:
    """Is the head size of attention's product ``wrong``? Keys come transposed; their head is summed over. If neither
    factor is transposed, the head is one of two sizes; a transposed first factor is a gradient's."""

    def test(args: Args, kwargs: Kwargs) -> bool:
        first, second = args[0], args[1]
        if _is_turned(first):
            return False
        return wrong(second.shape[-2]) and (_is_turned(second) or wrong(second.shape[-1]))

    return test


def _is_turned(matrices: torch.Tensor) -> bool:
    return matrices.stride(-2) == 1 and matrices.stride(-1) != 1


@of_arguments("query", "key", "value")
def _shares_heads(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Attention: are there fewer heads of keys or of values than of queries (``enable_gqa=True``)?"""
    return not query.shape[-3:-2] == key.shape[-3:-2] == value.shape[-3:-2]


def _may_fuse(func: Any, services: Services) -> Reader | None:
    """``sdpa_kernel`` may have switched every fused backend off."""
    from torch.backends import cuda

    return lambda args, kwargs: any(
        (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled())
    )


def _is_efficient_off(func: Any, services: Services) -> Test | None:
    from torch.backends import cuda

    return lambda args, kwargs: not cuda.mem_efficient_sdp_enabled()


FACTS = (
    asked("sdp.fused", _may_fuse, "May it take a fused kernel, or is it restricted to SDPBackend.MATH?"),
    marked("sdp.head_not_of_4", _head(lambda size: size % 4 != 0), "Is the head size no multiple of 4?"),
    marked("sdp.head_not_of_8", _head(lambda size: size % 8 != 0), "Is the head size no multiple of 8?"),
    marked("sdp.head_gt_256", _head(lambda size: size > 256), "Is the head size above 256?"),
    marked(
        "sdp.shares_heads", _shares_heads, "Do several heads of queries share one of keys or of values (enable_gqa)?"
    ),
    marked("sdp.efficient_off", _is_efficient_off, "Was the memory-efficient kernel switched off around the call?"),
)
