"""Running on fake tensors: ``torch.cuda`` answers as the machine that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch

from tracer.recording.fake.machine import Machine
from tracer.recording.patching import Watch, place
from tracer.recording.torch_private.fake_tensors import fake_tensors

#: Bytes of memory that each GPU claims: nothing is allocated there, and nothing is to be offloaded for want of it.
_MEMORY = 1 << 40


def _answers(machine: Machine) -> dict[str, Any]:
    """What functions of ``torch.cuda`` return on ``machine``, by name."""
    assert machine.capability is not None
    major, minor = machine.capability
    name = f"fake {machine}"
    properties = SimpleNamespace(
        name=name, major=major, minor=minor, total_memory=_MEMORY, multi_processor_count=108, warp_size=32
    )
    nothing = dict.fromkeys(
        [
            "_lazy_init",
            "init",
            "set_device",
            "synchronize",
            "empty_cache",
            "ipc_collect",
            "set_stream",
            "manual_seed",
            "manual_seed_all",
            "reset_peak_memory_stats",
            "reset_max_memory_allocated",
        ]
    )
    no_bytes = dict.fromkeys(["memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"], 0)
    return {
        **nothing,
        **no_bytes,
        "is_available": True,
        "is_initialized": True,
        "device_count": machine.devices,
        "current_device": 0,
        "get_device_name": name,
        "get_device_capability": machine.capability,
        "get_device_properties": properties,
        "is_bf16_supported": major >= 8,
        "mem_get_info": (_MEMORY, _MEMORY),
        "initial_seed": torch.initial_seed(),
        "get_rng_state": torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": None,
        "current_stream": _Stream(),
        "default_stream": _Stream(),
        "Stream": _Stream(),
        "Event": _Stream(),
        "stream": nullcontext(),
    }


class _Stream:
    """A stream or an event on which nothing waits."""

    device = torch.device("cuda", 0)

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

    def elapsed_time(self, *_: object) -> float:
        """Milliseconds: no time passes."""
        return 0.0


def _returning(answer: Any) -> Watch:
    return Watch(around=lambda call, args, kwargs: answer)


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


@contextmanager
def on_fake_tensors(machine: Machine) -> Iterator[None]:
    """Run the block on fake tensors, as on ``machine``."""
    with ExitStack() as undo:
        undo.enter_context(fake_tensors())  # first: it loads Dynamo, which lists torch's functions as it loads
        watches: dict[tuple[Any, str], Watch] = {}
        if machine.capability is None:
            watches[torch.cuda, "is_available"] = _returning(False)
        else:
            watches = {(torch.cuda, name): _returning(answer) for name, answer in _answers(machine).items()}
            for name in ("to", "cuda"):
                watches[torch.Tensor, name] = Watch(around=_moved)
            watches[torch.amp.autocast, "__init__"] = Watch(around=_autocast_on_cpu)
        for holder, watch in watches.items():
            lift = place([holder], watch)
            if lift is not None:
                undo.callback(lift)
        yield
