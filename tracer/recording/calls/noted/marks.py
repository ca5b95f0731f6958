"""Facts that are noted where they hold and left out where they do not; each takes constant time.

Each maker takes an overload and returns a test for its calls, or ``None`` where the overload lacks what the question
needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import torch

from tracer.recording.calls.arguments import MISSING, Getter, Reader, argument_getter
from tracer.recording.origin.sites import is_torchs_own

_Test = Callable[[tuple[Any, ...], Mapping[str, Any]], bool]

_FUNCTIONAL = torch.nn.functional.__file__
_OWN_FOLDER = __file__.rpartition("recording")[0]
#: Part of an op's name to the function of ``torch.nn.functional`` that calls it; ``interpolate`` calls all others.
_FUNCTIONS: Mapping[str, str] = {"pad": "pad", "grid_sampler": "grid_sample"}
_TENSORS = ("Tensor", "Optional[Tensor]")
_TENSOR_LISTS = ("List[Tensor]", "List[Optional[Tensor]]")
_STRIDED = torch.strided
_SPARSE = frozenset({torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})
_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_MAX_CHANNELS = 1024
_WIDEST_HEAD = 256
_LONGEST_TARGET = 256
#: The devices that have kernels which count arrivals have more multiprocessors than this, also where they are shared
#: out, and the kernels take as many rows at least; none takes shorter rows than the second number.
_FEW_ROWS = 8
_SHORT_ROW = 128
_VECTOR = 4


def _where(test: _Test | None) -> Reader | None:
    """A reader that notes a fact where ``test`` holds."""
    if test is None:
        return None
    holds: _Test = test
    return lambda args, kwargs: True if holds(args, kwargs) else MISSING


def _getters(func: Any, *names: str) -> tuple[Getter, ...] | None:
    """A getter for each of ``names``, or ``None`` where ``func`` lacks one."""
    found = [argument_getter(func, name) for name in names]
    known = tuple(get for get in found if get is not None)
    return known if len(known) == len(found) else None


def _has_sparse_beside_first(func: Any) -> _Test | None:
    """Is a tensor sparse that ``layout`` does not speak of? Of a list it speaks of the first member alone."""
    arguments = [argument for argument in func._schema.arguments if not argument.kwarg_only]
    kinds = [str(argument.type) for argument in arguments]
    tensors = [place for place, kind in enumerate(kinds) if kind in _TENSORS]
    lists = [place for place, kind in enumerate(kinds) if kind in _TENSOR_LISTS]
    if not lists and len(tensors) < 2:
        return None
    if tensors == [0, 1] and not lists:  # nearly all of them
        return lambda args, kwargs: args[1].layout is not _STRIDED and args[1].layout in _SPARSE

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        layouts = {one.layout for place in tensors[tensors[:1] == [0] :] if (one := _at(args, place)) is not None}
        for place in lists:
            layouts.update([one.layout for one in _at(args, place) or () if one is not None])
        return not layouts.isdisjoint(_SPARSE)

    return test


def _at(args: tuple[Any, ...], place: int) -> Any:
    return args[place] if place < len(args) else None


def _has_no_elements(func: Any) -> _Test | None:
    """Is one of the tensors empty? Then there is nothing to multiply, and nothing but a bias or a start to add."""
    return lambda args, kwargs: any(isinstance(arg, torch.Tensor) and arg.numel() == 0 for arg in args)


def _has_integral_weights(func: Any) -> _Test | None:
    known = _getters(func, "weights")
    if known is None:
        return None
    (weights,) = known

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        given = weights(args, kwargs)
        return given is not None and not (given.is_floating_point() or given.is_complex())

    return test


def _adds_row_within(func: Any) -> _Test | None:
    """Does cuBLASLt add the row while it multiplies? As ``nn.Linear`` has it; what stands apart is added before."""
    known = _getters(func, "self", "mat1", "mat2", "beta")
    if known is None or _getters(func, "out") is not None:
        return None
    row, first, second, share = known

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        added, factor = row(args, kwargs), second(args, kwargs)
        if added.dim() != 1 or added.dtype not in _FLOATS or share(args, kwargs) != 1:
            return False
        if first(args, kwargs).layout is not _STRIDED or factor.layout is not _STRIDED:
            return False
        deep, wide = factor.shape
        return bool(added.numel() == wide and deep > 1 and wide > 1 and added.is_contiguous())

    return test


def _cumulates(func: Any) -> _Test | None:
    known = _getters(func, "num_samples", "replacement")
    if known is None:
        return None
    many, again = known
    return lambda args, kwargs: bool(again(args, kwargs)) and many(args, kwargs) != 1


def _fits_cudnns_ctc(func: Any) -> _Test | None:
    """Does cuDNN take the loss if its targets lie on the CPU?

    The op is handed targets that were made int64; ``F.ctc_loss`` still has what it was given.
    """
    known = _getters(func, "log_probs", "targets", "input_lengths", "target_lengths", "blank")
    if known is None:
        return None
    scores, labels, widths, lengths, blank = known

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        frames = scores(args, kwargs)
        if blank(args, kwargs) != 0 or frames.dtype is not torch.float32 or labels(args, kwargs).dim() != 1:
            return False
        caller = _caller("ctc_loss")
        given = None if caller is None else caller.f_locals.get("targets")
        if getattr(given, "dtype", None) is not torch.int32:
            return False
        ends = [_numbers(read(args, kwargs)) for read in (widths, lengths)]
        steps = frames.shape[0]
        return all(end == steps for end in ends[0]) and all(end < _LONGEST_TARGET and end <= steps for end in ends[1])

    return test


def _numbers(given: Any) -> list[int]:
    """Lengths as numbers. On a device reading them would wait for it: none of cuDNN's stand for them."""
    if not isinstance(given, torch.Tensor):
        return list(given)
    return [int(length) for length in given.tolist()] if given.device.type == "cpu" else [_LONGEST_TARGET]


