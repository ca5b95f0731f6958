"""What ``torch.cuda`` and ``torch.accelerator`` answer on a machine that is not here. Checked on torch 2.13.0."""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import FrameType, SimpleNamespace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._device import DeviceContext

from tracer.recording import patching
from tracer.recording.options import FakeMachine
from tracer.recording.origin import outwards
from tracer.recording.patching import Holder, held_by
from tracer.recording.torch_private.fake_tensors import TAKERS_OF_DEVICES
from tracer.recording.torch_private.seams import claim_device, claimed_device

Around = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
#: Bytes of memory that each GPU claims: nothing is allocated there, and nothing is to be offloaded for want of it.
_MEMORY = 1 << 40
_ACCELERATOR: Any = getattr(torch, "accelerator", None)
#: Modules that hold functions of ``torch.cuda``.
_CUDA: tuple[Any, ...] = (torch.cuda, torch.cuda.memory, torch.cuda.random)


class _Stream:
    """A stream or an event on which nothing waits."""

    device = torch.device("cuda", 0)

    def __init__(self, *_: object, **__: object) -> None:
        """Whatever is asked for: a priority, timing."""

    def record(self, *_: object) -> _Stream:
        return self

    record_event = record

    def wait(self, *_: object) -> None:
        """Nothing is waited for."""

    wait_event = wait_stream = synchronize = wait

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def elapsed_time(self, *_: object) -> float:
        """Milliseconds: no time passes."""
        return 0.0


_DEVICE = torch.device
_CPU = torch.device("cpu")
#: What a tensor answers if nobody knows where it would lie, or if torch asks: it equals the CPU, and asks for none.
_SOMEWHERE = torch.device("cpu")
ON_MESH = torch.device("cpu")
"""The device of a mesh of GPUs: it equals the CPU, and asks for a GPU."""
#: Modules whose frames lie between the caller of a function and what stands in for it.
_BETWEEN = (__name__, patching.__name__)


class _StandIn(type(torch.Generator)):  # type: ignore[misc]
    """The class of a class that stands for one of torch's: its instances, and what is registered for it, are that's."""

    real: Any

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.real

    def __hash__(cls) -> int:
        return hash(cls.real)


class _Generator(torch.Generator, metaclass=_StandIn):
    """Draws on the CPU, whatever device it was made for."""

    real = torch.Generator

    def __new__(cls, device: Any = "cpu") -> Any:
        made_for = _DEVICE("cpu" if device is None else _indexed(device, _Stream.device))
        if made_for.type == "cpu":
            return torch._C.Generator()
        generator: Any = super().__new__(cls)
        generator._device = made_for
        return generator

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self._device  # type: ignore[attr-defined,no-any-return]

    def set_state(self, new_state: Any) -> Any:
        """A fake tensor has no state to set."""
        return super().set_state(new_state) if type(new_state) is torch.Tensor else self


class _Device(metaclass=_StandIn):
    """Makes a ``torch.device``; an integer is a GPU."""

    __module__, __qualname__ = "torch", "device"
    real = torch.device

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if args and args[0] is _SOMEWHERE:
            return _SOMEWHERE
        return cls.real(*map(_indexed, args[:1]), *args[1:], **kwargs)


