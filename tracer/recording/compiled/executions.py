"""How often each compiled region runs, and from where.

A region is called as one function. While one runs whose inside is known, the recorder's mode leaves the stack: its
kernels' calls are the region's own, and would be counted twice.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

from tracer.recording.calls.attribution import Attribution
from tracer.recording.compiled.compilations import CompiledCode, CompileLog
from tracer.recording.process.events import ORDER
from tracer.recording.sites import NOWHERE, Site
from tracer.recording.stepping_aside import OWN_MODE, without_recording
from tracer.recording.torch_private import compile_seams, seams
from tracer.recording.watchers import Target, Watchers
from tracer.trace.region_names import Direction

_current_node = seams.current_node
_modes = seams.dispatch_mode_count
_FORWARD, _BACKWARD = Direction.FORWARD, Direction.BACKWARD
#: Forwards without a backward that are remembered; an evaluation without ``no_grad`` has no end of them.
_MOST_WAITING = 10_000


class Run:
    """Executions of one region that agree in where they were asked for."""

    __slots__ = ("called_from", "code", "count", "in_engine", "in_optimizer", "order", "scope", "site")

    def __init__(self, code: CompiledCode, scope: Any, *, in_engine: bool, in_optimizer: bool) -> None:
        self.code = code
        self.scope = scope
        self.in_engine = in_engine
        """Did the backward engine call it?"""
        self.in_optimizer = in_optimizer
        self.site: Site = NOWHERE
        """The innermost line outside torch that led to the first of them."""
        self.called_from: Site = NOWHERE
        """The user's own line that did."""
        self.count = 0
        self.order = next(ORDER)


class Executions:
    """The executions of one recording. ``log`` tells what is known of a region's code."""

    def __init__(self, attribution: Attribution, log: Callable[[], CompileLog | None]) -> None:
        self._attribution = attribution
        self._log = log
        self.runs: dict[Any, Run] = {}
        self._forwards: dict[Any, deque[Any]] = {}
        """By a program: the modules in which its forward ran, whose backward has not run yet; the last one's runs
        first."""
        self.on_run: Callable[[], None] = lambda: None
        """Told of each execution: it may write to any tensor."""
        self.on_unseen: Callable[[CompiledCode, FrameType | None], None] = lambda code, frame: None
        """Told of each execution of code whose inside is not known."""

    def start(self) -> None:
        """Begin to count."""
        RUNS.add(self)

    def stop(self) -> None:
        """Count no more."""
        RUNS.discard(self)

    def ran(self, compiled: Any, frame: FrameType | None) -> bool:
        """``compiled`` is about to run; is its inside known?"""
        modules = self._attribution.modules
        in_engine = _current_node() is not None
        if get_ident() != modules.thread and not in_engine and seams.graph_task_id() == -1:
            return False  # another thread's, which is not recorded
        log = self._log()
        if log is None:
            return False
        known = log._by_object.get(id(compiled))
        code = known[1] if known is not None and known[0]() is compiled else log.met_unknown(compiled)
        scope = modules.scope
        if code.direction is _FORWARD:
            waiting = self._forwards.get(code.program)
            if waiting is None:
                waiting = self._forwards[code.program] = deque(maxlen=_MOST_WAITING)
            waiting.append(scope)
        elif code.direction is _BACKWARD:
            waiting = self._forwards.get(code.program)
            if waiting:
                scope = waiting.pop()
        is_stepping = self._attribution.optimizer.active
        key = (code, scope, in_engine, is_stepping)
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = Run(code, scope, in_engine=in_engine, in_optimizer=is_stepping)
            self._locate(run, frame)
        run.count += 1
        self.on_run()
        if not code.text:
            self.on_unseen(code, frame)
            return False
        return True

    def _locate(self, run: Run, frame: FrameType | None) -> None:
        sites = self._attribution.sites
        run.site = sites.innermost(frame)
        run.called_from = sites.users_own(frame)


def _run(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    is_seen = True
    try:
        frame = sys._getframe(2)
        for listener in RUNS.listeners:
            is_seen &= listener.ran(args[0], frame)
    except Exception:  # what a note stumbles over is no business of the program's
        is_seen = False
    if not is_seen or not _modes() or seams.pop_mode is None or seams.push_mode is None:
        return call(*args, **kwargs)
    lifted = []
    while (mode := seams.top_mode()) is not None and hasattr(type(mode), OWN_MODE):
        lifted.append(seams.pop_mode())
    try:
        if not _modes():
            return call(*args, **kwargs)
        with without_recording():  # a mode of somebody else's is above; torch puts one there at the first call
            return call(*args, **kwargs)
    finally:
        while lifted:
            seams.push_mode(lifted.pop())


def _targets() -> list[Target]:
    return [Target([(compile_seams.compiled_graph_class(), "__call__")], around=_run)]


#: Who counts.
RUNS: Watchers[Executions] = Watchers(_targets)
