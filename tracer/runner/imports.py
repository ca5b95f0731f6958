"""Being told when a module has been imported, without importing it first.

The recorder needs torch, but torch reads variables such as ``OMP_NUM_THREADS`` as it loads, and scripts set
them in their first lines. So the script imports torch when it likes, and recording begins right after.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import FrameType, ModuleType

from tracer.runner.interrupts import interrupt_held


def when_imported(name: str, callback: Callable[[], None]) -> None:
    """Call ``callback`` once: now if module ``name`` is loaded, otherwise right after it is imported.

    A module whose own lines are still running (it imports torch, say) is not loaded yet.

    Control-C waits until the import is done: an interrupted load of C++ code aborts
    the process, swallows the interrupt, or leaves a module that cannot be loaded again.
    """
    if name in sys.modules:
        spec = getattr(sys.modules[name], "__spec__", None)
        if getattr(spec, "_initializing", False) and type(spec) in (ModuleSpec, _Unfinished):
            spec.__class__ = _Unfinished
            spec.__dict__.setdefault("_callbacks", []).append(callback)
        else:
            callback()
        return
    finder = next((finder for finder in sys.meta_path if isinstance(finder, _Watcher)), None)
    if finder is None:
        finder = _Watcher()
        sys.meta_path.insert(0, finder)
    finder.waiting.setdefault(name, []).append(callback)


#: Told of each module that is to be imported while others are awaited: the frame that imports it.
_BEFORE_IMPORTS: list[Callable[[FrameType], None]] = []


def before_imports(tell: Callable[[FrameType], None]) -> None:
    """Call ``tell`` from now on before a module is imported, with the frame that imports it."""
    if tell not in _BEFORE_IMPORTS:
        _BEFORE_IMPORTS.append(tell)


class _Unfinished(ModuleSpec):
    """The spec of a module that is being imported: tells when that is done (CPython 3.10 to 3.13)."""

    @property
    def _initializing(self) -> bool:
        return True

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        self.__class__ = ModuleSpec  # type: ignore[assignment]
        self._initializing = value
        for callback in self.__dict__.pop("_callbacks"):
            when_imported(self.name, callback)  # at once, unless its import failed


class _Watcher(MetaPathFinder):
    """Lets the other finders find the awaited modules, has their loaders call back, and removes itself after the last.

    There is one for all modules: Python asks every finder for each of the 1,000 modules that torch imports.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, list[Callable[[], None]]] = {}
        """By module, in the order in which they are called."""
        self._asking_the_others: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, or ``None`` for every module but the watched ones."""
        # What torch imports of its own, most of all that is imported, draws nothing.
        if _BEFORE_IMPORTS and not self._asking_the_others and not fullname.startswith("torch."):
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
                frame = frame.f_back
            if frame is not None:
                for tell in _BEFORE_IMPORTS:
                    tell(frame)
        if fullname not in self.waiting or fullname in self._asking_the_others:
            return None
        self._asking_the_others.add(fullname)
        try:
            spec = find_spec(fullname)
        finally:
            self._asking_the_others.discard(fullname)
        if spec is not None and spec.loader is not None:
            self._watch(spec.loader, fullname)
        return spec

    def _watch(self, loader: object, name: str) -> None:
        """Replace ``exec_module`` on this one loader for one call: its class, and what it can do, stay."""
        original: Callable[[ModuleType], None] = loader.exec_module  # type: ignore[attr-defined]

        def exec_module(module: ModuleType) -> None:
            loader.__dict__.pop("exec_module", None)
            with interrupt_held():
                original(module)
            if self in sys.meta_path:
                called_back = self.waiting.pop(name, [])
                if not self.waiting:
                    sys.meta_path.remove(self)
                for callback in called_back:
                    callback()

        loader.__dict__["exec_module"] = exec_module
