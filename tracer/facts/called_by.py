"""Facts of a call's caller: which function of ``torch.nn.functional`` it was, and with which arguments."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from tracer.facts.argument_readers import Reader, of_arguments
from tracer.facts.fact import Services, Test, marked

if TYPE_CHECKING:
    import torch

_LONGEST_TARGET = 256
#: Part of an op's name to the function of ``torch.nn.functional`` that calls it; ``interpolate`` calls the others.
_FUNCTIONS: Mapping[str, str] = {"pad": "pad", "grid_sampler": "grid_sample"}


def _fits_cudnns_ctc(func: Any, services: Services) -> Reader | None:
    """Return a reader of whether cuDNN takes the loss if its targets, which become int64 later, are on the CPU."""
    from torch import float32, int32

    @of_arguments("log_probs", "targets", "input_lengths", "target_lengths", "blank")
    def fits(frames: torch.Tensor, labels: torch.Tensor, widths: Any, lengths: Any, blank: int) -> bool:
        if blank != 0 or frames.dtype is not float32 or labels.dim() != 1:
            return False
        caller = _caller("ctc_loss", services)
        targets = None if caller is None else caller.f_locals.get("targets")
        if getattr(targets, "dtype", None) is not int32:
            return False
        steps = frames.shape[0]
        longest = min(_LONGEST_TARGET - 1, steps)
        return all(end == steps for end in _numbers(widths)) and all(end <= longest for end in _numbers(lengths))

    return fits(func, services)


def _numbers(lengths: Any) -> list[int]:
    """Lengths as numbers; a length that cuDNN does not take for those on a device, which are not read."""
    if not hasattr(lengths, "device"):
        return list(lengths)
    return [int(length) for length in lengths.tolist()] if lengths.device.type == "cpu" else [_LONGEST_TARGET]


def _caller(function: str, services: Services) -> FrameType | None:
    """The frame of ``torch.nn.functional``'s ``function`` that led to this call."""
    from torch.nn import functional

    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == functional.__file__ and code.co_name == function:
            return frame
        if not services.is_torchs_own(code.co_filename):
            return None
        frame = frame.f_back
    return None


def _is_direct(func: Any, services: Services) -> Test | None:
    """Return a test of whether the op was called directly, not through ``F.pad`` or the like, which scripts hide."""
    name = str(func)
    function = next((called for part, called in _FUNCTIONS.items() if part in name), "interpolate")
    return lambda args, kwargs: _caller(function, services) is None


FACTS = (
    marked(
        "call.fits_cudnn",
        _fits_cudnns_ctc,
        "CTC: does cuDNN accept dtypes, sizes and blank, wherever the targets are?",
    ),
    marked(
        "call.direct",
        _is_direct,
        "Was it called directly, not by the function of torch.nn.functional with another path in deterministic mode?",
    ),
    marked(
        "call.returns_indices",
        lambda func, services: lambda args, kwargs: _caller("max_pool3d_with_indices", services) is not None,
        "Was it called by the function that takes another path in deterministic mode if indices are requested?",
    ),
)
