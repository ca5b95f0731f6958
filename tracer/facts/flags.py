"""Facts that an argument alone tells: flags, words, and whether an optional tensor was given."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any

from tracer.facts.argument_readers import MISSING, Args, Kwargs, Reader, argument_getter, dropout_reader, of_arguments
from tracer.facts.fact import BOOL, Fact, Kind, Makes, Services, Test, Value, asked, noted_fact


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


@of_arguments("output_mask|grad_input_mask")
def _first_of_mask(mask: Sequence[bool]) -> bool:
    return bool(mask[0])


@of_arguments("training|train")
def _trains(mode: bool | None) -> bool:
    return mode is not False


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


FACTS = (
    _fact("accumulate", "Is added to what stands there?"),
    _fact("sparse", "Is the gradient sparse?"),
    _fact("largest", "Are the largest chosen?"),
    _fact("sorted", "Is the result sorted?"),
    _fact("align_corners", "Are corners aligned?"),
    _fact("deterministic", "Attention libraries: is the backward kernel's own switch on?"),
    _fact("sequence", "Bucketizing: is the order inside a bucket kept?"),
    _fact("max_unorm", "Is a limit set on the update's norm?"),
    asked("arg.training", _trains, "Does it run in training?"),
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
    asked("arg.output_mask0", _first_of_mask, "Is the input's gradient asked for?"),
    asked(
        "arg.dropout",
        lambda func, services: dropout_reader(func, "p"),
        "Is dropout asked for: a rate above 0, and not in evaluation?",
    ),
    asked("given.attn_mask", _is_given("attn_mask"), "Was an attention mask given?"),
    asked("given.weights", _is_given("weights"), "Were weights given?"),
    asked("given.generator", _is_given("generator"), "Was a generator given?"),
)
