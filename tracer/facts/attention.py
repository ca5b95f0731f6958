"""Facts of attention: head sizes, and which kernels were switched off around the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tracer.facts.arguments import Reader, getters
from tracer.facts.fact import BOOL, Fact, Kind, Services, Test

if TYPE_CHECKING:
    import torch

_WIDEST_HEAD = 256


def _head(wrong: Callable[[int], bool]) -> Callable[[Any, Services], Test | None]:
    """Attention: is some head size ``wrong``, the query's or the value's? A product is asked as if it were one."""

    def make(func: Any, services: Services) -> Test | None:
        known = getters(func, "query", "value")
        if known is None:
            return _head_of_product(wrong) if getters(func, "self", "mat2") else None
        query, value = known
        return lambda args, kwargs: wrong(query(args, kwargs).shape[-1]) or wrong(value(args, kwargs).shape[-1])

    return make


def _head_of_product(wrong: Callable[[int], bool]) -> Test:
    """Is the head size of attention's product ``wrong``? Keys come turned, and what is summed over is their head.

    Where neither factor is turned, the head is one of two sizes; a first factor that is turned is a gradient's.
    """

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        one, other = args[0], args[1]
        if _is_turned(one):
            return False
        return wrong(other.shape[-2]) and (_is_turned(other) or wrong(other.shape[-1]))

    return test


def _is_turned(matrices: torch.Tensor) -> bool:
    return matrices.stride(-2) == 1 and matrices.stride(-1) != 1


def _shares_heads(func: Any, services: Services) -> Test | None:
    """Attention: are there fewer heads of keys or of values than of queries (``enable_gqa=True``)?"""
    known = getters(func, "query", "key", "value")
    if known is None:
        return None

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        heads = [read(args, kwargs).shape[-3:-2] for read in known]
        return not heads[0] == heads[1] == heads[2]

    return test


def _may_fuse(func: Any, services: Services) -> Reader | None:
    """``sdpa_kernel`` may have switched every fused backend off."""
    from torch.backends import cuda

    return lambda args, kwargs: any(
        (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled())
    )


def _is_efficient_off(func: Any, services: Services) -> Test | None:
    from torch.backends import cuda

    return lambda args, kwargs: not cuda.mem_efficient_sdp_enabled()


def _marked(name: str, about: str, read: Callable[[Any, Services], Test | None]) -> Fact:
    return Fact(f"sdp.{name}", BOOL, Kind.MARKED, about, read)


FACTS = (
    Fact(
        "sdp.fused", BOOL, Kind.ASKED, "May it take a fused kernel, or is it restricted to SDPBackend.MATH?", _may_fuse
    ),
    _marked("head_not_of_4", "Is the head size no multiple of 4?", _head(lambda size: size % 4 != 0)),
    _marked("head_not_of_8", "Is the head size no multiple of 8?", _head(lambda size: size % 8 != 0)),
    _marked("head_gt_256", "Is the head size above 256?", _head(lambda size: size > _WIDEST_HEAD)),
    _marked("shares_heads", "Do several heads of queries share one of keys or of values (enable_gqa)?", _shares_heads),
    _marked("efficient_off", "Was the memory-efficient kernel switched off around the call?", _is_efficient_off),
)
