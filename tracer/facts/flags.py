"""Facts that an argument tells, an operand, or the function of ``torch.nn.functional`` that the call came from."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from tracer.facts import (
    BOOL,
    MISSING,
    Args,
    ArgumentReader,
    Fact,
    Kind,
    Kwargs,
    Makes,
    Services,
    Test,
    Value,
    argument_getter,
    asked_fact,
    dropout_reader,
    getters,
    marked,
    noted_fact,
    of_arguments,
)

if TYPE_CHECKING:
    import torch


def _argument(
    name: str, domain: tuple[Value, ...], codes: Mapping[int, str], func: Any, services: Services
) -> ArgumentReader | None:
    """The argument ``name``, as ``domain`` spells it: a flag, a word, or an integer code."""
    get = argument_getter(func, name)
    if get is None:
        return None
    if codes:
        return lambda args, kwargs: codes.get(get(args, kwargs), MISSING)
    if "default" in domain:
        return lambda args, kwargs: value if (value := get(args, kwargs) or "default") in domain else MISSING
    if domain == BOOL:
        return lambda args, kwargs: bool(get(args, kwargs))
    return lambda args, kwargs: value if (value := get(args, kwargs)) in domain else MISSING


def _is_given(name: str) -> Makes:
    """Return a function that reads whether the optional tensor of that schema name is passed."""
    return of_arguments(name)(lambda optional: optional is not None)


_REDUCE_OPS = ("sum", "avg", "product", "premul_sum", "min", "max", "band", "bor", "bxor")


def _reduce_op(func: Any, services: Services) -> ArgumentReader | None:
    """c10d's own ops hold it in an object that Python cannot look into: there the caller's options tell it."""
    get = argument_getter(func, "reduce_op")
    if get is None:
        return None

    def read(args: Args, kwargs: Kwargs) -> Any:
        passed = get(args, kwargs)
        word = passed if isinstance(passed, str) else _asked_of_c10d(services)
        return word if (word := word.rpartition(".")[2].lower()) in _REDUCE_OPS else MISSING

    return read


def _asked_of_c10d(services: Services) -> str:
    """The reduction in the options of the function of ``torch.distributed`` that led to this call; empty if none did,
    as where a C++ reducer calls."""
    for frame in _torchs_frames(services):
        options = (value for name, value in frame.f_locals.items() if name.endswith("opts"))
        for reduction in (held for held in (getattr(value, "reduceOp", None) for value in options) if held is not None):
            return str(getattr(reduction, "op", reduction))
    return ""


def _torchs_frames(services: Services) -> Iterator[FrameType]:
    """The frames of torch's own functions that led to this call, and the recorder's, from the inside out."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and services.is_torchs_own(frame.f_code.co_filename):
        yield frame
        frame = frame.f_back


def _any_order(func: Any, services: Services) -> Test | None:
    """Return a test of whether a collective combines by an extremum or bit by bit, or in a group of one rank."""
    group, reduction = argument_getter(func, "process_group", "group_name"), _reduce_op(func, services)
    if group is None or reduction is None:
        return None

    def test(args: Args, kwargs: Kwargs) -> bool:
        return services.group_size(group(args, kwargs)) == 1 or reduction(args, kwargs) in _REDUCE_OPS[4:]

    return test


def _fact(name: str, about: str, domain: tuple[Value, ...] = BOOL, codes: Mapping[int, str] | None = None) -> Fact:
    """An argument by its schema name."""
    domain = tuple(codes.values()) if codes else domain
    return Fact(f"arg.{name}", domain, Kind.ASKED, about, partial(_argument, name, domain, codes or {}))


_LONGEST_TARGET = 256
#: Part of an op's name to the function of ``torch.nn.functional`` that calls it; ``interpolate`` calls the others.
_FUNCTIONS: Mapping[str, str] = {"pad": "pad", "grid_sampler": "grid_sample"}


