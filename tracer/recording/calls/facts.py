"""What a call was called with: the facts that a rule's condition may read.

Everything that depends on the overload alone (which argument is the tensor that the op works on, where a flag
stands and what its default is) is decided the first time the overload is met. Per call, facts are read as raw,
hashable values; they become the vocabulary's words once per group, when the trace is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from tracer.recording.calls.arguments import MISSING as MISSING
from tracer.recording.calls.arguments import Getter, Reader, argument_getter, dropout_reader
from tracer.recording.calls.distinct import writes_once
from tracer.recording.calls.draws import DRAW, draw_reader
from tracer.recording.calls.noted.marks import MARKS
from tracer.recording.calls.noted.uncoalesced import meets_uncoalesced
from tracer.recording.calls.shapes import SHAPES, index_is_mask, one_value
from tracer.recording.storage.indices import Indices
from tracer.recording.torch_private import seams
from tracer.tables.vocabulary import DOMAINS
from tracer.trace.records import FactValue

_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}
_BAG_MODES = {0: "sum", 1: "mean", 2: "max"}
_INTERPOLATIONS = {0: "bilinear", 1: "nearest", 2: "bicubic"}
_PADDINGS = {0: "zeros", 1: "border", 2: "reflection"}
_CODES: Mapping[str, Mapping[int, str]] = {
    "arg.reduction": _REDUCTIONS,
    "arg.mode": _BAG_MODES,
    "arg.interpolation_mode": _INTERPOLATIONS,
    "arg.padding_mode": _PADDINGS,
}
#: Products that take a sparse operand in a place other than the first.
_PRODUCTS = frozenset({"addmm", "addmm_", "baddbmm", "baddbmm_", "addmv", "addmv_", "mm", "_sparse_addmm"})
#: Scans convert their input to the dtype that they are asked for before they add.
_SCANS = frozenset({"cumsum", "cumsum_", "cumprod", "cumprod_"})
#: Facts that hang on which indices are known to be of distinct numbers.
_OF_INDICES: Mapping[str, Callable[[Any, Indices], Reader | None]] = {
    "index.distinct": writes_once,
    "operands.uncoalesced": meets_uncoalesced,
}
_KNOWN_DTYPES = frozenset(DOMAINS["dtype"])
_KNOWN_LAYOUTS = frozenset(DOMAINS["layout"])
_KNOWN_DEVICES = frozenset(DOMAINS["device"])


def primary_position(func: Any) -> int | None:
    """Position of the argument that the op works on: ``self`` or ``input``, else the first tensor or tensor list."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return None
    first: int | None = None
    for position, argument in enumerate(schema.arguments):
        if argument.kwarg_only or "Tensor" not in str(argument.type):
            continue
        if argument.name in ("self", "input"):
            return position
        if first is None:
            first = position
    return first


def first_tensor(values: Iterable[Any]) -> torch.Tensor | None:
    """The first tensor in ``values``, looking one list deep."""
    for value in values:
        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, torch.Tensor):
                    return item
    return None


