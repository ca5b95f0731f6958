"""The data that a call is replayed with: of the recorded kind if that is known, else with repeats and ties.

An index must be in bounds, a mask is true or false, a variance is positive: what an argument holds depends on the op
and on its name. The results are pieces of the program's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

from tracer.names import DataShown
from tracer.one_call.call_arguments import Sizes, Tensor, words
from tracer.ops.op import Index, IndexBelow, Op, Route, Writes
from tracer.ops.rows import row_of
from tracer.trace.records import FactValue


class Data(NamedTuple):
    """The recipe of one tensor."""

    expression: str
    makers: tuple[str, ...]
    """The program's functions that it calls."""
    note: str = ""
    """A note on it for the reader."""


#: Names of indices, and of offsets of pieces, in ops without a row of their own.
_INDEX_NAMES = words("index indices idx ids target targets label labels src dst input_ids token_ids")
_OFFSET_NAMES = words("offsets ptr indptr cu_seqlens cu_seqlens_q cu_seqlens_k cum_seq_q cum_seq_k offs crow_indices")
_POSITIVE = words("""
    running_var save_var save_invstd rstd invstd std total_weight exp_avg_sq exp_avg_sqs max_exp_avg_sqs state_sums
    inv_scale grad_scale growth_tracker random_samples prob p
    """)

REPEATS = "numbers repeat: whether they did is not in the recording"
AS_RECORDED = "numbers repeat, as in the recording"
NOT_AS_RECORDED = "numbers repeat, though they did not in the recording: which they were is not known"
ONCE = "no number occurs twice, as in the recording"
TIES = "some elements are equal: whether there were ties is not in the recording"
TIES_AS_RECORDED = "some elements are equal, as in the recording"


class Kind(NamedTuple):
    """The recording's statements about the data."""

    facts: Mapping[str, FactValue] = {}
    shown: frozenset[DataShown] = frozenset()

    @property
    def is_distinct(self) -> bool:
        """Whether no index occurs twice."""
        return self.facts.get("index.distinct") is True or self.shown == {DataShown.DISTINCT}

    @property
    def repeats(self) -> str:
        """The note for numbers that repeat."""
        if self.is_distinct:
            return NOT_AS_RECORDED
        return AS_RECORDED if DataShown.DUPLICATES in self.shown else REPEATS


def data_of(
    op: str, name: str, form: Tensor, arguments: Mapping[str, Any], kind: Kind, sizes: Sizes, place: int
) -> Data:
    """Return the recipe of the tensor ``name`` of ``op``, a packet's name; ``place`` is its position in a list."""
    row = row_of(op)
    if form.layout:
        return _sparse(form, sizes)
    if form.dtype == "bool":
        count = _picked(row, name, arguments)
        if count is None:
            return _call("booleans", form, sizes)
        return _call("chosen", form._replace(stride=None), sizes, f"count={sizes.name(count)}")
    if form.is_integer:
        return _integers(row, name, form, arguments, kind, sizes, place)
    if name in _POSITIVE or row.probabilities:
        return _call("uniform", form, sizes)
    if name == "grid":
        return _call("uniform", form, sizes, wrap="2 * {} - 1")
    if row.definite and name in ("self", "A") and len(form.shape) > 1 and form.dtype in ("float32", "float64"):
        return _call("definite", form._replace(stride=None), sizes)
    if (row.tied or (op in ("max", "min") and "dim" in arguments)) and kind.shown != {DataShown.NO_TIES}:
        return _call("tied", form, sizes, note=TIES_AS_RECORDED if DataShown.TIES in kind.shown else TIES)
    return _call("floats", form, sizes)


def _call(maker: str, form: Tensor, sizes: Sizes, *further: str, note: str = "", wrap: str = "{}") -> Data:
    stride = [] if form.stride is None else [f"strides={list(form.stride)}"]
    words = [f'"{form.dtype}"', sizes.shape(form.shape), *further, *stride]
    return Data(wrap.format(f"{maker}({', '.join(words)})"), (maker,), note)


def _sparse(form: Tensor, sizes: Sizes) -> Data:
    if form.layout not in ("sparse_coo", "sparse_csr", "sparse_csc"):
        raise ValueError(f"a tensor of layout {form.layout} cannot be rebuilt")
    text = f'sparse("{form.dtype}", {sizes.shape(form.shape)}).to_{form.layout.removesuffix("_coo")}()'
    return Data(text, ("sparse", "floats", "uniform"), "one element in ten is not zero: how many were is not recorded")


