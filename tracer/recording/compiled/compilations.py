"""Records graphs and code while torch compiles them.

It reads the graph that a backend receives, each graph's compilation, the code that is loaded afterwards (code from a
cache too), and torch's structured trace, which has the graphs of cached code. Cache keys and generated code do not
change.
"""

from __future__ import annotations

import json
import logging
import os
import re
import weakref
from _thread import get_ident
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import CodeType
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from tracer.names import DeterministicMode, Direction, RegionOrigin
from tracer.recording.compiled.choices import configurations, was_timed
from tracer.recording.compiled.hidden_hooks import HOOKS
from tracer.recording.compiled.traced import Detail, TracedCalls, asks_for_gradient, detail_of, module_names
from tracer.recording.origin.sites import is_torchs_own
from tracer.recording.patching import Call
from tracer.recording.process.settings import deterministic_mode, read_settings
from tracer.recording.storage.indices import Distinct
from tracer.recording.torch_private import compile_seams
from tracer.tables.asked import named_settings
from tracer.trace.records import FactValue

if TYPE_CHECKING:  # loaded where lines are read
    from tracer.recording.compiled.program_lines import Step

CONFIG = "torch._inductor.config."
UNROLLS_BELOW = CONFIG + "unroll_reductions_threshold"
"""Sums of fewer addends are written out. The fact that says so knows the default alone."""
_UNROLLS_BELOW = 8
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
    return read_settings((*(name for name in named_settings() if name.startswith(CONFIG)), UNROLLS_BELOW))


class Program:
    """One graph as dynamo passed it to a backend, as strings. Keeps no tensor and no graph."""

    def __init__(self, compile_id: str, backend: str, module: Any) -> None:
        self.compile_id = compile_id
        self.backend = backend
        self._details = {
            f"{path}{node.name}": Detail(
                node.meta.get("stack_trace"),
                module_names(node.meta.get("nn_module_stack")),
                asks := asks_for_gradient(node.target),
                asks,
            )
            for path, graph in compile_seams.graphs_within(module)
            for node in graph.nodes
            if node.op.startswith("call_")
        }
        self.code: CodeType | None = None
        self.fullgraph: bool | None = None
        self.dynamic: bool | None = None
        self.options: dict[str, FactValue] = {}
        self.graphs: dict[Direction, str] = {}
        """Texts from torch's structured trace, until the code that was compiled from them is loaded."""
        self.forwards: list[CompiledCode] = []
        self.reached_inductor = False
        """Whether Inductor compiled it, whatever its backend."""

    @cached_property
    def steps(self) -> list[Step]:
        """Its calls."""
        return [detail.step for detail in self._details.values()]

    def stack_of(self, name: str) -> str | None:
        """The stack of the call with this name in the graph; ``None`` for an unknown name."""
        detail = self._details.get(name)
        return detail.stack if detail is not None else None


class CompiledCode(msgspec.Struct, eq=False, dict=True):
    """One region's code."""

    program: Program | None
    direction: Direction
    compile_id: str
    origin: RegionOrigin = RegionOrigin.UNKNOWN
    mode: DeterministicMode | None = None
    settings: dict[str, FactValue] = msgspec.field(default_factory=dict)
    guard: tuple[str, str] = ("", "")
    """The earlier compilation whose guard failed, and that guard."""
    text: str = ""
    """Its graph."""
    source: str = ""
    """The generated code."""
    details: dict[str, Detail] = msgspec.field(default_factory=dict)
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
    dispatches: bool = True
    """Whether its code may dispatch ops. They are counted with the region already."""

    distinct: dict[int, Distinct] | None = None
    """Inputs that held distinct numbers in every execution, by position; ``None`` if it has not run."""
    package: str = ""
    """Name of the file that it was loaded from, for an AOTInductor package."""
    by_compiled_autograd: bool = False
    has_lines: bool = True
    """Whether its calls have lines of the program. Calls of torch's own functions have only their caller's."""

    def __post_init__(self) -> None:
        self.by_compiled_autograd = self.compile_id.startswith("!")
        compiled = self.program.code if self.program is not None else None
        self.has_lines = compiled is None or not is_torchs_own(compiled.co_filename)

    @property
    def unrolls_less(self) -> bool:
        """Whether it was compiled with a lower limit for sums that are written out than the default."""
        limit = self.settings.get(UNROLLS_BELOW, _UNROLLS_BELOW)
        return type(limit) is int and limit < _UNROLLS_BELOW

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


