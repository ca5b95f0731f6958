"""Observes Inductor's compilations, and hides the recorder's module hooks while dynamo reads a program.

The hooks trace to nothing, but change the order of a graph's inputs, and so the key of its cached code. Before torch
2.10 guards see whether a dispatch mode is active: those made while dynamo set ours aside are made with a stand-in for
it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from tracer.names import EventKind, Subsystem
from tracer.recording.compiled.compilations import CONFIG, CompileLog, compiler_settings
from tracer.recording.events import EventLog
from tracer.recording.origin.modules import OWN_HOOK
from tracer.recording.patching import Call
from tracer.recording.process.settings import deterministic_mode
from tracer.recording.torch_private import compile_seams, seams
from tracer.recording.torch_private.seams import loaded, without_recording
from tracer.recording.watchers import Target, Watchers
from tracer.trace.records import FactValue

_TABLES = ("_global_forward_pre_hooks", "_global_forward_hooks", "_global_forward_hooks_always_called")
#: Guards on the hooks themselves, and not only on the type of their table (torch 2.13).
_ASKS = ("LENGTH", "DictGuardManager", "KeyManager", "len(", "DICT_CONTAINS")


class HiddenHooks:
    """Hides the hooks until a guard has looked at them: code compiled without them would then fail it at every call."""

    def __init__(self) -> None:
        self.hides = True
        self._modes = 0
        """Number of dispatch modes that were active when dynamo last began to compile."""

    def guarded(self, guards: str) -> None:
        """Dynamo made these guards."""
        if any("_global_forward" in line and any(word in line for word in _ASKS) for line in guards.splitlines()):
            self.hides = False

    def compiling(self, compile_frame: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call by which dynamo reads a function of the program, with the hooks hidden."""
        self._modes = seams.dispatch_mode_count()
        with _hidden() if self.hides else nullcontext():
            return compile_frame(*args, **kwargs)

    def making_guards(self, make: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call that makes guards, with a mode if one will be active when they are checked."""
        is_missing = self._modes and not seams.dispatch_mode_count()
        with _StandsIn() if is_missing else nullcontext():  # type: ignore[no-untyped-call]
            return make(*args, **kwargs)


class _StandsIn(TorchDispatchMode):
    """Replaces the recorder's mode, and does nothing."""

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def _hidden() -> Iterator[None]:
    module = sys.modules["torch.nn.modules.module"]
    tables = [table for name in _TABLES if isinstance(table := getattr(module, name, None), dict)]
    own = {number for table in tables for number, hook in table.items() if hasattr(hook, OWN_HOOK)}
    before = [(table, dict(table)) for table in tables]
    for table in tables:
        for number in own & table.keys():
            del table[number]
    try:
        yield
    finally:
        for table, hooks in before:
            now = dict(table)
            table.clear()
            table.update((number, hook) for number, hook in hooks.items() if number in own or number in now)
            table.update(now)


HOOKS = HiddenHooks()


class InductorWatch(CompileLog):
    """Records in ``events`` each graph that Inductor compiles, with its deterministic mode."""

    def __init__(self, events: EventLog, on_compiler: Callable[[], None] = lambda: None) -> None:
        """``on_compiler`` is called when the compiler has been imported."""
        super().__init__(HOOKS.guarded)
        self._events = events
        self.on_compiler = on_compiler
        self.settings: dict[str, FactValue] = {}
        """Inductor's settings at its first compilation, overridden by the options of ``torch.compile``."""

    def start(self) -> None:
        """Begin to observe."""
        super().start()
        _INDUCTOR.add(self)

    def stop(self) -> None:
        """Stop observing."""
        _INDUCTOR.discard(self)
        super().stop()

    def compiles(self, frame: FrameType, options: Mapping[str, Any]) -> None:
        """Inductor received a graph; ``options`` are those of this graph only."""
        mode = f"deterministic_mode={deterministic_mode()}"
        self._events.note(EventKind.FIRST_USE, Subsystem.INDUCTOR, frame=frame, value=mode)
        if not self.settings or options:
            current = compiler_settings()
            passed = {name: options.get(name.removeprefix(CONFIG)) for name in current}
            plain = {name: value for name, value in passed.items() if isinstance(value, (bool, int, str))}
            self.settings = current | self.settings | plain


def _on_wrapper(watch: InductorWatch, call: Call) -> None:
    config = getattr(call.first, "config", {})
    watch.compiles(call.frame, config)
    compile_seams.load(*compile_seams.COMPILER_MODULES)
    _INDUCTOR.look_again()
    watch.on_compiler()
    watch.graph_handed_over(call, compile_seams.INDUCTOR, config)


def _on_torch_compile(watch: InductorWatch, call: Call) -> None:
    """``torch.compile`` is called. Dynamo is imported next: observe it before it reads anything."""
    compile_seams.load("torch._dynamo")
    _INDUCTOR.look_again()


def _on_other_backend(watch: InductorWatch, call: Call) -> None:
    watch.graph_handed_over(call, str(getattr(call.first, "compiler_name", "")) or "unnamed", {})


def _on_compile(watch: InductorWatch, call: Call) -> None:
    """``compile_fx`` calls itself for each of its settings, and ``torch.compile`` calls it through its wrapper."""
    caller = call.frame
    if caller.f_code is not _WRAPPER_CODE and caller.f_globals.get("__name__") != seams.INDUCTOR_ENTRY[0]:
        watch.compiles(caller, {})


#: Code of the wrapper that ``torch.compile`` passes graphs to; it exists before Inductor is imported.
_WRAPPER_CODE = getattr(vars(seams.inductor_wrapper or type).get("__call__"), "__code__", None)


def _unseen(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls that Inductor makes for timing are not the program's."""
    with without_recording():
        return function(*args, **kwargs)


def _on_compiled(watch: InductorWatch, call: Call) -> None:
    watch.compile_ended(call)
    _INDUCTOR.look_again()


def _entries() -> list[Target]:
    wrapper, other_backend = seams.inductor_wrapper, compile_seams.other_backend
    (entry, compile_fx), (generator, generate) = seams.INDUCTOR_ENTRY, compile_seams.GENERATOR
    compiler, compile_one = compile_seams.COMPILER
    tuner = loaded(*compile_seams.TUNER)
    writers = (compile_seams.CPP_KERNELS, compile_seams.TRITON_KERNELS)
    return [
        Target([(wrapper, "__init__"), (other_backend, "__init__")], before=_on_torch_compile),
        Target([(sys.modules.get("torch.export"), "export")], after=lambda watch, call: _INDUCTOR.look_again()),
        Target([(loaded(*compile_seams.FRAME_COMPILER), "__call__")], around=HOOKS.compiling),
        Target([(compile_seams.guard_maker(), "__init__")], around=HOOKS.making_guards),
        Target([(wrapper, "__call__")], before=_on_wrapper),
        Target([(sys.modules.get(entry), compile_fx)], before=_on_compile),
        Target([(other_backend, "__call__")], before=_on_other_backend),
        Target([(sys.modules.get(compiler), compile_one)], before=InductorWatch.compile_begins, after=_on_compiled),
        Target([(compile_seams.graph_tracer(), "create_node")], after=InductorWatch.call_traced),
        Target([(compile_seams.compiled_graph_class(), "post_compile")], before=InductorWatch.code_is_ready),
        *(Target([(loaded(*writer[:2]), writer[2])], after=InductorWatch.kernel_written) for writer in writers),
        Target([(sys.modules.get(generator), generate)], around=_unseen),
        Target([(tuner, "autotune_to_one_config"), (tuner, "coordinate_descent_tuning")], around=_unseen),
        Target([(loaded(*compile_seams.CHOOSING), "__call__")], after=InductorWatch.chosen),
    ]


_INDUCTOR: Watchers[InductorWatch] = Watchers(_entries)
