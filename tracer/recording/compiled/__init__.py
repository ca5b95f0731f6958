"""Records graphs and code while torch compiles them, and the settings that Inductor compiles under.

It reads the graph that a backend receives, each graph's compilation, the code that is loaded afterwards (code from a
cache too), and torch's structured trace, which has the graphs of cached code.
"""

from __future__ import annotations

import logging
import re
import sys
import weakref
from _thread import get_ident
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import FrameType
from typing import Any

import msgspec
import torch

from tracer.names import DeterministicMode, Direction, EventKind, RegionOrigin, Subsystem
from tracer.recording.compiled.hiding import HOOKS
from tracer.recording.events import EventLog
from tracer.recording.origin import GraphCall, is_torchs_own, step_of
from tracer.recording.patching import WatchedCall, WatchedFunction, Watchers
from tracer.recording.process.settings import deterministic_mode, read_settings
from tracer.recording.storage.known_numbers import Distinct
from tracer.recording.torch_private import compile_seams, seams
from tracer.recording.torch_private.seams import loaded, without_recording
from tracer.tables.asked import asked
from tracer.trace.records import FactValue

CONFIG = "torch._inductor.config."
UNROLLS_BELOW = CONFIG + "unroll_reductions_threshold"
"""Sums of fewer addends are written out: of fewer than 8, for all that the fact about it knows."""
#: Graphs in torch's structured trace.
_GRAPHS = {
    "aot_inference_graph": Direction.INFERENCE,
    "aot_forward_graph": Direction.FORWARD,
    "aot_backward_graph": Direction.BACKWARD,
}
#: A call in a graph's text that may draw random numbers.
_DRAWS = re.compile(
    r"\b(?:inductor_seed|aten\.\w*(?:rand|bernoulli|dropout|multinomial|normal|uniform|exponential|geometric|cauchy|poisson))"
)
#: Most programs that are kept for their lines; the oldest are dropped first.
_MOST_PROGRAMS = 4096


def compiler_settings() -> dict[str, FactValue]:
    """Inductor's current settings, by their full names."""
    return read_settings((*(name for name in asked().settings if name.startswith(CONFIG)), UNROLLS_BELOW))


class CapturedGraph:
    """One graph as dynamo passed it to a backend, as strings. Keeps no tensor and no graph."""

    def __init__(self, backend: str, module: Any, frame: FrameType) -> None:
        self.compile_id = compile_seams.compile_id()
        self.backend = backend
        self.steps = _steps_of(module, "call_")
        self.code = compile_seams.compiled_function(frame)
        self.graphs: dict[Direction, str] = {}
        """Texts from torch's structured trace, until the code that was compiled from them is loaded."""
        self.forwards: list[CompiledCode] = []
        self.reached_inductor = False
        """Whether Inductor compiled it, whatever its backend."""


