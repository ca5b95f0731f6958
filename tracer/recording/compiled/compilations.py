"""What torch's compiler makes, as it makes it: graphs, generated code, and what both were made of.

Watched are the call that hands a graph to a backend, the compilation of one graph and the moment after it (which a
region from a cache passes as well), and torch's own structured trace, which tells of graphs that come from a cache.
All of it is read and nothing changed: keys of caches and generated code are what they are without.
"""

from __future__ import annotations

import json
import logging
import weakref
from _thread import get_ident
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from tracer.names import DeterministicMode, Direction, RegionOrigin
from tracer.recording.compiled.choices import Choice, configurations, was_timed
from tracer.recording.compiled.generated.kernel_text import dispatches
from tracer.recording.compiled.hidden_hooks import HOOKS
from tracer.recording.compiled.program_lines import Step
from tracer.recording.compiled.traced import Detail, TracedCalls, asks_for_gradient, detail_of, module_names
from tracer.recording.origin.sites import is_torchs_own
from tracer.recording.patching import Call
from tracer.recording.process.settings import deterministic_mode, read_settings
from tracer.recording.torch_private import compile_seams
from tracer.tables.settings.rows import load_rows
from tracer.trace.records import FactValue

CONFIG = "torch._inductor.config."
_GRAPHS = {
    "aot_inference_graph": Direction.INFERENCE,
    "aot_forward_graph": Direction.FORWARD,
    "aot_backward_graph": Direction.BACKWARD,
}
_FURTHER = ("fx_graph_cache_hit", "recompile_reasons", "dynamo_cpp_guards_str")
#: What most programs that are kept for lines of code come to; older ones go first.
_MOST_PROGRAMS = 4096


class Program:
    """One graph as dynamo handed it to a backend, in strings: no tensor, no graph is kept."""

    def __init__(self, compile_id: str, backend: str, nodes: Any) -> None:
        self.compile_id = compile_id
        self.backend = backend
        self._raw = {
            str(node.name): Detail(
                node.meta.get("stack_trace"),
                module_names(node.meta.get("nn_module_stack")),
                asks := asks_for_gradient(node.target),
                asks,
            )
            for node in nodes
            if node.op.startswith("call_")
        }
        self._steps: list[Step] | None = None
        self.code: CodeType | None = None
        self.fullgraph: bool | None = None
        self.dynamic: bool | None = None
        self.options: dict[str, FactValue] = {}
        self.graphs: dict[Direction, str] = {}
        """Texts from torch's structured trace, until the code that was compiled from them is loaded."""
        self.is_hit = False
        self.forwards: list[CompiledCode] = []

    @property
    def steps(self) -> list[Step]:
        """Its calls, read when they are first wanted."""
        if self._steps is None:
            self._steps = [detail.step for detail in self._raw.values()]
        return self._steps

    def stack_of(self, name: str) -> str | None:
        """The stack of one of its calls; ``None`` for a name that is none's."""
        detail = self._raw.get(name)
        return detail.stack if detail is not None else None


class CompiledCode:
    """One region's code."""

    def __init__(self, program: Program | None, direction: Direction, compile_id: str) -> None:
        self.program = program
        self.direction = direction
        self.compile_id = compile_id
        self.text = ""
        """Its graph."""
        self.source = ""
        """The generated code."""
        self.details: dict[str, Detail] = {}
        """By a call's name in the graph, where the graph itself was at hand."""
        self.kernels: dict[str, set[str]] = {}
        """By a kernel's name: the graph's calls that went into it."""
        self.timed: set[str] = set()
        """The graph's calls for which several ways were timed."""
        self.key = ""
        """By which torch finds its loaded code."""
        self.choices: dict[str, Choice] = {}
        """By a kernel's name: the configuration that autotuning chose."""
        self.origin = RegionOrigin.UNKNOWN
        self.mode: DeterministicMode | None = None
        self.settings: dict[str, FactValue] = {}
        self.uses_cuda_graphs = False
        self.devices: tuple[str, ...] = ()
        self.dispatches = True
        """May its code dispatch ops, which are its own and not to be counted again?"""
        self.guard: tuple[str, str] = ("", "")
        """The compilation that did not serve, and the condition that failed there."""
        self.by_compiled_autograd = compile_id.startswith("!")
        compiled = program.code if program is not None else None
        self.has_lines = compiled is None or not is_torchs_own(compiled.co_filename)
        """Do its calls bear lines of the program? A function of torch's own is known by who called it."""