def _integers(
    row: Op, name: str, form: Tensor, arguments: Mapping[str, Any], kind: Kind, sizes: Sizes, place: int
) -> Data:
    if row_of(row.name.removesuffix("_backward")).route is Route.CTC and name == "targets":  # 0 is the blank
        classes = sizes.name(arguments["log_probs"].shape[-1])
        return _call("integers", form, sizes, f"below={classes} - 1", note=REPEATS, wrap="1 + {}")
    if name == "pivots":
        return _call("integers", form, sizes, "below=1", note="no rows are swapped", wrap="1 + {}")
    bounds = _below(row, name, form, arguments, sizes, place)
    if bounds is not None:
        below, axis = bounds
        if kind.is_distinct and form.stride is None and axis is not None and form.shape:
            return _call("once_each", form, sizes, f"below={below}", f"dim={axis}", note=ONCE)
        return _call("integers", form, sizes, f"below={below}", note=kind.repeats)
    tensors = {key: value for key, value in arguments.items() if isinstance(value, Tensor)}
    if name in _OFFSET_NAMES:
        indices = (tensor for key, tensor in tensors.items() if key in _INDEX_NAMES)
        sources = (tensor for tensor in tensors.values() if tensor.is_floating and tensor.shape)
        whole = next(chain(indices, sources), None)
        if whole is not None and whole.shape and len(form.shape) == 1:
            ends = name not in ("offsets", "offs")  # whether the last one is the whole length
            count, length = sizes.name(form.shape[0]), sizes.name(whole.shape[0])
            text = f'offsets("{form.dtype}", {count}, {length}, ends={ends})'
            return Data(text, ("offsets",), "pieces of equal length: where they began is not recorded")
    if name == "lengths" and "data" in tensors:
        length = sizes.name(tensors["data"].shape[arguments.get("axis", 0)])
        text = f'lengths("{form.dtype}", {sizes.name(form.shape[-1]) if form.shape else 1}, {length})'
        return Data(text, ("lengths",), "pieces of equal length: how long they were is not recorded")
    if name == "offset2bag" and "bag_size" in tensors:
        bags = sizes.name((*tensors["bag_size"].shape, 1)[0])
        text = f'spread("{form.dtype}", {sizes.name(form.shape[0]) if form.shape else 1}, {bags})'
        return Data(text, ("spread",), "bags of equal length: what they held is not recorded")
    if name in _INDEX_NAMES:  # what it indexes is not known, but the smallest size is always in bounds
        least = {sizes.name(size) for tensor in tensors.values() for size in tensor.shape}
        below = f"min({', '.join(sorted(least))})" if len(least) > 1 else (least or {"1"}).pop()
        return _call("integers", form, sizes, f"below={below}", note=REPEATS)
    if row.tied or row.name in ("bincount", "histc"):
        return _call("integers", form, sizes, "below=8", note=REPEATS)
    return _call("integers", form, sizes, "below=2", note="zeros and ones: which numbers they were is not recorded")


def _picked(row: Op, name: str, arguments: Mapping[str, Any]) -> int | None:
    """Return the number of elements that a mask must pick, if another argument says so."""
    if row.writes is Writes.SEVERAL and name == "indices":
        values = arguments.get("values")
        return values.shape[0] if isinstance(values, Tensor) and values.shape and values.shape[0] > 1 else None
    if row.name == "masked_scatter" and isinstance(arguments.get("source"), Tensor):
        return int(arguments["source"].numel)
    return None


def _below(
    row: Op, name: str, form: Tensor, arguments: Mapping[str, Any], sizes: Sizes, place: int
) -> tuple[str, int | None] | None:
    """An index's upper bound, and the dimension along which its numbers may be distinct."""
    own = arguments.get("self", arguments.get("weight"))
    index = row.indexed_by
    row_axis = 0 if len(form.shape) == 1 else None
    if row.indexes_each and name == "indices":
        dimension = 0
        for before in arguments["indices"][:place]:
            is_mask = isinstance(before, Tensor) and before.dtype in ("bool", "uint8")
            dimension += len(before.shape) if is_mask else 1
        return sizes.name(own.shape[dimension]), row_axis
    if isinstance(index, Index) and index.argument == name:
        counted = arguments.get(index.counts)
        dim = arguments.get(index.dim, 0) if isinstance(index.dim, str) else index.dim
        if not isinstance(counted, Tensor) or not isinstance(dim, int):
            return None
        axis = 0 if len(form.shape) < 2 else dim % max(len(form.shape), 1)
        return (sizes.name(counted.shape[dim]) if counted.shape else "1"), axis
    if isinstance(index, IndexBelow) and index.argument == name and isinstance(arguments.get(index.limit), int):
        return sizes.name(arguments[index.limit]), row_axis
    if row.indexed_flat_by == name and isinstance(own, Tensor):
        return sizes.product(own.shape), row_axis
    if row.name == "index_select_backward" and name == "index" and isinstance(arguments.get("self_sizes"), list):
        return sizes.name(arguments["self_sizes"][arguments.get("dim", 0)]), 0
    if row.writes is Writes.UNPOOLED and name == "indices" and isinstance(arguments.get("output_size"), list):
        return sizes.product(arguments["output_size"]), None
    if row.writes is Writes.POOLED and name == "indices" and isinstance(own, Tensor):
        return sizes.product(own.shape[-row.spatial :]), None
    return None
