"""Which module is running: a stack kept by torch's global forward hooks, which survives modules that raise.

Paths are spelled as ``named_modules()`` does if a model is given; otherwise the outermost module's class name leads,
numbered (``Sequential#2``) if another model of that class lives.
"""

from __future__ import annotations

import sys
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterator
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import msgspec
import torch
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from tracer.names import HostCode, Phase
from tracer.recording import patching
from tracer.recording.origin import LIBRARY, NOWHERE, SKIPPED, USER, Site, Sites, outwards, placed
from tracer.recording.origin import Module as ModuleOfLine
from tracer.recording.torch_private import seams

_getframe = sys._getframe

#: Marks the recorder's hooks as such.
OWN_HOOK = "_is_the_recorders"


class Scope(msgspec.Struct, eq=False):
    """A module path and the user's line that led into it. Compared by identity: one object per pair."""

    path: str
    called_from: Site
    is_module: bool
    kind: int = USER
    """The owner of the running code: the module's class, or its caller if the class is torch's own."""
    facts: tuple[str, ...] = ()
    """Facts of every call inside that hold because of the module's class."""
    host: HostCode | None = None
    """The reason why this is known to run on the host; ``None`` if it is not."""
    children: dict[int, tuple[weakref.ref[torch.nn.Module], Scope]] = msgspec.field(default_factory=dict)
    """Modules that were entered from here, by ``id``, with their scopes."""


class _ModuleEntry(msgspec.Struct, frozen=True):
    """A known module, held weakly, so that no parameter outlives its model."""

    module: weakref.ref[torch.nn.Module]
    path: str
    kind: int


class _Parameter(msgspec.Struct, frozen=True):
    module: weakref.ref[torch.nn.Module]
    name: str
    full_name: str
    path: str

    def is_of(self, parameter: Any) -> bool:
        """Return whether ``parameter``, looked up by its ``id``, is this one, and not another at the same address."""
        module = self.module()
        parameters: Any = module._parameters if module is not None else ()  # a scripted module's is no dictionary
        return self.name in parameters and parameters[self.name] is parameter


class ModuleEntry(msgspec.Struct, eq=False):
    module: torch.nn.Module
    outer: ModuleEntry | None
    scope: Scope
    inside_engine: bool = False
    site: tuple[str, int, int, Site | None, CodeType] | None = None
    """The innermost line outside torch that led to the call, once one of its ops has looked for it; with the user's
    line that led there, if it is a library's in the user's own module."""


ModuleSettings = tuple[tuple[str, str], ...]
"""Values of settings that changed while recording, sorted by the names that events have."""


class Origin(msgspec.Struct, eq=False):
    """Phase, module and site of calls. Interned, and compared by identity."""

    phase: Phase
    scope: Scope
    site: Site
    called_from: Site
    settings: ModuleSettings | None = None
    """The settings that had changed while recording as its calls ran; for the backward calls of an op, as that ran.
    ``None`` where that is not known."""
    is_linked: bool = True
    """False for a backward call whose forward op is not known."""
    is_forked: bool = False
    """Whether a thread of torch's own pool makes the calls: a branch of ``torch.jit.fork``."""
    certain: bool = True
    """False when something that dispatched nothing may have made the node."""
    its_backward: Origin | None = None
    """The origin that ``backward`` returned, once it was called."""
    _doubtful: Origin | None = None

    def backward(self) -> Origin:
        """The origin of the backward calls of an op of this origin."""
        if self.phase is Phase.BACKWARD:
            return self
        if self.its_backward is None:
            self.its_backward = Origin(Phase.BACKWARD, self.scope, self.site, self.called_from, self.settings)
        return self.its_backward

    def doubtful(self) -> Origin:
        """The same place, for a node that another line may have made."""
        if self._doubtful is None:
            self._doubtful = Origin(self.phase, self.scope, self.site, self.called_from, self.settings, certain=False)
            self._doubtful.its_backward = self.backward()
        return self._doubtful

    def in_words(self) -> dict[str, Any]:
        """``phase``, ``module``, ``location``, ``function``, ``called_from``, as a trace and its values spell them."""
        return {"phase": self.phase, "module": self.scope.path, **self.line()}

    def line(self) -> dict[str, Any]:
        return placed(self.site, self.called_from)


