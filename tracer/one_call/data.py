"""The recorded arguments of a call, checked against what torch has, and the data that it is replayed with.

Data are of the recorded kind if that is known, else with repeats and ties: an index is in bounds, a mask is true or
false, a variance is positive. The results are pieces of the program's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from math import prod
from typing import Any, NamedTuple

from tracer.names import DataShown
from tracer.ops import Index, IndexBelow, Op, Route, Writes, row_of
from tracer.trace.records import Argument, DeviceType, FactValue, NotKept, Number, TensorForm, TorchWord

#: Stands in for a size that was not fixed in compiled code.
UNFIXED = 16


class Tensor(NamedTuple):
    """A tensor without its data."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None = None
    """``None`` for a contiguous one."""
    layout: str = ""
    """``sparse_coo`` and the like; empty for a strided one."""
    device: str = ""
    """Its device, if not that of the call."""
    is_unfixed: bool = False
    """Whether ``UNFIXED`` stands in for a size."""

    @property
    def numel(self) -> int:
        return prod(self.shape)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: The types of device that torch has, and the names that vendors register for their own.
DEVICES = words("""
    cpu cuda hip xpu mps npu meta hpu xla mtia maia ipu vulkan opengl opencl ideep ve fpga lazy privateuseone
    """)
#: As ``str`` writes them, without ``torch.``.
DTYPES = words("""
    bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64
    complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 quint8 qint8
    qint32 quint4x2 quint2x4 bits8 bits16 bits1x8 bits2x4 bits4x2 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3
    uint4 uint5 uint6 uint7
    """)
LAYOUTS = words("strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc _mkldnn jagged")
#: As a tensor's form names them; a strided one has none.
_NAMED_LAYOUTS = frozenset(name.removeprefix("_") for name in LAYOUTS) | {""}
MEMORY_FORMATS = words("contiguous_format channels_last channels_last_3d preserve_format")
_WORDS = DTYPES | LAYOUTS | MEMORY_FORMATS | {"Generator"}
_LARGEST = 2**63 - 1


def program_arguments(recorded: Mapping[str, Argument]) -> dict[str, Any]:
    """``CallGroup.given`` as a program may write it. Raises ``ValueError`` for anything that torch does not have.

    The result becomes part of a program: plain values, tensors of dtypes, layouts and devices that torch has, and words
    of closed lists.
    """
    odd = next((name for name in recorded if not name.isidentifier()), None)
    if odd is not None:
        raise ValueError(f"are named {odd!r}, which is no name")
    return {name: _checked(value) for name, value in recorded.items()}


def tensors_in(arguments: dict[str, Any]) -> Iterator[Tensor]:
    for value in arguments.values():
        yield from (item for item in (value if isinstance(value, list) else (value,)) if isinstance(item, Tensor))


def has_unknown(value: Any) -> bool:
    return isinstance(value, NotKept) or (isinstance(value, list) and any(map(has_unknown, value)))


def _checked(value: object) -> Any:
    if isinstance(value, list):
        return [*map(_checked, value)]
    if isinstance(value, TensorForm):
        return _tensor(value)
    is_odd_word = isinstance(value, TorchWord) and value.name not in _WORDS
    if is_odd_word or (isinstance(value, DeviceType) and value.type not in DEVICES):
        raise ValueError(f"holds {value}, which is no word of torch")
    if isinstance(value, Number):
        for kind in (int, float, complex):
            with suppress(ValueError):
                return kind(value.text)
        raise ValueError(f"holds {value.text}, which is no number")
    return value


def _tensor(form: TensorForm) -> Tensor:
    parts = [(form.layout, _NAMED_LAYOUTS), (form.device, DEVICES | {""}), (form.dtype, DTYPES)]
    odd = next((part for part, allowed in parts if part not in allowed), None)
    if odd is not None:
        raise ValueError(f"holds a tensor of {odd}, which is no dtype, no layout and no device")
    stride = form.stride
    if stride is not None and len(stride) != len(form.shape):
        raise ValueError("holds a tensor with another number of strides than sizes")
    if any(size is not None and not 0 <= size <= _LARGEST for size in (*form.shape, *(stride or ()))):
        raise ValueError("holds a tensor whose sizes are no numbers")
    is_unfixed = None in form.shape
    sizes = tuple(UNFIXED if size is None else size for size in form.shape)
    steps = tuple(step for step in stride or () if step is not None)
    has_stride = stride is not None and None not in stride and not is_unfixed
    return Tensor(form.dtype, sizes, steps if has_stride else None, form.layout, form.device, is_unfixed)


_LETTERS = "abcdefghijkmnpqrstuvwxyz"
#: Arguments that repeat sizes of tensors.
SIZED = words("""
    size sizes shape input_size input_sizes output_size output_sizes self_sizes num_weights normalized_shape num_classes
    N C HxW n
    """)


class Sizes:
    """Letters for the sizes above 1 of a call's tensors, so that a program can halve each size wherever it occurs."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        above_one = dict.fromkeys(size for tensor in tensors for size in tensor.shape if size > 1)
        self.letters = dict(zip(above_one, _LETTERS, strict=False))

    def name(self, size: int) -> str:
        """Its letter, or the number itself."""
        return self.letters.get(size, str(size))

    def shape(self, sizes: Iterable[int]) -> str:
        return f"[{', '.join(map(self.name, sizes))}]"

    def product(self, sizes: Iterable[int]) -> str:
        return " * ".join(map(self.name, sizes)) or "1"

    @property
    def parameters(self) -> str:
        """As parameters of a function, each with its recorded size."""
        return ", ".join(f"{letter}={size}" for size, letter in self.letters.items())


class Data(NamedTuple):
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


class DataKind(NamedTuple):
    """The recording's statements about the data."""

    facts: Mapping[str, FactValue] = {}
    shown: frozenset[DataShown] = frozenset()

    @property
    def is_distinct(self) -> bool:
        return self.facts.get("index.distinct") is True or self.shown == {DataShown.DISTINCT}

    @property
    def repeats(self) -> str:
        if self.is_distinct:
            return NOT_AS_RECORDED
        return AS_RECORDED if DataShown.DUPLICATES in self.shown else REPEATS


def data_of(
    op: str, name: str, form: Tensor, arguments: Mapping[str, Any], kind: DataKind, sizes: Sizes, place: int
) -> Data:
    """Return the recipe of the tensor ``name`` of ``op``, a packet's name; ``place`` is its position in a list."""
    row = row_of(op)
    if form.layout:
        if form.layout not in ("sparse_coo", "sparse_csr", "sparse_csc"):
            raise ValueError(f"a tensor of layout {form.layout} cannot be rebuilt")
        text = f'sparse("{form.dtype}", {sizes.shape(form.shape)}).to_{form.layout.removesuffix("_coo")}()'
        note = "one element in ten is not zero: how many were is not recorded"
        return Data(text, ("sparse", "floats", "uniform"), note)
    if form.dtype == "bool":
        count = _picked(row, name, arguments)
        if count is None:
            return _call("booleans", form, sizes)
        return _call("chosen", form._replace(stride=None), sizes, f"count={sizes.name(count)}")
    if form.dtype.startswith(("int", "uint")):
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


def _integers(
    row: Op, name: str, form: Tensor, arguments: Mapping[str, Any], kind: DataKind, sizes: Sizes, place: int
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
        sources = (
            tensor
            for tensor in tensors.values()
            if tensor.dtype.startswith(("float", "bfloat", "complex")) and tensor.shape
        )
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
