"""Keeps Dynamo from compiling the recorder's own functions.

Compiled code dispatches while Dynamo's frame evaluator is on; some releases (torch 2.4) would compile what the mode
calls then, and fail if the program asked for a full graph.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

from tracer.recording.origin.sites import with_nested
from tracer.recording.patching import stand_ins
from tracer.recording.torch_private import seams

_PACKAGES = ("tracer.recording.", "tracer.trace.", "tracer.names", "tracer.runner.")
#: These make the program's own calls, which Dynamo handles as ever; what the other modules call is theirs.
_PASS_ON = ("patching", "mode", "torch_private.seams")
#: Modules that Dynamo was told of, for as long as the process lives.
_told: set[str] = set()


class _Loaded:
    newest: tuple[int, str] | None = None
    """The number of modules, and the newest, when Dynamo knew of all of ours."""


def leave_to_python() -> None:
    """Tell Dynamo, if it is loaded, to skip the functions of our loaded modules."""
    if not seams.is_dynamo_loaded():
        return
    _know_stand_ins()
    newest = len(sys.modules), next(reversed(sys.modules))
    if newest == _Loaded.newest:
        return
    is_known_for_good = True
    for name, module in sys.modules.copy().items():
        if name.startswith(_PACKAGES) and isinstance(module, ModuleType) and name not in _told:
            codes = tuple(_code_of(module))
            seams.skip_code(codes, with_callees=not name.endswith(_PASS_ON))
            # Dynamo's reset forgets this of code that it once looked at, and of no other.
            if seams.has_looked_at(codes):
                is_known_for_good = False
            else:
                _told.add(name)
    _Loaded.newest = newest if is_known_for_good else None


def _know_stand_ins() -> None:
    """Dynamo knows some functions by identity, from lists that it fills at first use: adds the replacement of a listed
    function, and the function of a listed replacement."""
    pairs = [(id(function), id(replacement)) for function, replacement in stand_ins()]
    for functions in seams.lists_of_functions():
        for pair in pairs:
            if not functions.isdisjoint(pair):
                functions.update(pair)


def _code_of(module: ModuleType) -> Iterator[CodeType]:
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        for member in (value, *vars(value).values()) if isinstance(value, type) else (value,):
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            if isinstance(function, FunctionType):
                yield from with_nested(function.__code__)
