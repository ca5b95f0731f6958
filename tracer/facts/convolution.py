"""Facts of convolutions: by which way torch computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.facts.argument_readers import Args, Kwargs, argument_getter, getters
from tracer.facts.fact import Services, Test, marked, noted

if TYPE_CHECKING:
    import torch


def _leaves_cudnn(func: Any, services: Services) -> Test | None:
    """Dilated, and neither depthwise, which has a kernel of its own, nor channels-last, which stays on cuDNN."""
    known = getters(func, "input", "weight", "dilation", "transposed", "groups")
    if known is None:
        return None
    source, filters, spread, turned, groups = known

    def test(args: Args, kwargs: Kwargs) -> bool:
        if all(step == 1 for step in spread(args, kwargs)):
            return False
        image, weight = source(args, kwargs), filters(args, kwargs)
        if _is_depthwise(image, groups(args, kwargs), turned(args, kwargs)) or image.numel() == 0:
            return False
        return not _is_channels_last(image) and not _is_channels_last(weight)

    return test


def _is_depthwise(image: torch.Tensor, parts: int, turned: bool) -> bool:
    return not turned and parts > 1 and parts == image.shape[1]


def _is_without_cudnn(func: Any, services: Services) -> Test | None:
    """Switched off around this call; a depthwise one has a kernel of its own, an empty one nothing to multiply."""
    known = getters(func, "input", "transposed", "groups")
    if known is None:
        return None
    source, turned, groups = known
    from torch.backends import cudnn

    def test(args: Args, kwargs: Kwargs) -> bool:
        if cudnn.enabled:
            return False
        image = source(args, kwargs)
        return not _is_depthwise(image, groups(args, kwargs), turned(args, kwargs)) and image.numel() != 0

    return test


def _pads_output_widely(func: Any, services: Services) -> Test | None:
    """Transposed, with output padding that is not below the stride: cuDNN takes no such call."""
    known = getters(func, "input", "stride", "transposed", "output_padding")
    if known is None:
        return None
    source, steps, turned, padding = known

    def test(args: Args, kwargs: Kwargs) -> bool:
        if not turned(args, kwargs) or source(args, kwargs).numel() == 0:
            return False
        pairs = zip(padding(args, kwargs), steps(args, kwargs), strict=False)
        return any(more >= step for more, step in pairs)

    return test


def _is_channels_last(tensor: Any) -> bool:
    """Would torch take ``tensor`` for channels-last? Strides alone decide, also where either layout would do."""
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


FACTS = (
    noted(
        "conv.plain_forward",
        _plain_forward,
        "Is it the forward of a convolution that is not transposed, which is what a transposed one's backward runs?",
    ),
    marked(
        "conv.leaves_cudnn",
        _leaves_cudnn,
        "Is it dilated, contiguous and not depthwise, so that deterministic mode makes products of it?",
    ),
    marked(
        "conv.pads_output_widely",
        _pads_output_widely,
        "Is it transposed with an output padding that is not below the stride, which cuDNN does not take?",
    ),
    marked(
        "conv.without_cudnn",
        _is_without_cudnn,
        "Was cuDNN switched off around the call, so that products are made of it?",
    ),
)
