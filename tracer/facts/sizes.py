"""Sizes, strides and indices, reduced to the one question that a kernel's choice hangs on.

Each maker takes an overload and returns a reader for it, or ``None`` where its schema lacks what the question needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from tracer.facts.arguments import Getter, Reader, argument_getter, getters
from tracer.facts.fact import BOOL, Fact, Kind, Services, Test
from tracer.facts.meetings import meets_at_most_twice

_EXACT_COUNTS = 2**24
"""Up to here float32 counts one by one without rounding."""
_FEW_ROWS = 3072
_ROWS_A_THREAD = 10
_WARP = 32
_LARGEST_BLOCK = 1024
_MAX_CHANNELS = 1024
#: Every GPU with kernels that count arrivals has more SMs than this, MIG slices included, and those kernels take as
#: many rows at least; none takes rows shorter than the second number.
_FEW_ROWS_OF_TOPK = 8
_SHORT_ROW = 128
_VECTOR = 4
_RADIX_KS = frozenset({64, 128, 256, 512, 1024})


def _scan_is_whole(func: Any, services: Services) -> Reader | None:
    get, dim = argument_getter(func, "self", "input"), argument_getter(func, "dim")
    if "multinomial" in str(func):  # it scans the probabilities of each row
        dim = _last
    if get is None or dim is None:
        return None

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        tensor = get(args, kwargs)
        return bool(tensor.dim() == 0 or tensor.numel() == tensor.size(dim(args, kwargs)))

    return read


def _last(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    return -1


def _windows_overlap(func: Any, services: Services) -> Reader | None:
    """Pooling: can one input element lie in two windows?"""
    kernel, stride = argument_getter(func, "kernel_size"), argument_getter(func, "stride")
    spread, output = argument_getter(func, "dilation"), argument_getter(func, "output_size")
    source = argument_getter(func, "self", "input")
    if kernel is None:
        return None
    sizes_of: Getter = kernel
    if output is not None and source is not None:
        return _fractional_windows_overlap(kernel, output, source)

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        sizes = list(sizes_of(args, kwargs))
        steps = list((stride(args, kwargs) if stride else None) or sizes)
        gaps = list((spread(args, kwargs) if spread else None) or [1])
        longest = max(len(sizes), len(steps), len(gaps))
        each = [values * longest if len(values) == 1 else values for values in (sizes, steps, gaps)]
        return any(step < gap * (size - 1) + 1 for size, step, gap in zip(*each, strict=False))

    return read


def _fractional_windows_overlap(kernel: Getter, output: Getter, source: Getter) -> Reader:
    """Fractional pooling starts its windows at least ``floor((in - k) / (out - 1))`` apart."""

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        sizes, counts = kernel(args, kwargs), output(args, kwargs)
        spatial = source(args, kwargs).shape[-len(sizes) :]
        return any(
            count > 1 and (total - size) // (count - 1) < size
            for total, size, count in zip(spatial, sizes, counts, strict=True)
        )

    return read


def _unit_stride_unpadded(func: Any, services: Services) -> Reader | None:
    """Average pooling: every stride 1 and every padding 0, for which CUDA has a kernel that gathers."""
    kernel, stride = argument_getter(func, "kernel_size"), argument_getter(func, "stride")
    padding = argument_getter(func, "padding")
    if kernel is None or stride is None or padding is None:
        return None
    sizes, steps, pads = kernel, stride, padding

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        used = list(steps(args, kwargs)) or list(sizes(args, kwargs))
        return all(step == 1 for step in used) and not any(pads(args, kwargs))

    return read


def _meets_thrice(func: Any, services: Services) -> Reader | None:
    """Padding: does some input element collect three gradients or more? Two give the same sum in either order."""
    padding, source = argument_getter(func, "padding"), argument_getter(func, "self")
    if padding is None or source is None:
        return None
    pads_of, tensor = padding, source
    copies = _mirrored if "reflection" in str(func) else _replicated

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        pads = [max(0, int(pad)) for pad in pads_of(args, kwargs)]
        shape = tensor(args, kwargs).shape
        sizes = [int(shape[-1 - i]) for i in range(len(pads) // 2)]
        return prod(copies(n, pads[2 * i], pads[2 * i + 1]) for i, n in enumerate(sizes)) >= 3

    return read


def _mirrored(size: int, left: int, right: int) -> int:
    """How often one of ``size`` elements occurs at most, itself counted, after mirroring at both ends."""
    reaches_both = left > 0 and right > 0 and max(1, size - 1 - right) <= min(left, size - 2)
    return 3 if reaches_both else 2 if left or right else 1


def _replicated(size: int, left: int, right: int) -> int:
    """How often one of ``size`` elements occurs at most, itself counted, after repeating both edges."""
    return 1 + (left + right if size == 1 else max(left, right))


def _divides_evenly(func: Any, services: Services) -> Reader | None:
    grad, tensor = argument_getter(func, "grad_output"), argument_getter(func, "self")
    if grad is None or tensor is None:
        return None
    spatial = 3 if "3d" in str(func) else 2

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        inner, outer = tensor(args, kwargs).shape, grad(args, kwargs).shape
        pairs = zip(inner[-spatial:], outer[-spatial:], strict=False)
        return all(size and total % size == 0 for total, size in pairs)

    return read


def _same_size(func: Any, services: Services) -> Reader | None:
    output, source = argument_getter(func, "output_size"), argument_getter(func, "input_size")
    if output is None or source is None:
        return None
    return lambda args, kwargs: list(output(args, kwargs)) == list(source(args, kwargs))[2:]


def _channels_last(func: Any, services: Services) -> Reader | None:
    """Is the input laid out in channels-last order, and not in the ordinary one as well?"""
    found = argument_getter(func, "self", "input")
    if found is None:
        return None
    get: Getter = found
    from torch import channels_last

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        tensor = get(args, kwargs)
        if tensor.dim() != 4 or tensor.is_contiguous():
            return False
        return bool(tensor.is_contiguous(memory_format=channels_last))

    return read


def _counts_past_float(func: Any, services: Services) -> Reader | None:
    found = argument_getter(func, "self", "input")
    if found is None:
        return None
    get: Getter = found
    return lambda args, kwargs: get(args, kwargs).numel() > _EXACT_COUNTS


def _rows_repeat_long(func: Any, services: Services) -> Reader | None:
    """Embedding: may CUDA take its kernel with atomics? It does for many more indices than rows.

    The sizes alone decide, but for the number of multiprocessors, which a recording elsewhere does not know.
    """
    found = [argument_getter(func, name) for name in ("grad_output", "indices", "num_weights", "scale_grad_by_freq")]
    if None in found:
        return None
    gradient, indices, rows, by_frequency = (get for get in found if get is not None)

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        count = indices(args, kwargs).numel()
        if count <= _FEW_ROWS and not by_frequency(args, kwargs):
            return False
        segments = min(count, int(rows(args, kwargs)))
        width = -(-gradient(args, kwargs).shape[-1] // _WARP) * _WARP
        blocks = -(-segments * width // min(width, _LARGEST_BLOCK)) if width else 0
        return bool(count // _ROWS_A_THREAD + segments > 4 * blocks)

    return read


def _topk_radix(func: Any, services: Services) -> Reader | None:
    """Are ``k`` and ``dim`` among those that the kernels which count arrivals are built for?"""
    found = [argument_getter(func, name) for name in ("self", "k", "dim")]
    if None in found:
        return None
    tensor, k, dim = (get for get in found if get is not None)
    return lambda args, kwargs: (
        k(args, kwargs) in _RADIX_KS and dim(args, kwargs) in (-1, tensor(args, kwargs).dim() - 1)
    )


def _grows(func: Any, services: Services) -> Reader | None:
    """Resizing: does the new size need more memory than the tensor's storage has?"""
    source = argument_getter(func, "self")
    size, template = argument_getter(func, "size"), argument_getter(func, "the_template")
    if source is None or (size is None and template is None):
        return None
    tensor: Getter = source

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        held = tensor(args, kwargs)
        wanted: Sequence[int] = size(args, kwargs) if size else template(args, kwargs).shape if template else ()
        needed = (held.storage_offset() + prod(wanted)) * held.element_size() if prod(wanted) else 0
        return bool(needed > held.untyped_storage().nbytes())

    return read


