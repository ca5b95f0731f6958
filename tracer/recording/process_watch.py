"""Watches besides those of ops: variables, settings, first uses, seeds, Inductor, loaders.

``tracer run`` enters it before the script's first line, a recorder while it records. Imports no torch by itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from tracer.names import EventKind, Subsystem
from tracer.recording.events import EventLog
from tracer.recording.origin import Sites, is_torchs_own, outwards
from tracer.recording.process.children import ChildLog
from tracer.recording.randomness.host_generators import HOST
from tracer.recording.randomness.own_generators import OwnGenerators
from tracer.trace.records import Environment

if TYPE_CHECKING:
    from tracer.recording.compiled import CompileLog
    from tracer.recording.process.environment import FirstUses
    from tracer.recording.randomness.loaders import LoaderLog


class ProcessWatch:
    """Watches this process, and changes of ``variables``, between ``enter`` and ``leave``, which nest."""

    def __init__(self, sites: Sites, variables: Iterable[str], *, from_start: bool = False) -> None:
        self.from_start = from_start
        """Whether it was entered before the script's first line."""
        self._sites = sites
        self.log = EventLog(sites)
        self.loaders: LoaderLog | None = None
        """The loaders that were iterated; ``None`` while torch is not loaded."""
        self.compilations: CompileLog | None = None
        """The compilations so far; ``None`` while torch is not loaded."""
        self.on_compiler: Callable[[], None] = lambda: None
        """Called when torch's compiler was loaded."""
        self.own_generators = OwnGenerators(sites, self.log)
        self.children = ChildLog(sites)
        """Processes that were started; a recorder that ends has it watch no more."""
        self._variables = VariableEvents(self.log, variables, self._look)
        self._depth = 0
        self._first_uses: FirstUses | None = None
        self._stops: list[Callable[[], None]] = []

    def enter(self) -> None:
        """Begin to watch. Where torch is not loaded yet, say ``torch_loaded`` when it is."""
        self._depth += 1
        if self._depth == 1:
            if "torch" in sys.modules:
                self.torch_loaded(None)
            for watch in (self._variables, self.own_generators, self.children):
                watch.start()
            HOST.start(self.log, from_process_start=self.from_start)

    def torch_loaded(self, frame: FrameType | None) -> None:
        """Watch what is torch's; ``frame`` has just imported it; ``None``: it was imported before the watch began."""
        if self._stops:
            return
        from tracer.recording.compiled import CompileLog
        from tracer.recording.process.environment import SETTINGS, FirstUses, SettingEvents
        from tracer.recording.randomness.generators import SEEDS
        from tracer.recording.randomness.loaders import LoaderLog

        self.log.first_use(Subsystem.TORCH, frame)
        self._first_uses = FirstUses(self.log)
        self.compilations = self.compilations or CompileLog(self.log, lambda: self.on_compiler())
        self.loaders = self.loaders or LoaderLog(self._sites)
        SETTINGS.add(changes := SettingEvents(self.log))
        self._stops.append(lambda: SETTINGS.discard(changes))
        for watch in (self._first_uses, self.compilations, self.loaders):
            watch.start()
            self._stops.append(watch.stop)
        SEEDS.start(self.log, from_torch_import=self.from_start and frame is not None)
        self._stops.append(lambda: SEEDS.stop(self.log))

    def leave(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._variables.stop()
            HOST.stop(self.log)
            self.own_generators.stop()
            self.children.stop()
            while self._stops:
                self._stops.pop()()
            self._first_uses = None

    def fields(self) -> dict[str, Iterable[Any]]:
        loaders = () if self.loaders is None else self.loaders.listed()
        return {"loaders": loaders, "own_generators": self.own_generators.listed()}

    def with_inductor(self, environment: Environment) -> Environment:
        """``environment`` with the settings that Inductor compiled under: later ones do not change its code."""
        compiled_under = self.compilations.settings if self.compilations is not None else {}
        return msgspec.structs.replace(environment, settings=environment.settings | compiled_under)

    def _look(self) -> None:
        if self._first_uses is not None:
            self._first_uses.look()


#: What stands between ``os.environ[...] = ...`` and its dictionary.
_PASSING = ("os.py", "_collections_abc.py", "<frozen os>", "<frozen _collections_abc>")


class VariableEvents:
    """Notes in ``log`` the changes of the variables ``names``; calls ``look`` before, to note starts in their order."""

    def __init__(self, log: EventLog, names: Iterable[str], look: Callable[[], None]) -> None:
        self._log = log
        self._names = frozenset(names)
        self._look = look

    def start(self) -> None:
        _LISTENERS.append(self)
        _keep_in(_Telling)

    def stop(self) -> None:
        _LISTENERS[:] = [other for other in _LISTENERS if other is not self]
        if not _LISTENERS:
            _keep_in(dict)

    def changed(self, name: str, before: str, value: str, frame: FrameType | None) -> None:
        """Note the change of a variable; an empty value is one that is not set."""
        if name not in self._names or before == value:
            return
        files = (caller.f_code.co_filename for caller in outwards(frame))
        setter = next((file for file in files if not file.endswith(_PASSING)), "")
        # What torch sets for its compiler's cache or a worker is not the program's.
        if not is_torchs_own(setter):
            self._look()
            self._log.changed(EventKind.VARIABLE, name, frame=frame, before=before, value=value)


class _Telling(dict[Any, Any]):
    """The variables, as ``os.environ`` keeps them."""

    def __setitem__(self, key: Any, value: Any) -> None:
        before = self.get(key)
        super().__setitem__(key, value)
        _tell(key, before, value)

    def __delitem__(self, key: Any) -> None:
        before = self.get(key)
        super().__delitem__(key)
        _tell(key, before, None)


def _tell(*changed: Any) -> None:
    name, before, value = ("" if text is None else os.environ.decodevalue(text) for text in changed)
    for listener in tuple(_LISTENERS):
        with suppress(Exception):  # a failure of the recorder must not reach the program
            listener.changed(name, before, value, sys._getframe(2))


def _keep_in(kind: type[dict[Any, Any]]) -> None:
    """Keep the variables in a dictionary of this kind, for texts and for bytes the same."""
    variables: Any = os.environ
    former = getattr(variables, "_data", None)
    if isinstance(former, dict) and type(former) is not kind:
        data = kind(former)
        for view in (variables, getattr(os, "environb", None)):
            if view is not None and getattr(view, "_data", None) is former:
                view._data = data


_LISTENERS: list[VariableEvents] = []
