"""Notifies when a module has been imported, without importing it.

The recorder needs torch, but torch reads variables such as ``OMP_NUM_THREADS`` as it loads, and scripts set
them in their first lines. So the script imports torch itself, and recording starts right after.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from tracer.runner.interrupts import interrupt_held


def when_imported(name: str, callback: Callable[[], None]) -> None:
    """Call ``callback`` once: now if module ``name`` is loaded, otherwise right after it is imported.

    Control-C waits until it is loaded: an interrupted load of C++ code aborts the process, swallows the interrupt, or
    leaves a module that cannot be loaded again.
    """
    if name in sys.modules:
        callback()
    else:
        sys.meta_path.insert(0, _Watcher(name, callback))


class _Watcher(MetaPathFinder):
    """Lets the other finders find ``name``, has its loader call back, then removes itself."""

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        self.name = name
        self.callback = callback
        self.asking_the_others = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The other finders' spec for the watched module, ``None`` for every other."""
        if fullname != self.name or self.asking_the_others:
            return None
        self.asking_the_others = True
        try:
            spec = find_spec(fullname)
        finally:
            self.asking_the_others = False
        if spec is not None and spec.loader is not None:
            self._watch(spec.loader)
        return spec

    def _watch(self, loader: object) -> None:
        """Replace ``exec_module`` on this loader for one call; its class is unchanged."""
        original: Callable[[ModuleType], None] = loader.exec_module  # type: ignore[attr-defined]

        def exec_module(module: ModuleType) -> None:
            loader.__dict__.pop("exec_module", None)
            with interrupt_held():
                original(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self.callback()

        loader.__dict__["exec_module"] = exec_module
