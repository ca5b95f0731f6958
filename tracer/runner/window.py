"""Enters the recorder when a step starts and leaves it when a step ends, by torch's optimizer hooks.

A step starts where the previous one ended. Only this module of the runner imports torch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from tracer.recording.origin.optimizers import HAS_OPTIMIZER, PASSES, unless_compiled
from tracer.recording.process.environment import capture_environment
from tracer.recording.torch_private import seams
from tracer.runner.script import Task, WindowComplete
from tracer.session import Session
from tracer.trace.records import Environment

_WHILE_PAUSED = "optimizer steps ended while its pool waited for a result"
_INSIDE_BACKWARD = "optimizer steps ended inside the backward pass, where recording can neither begin nor end"


class StepWindow:
    """Keeps a recorder entered for the optimizer steps of a task only."""

    def __init__(self, session: Session, task: Task, when_complete: Callable[[], None]) -> None:
        """``when_complete`` is called once, after the last requested step is recorded."""
        self.session = session
        self.steps = task.steps
        self._task = task
        self._when_complete = when_complete
        self.finished = 0
        """Optimizer steps that ended, recorded or not."""
        self.complete = False
        """Whether the last step that was asked for ended."""
        self.blocked = ""
        """The reason why the recorder could not be entered or left where it should have been; empty if it could."""
        self.settings: Environment | None = None
        """The process's settings as the first recorded optimizer step began, when the script had made them."""
        self._thread: int | None = None
        self._is_paused = False
        self._own_modes = 0
        self._before: Any = None
        self._after: Any = None

    def open(self) -> None:
        """Start counting steps; enter the recorder if the first one is to be recorded."""
        HAS_OPTIMIZER.look_again()
        self._before = register_optimizer_step_pre_hook(unless_compiled(self._before_step))
        self._after = register_optimizer_step_post_hook(unless_compiled(self._after_step))
        PASSES.add(self._pass_ended)
        if self.steps.start == 0:
            self._enter()

    def close(self) -> None:
        """Leave the recorder if it is entered, stop counting, and read the settings if no step has."""
        if self._thread == threading.get_ident():
            self._leave()
        for hook in (self._before, self._after):
            if hook is not None:
                hook.remove()
        PASSES.discard(self._pass_ended)
        self.read_settings()

    def pause(self) -> bool:
        """Leave the recorder while the process is idle; false if it is not entered on this thread."""
        if self._thread != threading.get_ident():
            return False
        self._leave()
        self._is_paused = True
        return True

    def resume(self) -> None:
        self._is_paused = False
        self._enter()

    def read_settings(self) -> None:
        if self.settings is None:
            self.settings = capture_environment()

    def _before_step(self, optimizer: Optimizer, *_: object) -> None:
        """Read the settings of the first recorded step, and make our post hook the last one.

        Entering and leaving add and remove the recorder's own hooks. torch iterates over the hooks while
        it calls them, which only the last one may disturb; and the recorder's own must see the step's end.
        """
        HAS_OPTIMIZER.steps(optimizer)
        if self._task.ends_before is not None and self.finished >= self._task.ends_before:
            raise WindowComplete(0)
        if self._thread is not None:
            self.read_settings()
        if self._will_switch() and self._after is not None:
            self._after.remove()
            self._after = register_optimizer_step_post_hook(unless_compiled(self._after_step))

    def _pass_ended(self) -> None:
        if self._thread is not None:
            self.read_settings()
        self._after_step()

    def _after_step(self, *_: object) -> None:
        self.finished += 1
        if self._is_paused:
            self.blocked = _WHILE_PAUSED
            return
        if self._thread not in (None, threading.get_ident()):
            from tracer.trace.values.columns import STEPS_ON_ANOTHER_THREAD

            self.blocked = STEPS_ON_ANOTHER_THREAD
        stop = self.steps.stop
        is_over = stop is not None and self.finished >= stop
        if not self._will_switch() or not self._can_switch():
            pass
        elif self._thread is not None and is_over:
            self._leave()
            self.complete = True
            self._when_complete()
        elif self._thread is None and not is_over and self.finished >= self.steps.start:
            self._enter()
        if self.complete and self._task.exit_after_steps:
            raise WindowComplete(0)

    def _will_switch(self) -> bool:
        return not self.complete and (self._thread is None or self.steps.stop is not None)

    def _can_switch(self) -> bool:
        """Modes belong to a thread, and the autograd engine restores them when a node is done."""
        if seams.graph_task_id() != -1:
            self.blocked = _INSIDE_BACKWARD
            return False
        if self._thread not in (None, threading.get_ident()):
            return False
        self.blocked = ""
        return True

    def _enter(self) -> None:
        with _other_modes_lifted(0):
            self.session.enter(steps_before=self.finished)
            self._own_modes = seams.own_mode_count()
        PASSES.add(self._pass_ended)  # behind the recorder, which must see the step's end
        PASSES.discard(self._pass_ended)
        self._thread = threading.get_ident()

    def _leave(self) -> None:
        self._thread = None
        with _other_modes_lifted(self._own_modes):
            self.session.leave()


@contextmanager
def _other_modes_lifted(below: int) -> Iterator[None]:
    """Remove every dispatch mode above the ``below`` lowest from this thread's stack, and restore them afterwards.

    The script may hold a mode of its own around each step, and leave it after ours was entered. Modes leave
    in reverse order, so ours has to go below all of them.
    """
    pop, push = seams.pop_mode, seams.push_mode
    if pop is None or push is None:
        yield
        return
    lifted = []
    while seams.own_mode_count() > below:
        lifted.append(pop())
    try:
        yield
    finally:
        for mode in reversed(lifted):
            push(mode)
