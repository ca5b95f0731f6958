"""Facts that an argument tells, an operand, or the function of ``torch.nn.functional`` that the call came from."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from tracer import facts
from tracer.facts import MISSING, Args, ArgumentReader, Kwargs, Services, argument_getter

if TYPE_CHECKING:
    import torch

_REDUCE_OPS = ("sum", "avg", "product", "premul_sum", "min", "max", "band", "bor", "bxor")


def _argument(name: str, about: str, words: Mapping[Any, str] | None = None) -> None:
    """Declares the argument of that schema name as a fact: a flag, or, by its value, one of ``words``."""

    def reads(func: Any, services: Services) -> ArgumentReader | None:
        get = argument_getter(func, name)
        if get is None:
            return None
        if words is None:
            return lambda args, kwargs: bool(get(args, kwargs))
        return lambda args, kwargs: words.get(get(args, kwargs), MISSING)

    domain = facts.BOOL if words is None else tuple(words.values())
    facts.asked(f"arg.{name}", about, domain=domain)(reads)


_argument("accumulate", "Is added to what stands there?")
_argument("largest", "Are the largest chosen?")
_argument("sorted", "Is the result sorted?")
_argument("align_corners", "Are corners aligned?")
_argument("deterministic", "Attention libraries: is the backward kernel's own switch on?")
_argument("sequence", "Bucketizing: is the order inside a bucket kept?")
_argument("max_unorm", "Is a limit set on the update's norm?")
_argument(
    "reduce", "The reduction.", {word: word for word in ("sum", "prod", "mean", "amax", "amin", "add", "multiply")}
)
_argument(
    "driver",
    "LAPACK's driver; default: torch picks it.",
    {None: "default", **{word: word for word in ("gels", "gelsy", "gelsd", "gelss")}},
)
_argument("reduction", "The loss's reduction.", {0: "none", 1: "mean", 2: "sum"})
_argument("mode", "What an embedding bag computes.", {0: "sum", 1: "mean", 2: "max"})
_argument("interpolation_mode", "The interpolation.", {0: "bilinear", 1: "nearest", 2: "bicubic"})
_argument("padding_mode", "The padding.", {0: "zeros", 1: "border", 2: "reflection"})


@facts.asked("arg.training", "Does it run in training?", "training|train")
def _is_training(mode: Any) -> bool:
    return mode is not False


@facts.asked("arg.output_mask0", "Is the input's gradient asked for?", "output_mask|grad_input_mask")
def _is_gradient_asked(mask: Any) -> bool:
    return bool(mask[0])


@facts.asked("arg.dropout", "Is dropout asked for: a rate above 0, and not in evaluation?")
def _drops(func: Any, services: Services) -> ArgumentReader | None:
    return facts.dropout_reader(func, "p")


@facts.asked("given.attn_mask", "Was an attention mask given?", "attn_mask")
@facts.asked("given.weights", "Were weights given?", "weights")
def _is_given(optional: Any) -> bool:
    return optional is not None


@facts.asked("arg.reduce_op", "A collective's reduction, where its caller can be asked.", domain=_REDUCE_OPS)
def _reduce_op(func: Any, services: Services) -> ArgumentReader | None:
    """c10d's own ops hold it in an object that Python cannot look into: there the options of the function of
    ``torch.distributed`` that led to this call tell it, if one did: a C++ reducer has none."""
    get = argument_getter(func, "reduce_op")
    if get is None:
        return None

    def asked_of_c10d() -> str:
        for frame in _torchs_frames(services):
            for name, value in frame.f_locals.items():
                reduction = getattr(value, "reduceOp", None) if name.endswith("opts") else None
                if reduction is not None:
                    return str(getattr(reduction, "op", reduction))
        return ""

    def read(args: Args, kwargs: Kwargs) -> Any:
        passed = get(args, kwargs)
        word = passed if isinstance(passed, str) else asked_of_c10d()
        return word if (word := word.rpartition(".")[2].lower()) in _REDUCE_OPS else MISSING

    return read


@facts.noted("collective.any_order", "A collective: is its reduction the same in any order, or its group one rank?")
def _any_order(func: Any, services: Services) -> ArgumentReader | None:
    """Extrema, and what is combined bit by bit."""
    group, reduction = argument_getter(func, "process_group", "group_name"), _reduce_op(func, services)
    if group is None or reduction is None:
        return None
    return lambda args, kwargs: (
        services.group_size(group(args, kwargs)) == 1 or reduction(args, kwargs) in _REDUCE_OPS[4:]
    )


def _torchs_frames(services: Services) -> Iterator[FrameType]:
    """The frames of torch's own functions that led to this call, and the recorder's, from the inside out."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and services.is_torchs_own(frame.f_code.co_filename):
        yield frame
        frame = frame.f_back


