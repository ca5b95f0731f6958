"""The recorder's own functions, which dynamo must leave alone wherever they are called from.

Compiled code dispatches while dynamo's frame evaluator is on; some releases (torch 2.4) would compile what the mode
calls then, and fail in the program's name where a graph has to be whole.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

from tracer.recording.torch_private import seams

_PACKAGES = ("tracer.recording.", "tracer.trace.", "tracer.names")
_known: dict[str, tuple[CodeType, ...]] = {}


def leave_to_python() -> None:
    """Tell dynamo, where it is loaded, to leave the functions of every part that is loaded alone."""
    if not seams.is_dynamo_loaded():
        return
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGES) and isinstance(module, ModuleType):
            if name not in _known:
                _known[name] = tuple(_code_of(module))
            seams.skip_code(_known[name])


def _code_of(module: ModuleType) -> Iterator[CodeType]:
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        for one in (value, *vars(value).values()) if isinstance(value, type) else (value,):
            function = getattr(one, "fget", None) or getattr(one, "__func__", one)
            if isinstance(function, FunctionType):
                yield from _with_inner(function.__code__)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    """``code``, and that of the functions made in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)
