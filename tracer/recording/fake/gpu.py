"""Return values of ``torch.cuda`` and ``torch.accelerator`` on a machine that is not here.

Checked on torch 2.13.0.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch

from tracer.recording.fake.machine import Machine
from tracer.recording.patching import Holder

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
        """Nothing is recorded."""
        return self

    record_event = record

    def wait_stream(self, *_: object) -> None:
        """Nothing is waited for."""

    wait_event = synchronize = wait = wait_stream

    def query(self) -> bool:
        """All work is done."""
        return True

    def is_capturing(self) -> bool:
        """No graph is captured."""
        return False

    def elapsed_time(self, *_: object) -> float:
        """Milliseconds: no time passes."""
        return 0.0


class _AnyGenerator(type(torch.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__mro__[1])


class _Generator(torch.Generator, metaclass=_AnyGenerator):
    """Makes a generator of the CPU, whatever device is named."""

    def __new__(cls, device: object = None) -> Any:
        return cls.__mro__[1].__new__(cls.__mro__[1])


#: Answered with ``None``, of either module.
_NOTHING = (
    *("_lazy_init", "init", "ipc_collect", "synchronize", "set_stream", "set_device", "set_device_index"),
    *("set_device_idx", "manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all"),
    *("set_sync_debug_mode", "caching_allocator_enable"),
    *("empty_cache", "empty_host_cache", "set_per_process_memory_fraction", "reset_max_memory_allocated"),
    *("reset_max_memory_cached", "reset_peak_memory_stats", "reset_accumulated_memory_stats"),
    *("reset_peak_host_memory_stats", "reset_accumulated_host_memory_stats"),
)
_ZERO = (
    *("current_device", "current_device_index", "current_device_idx", "_exchange_device", "_maybe_exchange_device"),
    *("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "utilization"),
    *("memory_usage", "device_memory_used", "temperature", "power_draw", "clock_rate", "get_sync_debug_mode"),
)


def no_gpu() -> dict[Holder, Any]:
    """Return the results of those functions on a machine without a GPU, by holder."""
    accelerator = {"is_available": False, "device_count": 0, "current_accelerator": None}
    return {
        (torch.cuda, "is_available"): False,
        **{(_ACCELERATOR, name): answer for name, answer in accelerator.items()},
    }


def gpus(machine: Machine) -> dict[Holder, Any]:
    """Return the results of those functions on ``machine``, by holder."""
    assert machine.capability is not None
    major, minor = machine.capability
    name = f"fake {machine}"
    properties = SimpleNamespace(
        name=name, major=major, minor=minor, total_memory=_MEMORY, multi_processor_count=108, warp_size=32
    )
    state = torch.zeros(16, dtype=torch.uint8)
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
        "is_initialized": True,
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
        "initial_seed": torch.initial_seed(),
        "get_rng_state": state,
        "get_rng_state_all": [state] * machine.devices,
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


def calls() -> Iterator[tuple[Holder, Around]]:
    """Functions that are called in another way where there are GPUs, and what calls them."""
    for name in ("to", "cuda"):
        yield (torch.Tensor, name), _moved
    yield (torch.amp.autocast, "__init__"), _autocast_on_cpu


def classes() -> Iterator[tuple[Any, str, type]]:
    """Classes that need a GPU: the module and name that hold each, and what stands for it. Programs name them in
    annotations, and ask for instances."""
    for name in ("Stream", "Event", "ExternalStream"):
        yield torch.cuda, name, _Stream
    for name in ("Stream", "Event"):
        yield torch, name, _Stream
    yield torch, "Generator", _Generator
    for name in dir(torch.cuda):
        if name.endswith("Tensor") and hasattr(torch, name):
            yield torch.cuda, name, getattr(torch, name)


def _moved(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Moving to ``cuda`` without an index asks for the current device of a build with CUDA: it is the first here."""
    if call.__name__ == "cuda":
        return args[0].to(_Stream.device, non_blocking=bool(kwargs.get("non_blocking")))

    def indexed(value: Any) -> Any:
        return _Stream.device if value in ("cuda", torch.device("cuda")) else value

    is_device = (str, torch.device)
    args = tuple(indexed(value) if isinstance(value, is_device) else value for value in args)
    return call(*args, **{key: indexed(value) if key == "device" else value for key, value in kwargs.items()})


def _autocast_on_cpu(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Autocasting for CUDA casts nothing on the CPU: there it is the CPU's, with CUDA's type unless one is passed."""
    self, device, *others = args if len(args) > 1 else (*args, kwargs.pop("device_type", "cuda"))
    if torch.device(device).type == "cuda":
        device = "cpu"
        if not others and kwargs.get("dtype") is None:
            kwargs["dtype"] = torch.float16
    return call(self, device, *others, **kwargs)