class CompiledCode(msgspec.Struct, eq=False, dict=True):
    """One region's code."""

    program: CapturedGraph | None
    direction: Direction
    compile_id: str
    origin: RegionOrigin = RegionOrigin.UNKNOWN
    mode: DeterministicMode | None = None
    settings: dict[str, FactValue] = msgspec.field(default_factory=dict)
    text: str = ""
    """Its graph."""
    source: str = ""
    """The generated code."""
    steps: dict[str, GraphCall] = msgspec.field(default_factory=dict)
    """By the call's name in the graph; empty if only the graph's text is known."""
    paths: dict[int, str] = msgspec.field(default_factory=dict)
    """By ``id`` of a graph while it is compiled: the prefix of its calls' names."""
    kernels: dict[str, set[str]] = msgspec.field(default_factory=lambda: defaultdict(set))
    """By kernel: the graph's calls that were fused into it."""
    timed: set[str] = msgspec.field(default_factory=set)
    """The graph's calls for which candidates were timed."""
    key: str = ""
    """torch's key of the loaded code."""
    choices: dict[str, str] = msgspec.field(default_factory=dict)
    """By kernel: the configuration that autotuning chose."""
    uses_cuda_graphs: bool = False
    devices: tuple[str, ...] = ()
    distinct: dict[int, Distinct] | None = None
    """Inputs that held distinct numbers in every execution, by position; ``None`` if it has not run."""

    @property
    def by_compiled_autograd(self) -> bool:
        return self.compile_id.startswith("!")

    @cached_property
    def has_lines(self) -> bool:
        """Whether its calls have lines of the program. Calls of torch's own functions have only their caller's."""
        compiled = self.program.code if self.program is not None else None
        return compiled is None or not is_torchs_own(compiled.co_filename)

    def ran_on(self, distinct: Mapping[int, Distinct]) -> None:
        """It is about to run with these inputs of distinct numbers."""
        if self.distinct is None:
            self.distinct = dict(distinct)
        elif self.distinct:
            self.distinct = {place: n for place, n in self.distinct.items() if distinct.get(place) == n}

    @cached_property
    def draws_on(self) -> tuple[torch.device, ...]:
        """The devices whose default generators it may draw from."""
        if _DRAWS.search(self.text) is None:
            return ()
        return tuple(map(torch.device, dict.fromkeys(("cpu", *self.devices))))


