"""Facts of convolutions and of attention: which kernel torch chooses, or was kept from choosing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tracer.facts import (
    Args,
    ArgumentReader,
    Kwargs,
    Makes,
    Services,
    Test,
    argument_getter,
    asked_fact,
    getters,
    marked,
    noted_fact,
    of_arguments,
)

if TYPE_CHECKING:
    import torch

#: Fewest channels of a contiguous depthwise convolution in half precision that cuDNN takes, and fewest for a batch with
#: stride 2.
_CUDNN_CHANNELS, _CUDNN_CHANNELS_OF_STRIDE_2 = 32, 256
_CUDNN_FILTERS, _CUDNN_WIDTH = (1, 3, 5), 7
#: Most elements that torch's own depthwise kernel indexes, with 32 bits.
_LARGEST = 2**31 - 1


@of_arguments("input", "weight", "dilation", "transposed", "groups")
def _leaves_cudnn(
    image: torch.Tensor, weight: torch.Tensor, spread: Sequence[int], is_transposed: bool, groups: int
) -> bool:
    """Dilated, not depthwise (which has its own kernel), not channels-last (which stays on cuDNN)."""
    if all(step == 1 for step in spread) or _is_depthwise(image, groups, is_transposed) or image.numel() == 0:
        return False
    return not _keeps_channels_last(image, weight)


def _is_depthwise(image: torch.Tensor, groups: int, turned: bool) -> bool:
    return not turned and groups > 1 and groups == image.shape[1]


@of_arguments("input", "weight", "stride", "dilation", "groups", "transposed?")
def _own_depthwise(
    image: torch.Tensor,
    weight: torch.Tensor,
    steps: Sequence[int],
    spread: Sequence[int],
    groups: int,
    is_transposed: bool | None,
) -> bool:
    """Left to cuDNN are the channels-last layout and, in half precision, what ``_may_take_half`` says. In one dimension
    torch makes the input contiguous first."""
    if not _is_depthwise(image, groups, bool(is_transposed)):
        return False
    from torch import bfloat16, float16, float32, float64

    if image.dim() not in (3, 4, 5) or image.numel() * weight.shape[0] > _LARGEST * image.shape[1]:
        return False
    if image.dtype is not weight.dtype or image.dtype not in (float32, float64, bfloat16, float16):
        return False
    if _keeps_channels_last(image, weight):
        return False
    is_dilated = any(step != 1 for step in spread)
    return image.dtype is not float16 or is_dilated or not _may_take_half(image, weight, steps)


def _may_take_half(image: torch.Tensor, weight: torch.Tensor, steps: Sequence[int]) -> bool:
    """Return whether some release of cuDNN may take a contiguous float16 depthwise convolution that is not dilated."""
    if image.dim() == 5 or image.shape[1] < _CUDNN_CHANNELS:
        return False
    height, rows = (1, 1) if image.dim() == 3 else (image.shape[2], weight.shape[2])
    if height == 1 and steps[-1] == 1:
        return True
    if (height != 1 and steps[0] != steps[-1]) or steps[-1] > 2 or image.shape[-1] < _CUDNN_WIDTH:
        return False
    width = weight.shape[-1]
    if rows != width or width not in _CUDNN_FILTERS:
        return False
    return steps[-1] == 1 or width == 1 or image.shape[0] == 1 or image.shape[1] >= _CUDNN_CHANNELS_OF_STRIDE_2


def _is_without_cudnn(func: Any, services: Services) -> Test | None:
    """Disabled around this call. A depthwise convolution has its own kernel, an empty one has nothing to multiply."""
    from torch.backends import cudnn

    @of_arguments("input", "transposed", "groups")
    def is_left_out(image: torch.Tensor, is_transposed: bool, groups: int) -> bool:
        return not _is_depthwise(image, groups, is_transposed) and image.numel() != 0

    left_out = is_left_out(func, services)
    return None if left_out is None else lambda args, kwargs: not cudnn.enabled and left_out(args, kwargs)


@of_arguments("input", "stride", "transposed", "output_padding")
def _pads_output_widely(image: torch.Tensor, steps: Sequence[int], is_transposed: bool, padding: Sequence[int]) -> bool:
    """Transposed, with output padding not below the stride, which cuDNN does not support."""
    is_wide = is_transposed and any(more >= step for more, step in zip(padding, steps, strict=False))
    return is_wide and image.numel() != 0


def _keeps_channels_last(image: torch.Tensor, weight: torch.Tensor) -> bool:
    """Return whether torch hands the call to cuDNN channels-last. Never in double precision."""
    from torch import float64

    return image.dtype is not float64 and (_is_channels_last(image) or _is_channels_last(weight))


def _is_channels_last(tensor: Any) -> bool:
    """Return whether torch treats ``tensor`` as channels-last. Strides decide, even if both layouts fit."""
    last = tensor.dim() - 1
    if last not in (3, 4):
        return False
    least = 0
    for place in (1, *range(last, 1, -1), 0):
        step, size = tensor.stride(place), tensor.shape[place]
        if size == 0 or step < least or (place == 0 and least == tensor.stride(1)):
            return False
        least = step * size if step > 1 else step
    return bool(tensor.stride(1) != 0)


def _plain_forward(func: Any, services: Services) -> Test | None:
    name = str(func).split(".")[1]
    if "backward" in name or "transpose" in name:
        return None
    is_transposed = argument_getter(func, "transposed") or (lambda args, kwargs: False)
    return lambda args, kwargs: not is_transposed(args, kwargs)


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

    def make(func: Any, services: Services) -> ArgumentReader | None:
        if getters(func, "query", "value"):
            return of_arguments("query", "value")(lambda q, v: wrong(q.shape[-1]) or wrong(v.shape[-1]))(func, services)
        if getters(func, "self", "mat2"):
            return _note_product if notes else None
        of_last = of_arguments(
            "self"
        )(  # whether the last stored product computed these scores
            lambda scores: scores.shape[-2:] == (_LAST.rows, _LAST.columns) and wrong(_LAST.head)
        )
        return of_last(func, services)

    return make


def _may_fuse(func: Any, services: Services) -> ArgumentReader | None:
    """``sdpa_kernel`` may have disabled every fused backend."""
    from torch.backends import cuda

    return lambda args, kwargs: any(
        (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled())
    )


def _is_efficient_off(func: Any, services: Services) -> Test | None:
    from torch.backends import cuda

    return lambda args, kwargs: not cuda.mem_efficient_sdp_enabled()


FACTS = (
    noted_fact(
        "conv.plain_forward",
        _plain_forward,
        "Is it the forward of a convolution that is not transposed, which is what a transposed one's backward runs?",
    ),
    noted_fact(
        "conv.own_depthwise",
        lambda func, services: None if "transpose" in str(func) else _own_depthwise(func, services),
        "Is it depthwise, in a dtype and layout for which CUDA has a kernel of torch's own?",
    ),
    marked(
        "conv.leaves_cudnn",
        _leaves_cudnn,
        "Is it dilated, contiguous and not depthwise, so that deterministic mode computes it by matrix products?",
    ),
    marked(
        "conv.pads_output_widely",
        _pads_output_widely,
        "Is it transposed with an output padding not below the stride, which cuDNN does not support?",
    ),
    marked(
        "conv.without_cudnn",
        _is_without_cudnn,
        "Was cuDNN disabled around the call, so that it is computed by matrix products?",
    ),
    asked_fact("sdp.fused", _may_fuse, "May it take a fused kernel, or is it restricted to SDPBackend.MATH?"),
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
