"""Facts that an argument tells, or the function of ``torch.nn.functional`` that the call came from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from tracer.facts.argument_readers import MISSING, Args, Kwargs, Reader, argument_getter, dropout_reader, of_arguments
from tracer.facts.fact import BOOL, Fact, Kind, Makes, Services, Test, Value, asked, marked, noted_fact

if TYPE_CHECKING:
    import torch


def _argument(
    name: str, domain: tuple[Value, ...], codes: Mapping[int, str], func: Any, services: Services
) -> Reader | None:
    """The argument ``name``, as ``domain`` spells it: a flag, a word, or an integer code."""
    get = argument_getter(func, name)
    if get is None:
        return None
    if codes:
        return lambda args, kwargs: codes.get(get(args, kwargs), MISSING)
    if "default" in domain:
        return lambda args, kwargs: value if (value := get(args, kwargs) or "default") in domain else MISSING
    if domain == BOOL:
        return lambda args, kwargs: bool(get(args, kwargs))
    return lambda args, kwargs: value if (value := get(args, kwargs)) in domain else MISSING


def _is_given(name: str) -> Makes:
    """Return a function that reads whether the optional tensor of that schema name is passed."""
    return of_arguments(name)(lambda optional: optional is not None)


_REDUCE_OPS = ("sum", "avg", "product", "premul_sum", "min", "max", "band", "bor", "bxor")


def _reduce_op(func: Any, services: Services) -> Reader | None:
    """c10d's own ops hold it in an object that Python cannot look into: there the caller's options tell it."""
    get = argument_getter(func, "reduce_op")
    if get is None:
        return None

    def read(args: Args, kwargs: Kwargs) -> Any:
        passed = get(args, kwargs)
        word = passed if isinstance(passed, str) else _asked_of_c10d(services)
        return word if (word := word.rpartition(".")[2].lower()) in _REDUCE_OPS else MISSING

    return read


def _asked_of_c10d(services: Services) -> str:
    """The reduction in the options of the function of ``torch.distributed`` that led to this call; empty if none did,
    as where a C++ reducer calls."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and services.is_torchs_own(frame.f_code.co_filename):
        options = (value for name, value in frame.f_locals.items() if name.endswith("opts"))
        for reduction in (held for held in (getattr(value, "reduceOp", None) for value in options) if held is not None):
            return str(getattr(reduction, "op", reduction))
        frame = frame.f_back
    return ""


def _any_order(func: Any, services: Services) -> Test | None:
    """Return a test of whether a collective combines by an extremum or bit by bit, or in a group of one rank."""
    group, reduction = argument_getter(func, "process_group", "group_name"), _reduce_op(func, services)
    if group is None or reduction is None:
        return None

    def test(args: Args, kwargs: Kwargs) -> bool:
        return services.group_size(group(args, kwargs)) == 1 or reduction(args, kwargs) in _REDUCE_OPS[4:]

    return test


def _fact(name: str, about: str, domain: tuple[Value, ...] = BOOL, codes: Mapping[int, str] | None = None) -> Fact:
    """An argument by its schema name."""
    domain = tuple(codes.values()) if codes else domain
    return Fact(f"arg.{name}", domain, Kind.ASKED, about, partial(_argument, name, domain, codes or {}))


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
    _fact("accumulate", "Is added to what stands there?"),
    _fact("sparse", "Is the gradient sparse?"),
    _fact("largest", "Are the largest chosen?"),
    _fact("sorted", "Is the result sorted?"),
    _fact("align_corners", "Are corners aligned?"),
    _fact("deterministic", "Attention libraries: is the backward kernel's own switch on?"),
    _fact("sequence", "Bucketizing: is the order inside a bucket kept?"),
    _fact("max_unorm", "Is a limit set on the update's norm?"),
    asked("arg.training", of_arguments("training|train")(lambda mode: mode is not False), "Does it run in training?"),
    _fact("reduce", "The reduction.", ("sum", "prod", "mean", "amax", "amin", "add", "multiply")),
    Fact(
        "arg.reduce_op", _REDUCE_OPS, Kind.ASKED, "A collective's reduction, where its caller can be asked.", _reduce_op
    ),
    noted_fact(
        "collective.any_order",
        _any_order,
        "A collective: is its reduction the same in any order, or its group one rank?",
    ),
    _fact("driver", "LAPACK's driver; default: torch picks it.", ("default", "gels", "gelsy", "gelsd", "gelss")),
    _fact("reduction", "The loss's reduction.", codes={0: "none", 1: "mean", 2: "sum"}),
    _fact("mode", "What an embedding bag computes.", codes={0: "sum", 1: "mean", 2: "max"}),
    _fact("interpolation_mode", "The interpolation.", codes={0: "bilinear", 1: "nearest", 2: "bicubic"}),
    _fact("padding_mode", "The padding.", codes={0: "zeros", 1: "border", 2: "reflection"}),
    asked(
        "arg.output_mask0",
        of_arguments("output_mask|grad_input_mask")(lambda mask: bool(mask[0])),
        "Is the input's gradient asked for?",
    ),
    asked(
        "arg.dropout",
        lambda func, services: dropout_reader(func, "p"),
        "Is dropout asked for: a rate above 0, and not in evaluation?",
    ),
    asked("given.attn_mask", _is_given("attn_mask"), "Was an attention mask given?"),
    asked("given.weights", _is_given("weights"), "Were weights given?"),
    asked("given.generator", _is_given("generator"), "Was a generator given?"),
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