class CompileLog(logging.Handler):
    """What was compiled between ``start`` and ``stop``; ``events`` takes each graph that Inductor compiles."""

    def __init__(self, events: EventLog, on_compiler: Callable[[], None] = lambda: None) -> None:
        """``on_compiler`` is called when the compiler has been imported."""
        super().__init__()
        self._events = events
        self.on_compiler = on_compiler
        self.settings: dict[str, FactValue] = {}
        """Inductor's settings at its first compilation, overridden by the options of ``torch.compile``."""
        self.codes: list[CompiledCode] = []
        self.programs: list[CapturedGraph] = []
        self._by_object: dict[int, tuple[weakref.ref[Any], CompiledCode]] = {}
        """By ``id`` of what Inductor returned; an entry is removed with its object."""
        self._programs: dict[str, CapturedGraph] = {}
        self._current: dict[int, list[tuple[int, CompiledCode]]] = {}
        """By thread: the graphs being compiled, innermost last, each with the ``id`` of its module."""

    def start(self) -> None:
        """Begin to observe the compiler, and to read torch's structured trace."""
        compile_seams.TRACE_LOG.addHandler(self)
        _INDUCTOR.add(self)

    def stop(self) -> None:
        _INDUCTOR.discard(self)
        compile_seams.TRACE_LOG.removeHandler(self)
        self.look_at_choices()

    def code_of(self, compiled: Any) -> CompiledCode | None:
        """The record of ``compiled``; ``None`` if unknown."""
        entry = self._by_object.get(id(compiled))
        return entry[1] if entry is not None and entry[0]() is compiled else None

    # --- called by the watches ---

    def compiles(self, frame: FrameType, options: Mapping[str, Any]) -> None:
        """Inductor received a graph; ``options`` are those of this graph only."""
        mode = f"deterministic_mode={deterministic_mode()}"
        self._events.note(EventKind.FIRST_USE, Subsystem.INDUCTOR, frame=frame, value=mode)
        if not self.settings or options:
            current = compiler_settings()
            passed = {name: options.get(name.removeprefix(CONFIG)) for name in current}
            plain = {name: value for name, value in passed.items() if isinstance(value, (bool, int, str))}
            self.settings = current | self.settings | plain

    def dynamo_follows(self, call: WatchedCall) -> None:
        """``torch.compile`` is called. Dynamo is imported next: observe it before it reads anything."""
        compile_seams.load("torch._dynamo")
        _INDUCTOR.look_again()

    def wrapper_called(self, call: WatchedCall) -> None:
        """Dynamo is about to call Inductor through its wrapper, which exists before Inductor is imported."""
        config = getattr(call.first, "config", {})
        self.compiles(call.frame, config)
        compile_seams.load(*compile_seams.COMPILER_MODULES)
        _INDUCTOR.look_again()
        self.on_compiler()
        self.graph_handed_over(call, compile_seams.INDUCTOR)

    def entry_called(self, call: WatchedCall) -> None:
        """``compile_fx`` is called: by itself for each of its settings, and by the wrapper."""
        wrapper = getattr(vars(seams.inductor_wrapper or type).get("__call__"), "__code__", None)
        if call.frame.f_code is not wrapper and call.frame.f_globals.get("__name__") != seams.INDUCTOR_ENTRY[0]:
            self.compiles(call.frame, {})

    def graph_handed_over(self, call: WatchedCall, backend: str = "") -> None:
        backend = backend or str(getattr(call.first, "compiler_name", "")) or "unnamed"
        program = CapturedGraph(backend, call.args[1], call.frame)
        self._programs[program.compile_id] = program
        if len(self._programs) > _MOST_PROGRAMS:
            self._programs.pop(next(iter(self._programs)))
        self.programs.append(program)

    def compile_begins(self, call: WatchedCall) -> None:
        """Inductor is about to compile one graph, or to load its code from the cache."""
        graph = call.first
        direction = _direction(call.kwargs)
        if direction is Direction.FORWARD and compile_seams.takes_gradients(graph):
            direction = Direction.BACKWARD  # a custom backend compiles forward and backward alike
        code = self._new_code(direction, RegionOrigin.COMPILED)
        self._current.setdefault(get_ident(), []).append((id(graph), code))
        code.text = compile_seams.graph_as_text(graph)
        code.paths = {id(inner): path for path, inner in compile_seams.graphs_within(graph)}
        code.steps = _steps_of(graph, "call_function")

    def compile_ended(self, call: WatchedCall) -> None:
        """Inductor returned the code of one graph."""
        running = self._current.get(get_ident(), [])
        while running:
            graph, code = running.pop()
            if graph == id(call.first):  # else: its compilation failed
                self._register(call.result, code)
                break
        _INDUCTOR.look_again()

    @property
    def _compiling(self) -> CompiledCode | None:
        running = self._current.get(get_ident())
        return running[-1][1] if running else None

    def kernel_written(self, call: WatchedCall) -> None:
        """A kernel was generated for some of the graph's calls."""
        code = self._compiling
        if code is not None and isinstance(call.result, str) and len(call.args) > 2:
            origin = call.args[2]
            nodes = origin if isinstance(origin, (list, tuple)) else [origin]
            names = {(code.paths.get(id(origin.graph), ""), str(origin.name)) for origin in _origins(nodes)}
            innermost = max((path for path, _ in names), key=len, default="")  # its caller is named too
            code.kernels[call.result].update(path + name for path, name in names if path == innermost)

    def chosen(self, call: WatchedCall) -> None:
        """One of several candidates was chosen for a call of the graph."""
        code = self._compiling
        if code is not None and len(call.args) > 2 and was_timed(call.args[2]):
            code.timed.add(str(loaded(*compile_seams.CALL_BEING_LOWERED) or ""))

    def look_at_choices(self) -> None:
        """Read the choices of autotuning so far. It chooses when code first runs."""
        for code in self.codes:
            if "triton" in code.source:
                code.choices.update(configurations(code.key))

    def code_is_ready(self, call: WatchedCall) -> None:
        """Code is loaded in this process, just compiled or from a cache."""
        compiled, compile_id = call.first, compile_seams.compile_id()
        follows_end = any(code.compile_id == compile_id for _, code in self._current.get(get_ident(), []))
        if follows_end or self.code_of(compiled) is not None:
            return  # `compile_ended` comes, or came
        program = self._programs.get(compile_id)
        graphs = program.graphs if program is not None else {}
        direction = Direction.INFERENCE if Direction.INFERENCE in graphs else Direction.FORWARD
        if getattr(compiled, "fx_kwargs", {}).get("is_backward"):
            direction = Direction.BACKWARD
        code = self._new_code(direction, RegionOrigin.CACHE)
        code.text = graphs.pop(direction, "")
        self._register(compiled, code)

    def emit(self, record: logging.LogRecord) -> None:
        """torch's structured trace has an entry."""
        metadata, payload = getattr(record, "metadata", {}), getattr(record, "payload", None)
        with suppress(Exception):  # a failure of the recorder never reaches the program
            artifact = metadata.get("artifact")
            name = artifact.get("name") if isinstance(artifact, dict) else next(iter(metadata), "")
            if name in _GRAPHS and (program := self._programs.get(compile_seams.compile_id())) is not None:
                program.graphs[_GRAPHS[name]] = str(payload)
            elif name == "dynamo_cpp_guards_str":
                HOOKS.guarded(str(payload))
            elif name == "fx_graph_cache_hit" and (code := self._compiling) is not None:
                code.origin = RegionOrigin.CACHE

    def _new_code(self, direction: Direction, origin: RegionOrigin) -> CompiledCode:
        compile_id = compile_seams.compile_id()
        program, mode = self._programs.get(compile_id), deterministic_mode()
        return CompiledCode(program, direction, compile_id, origin, mode, compiler_settings())

    def _register(self, compiled: Any, code: CompiledCode) -> None:
        cls = compile_seams.compiled_graph_class()
        if cls is None or not isinstance(compiled, cls):
            return  # an empty graph, which Python code runs op by op
        if code.program is not None:
            code.program.reached_inductor = True
        code.source = str(getattr(compiled, "source_code", ""))
        code.key = str(getattr(compiled, "cache_key", ""))
        code.devices = tuple(sorted(str(device) for device in getattr(compiled, "device_types", ())))
        cudagraphs = getattr(compiled, "fx_kwargs", {}).get("cudagraphs")
        code.uses_cuda_graphs = bool(getattr(cudagraphs, "value", cudagraphs)) and "cuda" in code.devices
        if code.program is not None and code.direction is Direction.FORWARD:
            code.program.forwards.append(code)
        if code not in self.codes:
            self.codes.append(code)
        number = id(compiled)
        self._by_object[number] = (weakref.ref(compiled, lambda _: self._by_object.pop(number, None)), code)

    def met_unknown(self, compiled: Any) -> CompiledCode:
        """Code that was compiled before ``start``, and runs now."""
        code = CompiledCode(None, _direction(getattr(compiled, "fx_kwargs", {})), "", RegionOrigin.EARLIER)
        self._register(compiled, code)
        return code


