"""What a call was called with: the facts that a rule's condition may read.

Everything that depends on the overload alone (which argument is the tensor that the op works on, where a flag
stands and what its default is) is decided the first time the overload is met. Per call, facts are read as raw,
hashable values; they become the vocabulary's words once per group, when the trace is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from tracer.tables.vocabulary import DOMAINS
from tracer.trace.model import FactValue

Reader = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]
Getter = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]

#: What stands for a fact that could not be read; it is left out of the trace.
MISSING = object()

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
_LARGE = 32768
#: Products that take a sparse operand in a place other than the first.
_PRODUCTS = frozenset({"addmm", "addmm_", "baddbmm", "baddbmm_", "addmv", "addmv_", "mm", "_sparse_addmm"})
_KNOWN_DTYPES = frozenset(DOMAINS["dtype"])
_KNOWN_LAYOUTS = frozenset(DOMAINS["layout"])
_KNOWN_DEVICES = frozenset(DOMAINS["device"])


def argument_getter(func: Any, *names: str) -> Getter | None:
    """A function that reads the first of ``names`` that ``func``'s schema has, or ``None`` if it has none.

    The dispatcher leaves out trailing arguments that equal their defaults, so the default is part of it.
    """
    schema = getattr(func, "_schema", None)
    if schema is None:
        return None
    for position, argument in enumerate(schema.arguments):
        if argument.name in names:
            name = argument.name
            default = argument.default_value if argument.has_default_value() else None
            if argument.kwarg_only:
                return lambda args, kwargs: kwargs.get(name, default)
            return lambda args, kwargs: args[position] if len(args) > position else kwargs.get(name, default)
    return None


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


def asked_readers(func: Any, keys: Iterable[str]) -> dict[str, Reader]:
    """A reader for each of ``keys`` that ``func`` has an argument for; each returns a vocabulary value."""
    readers: dict[str, Reader] = {}
    if str(func).split(".")[1:2] and str(func).split(".")[1] in _PRODUCTS:
        readers["layout"] = _any_sparse_layout
    for key in sorted(keys):
        reader = _reader(func, key)
        if reader is not None:
            readers[key] = reader
    return readers


def _reader(func: Any, key: str) -> Reader | None:
    kind, _, name = key.partition(".")
    if kind == "shape":
        maker = _SHAPES.get(name)
        return maker(func) if maker else None
    if kind == "given":
        optional = argument_getter(func, name)
        return None if optional is None else lambda args, kwargs: optional(args, kwargs) is not None
    if key == "index.is_mask":
        return _index_is_mask(func)
    if kind != "arg":
        return None
    if name == "output_mask0":
        mask = argument_getter(func, "output_mask", "grad_input_mask")
        return None if mask is None else lambda args, kwargs: bool(mask(args, kwargs)[0])
    if name == "dropout":
        rate = argument_getter(func, "dropout_p", "dropout", "p")
        return None if rate is None else lambda args, kwargs: (rate(args, kwargs) or 0.0) > 0.0
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


def _numel_is_large(func: Any) -> Reader | None:
    """Does the loop that writes have at least 32,768 elements? That is what torch divides among threads."""
    tensor, index = argument_getter(func, "self", "input"), argument_getter(func, "index")
    indices, source = argument_getter(func, "indices"), argument_getter(func, "source")
    if tensor is None:
        return None
    target: Getter = tensor
    if indices is not None:
        many: Getter = indices
        return lambda args, kwargs: _written_through(target(args, kwargs), many(args, kwargs)) >= _LARGE
    name = str(func)
    if "index_copy" in name and source is not None:
        written: Getter = source
    elif "put" in name and index is not None:
        written = index
    else:
        written = target
    return lambda args, kwargs: written(args, kwargs).numel() >= _LARGE


def _written_through(tensor: Any, indices: Any) -> int:
    """Elements that ``tensor[indices] = ...`` writes: the indices' broadcast shape times the dimensions left whole."""
    shapes = []
    whole = 1
    dimension = 0
    for index in indices:
        if index is None:
            whole *= tensor.shape[dimension]
            dimension += 1
        elif index.dtype in (torch.bool, torch.uint8):
            # A mask takes as many dimensions as it has; how many elements it picks is not asked, as that would
            # read its values: all of them at most.
            shapes.append((index.numel(),))
            dimension += index.ndim
        else:
            shapes.append(tuple(index.shape))
            dimension += 1
    for size in tensor.shape[dimension:]:
        whole *= size
    picked = 1
    for size in torch.broadcast_shapes(*shapes) if shapes else ():
        picked *= size
    return whole * picked


