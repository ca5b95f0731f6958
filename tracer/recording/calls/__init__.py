"""Readers of the facts of a call, which conditions of rules ask for; of the generator that it draws from; of its form.

What depends on the overload alone (which argument is the tensor that the op works on, where a flag stands and what its
default is) is decided when the overload is first met. Per call, facts are read as raw, hashable values; they become the
vocabulary's words once per group, when the trace is built.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from math import isfinite
from types import FrameType
from typing import Any

import torch
from torch._C import Generator
from torch.nn.parameter import is_lazy

from tracer.facts import MISSING as MISSING
from tracer.facts import ArgumentReader, Getter, Services, argument_getter, dropout_reader, training_reader
from tracer.facts.every_fact import FACTS
from tracer.ops import bare_name, row_of
from tracer.recording.origin import is_torchs_own, is_tracers_own, outwards, spell
from tracer.recording.randomness.generators import SEEDS
from tracer.recording.randomness.host_generators import MOVED_ON, UNUSED, Drawn
from tracer.recording.storage.known_numbers import Indices
from tracer.recording.torch_private import seams
from tracer.trace.records import (
    ELSEWHERE,
    GENERATOR,
    GROUP_SIZE,
    ORIGIN,
    SEEDED_AT,
    Argument,
    DeviceType,
    FactValue,
    NotKept,
    Number,
    TensorForm,
    TorchWord,
)

#: Products whose sparse operand is not the first.
_PRODUCTS = frozenset({"addmm", "addmm_", "baddbmm", "baddbmm_", "addmv", "addmv_", "mm", "_sparse_addmm"})
#: Scans convert their input to the dtype that they are asked for before they add.
_SCANS = frozenset({"cumsum", "cumsum_", "cumprod", "cumprod_"})
#: Of collectives.
_COLLECTIVES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "_dtensor")
_KNOWN_DTYPES = frozenset(FACTS["dtype"].domain)
_KNOWN_LAYOUTS = frozenset(FACTS["layout"].domain)
_KNOWN_DEVICES = frozenset(FACTS["device"].domain)


def primary_position(func: Any) -> int | None:
    """Position of the argument that the op works on: ``self`` or ``input``, else the first tensor or tensor list."""
    arguments = enumerate(getattr(getattr(func, "_schema", None), "arguments", ()))
    tensors = {
        argument.name: position
        for position, argument in arguments
        if not argument.kwarg_only and "Tensor" in str(argument.type)
    }
    return next((tensors[name] for name in tensors if name in ("self", "input")), next(iter(tensors.values()), None))


def tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors in ``values``, looking one list deep."""
    for value in values:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor):
                yield item


def first_tensor(values: Iterable[Any]) -> torch.Tensor | None:
    return next(tensors(values), None)


def asked_readers(func: Any, keys: Iterable[str], indices: Indices | None = None) -> dict[str, ArgumentReader]:
    """A reader for each of ``keys`` that ``func`` has an argument for; ``indices``: tensors of distinct numbers."""
    packet = bare_name(str(func))
    of_torch = (seams.is_coalesced, seams.indices_of, seams.group_size)
    services = Services(indices or Indices(), *of_torch, lambda path: is_torchs_own(path) or is_tracers_own(path))
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
    is_collective = getattr(func, "namespace", "") in _COLLECTIVES
    group = argument_getter(func, "process_group", "group_name") if is_collective else None
    if group is None:
        return None

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        size = seams.group_size(group(args, kwargs))
        return MISSING if size is None else size

    return read


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


def are_plain(args: tuple[Any, ...]) -> bool:
    """Return whether all tensors are strided and have elements, as in nearly all calls; ``False`` if not certain."""
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
    if (word := layout_word(layout)) is not None:
        facts["layout"] = word
    if ndim is not None:
        facts["ndim"] = min(int(ndim), 6)
    return facts


def dtype_word(dtype: Any) -> str:
    """The vocabulary's word for a dtype: its name, with every float8 and every quantized format as one."""
    name = torch_word(dtype)
    if name.startswith("float8"):
        return "float8"
    if name.startswith(("qint", "quint")):
        return "quantized"
    return name if name in _KNOWN_DTYPES else "other"


def layout_word(layout: Any) -> str | None:
    """The vocabulary's word for a layout, or ``None`` for one that it does not have."""
    name = torch_word(layout).removeprefix("_")
    return name if name in _KNOWN_LAYOUTS else None


def device_word(device: Any) -> str:
    name = getattr(device, "type", None) or str(device)
    if name == "privateuseone":
        name = seams.private_backend_name()
    return name if name in _KNOWN_DEVICES else "other"


#: The key of an overload's reader of draws: one reading gives three facts.
DRAW = "rng"

_TAG = getattr(torch.Tag, "nondeterministic_seeded", None)
_LOADER_FILE = os.path.join(os.path.dirname(torch.__file__), "utils", "data", "dataloader.py")
#: The most frames of the recorder between a reader and the code that made the call.
_STEPS_TO_CALLER = 4


def may_draw(func: Any) -> bool:
    """Return whether some call of the overload ``func`` draws from a generator."""
    draws = row_of(bare_name(str(func))).draws
    return (_TAG is not None and _TAG in getattr(func, "tags", ())) if draws is None else draws


