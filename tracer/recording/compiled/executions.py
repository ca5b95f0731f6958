"""Counts the executions of each compiled region, by caller. The recorder's mode leaves the stack meanwhile."""

from __future__ import annotations

import sys
from _thread import get_ident as _get_ident
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import nullcontext
from types import FrameType
from typing import Any, Protocol

import msgspec

from tracer.names import Direction, SeedOrigin
from tracer.recording.compiled import CompiledCode, CompileLog
from tracer.recording.events import ORDER
from tracer.recording.memory_observers import HandedOver, StorageObservers
from tracer.recording.origin import NOWHERE, Site, outwards
from tracer.recording.origin.attribution import Attribution
from tracer.recording.patching import WatchedFunction, Watchers
from tracer.recording.randomness.generators import SEEDS
from tracer.recording.randomness.host_generators import Drawn
from tracer.recording.storage.unwritten import FreshMemory
from tracer.recording.torch_private import compile_seams, seams
from tracer.recording.torch_private.seams import without_recording

_current_node = seams.current_node
_FORWARD, _INFERENCE = Direction.FORWARD, Direction.INFERENCE
#: Most forwards that are kept until their backward; an evaluation without ``no_grad`` has no backward.
_MOST_WAITING = 10_000


class RegionRun(msgspec.Struct, eq=False):
    """Executions of one region with the same caller."""

    code: CompiledCode
    scope: Any
    in_engine: bool
    """Whether the backward engine called it."""
    in_optimizer: bool
    site: Site = NOWHERE
    """The innermost line outside torch that led to the first execution; for a backward, to its forward."""
    called_from: Site = NOWHERE
    """The user's own line that led there."""
    count: int = 0
    order: int = msgspec.field(default_factory=lambda: next(ORDER))
    unwritten: dict[tuple[int, FreshMemory], int] = msgspec.field(default_factory=dict)
    """Counts of unwritten inputs, by the input's position and its allocation."""
    draws: dict[str, Drawn] = msgspec.field(default_factory=dict)
    """By generator that the code may draw from: where its state came from, the machine if it ever did."""


class RegionObserver(Protocol):
    """Observes what a region reads and writes."""

    def before(self, run: RegionRun, compiled: Any, inputs: Any) -> Any:
        """A region is about to run. The result is passed to the other two methods."""

    def after(self, begun: Any, result: Any) -> None:
        """The region returned ``result``."""

    def left(self, begun: Any) -> None:
        """The region returned or raised."""
        return


class Executions:
    """The executions of one recording. ``log`` returns the log of compilations, once there is one."""

    def __init__(
        self, attribution: Attribution, storages: StorageObservers, log: Callable[[], CompileLog | None]
    ) -> None:
        self._attribution = attribution
        self._modules = attribution.modules
        self._optimizer = attribution.optimizer
        self._log = log
        self.runs: dict[Any, RegionRun] = {}
        self._forwards: dict[Any, deque[RegionRun]] = defaultdict(lambda: deque(maxlen=_MOST_WAITING))
        """By program: forwards whose backward has not run yet. The backward of the last one runs first."""
        self._storages = storages
        self.on_unseen: Callable[[CompiledCode, FrameType | None], None] = lambda code, frame: None
        """Called for each execution of code whose graph is unknown."""
        self.observers: tuple[RegionObserver, ...] = ()
        self.running: RegionRun | None = None
        """The execution that ``ran`` began last; ``None`` if it is not counted."""

    def ran(self, compiled: Any, inputs: Any) -> bool:
        """``compiled`` is about to run. Returns whether the region's count includes all ops that it dispatches."""
        self.running = None
        storages = self._storages  # the region may write to its inputs
        handed_over = storages.handed_over(inputs) if storages.is_following else HandedOver([], {})
        modules = self._modules
        in_engine = _current_node() is not None
        if not in_engine and _get_ident() != modules.thread and seams.graph_task_id() == -1:
            return False  # this thread is not recorded
        if (log := self._log()) is None:
            return False
        code = log.code_of(compiled) or log.met_unknown(compiled)
        scope = modules.scope
        direction = code.direction
        forward = waiting = None
        if direction is not _INFERENCE:
            waiting = self._forwards[code.program]
            if direction is not _FORWARD and waiting:
                forward = waiting.pop()
                scope = forward.scope
        is_stepping = self._optimizer.active
        sites, frame = self._attribution.sites, sys._getframe(1)
        caller: Any = forward
        if code.has_lines:
            caller = None
        elif forward is None:  # torch's own code has no line of the program: the instruction outside that called it
            codes = ((outer.f_code, outer.f_lasti) for outer in outwards(frame))
            outside = (each for each in codes if sites.kind_of(each[0].co_filename) > 0)
            caller = next(((code.co_filename, code.co_firstlineno, at) for code, at in outside), None)
        key = (code, scope, in_engine, is_stepping, caller)
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = RegionRun(code, scope, in_engine=in_engine, in_optimizer=is_stepping)
            if forward is not None:
                run.site, run.called_from = forward.site, forward.called_from
            else:
                run.site, run.called_from = sites.innermost(frame), sites.users_own(frame)
        if direction is _FORWARD and waiting is not None:
            waiting.append(run)
        run.count += 1
        self.running = run
        for entry in handed_over.unwritten:
            run.unwritten[entry] = run.unwritten.get(entry, 0) + 1
        code.ran_on(handed_over.distinct)
        for device in code.draws_on:
            drawn = SEEDS.default(device)
            if drawn[0] not in run.draws or run.draws[drawn[0]][1].origin is not SeedOrigin.MACHINE:
                run.draws[drawn[0]] = drawn
        if not code.text:
            self.on_unseen(code, frame)
        return bool(code.text)


def _observed(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the call of a region, counted, without the recorder's mode."""
    lifts = True
    begun: list[tuple[RegionObserver, Any]] = []
    try:
        for listener in RUNS.listeners:
            lifts &= listener.ran(*args)
            if (run := listener.running) is not None:
                for observer in listener.observers:
                    begun.append((observer, observer.before(run, *args)))
    except Exception:  # a failure of the recorder must not reach the program
        lifts = False
    try:
        with without_recording() if lifts else nullcontext():
            result = original(*args, **kwargs)
        for observer, begun_by in begun:
            observer.after(begun_by, result)
        return result
    finally:
        for observer, begun_by in begun:
            observer.left(begun_by)


RUNS: Watchers[Executions] = Watchers(
    lambda: [WatchedFunction([(compile_seams.compiled_graph_class(), "__call__")], around=_observed)]
)