def _caller(function: str, services: Services) -> FrameType | None:
    """The frame of ``torch.nn.functional``'s ``function`` that led to this call."""
    from torch.nn import functional

    where = functional.__file__, function
    frames = _torchs_frames(services)
    return next((frame for frame in frames if (frame.f_code.co_filename, frame.f_code.co_name) == where), None)


@facts.marked("call.fits_cudnn", "CTC: does cuDNN accept dtypes, sizes and blank, wherever the targets are?")
def _fits_cudnns_ctc(func: Any, services: Services) -> ArgumentReader | None:
    """The targets become int64 on the way to the op."""
    from torch import float32, int32

    longest_target = 256

    def numbers(lengths: Any) -> list[int]:
        """Those on a device are not read: a length that cuDNN does not take stands for them."""
        if not hasattr(lengths, "device"):
            return list(lengths)
        return [int(length) for length in lengths.tolist()] if lengths.device.type == "cpu" else [longest_target]

    @facts.of_arguments("log_probs targets input_lengths target_lengths blank")
    def fits(frames: torch.Tensor, labels: torch.Tensor, widths: Any, lengths: Any, blank: int) -> bool:
        if blank != 0 or frames.dtype is not float32 or labels.dim() != 1:
            return False
        caller = _caller("ctc_loss", services)
        targets = None if caller is None else caller.f_locals.get("targets")
        if getattr(targets, "dtype", None) is not int32:
            return False
        steps = frames.shape[0]
        longest = min(longest_target - 1, steps)
        return all(end == steps for end in numbers(widths)) and all(end <= longest for end in numbers(lengths))

    return fits(func, services)


@facts.marked(
    "call.direct",
    "Was it called directly, not by the function of torch.nn.functional with another path in deterministic mode?",
)
def _is_direct(func: Any, services: Services) -> ArgumentReader | None:
    """Scripts hide ``F.pad`` and the like."""
    name = str(func)
    function = "pad" if "pad" in name else "grid_sample" if "grid_sampler" in name else "interpolate"
    return lambda args, kwargs: _caller(function, services) is None


@facts.marked(
    "call.returns_indices",
    "Was it called by the function that takes another path in deterministic mode if indices are requested?",
)
def _returns_indices(func: Any, services: Services) -> ArgumentReader | None:
    return lambda args, kwargs: _caller("max_pool3d_with_indices", services) is not None


@facts.marked("call.makes_half_complex", "Copying to another dtype: is it complex32?")
def _makes_half_complex(func: Any, services: Services) -> ArgumentReader | None:
    from torch import complex32

    dtype = argument_getter(func, "dtype")
    return None if dtype is None else lambda args, kwargs: dtype(args, kwargs) is complex32


# --- operands: sparse, empty, or of integers ---


@facts.asked("operands.both_sparse", "Products: are both factors sparse?", on_plain=False)
def _both_sparse(func: Any, services: Services) -> ArgumentReader | None:
    """The factors are the last two tensors, after any addend."""
    from torch import Tensor, strided

    def read(args: Args, kwargs: Kwargs) -> bool:
        factors = [value for value in args if isinstance(value, Tensor)][-2:]
        return len(factors) == 2 and all(factor.layout is not strided for factor in factors)

    return read


@facts.noted(
    "shape.no_elements",
    "Products, scans, pooled regions: is there nothing to add, because some operand has no elements?",
    on_plain=MISSING,
)
def _has_no_elements(func: Any, services: Services) -> ArgumentReader | None:
    """Then nothing but a bias or a start is added."""
    from torch import Tensor

    return lambda args, kwargs: any(isinstance(arg, Tensor) and arg.numel() == 0 for arg in args)