class CompileLog:
    """Everything that was compiled between ``start`` and ``stop``. ``InductorWatch`` patches torch and calls it."""

    def __init__(self) -> None:
        self.codes: list[CompiledCode] = []
        self.programs: list[Program] = []
        self.by_object: dict[int, tuple[weakref.ref[Any], CompiledCode]] = {}
        """By ``id`` of what Inductor returned; an entry is removed with its object."""
        self._programs: dict[str, Program] = {}
        self._current: dict[int, list[tuple[int, CompiledCode]]] = {}
        """By thread: the graphs being compiled, innermost last, each with the ``id`` of its module."""
        self._tracing: dict[int, tuple[str, TracedCalls]] = {}
        """By thread: the compilation that AOTAutograd is tracing, or traced last."""
        self._packaged: dict[str, CompiledCode] = {}
        """Code that was compiled for packages, by file name."""
        self._guards: dict[str, tuple[str, str]] = {}
        self._handler = _Handler(self)

    def start(self) -> None:
        """Begin to read torch's structured trace."""
        compile_seams.TRACE_LOG.addHandler(self._handler)

    def stop(self) -> None:
        """Stop reading it."""
        compile_seams.TRACE_LOG.removeHandler(self._handler)
        self._tracing.clear()
        self.look_at_choices()

    def code_of(self, compiled: Any) -> CompiledCode | None:
        """The record of ``compiled``, which is being called; ``None`` if unknown."""
        entry = self.by_object.get(id(compiled))
        return entry[1] if entry is not None and entry[0]() is compiled else None

    # --- called by InductorWatch ---

    def graph_handed_over(self, call: Call, backend: str, config: Mapping[str, Any]) -> None:
        """Dynamo is about to call a backend."""
        program = Program(compile_seams.compile_id(), backend, call.args[1])
        program.code, program.fullgraph = compile_seams.compiled_function(call.frame)
        dynamic = getattr(call.first, "dynamic", None)
        program.dynamic = dynamic if isinstance(dynamic, bool) else None
        program.options = {name: value for name, value in config.items() if isinstance(value, (bool, int, str))}
        self._programs[program.compile_id] = program
        if len(self._programs) > _MOST_PROGRAMS:
            self._programs.pop(next(iter(self._programs)))
        self.programs.append(program)

    def call_traced(self, call: Call) -> None:
        """AOTAutograd put a call into a graph that it traces."""
        if not compile_seams.traces_for_compiler(call.first):
            return
        compile_id, thread = compile_seams.compile_id(), get_ident()
        entry = self._tracing.get(thread)
        if entry is None or entry[0] != compile_id:
            program = self._programs.get(compile_id)
            if program is None:
                return
            entry = self._tracing[thread] = (compile_id, TracedCalls(program.stack_of))
        entry[1].traced(call.result, call.frame)

    def compile_begins(self, call: Call) -> None:
        """Inductor is about to compile one graph, or to load its code from the cache."""
        graph = call.first
        direction = _direction(call.kwargs)
        if direction is Direction.FORWARD and compile_seams.takes_gradients(graph):
            direction = Direction.BACKWARD  # a custom backend compiles forward and backward alike
        code = self._new_code(direction, RegionOrigin.COMPILED)
        self._current.setdefault(get_ident(), []).append((id(graph), code))
        code.text = compile_seams.graph_as_text(graph)
        for path, inner in compile_seams.graphs_within(graph):
            code.paths[id(inner)] = path
            calls = (node for node in inner.nodes if node.op == "call_function")
            code.details |= {f"{path}{node.name}": detail_of(node.meta) for node in calls}

    def compile_ended(self, call: Call) -> None:
        """Inductor returned the code of one graph."""
        running = self._current.get(get_ident(), [])
        while running:
            graph, code = running.pop()
            if graph == id(call.first):  # else: its compilation failed
                self._register(call.result, code)
                break

    @property
    def _compiling(self) -> CompiledCode | None:
        """The graph that this thread is compiling."""
        running = self._current.get(get_ident())
        return running[-1][1] if running else None

    def kernel_written(self, call: Call) -> None:
        """A kernel was generated for some of the graph's calls."""
        code = self._compiling
        if code is not None and isinstance(call.result, str) and len(call.args) > 2:
            origin = call.args[2]
            nodes = origin if isinstance(origin, (list, tuple)) else [origin]
            names = {(code.paths.get(id(origin.graph), ""), str(origin.name)) for origin in _origins(nodes)}
            innermost = max((path for path, _ in names), key=len, default="")  # its caller is named too
            code.kernels[call.result].update(path + name for path, name in names if path == innermost)

    def chosen(self, call: Call) -> None:
        """One of several candidates was chosen for a call of the graph."""
        code = self._compiling
        if code is not None and len(call.args) > 2 and was_timed(call.args[2]):
            code.timed.add(compile_seams.node_being_lowered())

    def look_at_choices(self) -> None:
        """Read the choices of autotuning so far. It chooses when code first runs."""
        for code in self.codes:
            if "triton" in code.source:
                code.choices.update(configurations(code.key))

    def code_is_ready(self, call: Call) -> None:
        """Code is loaded in this process, just compiled or from a cache."""
        compiled = call.first
        compile_id = compile_seams.compile_id()
        if any(code.compile_id == compile_id for _, code in self._current.get(get_ident(), [])):
            return  # `compile_ended` follows
        if self.code_of(compiled) is not None:
            return
        program = self._programs.get(compile_id)
        graphs = program.graphs if program is not None else {}
        direction = Direction.INFERENCE if Direction.INFERENCE in graphs else Direction.FORWARD
        if getattr(compiled, "fx_kwargs", {}).get("is_backward"):
            direction = Direction.BACKWARD
        code = self._new_code(direction, RegionOrigin.CACHE)
        code.text = graphs.pop(direction, "")
        self._register(compiled, code)

    def logged(self, name: str, payload: Any) -> None:
        """torch's structured trace has an entry ``name``."""
        if name in _GRAPHS:
            program = self._programs.get(compile_seams.compile_id())
            if program is not None:
                program.graphs[_GRAPHS[name]] = str(payload)
        elif name == "dynamo_cpp_guards_str":
            HOOKS.guarded(str(payload))
        elif name == "fx_graph_cache_hit":
            code = self._compiling
            if code is not None:
                code.origin = RegionOrigin.CACHE
        elif name == "recompile_reasons":
            reasons = json.loads(payload) if isinstance(payload, str) and payload.startswith("[") else payload
            first = str(reasons[-1] if isinstance(reasons, list) and reasons else reasons)
            older, _, guard = first.partition(": ")
            self._guards[compile_seams.compile_id()] = (older.strip(), guard.partition("\n")[0].strip())

    # --- internals ---

    def _new_code(self, direction: Direction, origin: RegionOrigin) -> CompiledCode:
        compile_id = compile_seams.compile_id()
        context = (deterministic_mode(), compiler_settings(), self._guards.get(compile_id, ("", "")))
        return CompiledCode(self._programs.get(compile_id), direction, compile_id, origin, *context)

    def _register(self, compiled: Any, code: CompiledCode) -> None:
        cls = compile_seams.compiled_graph_class()
        if cls is None or not isinstance(compiled, cls):
            files = compile_seams.packaged_files(compiled)
            self._packaged.update(dict.fromkeys((os.path.basename(file).partition(".")[0] for file in files), code))
            return  # else an empty graph, which Python code runs op by op
        if code.program is not None:
            code.program.reached_inductor = True
        code.source = str(getattr(compiled, "source_code", ""))
        code.key = str(getattr(compiled, "cache_key", ""))
        from tracer.recording.compiled.generated.kernel_text import dispatches  # loaded with the first generated code

        code.dispatches = dispatches(code.source)
        code.devices = tuple(sorted(str(device) for device in getattr(compiled, "device_types", ())))
        cudagraphs = getattr(compiled, "fx_kwargs", {}).get("cudagraphs")
        code.uses_cuda_graphs = bool(getattr(cudagraphs, "value", cudagraphs)) and "cuda" in code.devices
        if code.program is not None and code.direction is Direction.FORWARD:
            code.program.forwards.append(code)
        self._keep(compiled, code)

    def _keep(self, compiled: Any, code: CompiledCode) -> None:
        if code not in self.codes:
            self.codes.append(code)
        number = id(compiled)
        self.by_object[number] = (weakref.ref(compiled, lambda _: self.by_object.pop(number, None)), code)

    def package_loaded(self, call: Call) -> None:
        """An AOTInductor package was loaded."""
        from tracer.recording.compiled.packages import Package, read_package  # with the first package

        path, model = call.args[1:3]
        package = Package(frozenset(), "")
        with suppress(OSError, ValueError):
            package = read_package(str(path), str(model))
        own = (self._packaged[name] for name in package.names if name in self._packaged)
        code = next(own, None) or CompiledCode(None, Direction.INFERENCE, "", RegionOrigin.EARLIER)
        code.compile_id = code.compile_id or "package"
        code.package = os.path.basename(str(path))
        code.source, code.dispatches = package.source, False
        code.devices = tuple(filter(None, [str(call.first.get_metadata().get("AOTI_DEVICE_KEY", ""))]))
        self._keep(call.first, code)

    def met_unknown(self, compiled: Any) -> CompiledCode:
        """Code that was compiled before ``start``, and runs now."""
        if compile_seams.package_loader is not None and isinstance(compiled, compile_seams.package_loader):
            code = CompiledCode(None, Direction.INFERENCE, "package", RegionOrigin.EARLIER, package="a package")
            self._keep(compiled, code)
            return code
        code = CompiledCode(None, _direction(getattr(compiled, "fx_kwargs", {})), "", RegionOrigin.EARLIER)
        self._register(compiled, code)
        return code


def _direction(options: Mapping[str, Any]) -> Direction:
    """The pass that a graph belongs to, by the options that Inductor compiles it with."""
    if options.get("is_backward"):
        return Direction.BACKWARD
    return Direction.INFERENCE if options.get("is_inference") else Direction.FORWARD


def _origins(nodes: Iterable[Any]) -> Iterator[Any]:
    """The graph's calls behind Inductor's scheduler nodes. A fused node contains several nodes."""
    for node in nodes:
        inner: Sequence[Any] = getattr(node, "get_nodes", tuple)()
        if any(other is not node for other in inner):
            yield from _origins(inner)
        else:
            yield from getattr(getattr(node, "node", None), "origins", ())


class _Handler(logging.Handler):
    """Reads the entries about graphs in torch's structured trace."""

    def __init__(self, log: CompileLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            metadata = getattr(record, "metadata", {})
            artifact = metadata.get("artifact")
            name = artifact.get("name") if isinstance(artifact, dict) else next(iter(metadata), "")
            self._log.logged(str(name), getattr(record, "payload", None))
        except Exception:  # a failure of the recorder never reaches the program
            return