class CompileLog:
    """What was compiled while it listened. Told by ``InductorWatch``, which replaces the functions."""

    def __init__(self) -> None:
        self.codes: list[CompiledCode] = []
        self.programs: list[Program] = []
        self.by_object: dict[int, tuple[weakref.ref[Any], CompiledCode]] = {}
        """By ``id`` of what Inductor returned; an entry goes with its object."""
        self._programs: dict[str, Program] = {}
        self._current: dict[int, list[tuple[int, CompiledCode]]] = {}
        """By thread: the graphs whose compilation is under way, innermost last."""
        self._tracing: dict[int, tuple[str, TracedCalls]] = {}
        """By thread: what AOTAutograd traces, or traced last, by the number of its compilation."""
        self._guards: dict[str, tuple[str, str]] = {}
        self._handler = _Handler(self)

    def start(self) -> None:
        """Listen to torch's trace."""
        compile_seams.TRACE_LOG.addHandler(self._handler)

    def stop(self) -> None:
        """Listen no more."""
        compile_seams.TRACE_LOG.removeHandler(self._handler)
        self._tracing.clear()
        self.look_at_choices()

    def code_of(self, compiled: Any) -> CompiledCode | None:
        """What is known of the code that is being called."""
        entry = self.by_object.get(id(compiled))
        return entry[1] if entry is not None and entry[0]() is compiled else None

    # --- called by the watches ---

    def graph_handed_over(
        self, call: Call, *, graph: Any, backend: str, config: Mapping[str, Any], dynamic: Any
    ) -> None:
        """Dynamo calls a backend."""
        program = Program(compile_seams.compile_id(), backend, graph.graph.nodes)
        program.code, program.fullgraph = compile_seams.compiled_function(call.frame)
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
        """Inductor compiles one graph, or finds its code in the cache."""
        graph = call.first
        direction = (
            Direction.BACKWARD
            if call.kwargs.get("is_backward")
            else Direction.INFERENCE
            if call.kwargs.get("is_inference")
            else Direction.FORWARD
        )
        code = self._new_code(direction)
        code.origin = RegionOrigin.COMPILED
        self._current.setdefault(get_ident(), []).append((id(graph), code))
        code.text = compile_seams.graph_as_text(graph)
        for node in graph.graph.nodes:
            if node.op == "call_function":
                code.details[node.name] = detail_of(node.meta)

    def compile_ended(self, call: Call) -> None:
        """... and this is it."""
        running = self._current.get(get_ident(), [])
        while running:
            graph, code = running.pop()
            if graph == id(call.first):  # else: its compilation failed
                self._register(call.result, code)
                break

    def kernel_written(self, call: Call) -> None:
        """A kernel was made of some of the graph's calls."""
        running = self._current.get(get_ident())
        if not running or not isinstance(call.result, str) or len(call.args) < 3:
            return
        origin = call.args[2]
        names = running[-1][1].kernels.setdefault(call.result, set())
        names.update(_origins(origin if isinstance(origin, (list, tuple)) else [origin]))

    def chosen(self, call: Call) -> None:
        """One of several ways was chosen to compute a call of the graph."""
        running = self._current.get(get_ident())
        if running and len(call.args) > 2 and was_timed(call.args[2]):
            running[-1][1].timed.add(compile_seams.node_being_lowered())

    def look_at_choices(self) -> None:
        """Read what autotuning has chosen by now; it does so when code first runs."""
        for code in self.codes:
            if "triton" in code.source:
                code.choices.update(configurations(code.key))

    def code_is_ready(self, call: Call) -> None:
        """Code is set up in this process, whether it was compiled now or came from a cache."""
        compiled = call.first
        compile_id = compile_seams.compile_id()
        if any(code.compile_id == compile_id for _, code in self._current.get(get_ident(), [])):
            return  # `compile_ended` will tell
        if self.code_of(compiled) is not None:
            return
        fx_kwargs = getattr(compiled, "fx_kwargs", {})
        program = self._programs.get(compile_id)
        direction = Direction.BACKWARD if fx_kwargs.get("is_backward") else Direction.FORWARD
        if direction is Direction.FORWARD and program is not None and Direction.INFERENCE in program.graphs:
            direction = Direction.INFERENCE
        code = self._new_code(direction)
        code.origin = RegionOrigin.CACHE
        if program is not None:
            code.text = program.graphs.pop(direction, "")
        self._register(compiled, code)

    def told(self, name: str, payload: Any) -> None:
        """torch's trace told of a graph, or of something else that it names."""
        program = self._programs.get(compile_seams.compile_id())
        if name in _GRAPHS and program is not None:
            program.graphs[_GRAPHS[name]] = str(payload)
        elif name == "dynamo_cpp_guards_str":
            HOOKS.guarded(str(payload))
        elif name == "fx_graph_cache_hit":
            running = self._current.get(get_ident())
            if running:
                running[-1][1].origin = RegionOrigin.CACHE
        elif name == "recompile_reasons":
            reasons = json.loads(payload) if isinstance(payload, str) and payload.startswith("[") else payload
            first = str(reasons[-1] if isinstance(reasons, list) and reasons else reasons)
            older, _, guard = first.partition(": ")
            self._guards[compile_seams.compile_id()] = (older.strip(), guard.partition("\n")[0].strip())

    # --- the rest ---

    def _new_code(self, direction: Direction) -> CompiledCode:
        compile_id = compile_seams.compile_id()
        code = CompiledCode(self._programs.get(compile_id), direction, compile_id)
        code.mode = deterministic_mode()
        settings, _ = read_settings(load_rows().row, {})
        code.settings = {name: value for name, value in settings.items() if name.startswith(CONFIG)}
        code.guard = self._guards.get(compile_id, ("", ""))
        return code

    def _register(self, compiled: Any, code: CompiledCode) -> None:
        cls = compile_seams.compiled_graph_class()
        if cls is None or not isinstance(compiled, cls):
            return  # an empty graph: its own Python code runs, op by op
        code.source = str(getattr(compiled, "source_code", ""))
        code.key = str(getattr(compiled, "cache_key", ""))
        code.dispatches = dispatches(code.source)
        code.devices = tuple(sorted(str(device) for device in getattr(compiled, "device_types", ())))
        code.uses_cuda_graphs = (
            _is_true(getattr(compiled, "fx_kwargs", {}).get("cudagraphs")) and "cuda" in code.devices
        )
        self.codes.append(code)
        if code.program is not None and code.direction is Direction.FORWARD:
            code.program.forwards.append(code)
        number = id(compiled)
        self.by_object[number] = (weakref.ref(compiled, lambda _: self.by_object.pop(number, None)), code)

    def met_unknown(self, compiled: Any) -> CompiledCode:
        """Code that was compiled before anybody listened, and runs now."""
        fx_kwargs = getattr(compiled, "fx_kwargs", {})
        direction = Direction.BACKWARD if fx_kwargs.get("is_backward") else Direction.FORWARD
        if fx_kwargs.get("is_inference"):
            direction = Direction.INFERENCE
        code = CompiledCode(None, direction, "")
        code.origin = RegionOrigin.EARLIER
        self._register(compiled, code)
        return code


def _origins(nodes: Iterable[Any]) -> Iterator[str]:
    """Names of the graph's calls that what Inductor schedules was made of; what is fused holds more of its kind."""
    for node in nodes:
        inner: Sequence[Any] = getattr(node, "get_nodes", tuple)()
        if any(other is not node for other in inner):
            yield from _origins(inner)
        else:
            yield from (str(origin.name) for origin in getattr(getattr(node, "node", None), "origins", ()))


def _is_true(value: Any) -> bool:
    return bool(getattr(value, "value", value))


class _Handler(logging.Handler):
    """Reads the few of torch's own messages that tell of graphs. A failure of it is nobody's."""

    def __init__(self, log: CompileLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            metadata = getattr(record, "metadata", {})
            artifact = metadata.get("artifact")
            name = artifact.get("name") if isinstance(artifact, dict) else next(iter(metadata), "")
            if name in _GRAPHS or name in _FURTHER:
                self._log.told(name, getattr(record, "payload", None))
        except Exception:  # what a note stumbles over is no business of the program's
            return