def _fits_cudnns_ctc(func: Any, services: Services) -> ArgumentReader | None:
    """Return a reader of whether cuDNN takes the loss if its targets, which become int64 later, are on the CPU."""
    from torch import float32, int32

    @of_arguments("log_probs", "targets", "input_lengths", "target_lengths", "blank")
    def fits(frames: torch.Tensor, labels: torch.Tensor, widths: Any, lengths: Any, blank: int) -> bool:
        if blank != 0 or frames.dtype is not float32 or labels.dim() != 1:
            return False
        caller = _caller("ctc_loss", services)
        targets = None if caller is None else caller.f_locals.get("targets")
        if getattr(targets, "dtype", None) is not int32:
            return False
        steps = frames.shape[0]
        longest = min(_LONGEST_TARGET - 1, steps)
        return all(end == steps for end in _numbers(widths)) and all(end <= longest for end in _numbers(lengths))

    return fits(func, services)


def _numbers(lengths: Any) -> list[int]:
    """Lengths as numbers; a length that cuDNN does not take for those on a device, which are not read."""
    if not hasattr(lengths, "device"):
        return list(lengths)
    return [int(length) for length in lengths.tolist()] if lengths.device.type == "cpu" else [_LONGEST_TARGET]


def _caller(function: str, services: Services) -> FrameType | None:
    """The frame of ``torch.nn.functional``'s ``function`` that led to this call."""
    from torch.nn import functional

    codes = ((frame, frame.f_code) for frame in _torchs_frames(services))
    its_own = (f for f, code in codes if code.co_filename == functional.__file__ and code.co_name == function)
    return next(its_own, None)


def _is_direct(func: Any, services: Services) -> Test | None:
    """Return a test of whether the op was called directly, not through ``F.pad`` or the like, which scripts hide."""
    name = str(func)
    function = next((called for part, called in _FUNCTIONS.items() if part in name), "interpolate")
    return lambda args, kwargs: _caller(function, services) is None


# --- operands: sparse, empty, or of integers ---

_TENSORS = ("Tensor", "Optional[Tensor]")
_TENSOR_LISTS = ("List[Tensor]", "List[Optional[Tensor]]")


def _has_sparse_beside_first(func: Any, services: Services) -> Test | None:
    """Return a test of whether a tensor is sparse beside the first, whose layout is the fact ``layout``."""
    arguments = [argument for argument in func._schema.arguments if not argument.kwarg_only]
    kinds = [str(argument.type) for argument in arguments]
    tensors = [place for place, kind in enumerate(kinds) if kind in _TENSORS]
    lists = [place for place, kind in enumerate(kinds) if kind in _TENSOR_LISTS]
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


def _has_no_elements(func: Any, services: Services) -> Test | None:
    """Return a test of whether a tensor is empty: nothing to multiply, and nothing but a bias or a start to add."""
    from torch import Tensor

    return lambda args, kwargs: any(isinstance(arg, Tensor) and arg.numel() == 0 for arg in args)


def _adds_row_within(func: Any, services: Services) -> Test | None:
    """Return a test of whether cuBLASLt adds the row as it multiplies, as in ``nn.Linear``, or it is added before."""
    argument_getters = getters(func, "self", "mat1", "mat2", "beta")
    if argument_getters is None or getters(func, "out") is not None:
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


def _makes_half_complex(func: Any, services: Services) -> Test | None:
    from torch import complex32

    dtype = argument_getter(func, "dtype")
    return None if dtype is None else lambda args, kwargs: dtype(args, kwargs) is complex32


def _both_sparse(func: Any, services: Services) -> ArgumentReader | None:
    """Return a reader of whether both factors of a product, its last two tensors after any addend, are sparse."""
    from torch import Tensor, strided

    def read(args: Args, kwargs: Kwargs) -> bool:
        factors = [value for value in args if isinstance(value, Tensor)][-2:]
        return len(factors) == 2 and all(factor.layout is not strided for factor in factors)

    return read


def _meets_uncoalesced(func: Any, services: Services) -> Test | None:
    """Adding a sparse tensor onto a dense one, also pair by pair in lists, or making it dense; ``None`` for other ops.

    A tensor with the indices of a coalesced one is not marked so (``torch.optim.SparseAdam``); the recording knows.
    """
    from torch import Tensor

    others = argument_getter(func, "other")
    if argument_getter(func, "self") is None or (others is None and "to_dense" not in str(func)):
        return None

    def is_distinct(sparse: Any) -> bool:
        """Along one sparse dimension a row of distinct numbers names each place once."""
        return sparse.sparse_dim() == 1 and services.indices.distinct_along(services.indices_of(sparse), 1)

    def may_share(sparse: Any) -> bool:
        return _is_sparse(sparse) and not services.is_coalesced(sparse) and not is_distinct(sparse)

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