#: Outside every module.
OUTSIDE = Scope("", NOWHERE, is_module=False)
#: Where a library makes calls without a tensor as it is imported.
IMPORTING = Scope("", NOWHERE, is_module=False, host=HostCode.IMPORT)

_Note = Callable[..., None]


class ModuleStack:
    """Follows ``forward`` calls on the thread that recording was entered on, and inside its backward passes.

    ``on_other_thread(module)`` is called for modules that run elsewhere, ``on_module(module)`` for every module when it
    is first met, ``on_outermost()`` at each call of an outermost module, ``on_left(module, output)`` when that is over.
    """

    def __init__(
        self,
        sites: Sites,
        model: torch.nn.Module | None,
        *,
        on_other_thread: _Note,
        on_module: _Note,
        on_outermost: _Note,
        on_left: _Note,
    ) -> None:
        self.scope: Scope = OUTSIDE
        self.entry: ModuleEntry | None = None
        self.recompute_depth = 0
        """Outermost modules running inside the backward engine."""
        self.thread = get_ident()
        self._parameters: dict[int, _Parameter] = {}
        """By ``id``. Nothing refers to a parameter, not even weakly: ``torch.utils.swap_tensors`` would refuse it."""
        self._sites = sites
        self._entries: dict[int, _ModuleEntry] = {}
        self._roots: dict[str, weakref.ref[torch.nn.Module]] = {}
        """Models that no other module led to, by the name that leads their paths."""
        self._forget_at = 64
        self._scopes: dict[tuple[str, Site, int], Scope] = {}
        self._within: dict[tuple[Scope, str], Scope] = {}
        """Scopes of modules whose calls a compiled graph makes, by the scope that the graph runs in and their path."""
        self._around: dict[Scope, Scope] = {}
        """Each of these, to the scope that the graph runs in."""
        self._of_graphs: set[Scope] = set()
        """Scopes of graphs that no module runs."""
        self._on_other_thread = on_other_thread
        self._on_module = on_module
        self._on_outermost = on_outermost
        self._on_left = on_left
        self._handles: list[Any] = []
        self._lift: Callable[[], None] = lambda: None
        self.model_class = "" if model is None else type(getattr(model, "_orig_mod", model)).__name__
        """The class of the model whose modules' paths begin at it; empty without one."""
        if model is not None:
            self._learn(model, "")

    def within(self, scope: Scope, module: ModuleOfLine) -> Scope:
        """The scope of a module whose calls a compiled graph makes, run from ``scope`` or from another such module."""
        outer = self._around.get(scope, scope)
        is_led = outer.is_module and outer not in self._of_graphs
        root = "" if module.root == self.model_class else module.root
        path = joined(outer.path if is_led else root, module.path)
        inner = self._within.get((outer, path))
        if inner is None:
            inner = outer
            if module.path or not outer.is_module:
                inner = Scope(path, outer.called_from, is_module=True, kind=outer.kind, host=outer.host)
            self._within[outer, path] = inner
            self._around[inner] = outer
        return inner

    def parameter(self, variable: Any) -> tuple[str, str]:
        """Full name and module's path of a parameter; empty for other tensors."""
        entry = self._parameters.get(id(variable))
        return (entry.full_name, entry.path) if entry is not None and entry.is_of(variable) else ("", "")

    def path(self, module: torch.nn.Module) -> str:
        """The path of a module that was met; its class where it is the model that paths begin at."""
        entry = self._entries.get(id(module))
        return (entry.path if entry is not None and entry.module() is module else "") or type(module).__name__

    @property
    def count(self) -> int:
        return len(self._entries)

    def alive(self) -> Iterator[tuple[str, torch.nn.Module]]:
        for entry in tuple(self._entries.values()):
            module = entry.module()
            if module is not None and not seams.is_compiled_module(module):
                yield entry.path, module

    def start(self) -> None:
        """Start following; the thread that calls this is the one that is followed."""
        self.thread = get_ident()
        # The hooks are functions, not methods, that dynamo traces to nothing: compiled code stays whole.

        def enter(module: torch.nn.Module, inputs: Any) -> None:
            if is_compiling():
                return
            scope = self.scope
            child = scope.children.get(id(module))
            if child is not None and child[0]() is module and get_ident() == self.thread:
                self.entry = ModuleEntry(module, self.entry, scope)
                self.scope = child[1]
            else:
                self._enter(module, _getframe(1))

        def leave(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            if is_compiling():
                return
            entry, is_here = self.entry, get_ident() == self.thread
            if entry is not None and entry.module is module and not entry.inside_engine and is_here:
                self.entry = entry.outer
                self.scope = scope = entry.scope
                if not scope.is_module:
                    self._on_left(module, output)
            elif is_here or seams.graph_task_id() != -1:
                inner = [entry.module for entry in self._running()]
                self._drop(next((place for place, each in enumerate(inner, 1) if each is module), 0))

        for hook in (enter, leave):
            setattr(hook, OWN_HOOK, True)
        self._handles = [
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave, always_call=True),
        ]
        self._lift = _follow_loaders(self)

    def stop(self) -> None:
        self._lift()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self.scope, self.entry, self.recompute_depth = OUTSIDE, None, 0

    def _enter(self, module: torch.nn.Module, frame: FrameType) -> None:
        inside_engine = seams.graph_task_id() != -1
        if get_ident() != self.thread and not inside_engine:
            self._on_other_thread(module)
            return
        module_entry = self._entries.get(id(module))
        if module_entry is None or module_entry.module() is not module:
            module_entry = self._meet(module)
        parent = self.scope
        kind = module_entry.kind if module_entry.kind > 0 else parent.kind
        crosses = kind == LIBRARY and parent.kind == USER
        called_from = parent.called_from if parent.is_module and not crosses else self._sites.users_own(frame)
        key = (module_entry.path, called_from, kind)
        scope = self._scopes.get(key)
        if scope is None:
            scope = Scope(module_entry.path, called_from, True, kind, _facts_of(module))
            self._scopes[key] = scope
        entry = ModuleEntry(module, self.entry, parent)
        if not parent.is_module:
            self._on_outermost()
            is_graph = seams.is_generated_module(module)
            if is_graph:
                self._of_graphs.add(scope)
            if inside_engine and not is_graph:
                entry.inside_engine = True
                self.recompute_depth += 1
        elif not crosses:
            if len(parent.children) > 10_000:  # modules made anew in every step
                parent.children.clear()
            parent.children[id(module)] = (module_entry.module, scope)
        self.entry, self.scope = entry, scope

    def forget_if_left(self, frame: FrameType | None) -> bool:
        """Drop module calls that ended without their hook, as by a ``KeyboardInterrupt``; returns whether there were
        any. Each running call has a frame of torch's own on the stack."""
        codes = (walked.f_code for walked in outwards(frame))
        calls = (code for code in codes if code.co_name == seams.MODULE_CALL_NAME)
        running = sum(self._sites.kind_of(code.co_filename) < 0 for code in calls)
        left = max(0, len([*self._running()]) - running)
        self._drop(left)
        return left > 0

    def _running(self) -> Iterator[ModuleEntry]:
        entry = self.entry
        while entry is not None:
            yield entry
            entry = entry.outer

    def _drop(self, count: int) -> None:
        for entry in islice(self._running(), count):
            self.recompute_depth -= entry.inside_engine
            self.entry, self.scope = entry.outer, entry.scope

    def _meet(self, module: torch.nn.Module) -> _ModuleEntry:
        """A module whose path is not known: a root, or one made on the way."""
        self._on_module(module)
        if len(self._entries) >= self._forget_at:
            self._forget_dead()
        inner = seams.without_compile_wrapper(module)
        lead = self.scope.path if self.scope.is_module else ""
        if seams.is_generated_module(module):
            path = lead
        else:
            path = joined(lead, type(inner).__name__) if lead else self._name_of_root(inner)
        if inner is not module:
            self._entries[id(module)] = _ModuleEntry(weakref.ref(module), path, self._kind_of(type(inner)))
        self._learn(inner, path)
        return self._entries[id(module)]

    def _name_of_root(self, model: torch.nn.Module) -> str:
        """The class' name, with a number if a living model has it; what has no parameters, as a loss, needs none."""
        kind = name = type(model).__name__
        if next(model.parameters(), None) is None:
            return kind
        number = 1
        while (other := self._roots.get(name, lambda: None)()) is not None and other is not model:
            number += 1
            name = f"{kind}#{number}"
        self._roots[name] = weakref.ref(model)
        return name

    def _forget_dead(self) -> None:
        """Forget modules that are gone: a loss may be created in every step."""
        self._entries = {number: entry for number, entry in self._entries.items() if entry.module() is not None}
        self._parameters = {number: entry for number, entry in self._parameters.items() if entry.module() is not None}
        for scope in self._scopes.values():
            for number in [number for number, (module, _) in scope.children.items() if module() is None]:
                del scope.children[number]
        self._roots = {name: root for name, root in self._roots.items() if root() is not None}
        self._forget_at = len(self._entries) * 5 // 4 + 64

    def _learn(self, root: torch.nn.Module, lead: str) -> None:
        for name, module in root.named_modules():
            entry = self._entries.get(id(module))
            if entry is not None and entry.module() is module:
                continue
            path = joined(lead, name)
            self._entries[id(module)] = _ModuleEntry(weakref.ref(module), path, self._kind_of(type(module)))
            for own_name, parameter in module._parameters.items():
                owner = self._parameters.get(id(parameter))
                if parameter is not None and (owner is None or not owner.is_of(parameter)):
                    full_name = joined(path, own_name)
                    self._parameters[id(parameter)] = _Parameter(weakref.ref(module), own_name, full_name, path)

    def _kind_of(self, cls: type) -> int:
        filename = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if filename is None:
            return USER if cls.__module__ == "__main__" else SKIPPED
        return self._sites.kind_of(filename)


