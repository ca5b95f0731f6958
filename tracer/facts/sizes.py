"""Sizes, strides and indices, reduced to the one question that a kernel's choice hangs on.

How many addends meet in one element is bounded from sizes alone, in constant time, since every call asks: two give one
sum in either order, three or more may not. Addends of weight zero are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd, prod
from typing import TYPE_CHECKING, Any

from tracer import facts
from tracer.facts import ArgumentReader, Makes, Services, of_arguments

if TYPE_CHECKING:
    import torch

asked, noted, marked = facts.asked, facts.noted, facts.marked
#: Inductor writes out a sum of fewer numbers, and compiles no reduction for it.
_UNROLLED, _UNROLLED_WINDOW = 8, 25
#: Source positions are computed in floating point: what lies this close to an element counts as reaching it.
_CLOSE = 1e-3
#: More than two, however many.
MANY = 3
#: The same for facts of which a step of other sizes may answer otherwise.
asked_of_sizes, noted_of_sizes, marked_of_sizes = (
    partial(kind, hangs_on_sizes=True) for kind in (asked, noted, marked)
)


@asked_of_sizes("shape.scan_is_whole", "Is it one scan over the whole tensor: numel == size(dim)?", "self|input dim?")
def _scan_is_whole(source: torch.Tensor, dim: int | None) -> bool:
    """``multinomial`` has no ``dim``: it scans the probabilities of each row."""
    return bool(source.dim() == 0 or source.numel() == source.size(-1 if dim is None else dim))


@asked("shape.windows_overlap", "Pooling: can one element lie in two windows?")
def _do_windows_overlap(func: Any, services: Services) -> ArgumentReader | None:
    @of_arguments("kernel_size output_size self|input")
    def fractional(sizes: Sequence[int], counts: Sequence[int], source: torch.Tensor) -> bool:
        """Windows start at least ``floor((in - k) / (out - 1))`` apart."""
        extents = zip(source.shape[-len(sizes) :], sizes, counts, strict=True)
        return any(count > 1 and (total - size) // (count - 1) < size for total, size, count in extents)

    @of_arguments("kernel_size stride? dilation?")
    def regular(size: Sequence[int], stride: Sequence[int] | None, dilation: Sequence[int] | None) -> bool:
        sizes, steps, gaps = list(size), list(stride or size), list(dilation or [1])
        longest = max(len(sizes), len(steps), len(gaps))
        each = [values * longest if len(values) == 1 else values for values in (sizes, steps, gaps)]
        return any(step < gap * (size - 1) + 1 for size, step, gap in zip(*each, strict=False))

    return fractional(func, services) or regular(func, services)


@asked("shape.unit_stride_unpadded", "Pooling: is each stride 1 and nothing padded?", "kernel_size stride padding")
def _has_unit_stride_unpadded(sizes: Sequence[int], steps: Sequence[int], pads: Sequence[int]) -> bool:
    return all(step == 1 for step in steps or sizes) and not any(pads)


@asked("shape.channels_last", "Is the input laid out in channels-last order?", "self|input")
def _channels_last(source: torch.Tensor) -> bool:
    """Not where it is laid out in the ordinary one as well."""
    from torch import channels_last

    is_ordinary = source.dim() != 4 or source.is_contiguous()
    return not is_ordinary and source.is_contiguous(memory_format=channels_last)


@asked_of_sizes("shape.meets_thrice", "Padding: does some element occur three times or more in the output?")
def _meets_thrice(func: Any, services: Services) -> ArgumentReader | None:
    """Two gradients give the same sum in either order."""
    is_mirrored = "reflection" in str(func)

    def copies(size: int, left: int, right: int) -> int:
        """How often one of ``size`` elements occurs at most, itself counted, after both ends are padded."""
        if not is_mirrored:
            return 1 + (left + right if size == 1 else max(left, right))
        reaches_both = left > 0 and right > 0 and max(1, size - 1 - right) <= min(left, size - 2)
        return 3 if reaches_both else 2 if left or right else 1

    @of_arguments("padding self")
    def read(padding: Sequence[int], source: torch.Tensor) -> bool:
        pads = [max(0, int(pad)) for pad in padding]
        sizes = [int(source.shape[-1 - i]) for i in range(len(pads) // 2)]
        return prod(copies(n, pads[2 * i], pads[2 * i + 1]) for i, n in enumerate(sizes)) >= 3

    return read(func, services)


@asked_of_sizes("shape.numel_gt_16777216", "Are there more elements than float32 can count one by one?", "self|input")
def _is_beyond_exact_counts(source: torch.Tensor) -> bool:
    return source.numel() > 2**24


@asked_of_sizes(
    "shape.rows_repeat_long",
    "Embedding: so many more indices than rows that CUDA may add by atomics?",
    "grad_output indices num_weights scale_grad_by_freq",
)
def _rows_repeat_long(gradient: torch.Tensor, indices: torch.Tensor, rows: int, by_frequency: bool) -> bool:
    """On any number of SMs."""
    few_rows, rows_a_thread, warp, largest_block = 3072, 10, 32, 1024
    count = indices.numel()
    if count <= few_rows and not by_frequency:
        return False
    segments = min(count, int(rows))
    width = -(-gradient.shape[-1] // warp) * warp
    blocks = -(-segments * width // min(width, largest_block)) if width else 0
    return bool(count // rows_a_thread + segments > 4 * blocks)


@asked("shape.topk_radix", "topk: is k 64, 128, 256, 512 or 1024, along the last dimension?", "self k dim")
def _is_radix_topk(source: torch.Tensor, k: int, dim: int) -> bool:
    return k in (64, 128, 256, 512, 1024) and dim in (-1, source.dim() - 1)


@asked("shape.grows", "Resizing: is the storage too small for the new size?", "self size? the_template?")
def _grows(held: torch.Tensor, size: Sequence[int] | None, template: torch.Tensor | None) -> bool:
    wanted = size if size is not None else template.shape if template is not None else ()
    needed = (held.storage_offset() + prod(wanted)) * held.element_size() if prod(wanted) else 0
    return bool(needed > held.untyped_storage().nbytes())


@asked_of_sizes("shape.divides_evenly", "Adaptive pooling: is each input size a multiple of its output size?")
def _divides_evenly(func: Any, services: Services) -> ArgumentReader | None:
    spatial = 3 if "3d" in str(func) else 2

    @of_arguments("self grad_output")
    def read(source: torch.Tensor, gradient: torch.Tensor) -> bool:
        pairs = zip(source.shape[-spatial:], gradient.shape[-spatial:], strict=False)
        return all(size and total % size == 0 for total, size in pairs)

    return read(func, services)


@asked_of_sizes("shape.same_size", "Resampling: does the output size equal the input size?", "output_size input_size")
def _is_of_same_size(output: Sequence[int], source: Sequence[int]) -> bool:
    return list(output) == list(source)[2:]


@noted_of_sizes("shape.is_unrolled", "Sums: does Inductor write out the addends, or call an eager kernel?")
def _is_unrolled(func: Any, services: Services) -> ArgumentReader | None:
    @of_arguments("self kernel_size stride?")
    def windows(source: torch.Tensor, sizes: Sequence[int], strides: Sequence[int] | None) -> bool:
        """A larger window is torch's own kernel's, unless windows lie side by side."""
        longest = max(sizes) ** 3 if len(sizes) == 1 else prod(sizes)  # one number stands for each dimension
        is_one_size = any(step != sizes[0] for step in strides or ()) and len(set(sizes)) == 1
        return longest < _UNROLLED_WINDOW or (longest > _UNROLLED_WINDOW and is_one_size)

    @of_arguments("self output_size")
    def adaptive_windows(source: torch.Tensor, sizes: Sequence[int]) -> bool:
        """Sizes that do not divide evenly are written out, or torch's own kernel's."""
        pairs = list(zip(source.shape[-len(sizes) :], sizes, strict=True))
        is_even = all(size and total % size == 0 for total, size in pairs)
        return all(sizes) and (not is_even or prod(total // size for total, size in pairs) < _UNROLLED_WINDOW)

    @of_arguments("self dim?")
    def addends(source: torch.Tensor, dims: Sequence[int] | int | None) -> bool:
        each = [dims] if isinstance(dims, int) else dims or range(source.dim())
        return source.dim() == 0 or prod(source.shape[dim] for dim in each) < _UNROLLED

    return windows(func, services) or adaptive_windows(func, services) or addends(func, services)


@noted_of_sizes("shape.is_single_sum", "Sums: do at most 1,024 addends become one number?", "self dim?")
def _is_single_sum(source: torch.Tensor, dims: Sequence[int] | int | None) -> bool:
    """Triton sums so many in a single block, whose configuration is not chosen by timing."""
    each = [dims] if isinstance(dims, int) else dims or range(source.dim())
    whole = {dim % source.dim() for dim in each}
    return source.numel() <= 1024 and all(dim in whole or n == 1 for dim, n in enumerate(source.shape))


@noted("shape.is_aligned", "Matrix products: are all sizes multiples of those that Inductor pads to?")
def _is_aligned(func: Any, services: Services) -> ArgumentReader | None:
    @of_arguments("mat1 mat2" if "addmm" in str(func) else "self mat2")
    def read(left: torch.Tensor, right: torch.Tensor) -> bool:
        multiple = {"torch.float32": 4, "torch.float16": 8, "torch.bfloat16": 8}.get(str(left.dtype), 1)
        return all(size % multiple == 0 for size in (*left.shape[-2:], right.shape[-1]))

    return read(func, services)


@asked(
    "shape.windows_gathered",
    "Average pooling: do at most 125 windows hold one element, which Inductor gathers from?",
    "kernel_size stride",
)
def _are_windows_gathered(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """As Inductor's backward counts them in three dimensions; with more, it calls torch's own."""
    kernel, steps = (list(each) * (3 if len(each) == 1 else 1) for each in (sizes, strides or sizes))
    windows = (
        max(max(place // step - max(0, (place - size) // step), 1) for place in range(2 * size))
        for size, step in zip(kernel, steps, strict=True)
    )
    return prod(windows) <= 125


@noted_of_sizes(
    "shape.topk_plain",
    "topk: do its sizes keep it off every kernel that counts arrivals, whatever the device?",
    "self dim",
)
def _is_plain_topk(source: torch.Tensor, dim: int) -> bool:
    """Every GPU with such kernels has more than 8 SMs, MIG slices included, and they take as many rows at least."""
    length = source.size(dim) if source.dim() else 1
    few_rows, short_row, vector = 8, 128, 4
    return bool(length < short_row or length % vector or source.numel() // max(length, 1) < few_rows)


@noted_of_sizes("shape.ctc_small", "CTC: is the loss small enough for CUDA's kernel that adds in order?", "log_probs")
def _is_small_ctc(log_probs: torch.Tensor) -> bool:
    """Past this measure of steps, batch and alphabet, the gradient is made by the kernel for large problems."""
    steps, labels = log_probs.shape[0], log_probs.shape[-1]
    batch = log_probs.shape[1] if log_probs.dim() > 2 else 1
    return bool(2 * steps + 24 * batch // 10 + 2 * labels // 10 <= 450)


@marked_of_sizes("shape.channels_gt_1024", "Sampling: does the input have more than 1,024 channels?", "input")
def _has_many_channels(source: torch.Tensor) -> bool:
    return source.shape[1] > 1024


@noted_of_sizes(
    "shape.meets_at_most_twice",
    "Pooling, resampling: does no element collect more than two addends? Two give one sum in either order.",
)
def meets_at_most_twice(func: Any, services: Services) -> ArgumentReader | None:
    """Return a test of whether no element of the result of ``func`` collects more than two addends."""
    name = str(func).split(".")[1]
    spatial = 3 if "3d" in name else 2
    if "adaptive" in name:
        make = _adaptive_windows(spatial)
    elif "fractional" in name:
        make = _fractional_windows
    elif name.startswith("upsample"):
        make = _resampled(_reach_of_cubic if "cubic" in name else _reach_of_linear)
    else:
        make = _windows(spatial)
    bounds = make(func, services)
    return None if bounds is None else lambda args, kwargs: prod(bounds(args, kwargs)) <= 2


def _windows(spatial: int) -> Makes:
    """Pooling with a kernel: the windows that an element may lie in."""

    @of_arguments("grad_output kernel_size stride dilation?")
    def read(gradient: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Any) -> list[int]:
        sizes, steps, gaps = list(kernel), list(stride or kernel), list(dilation or [1])
        counts = list(gradient.shape[-spatial:])
        each = [values * len(counts) if len(values) == 1 else values for values in (sizes, steps, gaps)]
        return [windows_of_one(*extents) for extents in zip(*each, counts, strict=True)]

    return read


def windows_of_one(size: int, step: int, gap: int, count: int) -> int:
    """In how many of ``count`` windows one element lies at most: ``size`` elements, ``gap`` apart, each ``step`` on."""
    common = gcd(step, gap)
    return max(1, min(-(-size * common // step), -(-count * common // gap)))


def _adaptive_windows(spatial: int) -> Makes:
    @of_arguments("self grad_output")
    def read(source: torch.Tensor, gradient: torch.Tensor) -> list[int]:
        extents = zip(source.shape[-spatial:], gradient.shape[-spatial:], strict=True)
        return [adaptive_windows_of_one(total, count) for total, count in extents]

    return read


def adaptive_windows_of_one(total: int, count: int) -> int:
    """In how many of ``count`` windows over ``total`` elements one lies at most: neighbours share no more than one."""
    if not count or total % count == 0:
        return 1
    return 2 if total > count else -(-count // max(total, 1)) + (count % max(total, 1) > 0)


@of_arguments("self kernel_size output_size")
def _fractional_windows(source: torch.Tensor, sizes: Sequence[int], counts: Sequence[int]) -> list[int]:
    spatial = source.shape[-len(sizes) :]
    return [fractional_windows_of_one(*extents) for extents in zip(spatial, sizes, counts, strict=True)]


def fractional_windows_of_one(total: int, size: int, count: int) -> int:
    """As ``windows_of_one``, for windows that start at least ``floor((total - size) / (count - 1))`` apart."""
    spacing = (total - size) // (count - 1) if count > 1 else size
    return min(count, -(-size // spacing)) if spacing > 0 else count


def _resampled(reach: Callable[[float, bool], int]) -> Makes:
    @of_arguments("output_size input_size align_corners scales? scales_d? scales_h? scales_w?")
    def read(output: Sequence[int], source: Sequence[int], is_aligned: bool, *scales: float | None) -> list[int]:
        counts = list(output)
        totals = list(source)[-len(counts) :]
        by_dimension = scales[:1] if len(counts) == 1 else scales[-len(counts) :]
        return [
            1 if total == count else reach(_step(total, count, scale, is_aligned), is_aligned)
            for total, count, scale in zip(totals, counts, by_dimension, strict=True)
        ]

    return read


def _step(total: int, count: int, scale: float | None, is_aligned: bool) -> float:
    """The distance in the input of two neighbours of the output; arbitrarily large if there is only one."""
    if is_aligned:
        return (total - 1) / (count - 1) if count > 1 else float(max(total, MANY))
    return 1 / scale if scale is not None and scale > 0 else total / count


def _reach_of_linear(step: float, is_aligned: bool) -> int:
    """The number of outputs that weigh on one input, each on the two that it falls between."""
    if step < 1 + _CLOSE:
        return MANY
    if abs(step - 2) < _CLOSE:
        return 2 if is_aligned else 1  # not aligned, each output falls in the middle between two inputs
    return 1 if step > 2 else 2


def _reach_of_cubic(step: float, is_aligned: bool) -> int:
    """The same for four inputs each. Nearer to an edge than that, one output weighs on it several times."""
    return 1 if step > 4 + _CLOSE or (step > 4 - _CLOSE and not is_aligned) else MANY
