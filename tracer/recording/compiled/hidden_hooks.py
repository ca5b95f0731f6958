"""The recorder's module hooks, out of sight while dynamo reads a program.

They trace to nothing, but that they are there changes the order in which a graph takes its inputs, and with it the key
under which its code is cached. A guard does not look at them, unless a module has hooks of its own: then what was
compiled without them would be refused at every call, and they stay where they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tracer.recording.calls.modules import OWN_HOOK

_TABLES = ("_global_forward_pre_hooks", "_global_forward_hooks", "_global_forward_hooks_always_called")
#: Guards that ask which hooks there are, and not only for the type of what holds them (torch 2.13).
_ASKS = ("LENGTH", "DictGuardManager", "KeyManager", "len(", "DICT_CONTAINS")


class HiddenHooks:
    """Whether they are hidden: not any more once a guard has looked at them."""

    def __init__(self) -> None:
        self.hides = True

    def guarded(self, guards: str) -> None:
        """These are the guards of what dynamo has read just now."""
        if any("_global_forward" in line and any(word in line for word in _ASKS) for line in guards.splitlines()):
            self.hides = False

    def compiling(self, compile_frame: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call by which dynamo reads a function of the program."""
        if not self.hides:
            return compile_frame(*args, **kwargs)
        with _hidden():
            return compile_frame(*args, **kwargs)


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