def _index_is_mask(func: Any) -> Reader | None:
    found = argument_getter(func, "indices")
    if found is None:
        return None
    get: Getter = found

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        return all(index.dtype in (torch.bool, torch.uint8) for index in get(args, kwargs) if index is not None)

    return read


def _any_sparse_layout(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The layout of the first operand that is not strided, for products whose first argument is a dense addend."""
    for value in args:
        if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
            return layout_word(value.layout) or MISSING
    return MISSING


def _scan_is_whole(func: Any) -> Reader | None:
    get, dim = argument_getter(func, "self", "input"), argument_getter(func, "dim")
    if get is None or dim is None:
        return None

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        tensor = get(args, kwargs)
        return bool(tensor.dim() == 0 or tensor.numel() == tensor.size(dim(args, kwargs)))

    return read


def _windows_overlap(func: Any) -> Reader | None:
    kernel, stride = argument_getter(func, "kernel_size"), argument_getter(func, "stride")
    if kernel is None:
        return None

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        sizes = list(kernel(args, kwargs))
        steps = list((stride(args, kwargs) if stride else None) or sizes)
        if len(steps) == 1:
            steps *= len(sizes)
        if len(sizes) == 1:
            sizes *= len(steps)
        return any(step < size for step, size in zip(steps, sizes, strict=False))

    return read


def _divides_evenly(func: Any) -> Reader | None:
    grad, tensor = argument_getter(func, "grad_output"), argument_getter(func, "self")
    if grad is None or tensor is None:
        return None
    spatial = 3 if "3d" in str(func) else 2

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        inner, outer = tensor(args, kwargs).shape, grad(args, kwargs).shape
        pairs = zip(inner[-spatial:], outer[-spatial:], strict=False)
        return all(size and total % size == 0 for total, size in pairs)

    return read


def _same_size(func: Any) -> Reader | None:
    output, source = argument_getter(func, "output_size"), argument_getter(func, "input_size")
    if output is None or source is None:
        return None
    return lambda args, kwargs: list(output(args, kwargs)) == list(source(args, kwargs))[2:]


_SHAPES: Mapping[str, Callable[[Any], Reader | None]] = {
    "numel_ge_32768": _numel_is_large,
    "scan_is_whole": _scan_is_whole,
    "windows_overlap": _windows_overlap,
    "divides_evenly": _divides_evenly,
    "same_size": _same_size,
}


def common_facts(raw: tuple[Any, ...] | None) -> dict[str, FactValue]:
    """The vocabulary's words for a raw ``(dtype, device, layout, ndim)``, or for a call without a tensor."""
    if raw is None:
        return {"device": "none", "dtype": "none", "layout": "none", "ndim": -1}
    dtype, device, layout, ndim = raw
    facts: dict[str, FactValue] = {"device": _device(device), "dtype": dtype_word(dtype)}
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


def _device(device: Any) -> str:
    name = getattr(device, "type", None) or str(device)
    if name == "privateuseone":
        name = torch._C._get_privateuse1_backend_name()
    return _word(name, _KNOWN_DEVICES, "other")


def _word(name: str, known: frozenset[Any], otherwise: str) -> str:
    return name if name in known else otherwise
