"""The generator that a call draws from, and its state before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tracer.facts.arguments import MISSING
from tracer.recording.calls.draws import DRAW
from tracer.recording.calls.groups import OverloadInfo
from tracer.recording.randomness.generators import state_of
from tracer.recording.torch_private import seams
from tracer.recording.values.digesting.memory import digest_bytes


def drawn_from(
    info: OverloadInfo, asked: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None
) -> tuple[str, int] | None:
    """Name and state of the generator of a call whose overload draws; ``None`` where this call does not."""
    drawn = asked[list(info.readers).index(DRAW)]
    if drawn is MISSING:
        return None
    generator = next((value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Generator)), None)
    if generator is None:
        device = (kwargs or {}).get("device")
        if device is None:
            tensor = info.primary(args, kwargs or {})
            device = tensor.device if tensor is not None else seams.default_device()
        _, generator = seams.default_generator(torch.device(device))
    state = b"" if generator is None else state_of(generator)
    return str(drawn[0]), digest_bytes(state) if state else 0


def default_states() -> dict[str, int]:
    """The states of torch's default generators that exist by now."""
    return {
        name: digest_bytes(state) for name, generator in seams.default_generators() if (state := state_of(generator))
    }
