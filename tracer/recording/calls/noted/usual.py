"""What an overload's readers answer for nearly all of its calls: those on strided tensors that have elements.

Additions and products are asked whether an operand is sparse or empty. One look over the arguments says that none is,
and what the readers would answer then is known before the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch

from tracer.recording.calls.arguments import MISSING

#: Fact to what its reader answers where no tensor among the arguments is sparse; none is empty, if that is asked.
_ANSWERS: Mapping[str, Any] = {
    "layout": MISSING,
    "operands.both_sparse": False,
    "operands.sparse": MISSING,
    "operands.uncoalesced": MISSING,
    "shape.no_elements": MISSING,
}
_STRIDED = torch.strided
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_PLAIN = frozenset({int, float, bool, complex, type(None), str, torch.dtype})


class Usual(NamedTuple):
    """Answers that are known beforehand."""

    answers: tuple[Any, ...]
    """In the order of the readers."""
    holds: Callable[[tuple[Any, ...]], bool]
    """Are they those of a call with these arguments? False also where that is not certain."""


def usual_answers(facts: Iterable[str]) -> Usual | None:
    """For an overload that is asked these; ``None`` where something else is asked, too, or nothing."""
    asked = tuple(facts)
    if not asked or not _ANSWERS.keys() >= set(asked):
        return None
    answers = tuple(_ANSWERS[fact] for fact in asked)
    return Usual(answers, _are_full if "shape.no_elements" in asked else _are_strided)


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
