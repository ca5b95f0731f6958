"""Facts of operands: sparse, empty, or of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.facts.argument_readers import MISSING, Args, Kwargs, Reader, argument_getter, getters, of_arguments
from tracer.facts.fact import Services, Test, asked, marked, noted_fact

if TYPE_CHECKING:
    pass

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


def _both_sparse(func: Any, services: Services) -> Reader | None:
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
    asked("operands.both_sparse", _both_sparse, "Products: are both factors sparse?", on_plain=False),
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
