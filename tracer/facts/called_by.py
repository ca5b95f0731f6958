"""Facts of who made a call: through which function of ``torch.nn.functional``, and what that one was given."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from tracer.facts.arguments import getters
from tracer.facts.fact import BOOL, Fact, Kind, Services, Test

if TYPE_CHECKING:
    pass

_LONGEST_TARGET = 256
#: Part of an op's name to the function of ``torch.nn.functional`` that calls it; ``interpolate`` calls all others.
_FUNCTIONS: Mapping[str, str] = {"pad": "pad", "grid_sampler": "grid_sample"}


def _fits_cudnns_ctc(func: Any, services: Services) -> Test | None:
    """Does cuDNN take the loss if its targets lie on the CPU?

    The op is handed targets that were made int64; ``F.ctc_loss`` still has what it was given.
    """
    known = getters(func, "log_probs", "targets", "input_lengths", "target_lengths", "blank")
    if known is None:
        return None
    scores, labels, widths, lengths, blank = known
    from torch import float32, int32

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        frames = scores(args, kwargs)
        if blank(args, kwargs) != 0 or frames.dtype is not float32 or labels(args, kwargs).dim() != 1:
            return False
        caller = _caller("ctc_loss", services)
        given = None if caller is None else caller.f_locals.get("targets")
        if getattr(given, "dtype", None) is not int32:
            return False
        ends = [_numbers(read(args, kwargs)) for read in (widths, lengths)]
        steps = frames.shape[0]
        return all(end == steps for end in ends[0]) and all(end < _LONGEST_TARGET and end <= steps for end in ends[1])

    return test


def _numbers(given: Any) -> list[int]:
    """Lengths as numbers. On a device reading them would wait for it: none of cuDNN's stand for them."""
    if not hasattr(given, "device"):
        return list(given)
    return [int(length) for length in given.tolist()] if given.device.type == "cpu" else [_LONGEST_TARGET]


def _caller(function: str, services: Services) -> FrameType | None:
    """The frame of ``torch.nn.functional``'s ``function`` that this call came through."""
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
    """Was the op called past ``F.pad`` or its kin? In scripted code these have no frame, and no other way."""
    name = str(func)
    function = next((called for part, called in _FUNCTIONS.items() if part in name), "interpolate")
    return lambda args, kwargs: _caller(function, services) is None


def _returns_indices(func: Any, services: Services) -> Test | None:
    return lambda args, kwargs: _caller("max_pool3d_with_indices", services) is not None


FACTS = (
    Fact(
        "call.fits_cudnn",
        BOOL,
        Kind.MARKED,
        "CTC: were dtypes, sizes and blank such as cuDNN takes, wherever the targets lie?",
        _fits_cudnns_ctc,
    ),
    Fact(
        "call.direct",
        BOOL,
        Kind.MARKED,
        "Was the op called past the function of torch.nn.functional that takes another way in deterministic mode?",
        _is_direct,
    ),
    Fact(
        "call.returns_indices",
        BOOL,
        Kind.MARKED,
        "Was it called by the function that takes another way in deterministic mode when asked for indices?",
        _returns_indices,
    ),
)