def _direction(options: Mapping[str, Any]) -> Direction:
    """The pass that a graph belongs to, by the options that Inductor compiles it with."""
    if options.get("is_backward"):
        return Direction.BACKWARD
    return Direction.INFERENCE if options.get("is_inference") else Direction.FORWARD


def _steps_of(module: Any, kind: str) -> dict[str, GraphCall]:
    """The calls of a graph and of those in it, by name."""
    graphs = compile_seams.graphs_within(module)
    nodes = ((path, node) for path, graph in graphs for node in graph.nodes if node.op.startswith(kind))
    return {f"{path}{node.name}": step_of(node) for path, node in nodes}


def _origins(nodes: Iterable[Any]) -> Iterator[Any]:
    """The graph's calls behind Inductor's scheduler nodes. A fused node contains several nodes."""
    for node in nodes:
        inner: Sequence[Any] = getattr(node, "get_nodes", tuple)()
        is_fused = any(other is not node for other in inner)
        yield from _origins(inner) if is_fused else getattr(getattr(node, "node", None), "origins", ())


def was_timed(candidates: Any) -> bool:
    """Return whether Inductor timed ``candidates`` for one call."""
    return isinstance(candidates, (list, tuple)) and len(candidates) > 1 and not loaded(*compile_seams.TAKES_FIRST)