FACTS = (
    _fact("accumulate", "Is added to what stands there?"),
    _fact("largest", "Are the largest chosen?"),
    _fact("sorted", "Is the result sorted?"),
    _fact("align_corners", "Are corners aligned?"),
    _fact("deterministic", "Attention libraries: is the backward kernel's own switch on?"),
    _fact("sequence", "Bucketizing: is the order inside a bucket kept?"),
    _fact("max_unorm", "Is a limit set on the update's norm?"),
    asked_fact(
        "arg.training", of_arguments("training|train")(lambda mode: mode is not False), "Does it run in training?"
    ),
    _fact("reduce", "The reduction.", ("sum", "prod", "mean", "amax", "amin", "add", "multiply")),
    Fact(
        "arg.reduce_op", _REDUCE_OPS, Kind.ASKED, "A collective's reduction, where its caller can be asked.", _reduce_op
    ),
    noted_fact(
        "collective.any_order",
        _any_order,
        "A collective: is its reduction the same in any order, or its group one rank?",
    ),
    _fact("driver", "LAPACK's driver; default: torch picks it.", ("default", "gels", "gelsy", "gelsd", "gelss")),
    _fact("reduction", "The loss's reduction.", codes={0: "none", 1: "mean", 2: "sum"}),
    _fact("mode", "What an embedding bag computes.", codes={0: "sum", 1: "mean", 2: "max"}),
    _fact("interpolation_mode", "The interpolation.", codes={0: "bilinear", 1: "nearest", 2: "bicubic"}),
    _fact("padding_mode", "The padding.", codes={0: "zeros", 1: "border", 2: "reflection"}),
    asked_fact(
        "arg.output_mask0",
        of_arguments("output_mask|grad_input_mask")(lambda mask: bool(mask[0])),
        "Is the input's gradient asked for?",
    ),
    asked_fact(
        "arg.dropout",
        lambda func, services: dropout_reader(func, "p"),
        "Is dropout asked for: a rate above 0, and not in evaluation?",
    ),
    asked_fact("given.attn_mask", _is_given("attn_mask"), "Was an attention mask given?"),
    asked_fact("given.weights", _is_given("weights"), "Were weights given?"),
    marked(
        "call.fits_cudnn",
        _fits_cudnns_ctc,
        "CTC: does cuDNN accept dtypes, sizes and blank, wherever the targets are?",
    ),
    marked(
        "call.direct",
        _is_direct,
        "Was it called directly, not by the function of torch.nn.functional with another path in deterministic mode?",
    ),
    marked(
        "call.returns_indices",
        lambda func, services: lambda args, kwargs: _caller("max_pool3d_with_indices", services) is not None,
        "Was it called by the function that takes another path in deterministic mode if indices are requested?",
    ),
    asked_fact("operands.both_sparse", _both_sparse, "Products: are both factors sparse?", on_plain=False),
    noted_fact(
        "shape.no_elements",
        _has_no_elements,
        "Products, scans, pooled regions: is there nothing to add, because some operand has no elements?",
        on_plain=MISSING,
    ),
    noted_fact(
        "operands.integral_weights",
        of_arguments("weights")(
            lambda weights: weights is not None and not (weights.is_floating_point() or weights.is_complex())
        ),
        "Counting: are the weights integers, whose sum is exact?",
    ),
    noted_fact(
        "operands.row_within",
        _adds_row_within,
        "Products: is a row added (nn.Linear's bias) that cuBLASLt takes into the product?",
    ),
    marked(
        "operands.uncoalesced",
        _meets_uncoalesced,
        "Does a dense tensor meet a sparse one that is not coalesced?",
        on_plain=MISSING,
    ),
    marked(
        "operands.sparse",
        _has_sparse_beside_first,
        "Element by element: is a tensor sparse of which ``layout`` does not speak, in a list or behind the first?",
        on_plain=MISSING,
    ),
    marked(
        "draw.cumulates",
        of_arguments("num_samples", "replacement")(
            lambda count, with_replacement: bool(with_replacement) and count != 1
        ),
        "Drawing: are probabilities summed up, because several are drawn with replacement?",
    ),
    marked("call.makes_half_complex", _makes_half_complex, "Copying to another dtype: is it complex32?"),
)
