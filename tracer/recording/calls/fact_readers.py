"""Readers of the facts of a call, which conditions of rules ask for.

What depends on the overload alone (which argument is the tensor that the op works on, where a flag stands and what its
default is) is decided when the overload is first met. Per call, facts are read as raw, hashable values; they become the
vocabulary's words once per group, when the trace is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import torch

from tracer.facts.every_fact import FACTS
from tracer.facts.fact import ASK, ArgumentReader, Services, argument_getter
from tracer.facts.fact import MISSING as MISSING
from tracer.ops import packet_of
from tracer.recording.calls.draws import DRAW, draw_reader
from tracer.recording.origin.sites import is_torchs_own
from tracer.recording.storage.known_numbers import Indices
from tracer.recording.torch_private import seams
from tracer.trace.records import GROUP_SIZE, FactValue

#: Products whose sparse operand is not the first.
_PRODUCTS = frozenset({"addmm", "addmm_", "baddbmm", "baddbmm_", "addmv", "addmv_", "mm", "_sparse_addmm"})
#: Scans convert their input to the dtype that they are asked for before they add.
_SCANS = frozenset({"cumsum", "cumsum_", "cumprod", "cumprod_"})
#: Of collectives.
_COLLECTIVES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "_dtensor")
_KNOWN_DTYPES = frozenset(FACTS["dtype"].domain)
_KNOWN_LAYOUTS = frozenset(FACTS["layout"].domain)
_KNOWN_DEVICES = frozenset(FACTS["device"].domain)
_OWN_FOLDER = __file__.rpartition("recording")[0]


def primary_position(func: Any) -> int | None:
    """Position of the argument that the op works on: ``self`` or ``input``, else the first tensor or tensor list."""
    arguments = enumerate(getattr(getattr(func, "_schema", None), "arguments", ()))
    tensors = {
        argument.name: position
        for position, argument in arguments
        if not argument.kwarg_only and "Tensor" in str(argument.type)
    }
    return next((tensors[name] for name in tensors if name in ("self", "input")), next(iter(tensors.values()), None))


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
    """Return whether one of a call's tensors requires a gradient. Looks one list deep."""
    return any(tensor.requires_grad for tensor in _tensors((*args, *kwargs.values())))


def has_other_layout(values: Iterable[Any]) -> bool:
    """Return whether one of ``values`` is a nested, sparse, MKL-DNN or quantized tensor. Looks one list deep."""
    return any(
        tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided for tensor in _tensors(values)
    )


def _tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    lists = [value if isinstance(value, (list, tuple)) else (value,) for value in values]
    return [item for items in lists for item in items if isinstance(item, torch.Tensor)]


def asked_readers(func: Any, keys: Iterable[str], indices: Indices | None = None) -> dict[str, ArgumentReader]:
    """A reader for each of ``keys`` that ``func`` has an argument for; ``indices``: tensors of distinct numbers."""
    packet = packet_of(str(func))
    of_torch = (seams.is_coalesced, seams.indices_of, seams.group_size)
    services = Services(indices or Indices(), *of_torch, _is_not_the_programs)
    readers = (
        ("layout", _any_sparse_layout if packet in _PRODUCTS else None),
        ("dtype", _dtype_asked_for if packet in _SCANS else None),
        *((key, FACTS[key].reader(func, services)) for key in sorted(keys) if key in FACTS),
        (DRAW, draw_reader(func)),
        (GROUP_SIZE, _group_size_reader(func)),
    )
    return {key: reader for key, reader in readers if reader is not None}


def _group_size_reader(func: Any) -> ArgumentReader | None:
    """A reader of the size of the process group of a call of ``func``; ``None`` if it takes none."""
    if getattr(func, "namespace", "") not in _COLLECTIVES:
        return None
    group = argument_getter(func, "process_group", "group_name")
    if group is None:
        return None

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        size = seams.group_size(group(args, kwargs))
        return MISSING if size is None else size

    return read


def _is_not_the_programs(path: str) -> bool:
    return is_torchs_own(path) or path.startswith(_OWN_FOLDER)


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


_STRIDED = torch.strided
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_PLAIN = frozenset({int, float, bool, complex, type(None), str, torch.dtype})


class PlainAnswers(msgspec.Struct, frozen=True):
    """The readers' answers for calls whose tensors are all strided and have elements: nearly all calls."""

    answers: tuple[Any, ...]
    """In the order of the readers."""
    holds: Callable[[tuple[Any, ...]], bool]
    """Whether they hold for a call with these arguments. False also where that is not certain."""


def plain_answers(keys: Iterable[str]) -> PlainAnswers | None:
    """For an overload that is asked these; ``None`` where one has to be read in any case, or nothing is asked."""
    asked = tuple(keys)
    answers = tuple(FACTS[key].on_plain if key in FACTS else ASK for key in asked)
    if not asked or ASK in answers:
        return None
    return PlainAnswers(answers, _are_full if "shape.no_elements" in asked else _are_strided)


def _are_strided(args: tuple[Any, ...]) -> bool:
    for value in args:
        kind = type(value)
        if kind is _Tensor or kind is _Parameter:
            if value.layout is not _STRIDED:
                return False
        elif kind not in _PLAIN:
            return False
    return True


def _are_full(args: tuple[Any, ...]) -> bool:
    for value in args:
        kind = type(value)
        if kind is _Tensor or kind is _Parameter:
            if value.layout is not _STRIDED or not value.numel():
                return False
        elif kind not in _PLAIN:
            return False
    return True


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


def _word(name: str, domain: frozenset[Any], otherwise: str) -> str:
    return name if name in domain else otherwise