def _has_many_channels(func: Any, services: Services) -> Test | None:
    known = getters(func, "input")
    if known is None:
        return None
    (source,) = known
    return lambda args, kwargs: bool(source(args, kwargs).shape[1] > _MAX_CHANNELS)


def _is_plain_topk(func: Any, services: Services) -> Test | None:
    known = getters(func, "self", "dim")
    if known is None:
        return None
    source, along = known

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        tensor = source(args, kwargs)
        length = tensor.size(along(args, kwargs)) if tensor.dim() else 1
        rows = tensor.numel() // max(length, 1)
        return bool(length < _SHORT_ROW or length % _VECTOR or rows < _FEW_ROWS_OF_TOPK)

    return test


def _asked(name: str, about: str, read: Callable[[Any, Services], Reader | None]) -> Fact:
    return Fact(f"shape.{name}", BOOL, Kind.ASKED, about, read)


FACTS = (
    _asked("scan_is_whole", "Is it one scan over the whole tensor: numel == size(dim)?", _scan_is_whole),
    _asked("windows_overlap", "Pooling: can one element lie in two windows?", _windows_overlap),
    _asked("unit_stride_unpadded", "Pooling: is each stride 1 and nothing padded?", _unit_stride_unpadded),
    _asked("channels_last", "Is the input laid out in channels-last order?", _channels_last),
    _asked("meets_thrice", "Padding: does some element occur three times or more in the output?", _meets_thrice),
    _asked("numel_gt_16777216", "Are there more elements than float32 can count one by one?", _counts_past_float),
    _asked(
        "rows_repeat_long", "Embedding: so many more indices than rows that CUDA may add by atomics?", _rows_repeat_long
    ),
    _asked("topk_radix", "topk: is k 64, 128, 256, 512 or 1024, along the last dimension?", _topk_radix),
    _asked("grows", "Resizing: is the storage too small for the new size?", _grows),
    _asked("divides_evenly", "Adaptive pooling: is each input size a multiple of its output size?", _divides_evenly),
    _asked("same_size", "Resampling: does the output size equal the input size?", _same_size),
    Fact(
        "shape.meets_at_most_twice",
        BOOL,
        Kind.NOTED,
        "Pooling, resampling: does no element collect more than two addends? Two give one sum in either order.",
        meets_at_most_twice,
    ),
    Fact(
        "shape.topk_plain",
        BOOL,
        Kind.NOTED,
        "topk: do its sizes keep it off every kernel that counts arrivals, whatever the device?",
        _is_plain_topk,
    ),
    Fact(
        "shape.channels_gt_1024",
        BOOL,
        Kind.MARKED,
        "Sampling: does the input have more than 1,024 channels?",
        _has_many_channels,
    ),
)