def _facts_of(module: torch.nn.Module) -> tuple[str, ...]:
    """Return the facts of calls inside ``module`` that its class settles: a GPU runs torch's recurrent layers as one
    op, and fuses the gates of cells with their biases."""
    layers, cells = torch.nn.RNNBase, (torch.nn.GRU, torch.nn.LSTM, torch.nn.GRUCell, torch.nn.LSTMCell)
    facts = (("module.recurrent", isinstance(module, layers)), ("module.fuses_gates", isinstance(module, cells)))
    return tuple(fact for fact, holds in facts if holds)


def joined(*path: str) -> str:
    return ".".join(filter(None, path))


#: Where calls are made while a loader fetches, outside every module.
_FETCHING = Scope("", NOWHERE, is_module=False, host=HostCode.LOADER)


def _follow_loaders(modules: ModuleStack) -> Callable[[], None]:
    """Mark what a loader without workers fetches outside modules, which may run anywhere; returns what ends it."""
    loading: Any = sys.modules.get("torch.utils.data.dataloader")
    methods = (("_SingleProcessDataLoaderIter", "_next_data"), ("DataLoader", "__iter__"))
    holders = [(owner, name) for cls, name in methods if hasattr(owner := getattr(loading, cls, None), name)]

    def fetching(inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        outside = modules.scope
        if outside.is_module or get_ident() != modules.thread:
            return inner(*args, **kwargs)
        modules.scope = _FETCHING
        try:
            return inner(*args, **kwargs)
        finally:
            if modules.scope is _FETCHING:
                modules.scope = outside

    return patching.place(holders, patching.Watch(around=fetching)) or (lambda: None)