#: Answered with ``None``, of either module.
_NOTHING = (
    *("init", "ipc_collect", "synchronize", "set_stream", "set_device", "set_device_index", "set_device_idx"),
    *("set_sync_debug_mode", "caching_allocator_enable"),
    *("empty_cache", "empty_host_cache", "set_per_process_memory_fraction", "reset_max_memory_allocated"),
    *("reset_max_memory_cached", "reset_peak_memory_stats", "reset_accumulated_memory_stats"),
    *("reset_peak_host_memory_stats", "reset_accumulated_host_memory_stats"),
)
STARTING = frozenset(
    {
        *("init", "synchronize", "set_stream", "set_device", "set_device_index", "set_device_idx", "current_device"),
        *("current_device_index", "current_device_idx", "get_device_name", "get_device_capability"),
        *("get_device_properties", "mem_get_info", "get_memory_info", "current_stream", "default_stream"),
    }
)
"""Those that start CUDA, which reads some variables then."""
_ZERO = (
    *("current_device", "current_device_index", "current_device_idx", "_exchange_device", "_maybe_exchange_device"),
    *("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "utilization"),
    *("memory_usage", "device_memory_used", "temperature", "power_draw", "clock_rate", "get_sync_debug_mode"),
)


def answers(machine: FakeMachine) -> dict[Holder, Any]:
    """Return the results of those functions on ``machine``, by holder."""
    if machine.capability is None:
        nothing = {"is_available": False, "device_count": 0, "current_accelerator": None}
        return {(torch.cuda, "is_available"): False, **{(_ACCELERATOR, name): it for name, it in nothing.items()}}
    major, minor = machine.capability
    name = f"fake {machine}"
    properties = SimpleNamespace(
        name=name, major=major, minor=minor, total_memory=_MEMORY, multi_processor_count=108, warp_size=32
    )
    of_both = {
        **dict.fromkeys(_NOTHING),
        **dict.fromkeys(_ZERO, 0),
        "is_available": True,
        "device_count": machine.devices,
        "memory_stats": collections.Counter[str](),
        "current_stream": _Stream(),
    }
    of_cuda = {
        **of_both,
        "get_device_name": name,
        "get_device_capability": machine.capability,
        "get_device_properties": properties,
        "get_arch_list": [f"sm_{major}{minor}"],
        "is_bf16_supported": major >= 8,
        "is_current_stream_capturing": False,
        "can_device_access_peer": True,
        "mem_get_info": (_MEMORY, _MEMORY),
        "get_per_process_memory_fraction": 1.0,
        "get_allocator_backend": "native",
        "host_memory_stats": collections.Counter[str](),
        "memory_summary": "",
        "memory_snapshot": [],
        "default_stream": _Stream(),
        "stream": nullcontext(),
    }
    of_accelerator = {
        **of_both,
        "current_accelerator": torch.device("cuda"),
        "get_memory_info": (_MEMORY, _MEMORY),
        "device_index": nullcontext(),
    }
    ranges = ("mark", "range_push", "range_pop", "range_start", "range_end")
    return {
        **{(module, name): answer for module in _CUDA for name, answer in of_cuda.items()},
        **{(_ACCELERATOR, name): answer for name, answer in of_accelerator.items()},
        **{(torch.cuda.nvtx, name): 0 for name in ranges},
    }


def start() -> None:
    torch.cuda._lazy_init()


def calls(machine: FakeMachine, note: Callable[..., None]) -> Iterator[tuple[Holder, Around]]:
    """Functions that are called in another way where there are GPUs; ``note`` lists what ran otherwise."""
    is_started = False

    def started(*_: object) -> None:
        nonlocal is_started
        is_started = True

    def in_one(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        module, *inputs = args
        if len(module.device_ids) > 1:
            note("DataParallel", sys._getframe(1), lost=f"its {len(module.device_ids)} replicas ran as one")
        return module.module(*inputs, **kwargs)

    for module in _CUDA:
        yield (module, "_lazy_init"), started
        yield (module, "is_initialized"), lambda *_: is_started
    yield (torch.nn.DataParallel, "forward"), in_one
    yield (torch.cuda.random, "_lazy_call"), lambda call, args, kwargs: args[0]()  # seeds
    for name in ("to", "cuda", "cpu"):
        yield (torch.Tensor, name), _moved
    yield (torch.Tensor, "get_device"), _number_of
    for holder in TAKERS_OF_DEVICES:
        yield holder, _on_numbered_device
    yield (DeviceContext, "__init__"), lambda call, args, kwargs: call(args[0], _indexed(args[1], _Stream.device))
    yield (torch.amp.autocast, "__init__"), _autocast_on_cpu


def stand_ins(machine: FakeMachine) -> Iterator[tuple[Any, str, Any]]:
    """Classes and objects that need a GPU: the module and name that hold each, and what stands for it."""
    generators = tuple(_Generator(index) for index in range(machine.devices))
    for generator in generators:
        held_by(_Generator.real, "seed")(generator)  # at random, which is no seeding of the program's
    yield torch.cuda, "default_generators", generators
    yield torch, "device", _Device
    yield FakeTensor, "device", property(_place_of)
    yield FakeTensor, "is_cuda", property(_is_there)
    for name in ("Stream", "Event", "ExternalStream"):
        yield torch.cuda, name, _Stream
    for name in ("Stream", "Event"):
        yield torch, name, _Stream
    yield torch, "Generator", _Generator
    for name in dir(torch.cuda):
        if name.endswith("Tensor") and hasattr(torch, name):
            yield torch.cuda, name, getattr(torch, name)


def _indexed(device: Any, current: Any = None) -> Any:
    """``device``, if it is not the number of a GPU; ``current`` in place of the current GPU."""
    if type(device) is int:
        return _DEVICE("cuda", device)
    if device is ON_MESH:
        return _Stream.device
    is_current = current is not None and isinstance(device, (str, _DEVICE)) and _DEVICE(device) == _DEVICE("cuda")
    return current if is_current else device


def _is_torchs(frame: FrameType | None) -> bool:
    """Return whether the caller is torch's code, or the recorder's: where a fake tensor lies is the CPU to them."""
    modules = (caller.f_globals.get("__name__", "") for caller in outwards(frame))
    asks = next((module for module in modules if module not in _BETWEEN), "torch")
    return asks.partition(".")[0] in ("torch", "tracer")


_PLACE: Any = FakeTensor.device


def _place_of(tensor: torch.Tensor) -> torch.device:
    """``tensor.device``: the GPU that the program placed it on."""
    place: torch.device = _PLACE.fget(tensor)
    kind = claimed_device(tensor)
    if place != _CPU or kind == "cpu":
        return place
    return _SOMEWHERE if kind is None or _is_torchs(sys._getframe(1)) else _Stream.device


def _is_there(tensor: torch.Tensor) -> bool:
    return claimed_device(tensor) == "cuda" and not _is_torchs(sys._getframe(1))


def _number_of(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return 0 if isinstance(args[0], FakeTensor) and _is_there(args[0]) else call(*args, **kwargs)


def _kind_asked(device: Any) -> str | None:
    """Kind of the device that is asked for; ``None`` if unknown: torch's own code got a kind from a tensor."""
    if device is _SOMEWHERE or (type(device) is str and _is_torchs(sys._getframe(1))):
        return None
    return _DEVICE(device).type if isinstance(device, (str, _DEVICE)) else None


def _moved(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Moving to ``cuda`` without an index asks for the current device of a build with CUDA: it is the first here."""
    if call.__name__ == "cuda":
        return args[0].to(_Stream.device, non_blocking=bool(kwargs.get("non_blocking")))
    tensor, lies = args[0], claimed_device(args[0])
    args = (tensor, *(_indexed(value, _Stream.device) for value in args[1:2]), *args[2:])
    kwargs = {key: _indexed(value, _Stream.device) if key == "device" else value for key, value in kwargs.items()}
    asked = kwargs.get("device", kwargs.get("other", args[1] if len(args) > 1 else None))
    if isinstance(asked, torch.Tensor) and not _is_torchs(sys._getframe(1)):
        place = {"cuda": _Stream.device, "cpu": _CPU}.get(claimed_device(asked) or "", _SOMEWHERE)
        return tensor.to(place, asked.dtype, *args[2:], **{key: kwargs[key] for key in kwargs.keys() - {"other"}})
    kind = "cpu" if call.__name__ == "cpu" else _kind_asked(asked)
    if lies == "cuda" and kind in ("cpu", "cuda"):
        copy = bool(kwargs.pop("copy", args[4:5] == (True,)))
        kwargs.pop("device", None)
        _, dtype, waits_not, form = torch._C._nn._parse_to(_CPU, *args[2:4], **kwargs)
        dtype = dtype or tensor.dtype
        if kind == "cuda":  # it stays
            return call(tensor, dtype, waits_not, copy, memory_format=form or torch.preserve_format)
        options = {"dtype": dtype, "pin_memory": waits_not, "non_blocking": waits_not}
        return torch.ops.aten._to_copy.default(tensor, device=_CPU, **options)
    moved = call(*args, **kwargs)
    if kind is None and isinstance(asked, (str, _DEVICE)):
        claim_device(moved, None, anew=True)
    return moved


def _on_numbered_device(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An integer is the number of a GPU, as ``Module.to``'s first argument too; C++ asks the driver for the current."""
    if "device" in kwargs:
        kwargs["device"] = _indexed(kwargs["device"], _Stream.device)
    elif call.__name__ == "_parse_to":
        args = tuple(map(_indexed, args[:1])) + args[1:]
    made, asked = call(*args, **kwargs), kwargs.get("device")
    if call.__name__ == "_parse_to":
        return (_SOMEWHERE, *made[1:]) if _SOMEWHERE is (asked or (*args, None)[0]) else made
    is_like = any(isinstance(value, torch.Tensor) for value in (*args, *kwargs.values()))
    if not is_like and (asked is None or _kind_asked(asked) == "cpu"):
        claim_device(made, "cpu")
    return made


def moved_to_mesh(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """FSDP2 moves parameters and buffers to the device of its mesh, where it takes those on the host to lie already."""
    parameters, buffers, device = args
    for tensor in (*parameters, *buffers) if device is ON_MESH else ():
        if claimed_device(tensor) == "cpu":
            tensor.data = tensor.to(_Stream.device)
    return call(*args, **kwargs)


def _autocast_on_cpu(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Autocasting for CUDA casts nothing on the CPU: there it is the CPU's, with CUDA's type unless one is passed."""
    self, device, *others = args if len(args) > 1 else (*args, kwargs.pop("device_type", "cuda"))
    if torch.device(device).type == "cuda":
        device = "cpu"
        if not others and kwargs.get("dtype") is None:
            kwargs["dtype"] = torch.float16
    return call(self, device, *others, **kwargs)
