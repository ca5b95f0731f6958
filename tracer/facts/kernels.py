"""Facts of convolutions and of attention: which kernel torch chooses, or was kept from choosing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tracer import facts
from tracer.facts import Args, ArgumentReader, Kwargs, Services, argument_getter

if TYPE_CHECKING:
    import torch

#: Fewest channels of a contiguous depthwise convolution in half precision that cuDNN takes, and fewest for a batch with
#: stride 2.
_CUDNN_CHANNELS, _CUDNN_CHANNELS_OF_STRIDE_2 = 32, 256
_CUDNN_FILTERS, _CUDNN_WIDTH = (1, 3, 5), 7
#: Most elements that torch's own depthwise kernel indexes, with 32 bits.
_LARGEST = 2**31 - 1


@facts.noted(
    "conv.plain_forward",
    "Is it the forward of a convolution that is not transposed, which is what a transposed one's backward runs?",
)
def _plain_forward(func: Any, services: Services) -> ArgumentReader | None:
    name = str(func).split(".")[1]
    if "backward" in name or "transpose" in name:
        return None
    is_transposed = argument_getter(func, "transposed") or (lambda args, kwargs: False)
    return lambda args, kwargs: not is_transposed(args, kwargs)


@facts.noted("conv.own_depthwise", "Is it depthwise, in a dtype and layout for which CUDA has a kernel of torch's own?")
def _own_depthwise(func: Any, services: Services) -> ArgumentReader | None:
    """Left to cuDNN are the channels-last layout and, in half precision, what ``_may_take_half`` says. In one dimension
    torch makes the input contiguous first."""
    from torch import bfloat16, float16, float32, float64

    @facts.of_arguments("input weight stride dilation groups transposed?")
    def is_own(
        image: torch.Tensor,
        weight: torch.Tensor,
        steps: Sequence[int],
        spread: Sequence[int],
        groups: int,
        is_transposed: bool | None,
    ) -> bool:
        if not _is_depthwise(image, groups, bool(is_transposed)):
            return False
        if image.dim() not in (3, 4, 5) or image.numel() * weight.shape[0] > _LARGEST * image.shape[1]:
            return False
        if image.dtype is not weight.dtype or image.dtype not in (float32, float64, bfloat16, float16):
            return False
        if _keeps_channels_last(image, weight):
            return False
        is_dilated = any(step != 1 for step in spread)
        return image.dtype is not float16 or is_dilated or not _may_take_half(image, weight, steps)

    return None if "transpose" in str(func) else is_own(func, services)


@facts.marked(
    "conv.leaves_cudnn",
    "Is it dilated, contiguous and not depthwise, so that deterministic mode computes it by matrix products?",
    "input weight dilation transposed groups",
)
def _leaves_cudnn(
    image: torch.Tensor, weight: torch.Tensor, spread: Sequence[int], is_transposed: bool, groups: int
) -> bool:
    """A depthwise one has its own kernel; channels-last stays on cuDNN."""
    if all(step == 1 for step in spread) or _is_depthwise(image, groups, is_transposed) or image.numel() == 0:
        return False
    return not _keeps_channels_last(image, weight)


@facts.marked(
    "conv.pads_output_widely",
    "Is it transposed with an output padding not below the stride, which cuDNN does not support?",
    "input stride transposed output_padding",
)
def _pads_output_widely(image: torch.Tensor, steps: Sequence[int], is_transposed: bool, padding: Sequence[int]) -> bool:
    is_wide = is_transposed and any(more >= step for more, step in zip(padding, steps, strict=False))
    return is_wide and image.numel() != 0


@facts.marked(
    "conv.without_cudnn",
    "Was cuDNN disabled around the call, so that it is computed by matrix products?",
)
def _is_without_cudnn(func: Any, services: Services) -> ArgumentReader | None:
    """A depthwise convolution has its own kernel, an empty one has nothing to multiply."""
    from torch.backends import cudnn

    @facts.of_arguments("input transposed groups")
    def is_left_out(image: torch.Tensor, is_transposed: bool, groups: int) -> bool:
        return not _is_depthwise(image, groups, is_transposed) and image.numel() != 0

    left_out = is_left_out(func, services)
    return None if left_out is None else lambda args, kwargs: not cudnn.enabled and left_out(args, kwargs)


def _is_depthwise(image: torch.Tensor, groups: int, turned: bool) -> bool:
    return not turned and groups > 1 and groups == image.shape[1]


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


class _Product(threading.local):
    """Sizes of the thread's last batched matrix product."""

    rows = head = columns = -1


_LAST = _Product()


def _head(key: str, about: str, wrong: Callable[[int], bool], *, notes: bool = False) -> None:
    """Attention: whether the query's or value's head size is ``wrong``. The softmax of the math path is judged by the
    matrix product before it, which computed the scores. ``notes``: store these products."""

    def note(args: Args, kwargs: Kwargs) -> bool:
        first, second = args[0].shape, args[1].shape
        _LAST.rows, _LAST.head, _LAST.columns = first[-2], first[-1], second[-1]
        return False

    @facts.of_arguments("query value")
    def of_call(query: torch.Tensor, value: torch.Tensor) -> bool:
        return wrong(query.shape[-1]) or wrong(value.shape[-1])

    @facts.of_arguments("self")
    def of_last(scores: torch.Tensor) -> bool:
        return scores.shape[-2:] == (_LAST.rows, _LAST.columns) and wrong(_LAST.head)

    @facts.marked(key, about)
    def reads(func: Any, services: Services) -> ArgumentReader | None:
        if facts.getters(func, "self", "mat2"):
            return note if notes else None
        return of_call(func, services) or of_last(func, services)


_head("sdp.head_not_of_4", "Is the head size not a multiple of 4?", lambda size: size % 4 != 0)
_head("sdp.head_not_of_8", "Is the head size not a multiple of 8?", lambda size: size % 8 != 0, notes=True)
_head("sdp.head_gt_256", "Is the head size above 256?", lambda size: size > 256)


@facts.asked("sdp.fused", "May it take a fused kernel, or is it restricted to SDPBackend.MATH?")
def _may_fuse(func: Any, services: Services) -> ArgumentReader | None:
    """``sdpa_kernel`` may have disabled every fused backend."""
    from torch.backends.cuda import cudnn_sdp_enabled, flash_sdp_enabled, mem_efficient_sdp_enabled

    return lambda args, kwargs: flash_sdp_enabled() or mem_efficient_sdp_enabled() or cudnn_sdp_enabled()


@facts.marked("sdp.efficient_off", "Was the memory-efficient kernel disabled around the call?")
def _is_efficient_off(func: Any, services: Services) -> ArgumentReader | None:
    from torch.backends.cuda import mem_efficient_sdp_enabled

    return lambda args, kwargs: not mem_efficient_sdp_enabled()


@facts.marked(
    "sdp.shares_heads", "Do several query heads share one head of keys or values (enable_gqa)?", "query key value"
)
def _shares_heads(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    return not query.shape[-3:-2] == key.shape[-3:-2] == value.shape[-3:-2]