def configurations(key: str) -> dict[str, str]:
    """Return the configurations that autotuning chose for the code of ``key``, by kernel, where there were several."""
    choices = {}
    for name, kernel in compile_seams.loaded_code(key).items():
        with suppress(Exception):  # another release's object
            picked, kernels = getattr(kernel, "picked_kernel", None), getattr(kernel, "_kernels", None)
            launchers = getattr(kernel, "launchers", None)
            if isinstance(picked, int) and isinstance(kernels, (list, tuple)):  # it times whole kernels
                choices[name] = str(getattr(getattr(kernels[picked], "fn", None), "__name__", picked))
            elif isinstance(launchers, list) and len(launchers) == 1 and _is_chosen(kernel, launchers[0].config):
                choices[name] = spelled(launchers[0].config)
    return choices


def _is_chosen(kernel: Any, configuration: Any) -> bool:
    """Return whether a ``CachingAutotuner``, which has run, chose its configuration among several."""
    cache_info = getattr(kernel, "autotune_cache_info", None) or {}
    several = max(len(getattr(kernel, "configs", None) or ()), int(cache_info.get("num_configs", 0))) > 1
    was_chosen_before = cache_info.get("autotune_cache_state") == "hit"
    return several or was_chosen_before or getattr(configuration, "found_by_coordesc", False)


def spelled(configuration: Any) -> str:
    """A Triton configuration: ``XBLOCK=128, num_warps=4``."""
    words: Mapping[str, Any] = getattr(configuration, "kwargs", {})
    further = {name: getattr(configuration, name, None) for name in ("num_warps", "num_stages")}
    return ", ".join(f"{name}={value}" for name, value in (*words.items(), *further.items()) if value is not None)


def _unseen(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls that Inductor makes for timing are not the program's."""
    with without_recording():
        return function(*args, **kwargs)


def _entries() -> list[WatchedFunction]:
    wrapper, other_backend = seams.inductor_wrapper, compile_seams.other_backend
    (entry, compile_fx), (generator, generate) = seams.INDUCTOR_ENTRY, compile_seams.GENERATOR
    compiler, compile_one = compile_seams.COMPILER
    tuner = loaded(*compile_seams.TUNER)
    guards = loaded(*compile_seams.GUARD_MAKER) if compile_seams.GUARDS_SEE_MODES else None
    writers = (compile_seams.CPP_KERNELS, compile_seams.TRITON_KERNELS)
    return [
        WatchedFunction([(wrapper, "__init__"), (other_backend, "__init__")], before=CompileLog.dynamo_follows),
        WatchedFunction([(sys.modules.get("torch.export"), "export")], after=lambda log, call: _INDUCTOR.look_again()),
        WatchedFunction([(loaded(*compile_seams.FRAME_COMPILER), "__call__")], around=HOOKS.compiling),
        WatchedFunction([(guards, "__init__")], around=HOOKS.making_guards),
        WatchedFunction([(wrapper, "__call__")], before=CompileLog.wrapper_called),
        WatchedFunction([(sys.modules.get(entry), compile_fx)], before=CompileLog.entry_called),
        WatchedFunction([(other_backend, "__call__")], before=CompileLog.graph_handed_over),
        WatchedFunction(
            [(sys.modules.get(compiler), compile_one)], before=CompileLog.compile_begins, after=CompileLog.compile_ended
        ),
        WatchedFunction([(compile_seams.compiled_graph_class(), "post_compile")], before=CompileLog.code_is_ready),
        *(WatchedFunction([(loaded(*writer[:2]), writer[2])], after=CompileLog.kernel_written) for writer in writers),
        WatchedFunction([(sys.modules.get(generator), generate)], around=_unseen),
        WatchedFunction([(tuner, "autotune_to_one_config"), (tuner, "coordinate_descent_tuning")], around=_unseen),
        WatchedFunction([(loaded(*compile_seams.CHOOSING), "__call__")], after=CompileLog.chosen),
    ]


_INDUCTOR: Watchers[CompileLog] = Watchers(_entries)