@facts.noted("operands.integral_weights", "Counting: are the weights integers, whose sum is exact?", "weights")
def _has_integral_weights(weights: torch.Tensor | None) -> bool:
    return weights is not None and not (weights.is_floating_point() or weights.is_complex())


@facts.noted("operands.row_within", "Products: is a row added (nn.Linear's bias) that cuBLASLt takes into the product?")
def _adds_row_within(func: Any, services: Services) -> ArgumentReader | None:
    """Else the row is added before cuBLASLt multiplies."""
    argument_getters = facts.getters(func, "self", "mat1", "mat2", "beta")
    if argument_getters is None or argument_getter(func, "out") is not None:
        return None
    row, first, second, share = argument_getters
    import torch

    strided, floats = torch.strided, (torch.float32, torch.float64, torch.float16, torch.bfloat16)

    def test(args: Args, kwargs: Kwargs) -> bool:
        added, factor = row(args, kwargs), second(args, kwargs)
        if added.dim() != 1 or added.dtype not in floats or share(args, kwargs) != 1:
            return False
        if first(args, kwargs).layout is not strided or factor.layout is not strided:
            return False
        deep, wide = factor.shape
        return bool(added.numel() == wide and deep > 1 and wide > 1 and added.is_contiguous())

    return test


@facts.marked("operands.uncoalesced", "Does a dense tensor meet a sparse one that is not coalesced?", on_plain=MISSING)
def _meets_uncoalesced(func: Any, services: Services) -> ArgumentReader | None:
    """Adding a sparse tensor onto a dense one, also pairs in lists, or making it dense; ``None`` for other ops."""
    from torch import Tensor

    others = argument_getter(func, "other")
    if argument_getter(func, "self") is None or (others is None and "to_dense" not in str(func)):
        return None

    def may_share(sparse: Any) -> bool:
        if not _is_sparse(sparse) or services.is_coalesced(sparse):
            return False
            # What has the indices of a coalesced tensor is not marked so (``torch.optim.SparseAdam``): along one sparse
        # dimension a row of distinct numbers names each place once.
        return sparse.sparse_dim() != 1 or not services.indices.distinct_along(services.indices_of(sparse), 1)

    def test(args: Args, kwargs: Kwargs) -> bool:
        if others is None:
            return may_share(args[0])
        onto, other = args[0], others(args, kwargs)
        if isinstance(other, Tensor):
            onto, other = [onto], [other]
        if not isinstance(other, (list, tuple)):
            return False
        return any(not _is_sparse(dense) and may_share(added) for dense, added in zip(onto, other, strict=False))

    return test


def _is_sparse(value: Any) -> bool:
    return getattr(value, "is_sparse", False) is True


@facts.marked(
    "operands.sparse",
    "Element by element: is a tensor sparse of which ``layout`` does not speak, in a list or behind the first?",
    on_plain=MISSING,
)
def _has_sparse_beside_first(func: Any, services: Services) -> ArgumentReader | None:
    kinds = [str(argument.type) for argument in func._schema.arguments if not argument.kwarg_only]
    tensors = [place for place, kind in enumerate(kinds) if kind in ("Tensor", "Optional[Tensor]")]
    lists = [place for place, kind in enumerate(kinds) if kind in ("List[Tensor]", "List[Optional[Tensor]]")]
    if not lists and len(tensors) < 2:
        return None
    import torch

    strided = torch.strided
    sparse = {torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}
    if tensors == [0, 1] and not lists:  # nearly all of them
        return lambda args, kwargs: args[1].layout is not strided and args[1].layout in sparse

    def test(args: Args, kwargs: Kwargs) -> bool:
        beside = [args[place] for place in tensors[tensors[:1] == [0] :] if place < len(args)]
        for place in lists:
            beside += args[place] or () if place < len(args) else ()
        return any(tensor is not None and tensor.layout in sparse for tensor in beside)

    return test


@facts.marked(
    "draw.cumulates",
    "Drawing: are probabilities summed up, because several are drawn with replacement?",
    "num_samples replacement",
)
def _cumulates(count: int, with_replacement: bool) -> bool:
    return bool(with_replacement) and count != 1
