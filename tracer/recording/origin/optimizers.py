"""When an optimizer steps, by torch's global step hooks. Without one of torch's, each backward pass counts as a step.

Dynamo leaves the hooks out of compiled code: there, calls of compiled functions that hold a step are counted. The hook
after a step is not called if the step raises, so a call belongs to the optimizer only if the frame of
``Optimizer.step``'s wrapper is on its stack.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from tracer.recording.origin import is_torchs_own
from tracer.recording.patching import WatchedCall, WatchedFunction, Watchers
from tracer.recording.torch_private import seams

_OPTIMIZERS = os.path.join(os.path.dirname(os.path.abspath(torch.optim.__file__)), "")


def unless_compiled(hook: Callable[..., None]) -> Callable[..., None]:
    """``hook`` as a function that dynamo traces to nothing: compiled code stays as it is without it."""

    def called(*arguments: Any) -> None:
        if not is_compiling():
            hook(*arguments)

    return called


def _code_of(closure: Any) -> CodeType | None:
    """The code that calling ``closure`` runs: a function, a decorated one's own, a method, a ``partial`` of one
    (Lightning's), an object."""
    while isinstance(closure, functools.partial) or (type(closure) is FunctionType and "__wrapped__" in vars(closure)):
        closure = closure.func if isinstance(closure, functools.partial) else vars(closure)["__wrapped__"]
    call = getattr(type(closure), "__call__", None)  # noqa: B004  (its code is wanted, not whether there is one)
    code = getattr(closure, "__code__", None) or getattr(call, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _holds_a_step(function: Any) -> bool:
    """Return whether ``function`` is an optimizer's step, or names one and an optimizer to call it on."""
    if isinstance(getattr(function, "__self__", None), Optimizer):
        return bool(function.__name__ == "step")
    code = _code_of(function)
    if code is None or "step" not in code.co_names:
        return False
    namespace = getattr(function, "__globals__", {})
    named = [namespace.get(name) for name in code.co_names]
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # nothing is in it yet
            named.append(cell.cell_contents)
    return any(isinstance(value, Optimizer) for value in named)


#: Files of torch's from which the program's own passes begin. Others, as the compiler's, make graphs.
_BEGIN_PASSES = ("_tensor.py", "eager_transforms.py")
#: Builds of Python without a global lock do not count all references to a class.
_COUNTS_REFERENCES = getattr(sys, "_is_gil_enabled", lambda: True)()


class _HasOptimizer:
    """Answers whether the program has an optimizer of torch's. Looking through all objects is for the first pass."""

    def __init__(self) -> None:
        self._one: Callable[[], Any] = lambda: None
        self._none_of: set[tuple[int, int]] = set()
        """Classes whose instances were looked for in vain, and their references then: each instance is one more."""

    def look_again(self) -> None:
        """A recording begins: since the last one, an instance may have taken the place of another reference."""
        self._none_of = set()

    def steps(self, optimizer: Optimizer) -> None:
        """``optimizer`` steps: it may have been made since there was none."""
        if self._one() is None:
            self._one = weakref.ref(optimizer)

    def __call__(self) -> bool:
        if self._one() is None:
            classes = [Optimizer]
            for each in classes:
                classes += type.__subclasses__(each)
            # torch wraps the method as it makes the first instance
            made = {(id(each), sys.getrefcount(each)) for each in classes if hasattr(vars(each).get("step"), "hooked")}
            if not made <= self._none_of:
                kinds = frozenset(classes)
                young_first = map(gc.get_objects, range(3))
                holding = (objects for objects in young_first if not kinds.isdisjoint(map(type, objects)))
                found = (each for objects in holding for each in objects if type(each) in kinds)
                self._one = next(map(weakref.ref, found), lambda: None)
                if self._one() is None and _COUNTS_REFERENCES:
                    self._none_of = made
        return self._one() is not None or gc.get_freeze_count() > 0


HAS_OPTIMIZER = _HasOptimizer()


def _tell_of_pass(position: int, listener: Callable[[], None], call: WatchedCall) -> None:
    """Tell of a pass whose argument ``create_graph`` stands at ``position``, unless it is a part of another one."""
    code = call.frame.f_code
    is_inner = call.kwargs.get("create_graph", call.args[position : position + 1] == (True,))
    is_torchs = is_torchs_own(code.co_filename)
    if is_torchs and os.path.basename(code.co_filename) not in _BEGIN_PASSES:
        return
    if seams.graph_task_id() == -1 and (is_torchs or not is_inner) and not HAS_OPTIMIZER():
        listener()


#: Who is told of each backward pass that stands for a step.
PASSES: Watchers[Callable[[], None]] = Watchers(
    lambda: [
        WatchedFunction([(torch.autograd, name)], after=functools.partial(_tell_of_pass, position))
        for name, position in (("backward", 3), ("grad", 4))
    ]
)


class OptimizerWatch:
    """Follows optimizer steps; ``on_step(count)`` is called after each that ended."""

    def __init__(self, on_step: Callable[[int], None] | None = None) -> None:
        self.active = False
        self.steps = 0
        self.steps_by_hand = 0
        self.compiled_steps = 0
        """Calls of compiled code that holds a step, while no step was seen."""
        self.origin: Any = None
        """The origin of the running step's calls, if torch's own code makes them and no closure runs."""
        self.locate: Callable[[FrameType | None], Any] = lambda frame: None
        self.before_step: list[Callable[[Any], None]] = []
        """Called with the optimizer that is about to step; with a closure, once that has run: what it reads is then
        what the closure left."""
        self.begins: Callable[[Any, FrameType], None] = lambda optimizer, frame: None
        self.failed: Callable[[Exception], None] = lambda problem: None
        """Told where following a step failed, which must not reach the program."""
        self.own_code: CodeType | None = None
        """The last code that was recognized as torch's own optimizers': nearly always it calls again."""
        self._closures: list[CodeType | None] = []  # one for each running step; steps can nest
        self._untold: list[Optimizer | None] = []
        """For each of them the optimizer, while it is to step and made no call besides those of its closure."""
        self._on_step = on_step
        self._handles: list[Any] = []

    def compiled_code_runs(self, function: Any) -> None:
        """The compiled ``function`` is about to run, without our hooks in its steps."""
        if self.steps == 0 and _holds_a_step(function):
            self.compiled_steps += 1

    def start(self) -> None:
        self._handles = [
            register_optimizer_step_pre_hook(unless_compiled(self._before)),
            register_optimizer_step_post_hook(unless_compiled(self._after)),
        ]
        HAS_OPTIMIZER.look_again()
        PASSES.add(self._pass_ended)

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        PASSES.discard(self._pass_ended)
        self._stop()

    def is_own_code(self, code: CodeType) -> bool:
        """Return whether ``code`` belongs to torch's own optimizers. (``zero_grad`` is no part of a step.)"""
        if code.co_name == "zero_grad" or not code.co_filename.startswith(_OPTIMIZERS):
            return False
        self.own_code = code
        return True

    def is_inside(self, frame: FrameType | None) -> bool:
        """Return whether ``frame`` is inside the running step, and not inside the closure that the step was given."""
        while frame is not None:
            code = frame.f_code
            if code in self._closures:
                return False
            is_in_torch = code.co_name == "wrapper" and code.co_filename.endswith("optimizer.py")
            if is_in_torch and "func" in code.co_freevars:  # ``Optimizer.step``'s
                self._tell()
                return True
            frame = frame.f_back
        self._stop()
        return False

    def _tell(self) -> None:
        if self._untold and (optimizer := self._untold[-1]) is not None:
            self._untold[-1] = None
            for tell in self.before_step:
                tell(optimizer)

    def _stop(self) -> None:
        self._closures.clear()
        self._untold.clear()
        self.active, self.origin = False, None

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        try:
            frame, closure = sys._getframe(2), kwargs.get("closure", args[1] if len(args) > 1 else None)
            HAS_OPTIMIZER.steps(optimizer)
            if self.active and not self.is_inside(frame.f_back):
                self._stop()  # an earlier step raised
            self._closures.append(_code_of(closure))
            self._untold.append(optimizer)
            if closure is None:
                self._tell()
            self.begins(optimizer, frame)
            self.origin = self.locate(frame) if closure is None else None
            self.active = True
        except Exception as problem:
            self.failed(problem)

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        with suppress(IndexError):  # another thread's step may have ended them
            self._tell()
            self._closures.pop()
            self._untold.pop()
        self.active, self.origin = bool(self._closures), None
        self._ended()

    def _pass_ended(self) -> None:
        self.steps_by_hand += 1
        self._ended()

    def _ended(self) -> None:
        self.steps += 1
        if self._on_step is not None:
            self._on_step(self.steps)