def requires_grad(args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool:
    """Does one of a call's tensors want a gradient? Looks one list deep."""
    lists = [value if isinstance(value, (list, tuple)) else (value,) for value in (*args, *kwargs.values())]
    return any(isinstance(item, torch.Tensor) and item.requires_grad for items in lists for item in items)


def has_other_layout(values: Iterable[Any]) -> bool:
    """Is one of ``values`` a nested, sparse, MKL-DNN or quantized tensor? Looks one list deep."""
    lists = [value if isinstance(value, (list, tuple)) else (value,) for value in values]
    tensors = [item for items in lists for item in items if isinstance(item, torch.Tensor)]
    return any(tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided for tensor in tensors)


def asked_readers(func: Any, keys: Iterable[str], indices: Indices | None = None) -> dict[str, Reader]:
    """A reader for each of ``keys`` that ``func`` has an argument for; each returns a vocabulary value.

    ``indices``: those that are known to be of distinct numbers.
    """
    readers: dict[str, Reader] = {}
    _, _, name = str(func).partition(".")
    packet = name.partition(".")[0]
    if packet in _PRODUCTS:
        readers["layout"] = _any_sparse_layout
    if packet in _SCANS:
        readers["dtype"] = _dtype_asked_for
    for key in sorted(keys):
        of_indices = _OF_INDICES.get(key)
        reader = of_indices(func, indices or Indices()) if of_indices else _reader(func, key)
        if reader is not None:
            readers[key] = reader
    draws = draw_reader(func)
    if draws is not None:
        readers[DRAW] = draws
    return readers


def _reader(func: Any, key: str) -> Reader | None:
    kind, _, name = key.partition(".")
    if key in MARKS:
        return MARKS[key](func)
    if kind == "shape":
        maker = SHAPES.get(name)
        return maker(func) if maker else None
    if kind == "given":
        optional = argument_getter(func, name)
        return None if optional is None else lambda args, kwargs: optional(args, kwargs) is not None
    if kind == "index":
        return index_is_mask(func) if name == "is_mask" else one_value(func)
    if key == "operands.both_sparse":
        return _both_sparse
    if key == "sdp.fused":
        return _may_fuse_attention
    if key == "conv.plain_forward":
        return _plain_forward(func)
    if kind != "arg":
        return None
    if name == "output_mask0":
        mask = argument_getter(func, "output_mask", "grad_input_mask")
        return None if mask is None else lambda args, kwargs: bool(mask(args, kwargs)[0])
    if name == "dropout":
        return dropout_reader(func, "p")
    if name == "training":
        mode = argument_getter(func, "training", "train")
        return None if mode is None else lambda args, kwargs: mode(args, kwargs) is not False
    if name == "reduce_op":
        return _reduce_op(func)
    found = argument_getter(func, name)
    if found is None:
        return None
    get: Getter = found
    codes = _CODES.get(key)
    if codes is not None:
        return lambda args, kwargs: codes.get(get(args, kwargs), MISSING)
    domain = DOMAINS.get(key, ())
    if "default" in domain:
        return lambda args, kwargs: value if (value := get(args, kwargs) or "default") in domain else MISSING
    if all(isinstance(value, bool) for value in domain):
        return lambda args, kwargs: bool(get(args, kwargs))
    allowed = frozenset(domain)
    return lambda args, kwargs: value if (value := get(args, kwargs)) in allowed else MISSING


def _plain_forward(func: Any) -> Reader | None:
    """Noted of the forward of a convolution that is not transposed, which is what a transposed one's backward runs."""
    name = str(func).split(".")[1]
    if "backward" in name or "transpose" in name:
        return None
    transposed = argument_getter(func, "transposed")
    if transposed is None:
        return lambda args, kwargs: True
    get: Getter = transposed
    return lambda args, kwargs: MISSING if get(args, kwargs) else True


def _reduce_op(func: Any) -> Reader | None:
    """A collective's reduction; c10d's own ops hold it in an object that Python cannot look into."""
    found = argument_getter(func, "reduce_op")
    if found is None:
        return None
    get: Getter = found
    known = frozenset(DOMAINS["arg.reduce_op"])
    return lambda args, kwargs: word if (word := str(get(args, kwargs)).lower()) in known else MISSING


def _both_sparse(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Are both factors of a product sparse? They are its last two tensors; an addend comes before them."""
    factors = [value for value in args if isinstance(value, torch.Tensor)][-2:]
    return len(factors) == 2 and all(factor.layout is not torch.strided for factor in factors)


def _may_fuse_attention(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Is any fused backend of attention switched on here, where ``sdpa_kernel`` may have switched them off?"""
    cuda = torch.backends.cuda
    return any((cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled()))


def _dtype_asked_for(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The ``dtype`` argument, where there is one: it stands in place of the input's."""
    dtype = kwargs.get("dtype")
    return MISSING if dtype is None else dtype_word(dtype)


def _any_sparse_layout(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The layout of the first operand that is not strided, for products whose first argument is a dense addend."""
    for value in args:
        if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
            return layout_word(value.layout) or MISSING
    return MISSING


def common_facts(raw: tuple[Any, ...] | None) -> dict[str, FactValue]:
    """The vocabulary's words for a raw ``(dtype, device, layout, ndim)``, or for a call without a tensor."""
    if raw is None:
        return {"device": "none", "dtype": "none", "layout": "none", "ndim": -1}
    dtype, device, layout, ndim = raw
    facts: dict[str, FactValue] = {"device": device_word(device), "dtype": dtype_word(dtype)}
    word = layout_word(layout)
    if word is not None:
        facts["layout"] = word
    if ndim is not None:
        facts["ndim"] = min(int(ndim), 6)
    return facts


def dtype_word(dtype: Any) -> str:
    """The vocabulary's word for a dtype: its name, with every float8 and every quantized format as one."""
    name = str(dtype).removeprefix("torch.")
    if name.startswith("float8"):
        return "float8"
    if name.startswith(("qint", "quint")):
        return "quantized"
    return _word(name, _KNOWN_DTYPES, "other")


def layout_word(layout: Any) -> str | None:
    """The vocabulary's word for a layout, or ``None`` for one that it does not have."""
    name = str(layout).removeprefix("torch.").removeprefix("_")
    return name if name in _KNOWN_LAYOUTS else None


def device_word(device: Any) -> str:
    """The vocabulary's word for a device."""
    name = getattr(device, "type", None) or str(device)
    if name == "privateuseone":
        name = seams.private_backend_name()
    return _word(name, _KNOWN_DEVICES, "other")


def _word(name: str, known: frozenset[Any], otherwise: str) -> str:
    return name if name in known else otherwise