def _has_many_channels(func: Any) -> _Test | None:
    known = _getters(func, "input")
    if known is None:
        return None
    (source,) = known
    return lambda args, kwargs: bool(source(args, kwargs).shape[1] > _MAX_CHANNELS)


def _leaves_cudnn(func: Any) -> _Test | None:
    """Dilated, and neither depthwise, which has a kernel of its own, nor channels-last, which stays on cuDNN."""
    known = _getters(func, "input", "weight", "dilation", "transposed", "groups")
    if known is None:
        return None
    source, filters, spread, turned, groups = known

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        if all(step == 1 for step in spread(args, kwargs)):
            return False
        image, weight = source(args, kwargs), filters(args, kwargs)
        if _is_depthwise(image, groups(args, kwargs), turned(args, kwargs)) or image.numel() == 0:
            return False
        return not _is_channels_last(image) and not _is_channels_last(weight)

    return test


def _is_depthwise(image: torch.Tensor, parts: int, turned: bool) -> bool:
    return not turned and parts > 1 and parts == image.shape[1]


def _is_without_cudnn(func: Any) -> _Test | None:
    """Switched off around this call; a depthwise one has a kernel of its own, an empty one nothing to multiply."""
    known = _getters(func, "input", "transposed", "groups")
    if known is None:
        return None
    source, turned, groups = known

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        if torch.backends.cudnn.enabled:
            return False
        image = source(args, kwargs)
        return not _is_depthwise(image, groups(args, kwargs), turned(args, kwargs)) and image.numel() != 0

    return test


def _pads_output_widely(func: Any) -> _Test | None:
    """Transposed, with output padding that is not below the stride: cuDNN takes no such call."""
    known = _getters(func, "input", "stride", "transposed", "output_padding")
    if known is None:
        return None
    source, steps, turned, padding = known

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        if not turned(args, kwargs) or source(args, kwargs).numel() == 0:
            return False
        pairs = zip(padding(args, kwargs), steps(args, kwargs), strict=False)
        return any(more >= step for more, step in pairs)

    return test