def draw_reader(func: Any) -> ArgumentReader | None:
    """A reader of the generator that a call of ``func`` draws from, if any; ``None`` if no call draws."""
    if not may_draw(func):
        return None
    generator = argument_getter(func, "generator")
    asks = dropout_reader(func, *(("p",) if generator is None else ())) or training_reader(func)
    size: Getter = argument_getter(func, "size", "n") or (lambda args, kwargs: None)

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if asks is not None and not asks(args, kwargs):
            return MISSING
        tensor = next((value for value in args if isinstance(value, torch.Tensor)), None)
        if tensor is None:
            tensor = kwargs.get("out")
        wanted: Any = size(args, kwargs)
        if wanted is None:
            if tensor is not None and tensor.numel() == 0:
                return MISSING
        elif wanted == 0 or (type(wanted) is not int and 0 in wanted):
            return MISSING
        passed = None if generator is None else generator(args, kwargs)
        if passed is not None:
            return SEEDS.passed(passed)
        device = kwargs.get("device")
        claimed = seams.claimed_device(tensor) if device is None and tensor is not None else None
        if claimed is not None:
            device = torch.device(claimed)
        elif device is None:
            device = tensor.device if tensor is not None else seams.default_device()
        if device.type == "meta":
            return MISSING
        drawn = SEEDS.default(device)
        if seams.graph_task_id() != -1 and _is_recomputed_anew(sys._getframe(1)):
            return drawn[0], MOVED_ON, ()
        return drawn if claimed is None else (*drawn[:2], ())  # there, and nowhere else

    def read_of_program(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """``DataLoader`` draws a number for its workers each time: the loader's record says what they do with it."""
        drawn = read(args, kwargs)
        if drawn is not MISSING and args[0].ndim == 0:
            callers = (walked.f_code for walked in islice(outwards(sys._getframe(1)), _STEPS_TO_CALLER))
            if next((code.co_name for code in callers if code.co_filename == _LOADER_FILE), "") == "__init__":
                return drawn[0], UNUSED, ()
        return drawn

    return read_of_program if str(func) == "aten.random_.default" else read


def _is_recomputed_anew(frame: FrameType | None) -> bool:
    """Return whether a checkpoint runs its forward again from another state than the first time."""
    for walked in outwards(frame):
        if walked.f_code.co_filename == seams.CHECKPOINT_FILE:
            saved = walked.f_locals.get("preserve_rng_state")
            saved = getattr(walked.f_locals.get("ctx"), "preserve_rng_state", None) if saved is None else saved
            if saved is not None:
                return not saved
    return False


def draw_facts(drawn: Drawn) -> dict[str, FactValue]:
    name, provenance, elsewhere = drawn
    if provenance is UNUSED:
        return {GENERATOR: name}
    facts: dict[str, FactValue] = {GENERATOR: name, ORIGIN: str(provenance.origin)}
    if provenance.site.path:
        facts[SEEDED_AT] = spell(provenance.site)
    same = provenance.origin
    for kind, there in elsewhere:  # that of every device first
        if there.origin is not same:
            facts[f"{ELSEWHERE}.{kind}" if kind else ELSEWHERE] = str(there.origin)
        same = same if kind else there.origin
    return facts


#: A list of more tensors is cut: a fused optimizer is handed hundreds.
MOST = 32
#: Depth of the lists that a trace holds: ``allgather_`` takes lists of lists of tensors.
_DEEPEST = 2
_LONGEST_WORD = 64


def named_arguments(
    func: Any, args: Iterable[Any], kwargs: Mapping[str, Any] | None, device: str
) -> dict[str, Argument]:
    """The arguments as a trace has them, by the schema's names. Tensors on ``device`` do not name it."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return {}
    named = (*zip((argument.name for argument in schema.arguments), args, strict=False), *(kwargs or {}).items())
    return {name: _argument(value, device) for name, value in named}


def _argument(value: Any, device: str, depth: int = 0) -> Any:
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return tensor_form(value, device)
    if kind is bool or value is None or kind is TensorForm:
        return value
    if kind is int or kind is float or kind is complex:
        is_json = isfinite(value) if kind is float else kind is int and -(2**63) <= value < 2**64
        return value if is_json else Number(repr(value))
    if (kind is list or kind is tuple) and depth < _DEEPEST:
        parts = [_argument(item, device, depth + 1) for item in value[:MOST]]
        return [*parts, NotKept()] if len(value) > MOST else parts
    if kind is str and len(value) <= _LONGEST_WORD and not set(value) & set("/\\\n"):
        return value  # a keyword of the op; paths and texts of the user's are private
    if kind is torch.device:
        return DeviceType(value.type)
    if isinstance(value, Generator):
        return TorchWord("Generator")
    return TorchWord(torch_word(value)) if kind in (torch.dtype, torch.layout, torch.memory_format) else NotKept()


def tensor_form(tensor: torch.Tensor, device: str) -> TensorForm | NotKept:
    """The form of one tensor; not of a subclass with a dispatch of its own, or of one without a shape yet."""
    try:
        if seams.answers_for_itself(type(tensor)) or is_lazy(tensor) or tensor.is_nested:
            return NotKept()
        is_strided = tensor.layout is torch.strided
        stride = _sizes(tensor.stride()) if is_strided else None
        return TensorForm(
            torch_word(tensor.dtype),
            _sizes(tensor.shape),
            None if is_strided and tensor.is_contiguous() else stride,
            "" if is_strided else torch_word(tensor.layout).removeprefix("_"),
            "" if tensor.device.type == device else tensor.device.type,
        )
    except Exception:  # an unforeseen kind of tensor: recording never stops a call
        return NotKept()


def torch_word(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _sizes(sizes: Iterable[Any]) -> tuple[int | None, ...]:
    """Sizes; ``None`` for one that is not fixed."""
    return tuple(size if type(size) is int else None for size in sizes)
