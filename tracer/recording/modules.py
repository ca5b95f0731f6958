"""Which module is running: a stack kept by torch's global forward hooks.

Paths are spelled as ``named_modules()`` spells them when a model is given; otherwise the outermost module's class
name leads. The stack survives modules that raise (the hook is called then too), that are entered again from
within themselves, and that are shared.
"""

from __future__ import annotations

import sys
import weakref
from _thread import get_ident
from collections.abc import Callable
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from tracer.recording import seams
from tracer.recording.sites import LIBRARY, NOWHERE, SKIPPED, USER, Site, Sites

_getframe = sys._getframe


class Scope:
    """A module path and the user's line that led into it. Compared by identity: one object per pair."""

    __slots__ = ("called_from", "is_module", "path")

    def __init__(self, path: str, called_from: Site, *, is_module: bool) -> None:
        self.path = path
        self.called_from = called_from
        self.is_module = is_module


class _Known:
    """What is known of one module: held weakly, so that no parameter outlives its model."""

    __slots__ = ("kind", "path", "ref")

    def __init__(self, module: torch.nn.Module, path: str, kind: int) -> None:
        self.ref = weakref.ref(module)
        self.path = path
        self.kind = kind


#: Outside every module.
OUTSIDE = Scope("", NOWHERE, is_module=False)

_Note = Callable[..., None]


class ModuleStack:
    """Follows ``forward`` calls on the thread that recording was entered on, and inside its backward passes.

    ``on_other_thread(module)`` is told of modules that run elsewhere, ``on_module(module)`` of every module met for
    the first time, ``on_outermost()`` of each call of an outermost module.
    """

    def __init__(
        self,
        sites: Sites,
        model: torch.nn.Module | None,
        *,
        on_other_thread: _Note,
        on_module: _Note,
        on_outermost: _Note,
    ) -> None:
        self.scope: Scope = OUTSIDE
        self.recompute_depth = 0
        """Modules running inside the backward engine."""
        self.thread = get_ident()
        self.parameters: dict[int, tuple[weakref.ref[torch.Tensor], str, str]] = {}
        """``id`` of a parameter to the parameter, its full name, and its module's path."""
        self._sites = sites
        self._known: dict[int, _Known] = {}
        self._scopes: dict[tuple[str, Site], Scope] = {}
        self._stack: list[tuple[torch.nn.Module, Scope, int, bool]] = []
        self._kind = USER
        self._on_other_thread = on_other_thread
        self._on_module = on_module
        self._on_outermost = on_outermost
        self._handles: list[Any] = []
        if model is not None:
            self._learn(model, "")

    def install(self) -> None:
        """Start following; the thread that calls this is the one that is followed."""
        self.thread = get_ident()
        self._handles = [
            register_module_forward_pre_hook(_hook(self._enter, 2)),
            register_module_forward_hook(_hook(self._leave, 3), always_call=True),
        ]

    def remove(self) -> None:
        """Stop following and forget what was running."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._stack.clear()
        self.scope, self.recompute_depth, self._kind = OUTSIDE, 0, USER

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        inside_engine = seams.graph_task_id() != -1
        if get_ident() != self.thread and not inside_engine:
            self._on_other_thread(module)
            return
        known = self._known.get(id(module))
        if known is None or known.ref() is not module:
            known = self._meet(module)
        parent = self.scope
        self._stack.append((module, parent, self._kind, inside_engine))
        kind = known.kind or self._kind
        if not parent.is_module:
            called_from = self._sites.users_own(_getframe(2))
            self._on_outermost()
        elif kind == LIBRARY and self._kind == USER:
            called_from = self._sites.users_own(_getframe(2))
        else:
            called_from = parent.called_from
        key = (known.path, called_from)
        scope = self._scopes.get(key)
        if scope is None:
            scope = self._scopes[key] = Scope(known.path, called_from, is_module=True)
        self.scope = scope
        self._kind = kind
        if inside_engine:
            self.recompute_depth += 1

    def _leave(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        if get_ident() != self.thread and seams.graph_task_id() == -1:
            return
        stack = self._stack
        for depth in range(len(stack) - 1, -1, -1):
            if stack[depth][0] is module:
                for _, parent, kind, inside_engine in reversed(stack[depth:]):
                    self.scope, self._kind = parent, kind
                    if inside_engine:
                        self.recompute_depth -= 1
                del stack[depth:]
                return

    def _meet(self, module: torch.nn.Module) -> _Known:
        """A module that no path is known for: it is a root, or one that was made on the way."""
        self._on_module(module)
        if self.scope.is_module:
            lead = f"{self.scope.path}." if self.scope.path else ""
            self._learn(module, f"{lead}{type(module).__name__}")
        else:
            self._learn(module, type(module).__name__)
        return self._known[id(module)]

    def _learn(self, root: torch.nn.Module, lead: str) -> None:
        for name, module in root.named_modules():
            known = self._known.get(id(module))
            if known is not None and known.ref() is module:
                continue
            path = ".".join(part for part in (lead, name) if part)
            self._known[id(module)] = _Known(module, path, self._kind_of(type(module)))
            for parameter_name, parameter in module._parameters.items():
                if parameter is not None:
                    full = f"{path}.{parameter_name}" if path else parameter_name
                    held = self.parameters.get(id(parameter))
                    if held is None or held[0]() is not parameter:
                        self.parameters[id(parameter)] = (weakref.ref(parameter), full, path)

    def _kind_of(self, cls: type) -> int:
        filename = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if filename is None:
            return USER if cls.__module__ == "__main__" else SKIPPED
        return self._sites.kind_of(filename)


def _hook(method: Callable[..., None], arity: int) -> Callable[..., None]:
    """A hook that dynamo traces to nothing: compiled code stays whole, ``fullgraph=True`` included."""
    if arity == 2:

        def before(module: torch.nn.Module, inputs: Any) -> None:
            if not is_compiling():
                method(module, inputs)

        return before

    def after(module: torch.nn.Module, inputs: Any, output: Any) -> None:
        if not is_compiling():
            method(module, inputs, output)

    return after
