"""The recorder's module hooks, out of sight while dynamo reads a program.

They trace to nothing, but that they are there changes the order in which a graph takes its inputs, and with it the key
under which its code is cached. A guard does not look at them, unless a module has hooks of its own: then what was
compiled without them would be refused at every call, and they stay where they are.

Before torch 2.10 guards see whether a dispatch mode is active. Those that dynamo makes while it has put the recorder's
mode aside would fail at every call, until it gives up; so they are made as if that mode was there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from tracer.recording.origin.modules import OWN_HOOK
from tracer.recording.torch_private import seams

_TABLES = ("_global_forward_pre_hooks", "_global_forward_hooks", "_global_forward_hooks_always_called")
#: Guards that ask which hooks there are, and not only for the type of what holds them (torch 2.13).
_ASKS = ("LENGTH", "DictGuardManager", "KeyManager", "len(", "DICT_CONTAINS")


class HiddenHooks:
    """Whether they are hidden: not any more once a guard has looked at them."""

    def __init__(self) -> None:
        self.hides = True
        self._modes = 0
        """How many dispatch modes were active where dynamo was last asked to compile."""

    def guarded(self, guards: str) -> None:
        """These are the guards of what dynamo has read just now."""
        if any("_global_forward" in line and any(word in line for word in _ASKS) for line in guards.splitlines()):
            self.hides = False

    def compiling(self, compile_frame: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call by which dynamo reads a function of the program."""
        self._modes = seams.dispatch_mode_count()
        if not self.hides:
            return compile_frame(*args, **kwargs)
        with _hidden():
            return compile_frame(*args, **kwargs)

    def making_guards(self, make: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call that makes guards, with a mode where there will be one when they are asked."""
        if not self._modes or seams.dispatch_mode_count():
            return make(*args, **kwargs)
        with _StandsIn():  # type: ignore[no-untyped-call]
            return make(*args, **kwargs)


class _StandsIn(TorchDispatchMode):
    """Stands where the recorder's mode will, and does nothing."""

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
    before = [(table, list(table.items())) for table in tables]
    for table in tables:
        for number in own & table.keys():
            del table[number]
    try:
        yield
    finally:
        for table, items in before:
            met = dict(table)
            table.clear()
            table.update((number, hook) for number, hook in items if number in own or number in met)
            table.update(met)


#: Of this process.
HOOKS = HiddenHooks()
