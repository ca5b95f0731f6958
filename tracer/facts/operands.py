"""Facts of operands: sparse, empty, or of integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracer.facts.arguments import MISSING, Reader, argument_getter, getters
from tracer.facts.fact import BOOL, Fact, Kind, Services, Test

if TYPE_CHECKING:
    pass

_TENSORS = ("Tensor", "Optional[Tensor]")
_TENSOR_LISTS = ("List[Tensor]", "List[Optional[Tensor]]")


def _layouts() -> tuple[Any, frozenset[Any]]:
    """The strided layout, and the sparse ones."""
    import torch

    sparse = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    return torch.strided, frozenset(sparse)


def _has_sparse_beside_first(func: Any, services: Services) -> Test | None:
    """Is a tensor sparse that ``layout`` does not speak of? Of a list it speaks of the first member alone."""
    arguments = [argument for argument in func._schema.arguments if not argument.kwarg_only]
    kinds = [str(argument.type) for argument in arguments]
    tensors = [place for place, kind in enumerate(kinds) if kind in _TENSORS]
    lists = [place for place, kind in enumerate(kinds) if kind in _TENSOR_LISTS]
    if not lists and len(tensors) < 2:
        return None
    strided, sparse = _layouts()
    if tensors == [0, 1] and not lists:  # nearly all of them
        return lambda args, kwargs: args[1].layout is not strided and args[1].layout in sparse

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        layouts = {one.layout for place in tensors[tensors[:1] == [0] :] if (one := _at(args, place)) is not None}
        for place in lists:
            layouts.update([one.layout for one in _at(args, place) or () if one is not None])
        return not layouts.isdisjoint(sparse)

    return test


def _at(args: tuple[Any, ...], place: int) -> Any:
    return args[place] if place < len(args) else None


def _has_no_elements(func: Any, services: Services) -> Test | None:
    """Is one of the tensors empty? Then there is nothing to multiply, and nothing but a bias or a start to add."""
    from torch import Tensor

    return lambda args, kwargs: any(isinstance(arg, Tensor) and arg.numel() == 0 for arg in args)


def _has_integral_weights(func: Any, services: Services) -> Test | None:
    known = getters(func, "weights")
    if known is None:
        return None
    (weights,) = known

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        given = weights(args, kwargs)
        return given is not None and not (given.is_floating_point() or given.is_complex())

    return test


def _adds_row_within(func: Any, services: Services) -> Test | None:
    """Does cuBLASLt add the row while it multiplies? As ``nn.Linear`` has it; what stands apart is added before."""
    known = getters(func, "self", "mat1", "mat2", "beta")
    if known is None or getters(func, "out") is not None:
        return None
    row, first, second, share = known
    import torch

    strided, floats = torch.strided, (torch.float32, torch.float64, torch.float16, torch.bfloat16)

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        added, factor = row(args, kwargs), second(args, kwargs)
        if added.dim() != 1 or added.dtype not in floats or share(args, kwargs) != 1:
            return False
        if first(args, kwargs).layout is not strided or factor.layout is not strided:
            return False
        deep, wide = factor.shape
        return bool(added.numel() == wide and deep > 1 and wide > 1 and added.is_contiguous())

    return test


def _cumulates(func: Any, services: Services) -> Test | None:
    known = getters(func, "num_samples", "replacement")
    if known is None:
        return None
    many, again = known
    return lambda args, kwargs: bool(again(args, kwargs)) and many(args, kwargs) != 1


def _makes_half_complex(func: Any, services: Services) -> Test | None:
    known = getters(func, "dtype")
    if known is None:
        return None
    (asked,) = known
    from torch import complex32

    return lambda args, kwargs: asked(args, kwargs) is complex32


def _both_sparse(func: Any, services: Services) -> Reader | None:
    """Are both factors of a product sparse? They are its last two tensors; an addend comes before them."""
    from torch import Tensor, strided

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        factors = [value for value in args if isinstance(value, Tensor)][-2:]
        return len(factors) == 2 and all(factor.layout is not strided for factor in factors)

    return read


def _meets_uncoalesced(func: Any, services: Services) -> Test | None:
    """Adding a sparse tensor onto a dense one, pair by pair where lists are
    added, or making it dense, which adds it onto zeros; ``None`` where ``func`` does neither.

    A tensor made from the indices of one whose entries were brought together does not say that its own are, as in
    ``torch.optim.SparseAdam``: what the step did to make them is known.
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

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        if others is None:
            return may_share(args[0])
        onto, other = args[0], others(args, kwargs)
        if isinstance(other, Tensor):
            return not _is_sparse(onto) and may_share(other)
        if not isinstance(other, (list, tuple)):
            return False
        pairs = zip(onto, other, strict=False)
        return any(not _is_sparse(onto) and may_share(added) for onto, added in pairs)

    return test


def _is_sparse(value: Any) -> bool:
    return getattr(value, "is_sparse", False) is True


FACTS = (
    Fact("operands.both_sparse", BOOL, Kind.ASKED, "Products: are both factors sparse?", _both_sparse, on_plain=False),
    Fact(
        "shape.no_elements",
        BOOL,
        Kind.NOTED,
        "Products, scans: is there nothing to add, because some operand has no elements?",
        _has_no_elements,
        on_plain=MISSING,
    ),
    Fact(
        "operands.integral_weights",
        BOOL,
        Kind.NOTED,
        "Counting: are the weights integers, whose sum is exact?",
        _has_integral_weights,
    ),
    Fact(
        "operands.row_within",
        BOOL,
        Kind.NOTED,
        "Products: is a row added (nn.Linear's bias) that cuBLASLt takes into the product?",
        _adds_row_within,
    ),
    Fact(
        "operands.uncoalesced",
        BOOL,
        Kind.MARKED,
        "Does a dense tensor meet a sparse one that is not coalesced?",
        _meets_uncoalesced,
        on_plain=MISSING,
    ),
    Fact(
        "operands.sparse",
        BOOL,
        Kind.MARKED,
        "Element by element: is a tensor sparse of which ``layout`` does not speak, in a list or behind the first?",
        _has_sparse_beside_first,
        on_plain=MISSING,
    ),
    Fact(
        "draw.cumulates",
        BOOL,
        Kind.MARKED,
        "Drawing: are probabilities summed up, because several are drawn with replacement?",
        _cumulates,
    ),
    Fact(
        "call.makes_half_complex", BOOL, Kind.MARKED, "Copying to another dtype: is it complex32?", _makes_half_complex
    ),
)
