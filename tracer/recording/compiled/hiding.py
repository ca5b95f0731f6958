"""Hides the recorder from Dynamo: its module hooks while a program is read, and its own functions always.

The hooks trace to nothing, but change the order of a graph's inputs, and so the key of its cached code. Before torch
2.10 guards see whether a dispatch mode is active: those made while dynamo set ours aside are made with a stand-in for
it. Some releases (torch 2.4) would compile what the mode calls, and fail if the program asked for a full graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from tracer.recording.origin import with_nested
from tracer.recording.origin.modules import OWN_HOOK
from tracer.recording.patching import stand_ins
from tracer.recording.torch_private import seams

_TABLES = ("_global_forward_pre_hooks", "_global_forward_hooks", "_global_forward_hooks_always_called")
#: Guards on the hooks themselves, and not only on the type of their table (torch 2.13).
_ASKS = ("LENGTH", "DictGuardManager", "KeyManager", "len(", "DICT_CONTAINS")


class HiddenHooks:
    """Hides the hooks until a guard has looked at them: code compiled without them would then fail it at every call."""

    def __init__(self) -> None:
        self.hides = True
        self._modes = 0
        """Number of dispatch modes that were active when dynamo last began to compile."""

    def guarded(self, guards: str) -> None:
        if any("_global_forward" in line and any(word in line for word in _ASKS) for line in guards.splitlines()):
            self.hides = False

    def compiling(self, compile_frame: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call by which dynamo reads a function of the program, with the hooks hidden."""
        self._modes = seams.dispatch_mode_count()
        with _hidden() if self.hides else nullcontext():
            return compile_frame(*args, **kwargs)

    def making_guards(self, make: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call that makes guards, with a mode if one will be active when they are checked."""
        is_missing = self._modes and not seams.dispatch_mode_count()
        with _StandsIn() if is_missing else nullcontext():  # type: ignore[no-untyped-call]
            return make(*args, **kwargs)


class _StandsIn(TorchDispatchMode):
    """Replaces the recorder's mode, and does nothing."""

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def _hidden() -> Iterator[None]:
    module = sys.modules["torch.nn.modules.module"]
    tables = [table for name in _TABLES if isinstance(table := getattr(module, name, None), dict)]
    own = {number for table in tables for number, hook in table.items() if hasattr(hook, OWN_HOOK)}
    before = [(table, dict(table)) for table in tables]
    for table in tables:
        for number in own & table.keys():
            del table[number]
    try:
        yield
    finally:
        for table, hooks in before:
            now = dict(table)
            table.clear()
            table.update((number, hook) for number, hook in hooks.items() if number in own or number in now)
            table.update(now)


HOOKS = HiddenHooks()


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
    if "torch._dynamo.eval_frame" not in sys.modules:
        return
    # Replacements stand in Dynamo's lists of functions where their functions do, or the functions where they do.
    pairs = [(id(function), id(replacement)) for function, replacement in stand_ins()]
    for functions in seams.lists_of_functions():
        for pair in pairs:
            if not functions.isdisjoint(pair):
                functions.update(pair)
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


def _code_of(module: ModuleType) -> Iterator[CodeType]:
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        for member in (value, *vars(value).values()) if isinstance(value, type) else (value,):
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            if isinstance(function, FunctionType):
                yield from with_nested(function.__code__)
