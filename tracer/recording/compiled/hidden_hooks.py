"""Hides the recorder's module hooks while dynamo reads a program.

They trace to nothing, but their presence changes the order of a graph's inputs, and with it the key of its cached code.
Guards look at them only if a module has hooks of its own. Code compiled without them would then fail its guards at
every call, so they stay in place.

Before torch 2.10 guards see whether a dispatch mode is active. Guards made while dynamo has set the recorder's mode
aside would fail at every call, so they are made with a stand-in for that mode.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from tracer.recording.origin.modules import OWN_HOOK
from tracer.recording.torch_private import seams

_TABLES = ("_global_forward_pre_hooks", "_global_forward_hooks", "_global_forward_hooks_always_called")
#: Guards on the hooks themselves, and not only on the type of their table (torch 2.13).
_ASKS = ("LENGTH", "DictGuardManager", "KeyManager", "len(", "DICT_CONTAINS")


class HiddenHooks:
    """Hides the hooks until a guard has looked at them."""

    def __init__(self) -> None:
        self.hides = True
        self._modes = 0
        """Number of dispatch modes that were active when dynamo last began to compile."""

    def guarded(self, guards: str) -> None:
        """Dynamo made these guards."""
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