def _makes_half_complex(func: Any) -> _Test | None:
    known = _getters(func, "dtype")
    if known is None:
        return None
    (asked,) = known
    return lambda args, kwargs: asked(args, kwargs) is torch.complex32


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


def _head(wrong: Callable[[int], bool]) -> Callable[[Any], _Test | None]:
    """Attention: is some head size ``wrong``, the query's or the value's? A product is asked as if it were one."""

    def make(func: Any) -> _Test | None:
        known = _getters(func, "query", "value")
        if known is None:
            return _head_of_product(wrong) if _getters(func, "self", "mat2") else None
        query, value = known
        return lambda args, kwargs: wrong(query(args, kwargs).shape[-1]) or wrong(value(args, kwargs).shape[-1])

    return make


def _head_of_product(wrong: Callable[[int], bool]) -> _Test:
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


def _shares_heads(func: Any) -> _Test | None:
    """Attention: are there fewer heads of keys or of values than of queries (``enable_gqa=True``)?"""
    known = _getters(func, "query", "key", "value")
    if known is None:
        return None

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        heads = [read(args, kwargs).shape[-3:-2] for read in known]
        return not heads[0] == heads[1] == heads[2]

    return test


def _is_plain_topk(func: Any) -> _Test | None:
    known = _getters(func, "self", "dim")
    if known is None:
        return None
    source, along = known

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        tensor = source(args, kwargs)
        length = tensor.size(along(args, kwargs)) if tensor.dim() else 1
        rows = tensor.numel() // max(length, 1)
        return bool(length < _SHORT_ROW or length % _VECTOR or rows < _FEW_ROWS)

    return test


def _caller(function: str) -> FrameType | None:
    """The frame of ``torch.nn.functional``'s ``function`` that this call came through."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == _FUNCTIONAL and code.co_name == function:
            return frame
        if not is_torchs_own(code.co_filename) and not code.co_filename.startswith(_OWN_FOLDER):
            return None
        frame = frame.f_back
    return None


def _is_direct(func: Any) -> _Test | None:
    """Was the op called past ``F.pad`` or its kin? In scripted code these have no frame, and no other way."""
    name = str(func)
    function = next((called for part, called in _FUNCTIONS.items() if part in name), "interpolate")
    return lambda args, kwargs: _caller(function) is None


def _returns_indices(func: Any) -> _Test | None:
    return lambda args, kwargs: _caller("max_pool3d_with_indices") is not None


_TESTS: Mapping[str, Callable[[Any], _Test | None]] = {
    "operands.sparse": _has_sparse_beside_first,
    "operands.integral_weights": _has_integral_weights,
    "operands.row_within": _adds_row_within,
    "draw.cumulates": _cumulates,
    "call.fits_cudnn": _fits_cudnns_ctc,
    "shape.no_elements": _has_no_elements,
    "shape.channels_gt_1024": _has_many_channels,
    "shape.topk_plain": _is_plain_topk,
    "conv.leaves_cudnn": _leaves_cudnn,
    "conv.pads_output_widely": _pads_output_widely,
    "conv.without_cudnn": _is_without_cudnn,
    "call.makes_half_complex": _makes_half_complex,
    "sdp.head_not_of_4": _head(lambda size: size % 4 != 0),
    "sdp.head_not_of_8": _head(lambda size: size % 8 != 0),
    "sdp.head_gt_256": _head(lambda size: size > _WIDEST_HEAD),
    "sdp.shares_heads": _shares_heads,
    "sdp.efficient_off": lambda func: lambda args, kwargs: not torch.backends.cuda.mem_efficient_sdp_enabled(),
    "call.direct": _is_direct,
    "call.returns_indices": _returns_indices,
}


def _maker(make: Callable[[Any], _Test | None]) -> Callable[[Any], Reader | None]:
    return lambda func: _where(make(func))


#: Fact to the maker of its reader.
MARKS: Mapping[str, Callable[[Any], Reader | None]] = {key: _maker(make) for key, make in _TESTS.items()}
