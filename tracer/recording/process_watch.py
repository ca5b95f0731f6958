"""Watches besides those of ops: variables, settings, first uses, seeds, Inductor, loaders.

``tracer run`` enters it before the script's first line, a recorder while it records. Imports no torch by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from tracer.names import Subsystem
from tracer.recording.events import EventLog
from tracer.recording.origin.sites import Sites
from tracer.recording.process.children import ChildLog
from tracer.recording.process.variables import VariableEvents
from tracer.recording.randomness.host_generators import HOST
from tracer.recording.randomness.own_generators import OwnGenerators
from tracer.trace.records import Environment

if TYPE_CHECKING:
    from tracer.recording.compiled.compilations import CompileLog
    from tracer.recording.process.torch_events import FirstUses
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
        from tracer.recording.compiled.compilations import CompileLog
        from tracer.recording.process.torch_events import SETTINGS, FirstUses, SettingEvents
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
        """Undo what ``enter`` did."""
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
        """What the trace has of loaders and generators."""
        loaders = () if self.loaders is None else self.loaders.listed()
        return {"loaders": loaders, "own_generators": self.own_generators.listed()}

    def with_inductor(self, environment: Environment) -> Environment:
        """``environment`` with the settings that Inductor compiled under: later ones do not change its code."""
        compiled_under = self.compilations.settings if self.compilations is not None else {}
        return msgspec.structs.replace(environment, settings=environment.settings | compiled_under)

    def _look(self) -> None:
        if self._first_uses is not None:
            self._first_uses.look()
