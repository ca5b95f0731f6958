"""Triton kernels that a program launches by itself: each launch is counted at its line, its source read once.

Integers add up to the same sum in any order, but if the result of such an addition is used, it hands out places in
order of arrival. A swap is a lock. Launches for timing, and Inductor's, are not counted. Checked on Triton 3.6.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from _thread import get_ident
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any

import msgspec
import torch

from tracer.names import BlindSpotKind, KernelLanguage
from tracer.recording.calls import fact_readers as facts
from tracer.recording.compiled.compilations import spelled
from tracer.recording.events import ORDER
from tracer.recording.origin.attribution import Attribution
from tracer.recording.origin.modules import Origin
from tracer.recording.patching import Call
from tracer.recording.torch_private import seams
from tracer.recording.torch_private.seams import without_recording
from tracer.recording.watchers import Target, Watchers
from tracer.trace.records import CallGroup, Kernel

_SWAPS = ("atomic_cas", "atomic_xchg")
_ASSEMBLY = "inline_asm_elementwise"
#: Calls whose result is no pointer any more.
_LOADS = ("load", "atomic_add", "atomic_cas", "atomic_xchg", "atomic_max", "atomic_min")
#: Most levels of functions that a kernel calls.
_DEEPEST = 8


class Source(msgspec.Struct, frozen=True):
    """The facts that a kernel's source shows."""

    atomic: bool | None
    """Whether it adds in an order that varies; ``None`` if that is not certain. ``None``: it is not certain."""
    lines: tuple[str, ...]
    """The lines that show it."""


def python_function(kernel: Any) -> Any:
    """The Python function that a kernel was made of; ``None`` if there is none."""
    inner = getattr(kernel, "fn", None)
    while inner is not None and not inspect.isfunction(inner):
        inner = getattr(inner, "fn", None)
    return inner


def read_source(function: Any, whole_numbers: Mapping[str, bool]) -> Source | None:
    """What the source of a kernel's Python function shows; ``None`` without one.

    ``whole_numbers``: whether each tensor that it was called with holds integers, by the parameter's name.
    """
    reader = _Reader(whole_numbers)
    if not reader.read(function, 0, is_kernel=True):
        return None
    atomic = True if reader.certain else None if reader.is_uncertain else False
    return Source(atomic, tuple(dict.fromkeys(reader.certain or reader.doubtful)))


class _Reader:
    def __init__(self, whole_numbers: Mapping[str, bool]) -> None:
        self._whole_numbers = whole_numbers
        self._read: set[int] = set()
        self.certain: list[str] = []
        """Lines that add in an order that varies."""
        self.doubtful: list[str] = []
        self.is_uncertain = False

    def read(self, function: Any, depth: int, *, is_kernel: bool = False) -> bool:
        """Read one function and those that it names; ``False`` without a source."""
        if id(function) in self._read or depth > _DEEPEST:
            return True
        self._read.add(id(function))
        try:
            text = textwrap.dedent(inspect.getsource(function))
            tree = ast.parse(text)
        except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
            return False
        definition = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), None)
        if definition is None:
            return False
        names = _names_around(function)
        pointers = _Pointers(definition, self._whole_numbers) if is_kernel else None
        unused = {id(node.value) for node in ast.walk(definition) if isinstance(node, ast.Expr)}
        for node in _body(definition):
            if isinstance(node, ast.Call):
                self._call(node, names, pointers, text, is_used=id(node) not in unused)
            if isinstance(node, (ast.Name, ast.Attribute)):
                inner = python_function(_resolved(node, names))
                is_tritons = inner is not None and str(inner.__module__).partition(".")[0] == "triton"
                if inner is not None and not is_tritons and not self.read(inner, depth + 1):
                    self.is_uncertain = True
        return True

    def _call(
        self, node: ast.Call, names: Mapping[str, Any], pointers: _Pointers | None, text: str, *, is_used: bool
    ) -> None:
        called = _last_name(node.func)
        if isinstance(node.func, ast.Name) and called in names:  # `atomic_add`, perhaps imported under another name
            called = str(getattr(names[called], "__name__", called))
        source = ast.get_source_segment(text, node) or ""
        line = (source or called).splitlines()[0].strip()
        if called in _SWAPS:
            self.certain.append(line)
        elif called == "atomic_add":
            keywords = [keyword.value for keyword in node.keywords if keyword.arg == "pointer"]
            into = next(iter((*node.args, *keywords)), None)
            if pointers is None or into is None or not pointers.are_of_whole_numbers(into):
                self.certain.append(line)
            elif is_used:
                self.doubtful.append(line)
                self.is_uncertain = True
        elif called == _ASSEMBLY and ("atom" in source or "red." in source):
            self.doubtful.append(line)
            self.is_uncertain = True


class _Pointers:
    """The parameters of a kernel that an address is made of."""

    def __init__(self, definition: ast.FunctionDef, whole_numbers: Mapping[str, bool]) -> None:
        self._whole_numbers = whole_numbers
        arguments = definition.args
        parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        self._parameters = defaultdict(set, {parameter.arg: {parameter.arg} for parameter in parameters})
        for node in [*_body(definition)] * 2:  # twice: a loop may use what a later line assigns
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for name in (part.id for part in ast.walk(target) if isinstance(part, ast.Name)):
                        self._parameters[name] |= self._of(node.value)

    def _of(self, node: ast.expr) -> set[str]:
        names = (part.id for part in _outside_loads(node) if isinstance(part, ast.Name))
        return set().union(*(self._parameters.get(name, ()) for name in names))

    def are_of_whole_numbers(self, address: ast.expr) -> bool:
        """Return whether all tensors that the address can point into hold integers."""
        tensors = [self._whole_numbers[name] for name in self._of(address) if name in self._whole_numbers]
        return bool(tensors) and all(tensors)


def _body(definition: ast.FunctionDef) -> Iterator[ast.AST]:
    """All nodes of a function without its decorators and annotations."""
    for statement in definition.body:
        yield from ast.walk(statement)


def _outside_loads(node: ast.AST) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Call) or _last_name(node.func) not in _LOADS:
        yield node
        for inner in ast.iter_child_nodes(node):
            yield from _outside_loads(inner)


def _last_name(node: ast.expr) -> str:
    """``atomic_add`` of ``tl.atomic_add``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _names_around(function: Any) -> dict[str, Any]:
    closed = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with suppress(ValueError):  # not filled yet
            closed[name] = cell.cell_contents
    return {**function.__globals__, **closed}


def _resolved(node: ast.AST, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    owner = _resolved(node.value, names) if isinstance(node, ast.Attribute) else None
    return getattr(owner, node.attr, None) if isinstance(node, ast.Attribute) and inspect.ismodule(owner) else None


#: The recorder launches a kernel for digests.
_OWN = "tracer.recording.values"
_WHOLE = ("int", "uint", "bool")


class _LaunchedKernel(msgspec.Struct):
    """One kernel."""

    name: str
    device: str
    is_interpreted: bool
    choice: str = ""
    sources: dict[Any, Source | None] = msgspec.field(default_factory=dict)
    """By the kinds of numbers that it was called with."""

    def spelled(self, source: Source | None) -> str:
        """Its name, marked if it adds integers in some launches and floats in others."""
        atomic = {None if source is None else source.atomic for source in self.sources.values()}
        is_harmless = source is not None and source.atomic is False
        return f"{self.name} (whole numbers)" if len(atomic) > 1 and is_harmless else self.name


class Launched(msgspec.Struct, eq=False):
    """Launches that agree in everything but their number."""

    kernel: _LaunchedKernel
    source: Source | None
    origin: Origin
    raw: Any
    node: str
    count: int = 0
    order: int = msgspec.field(default_factory=lambda: next(ORDER))


class Launches:
    """The launches of one recording.

    ``on_unread`` is called for a kernel without a source; ``on_launch`` before each launch, which may write anywhere.
    """

    def __init__(
        self,
        attribution: Attribution,
        on_unread: Callable[[BlindSpotKind, str, FrameType | None], None],
        on_launch: Callable[[], None],
    ) -> None:
        self._attribution = attribution
        self._on_unread = on_unread
        self._on_launch = on_launch
        self._kernels: dict[int, tuple[Any, _LaunchedKernel]] = {}
        """By ``id`` of the compiled function, which is kept: it is no tensor."""
        self.counters: dict[Any, Launched] = {}
        self.is_timing = 0
        self.keeps_lines = False
        """Whether lines of source are kept with the kernels."""

    def launched(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType | None) -> None:
        """A kernel is about to run."""
        node = seams.current_node()
        if self.is_timing or (node is None and get_ident() != self._attribution.modules.thread):
            return
        while frame is not None and self._attribution.sites.kind_of(frame.f_code.co_filename) == 0:
            if frame.f_globals.get("__name__", "").startswith(_OWN):
                return
            frame = frame.f_back
        self._on_launch()
        python = python_function(function)
        tensors = _tensors(function, args, kwargs)
        raw = next(((tensor.dtype, tensor.device, tensor.layout, tensor.ndim) for tensor in tensors.values()), None)
        kernel = self._kernel_of(function, python, raw)
        whole = {name: str(tensor.dtype).removeprefix("torch.").startswith(_WHOLE) for name, tensor in tensors.items()}
        kinds = tuple(sorted(whole.items()))
        if kinds not in kernel.sources:
            kernel.sources[kinds] = read_source(python, whole) if python is not None else None
        if kernel.sources[kinds] is None:
            self._on_unread(BlindSpotKind.TRITON, f"Triton kernel {kernel.name} was launched", frame)
        where = self._attribution
        origin, _ = where.outside_engine(frame) if node is None else where.inside_engine(node, frame)
        kind = type(node).__name__ if node is not None else ""
        key = (kernel.name, kinds, origin, kind, raw)
        counter = self.counters.get(key)
        if counter is None:
            name = where.node_name(node) if node is not None else ""
            counter = self.counters[key] = Launched(kernel, kernel.sources[kinds], origin, raw, name)
        counter.count += 1

    def tuned(self, autotuner: Any) -> None:
        """Triton's autotuner ran a kernel, and has chosen its configuration."""
        function = autotuner
        while hasattr(function, "fn") and not inspect.isfunction(function.fn):
            function = function.fn  # below autotuners and heuristics
        entry = self._kernels.get(id(function))
        chosen = getattr(autotuner, "best_config", None)
        if entry is not None and chosen is not None and len(getattr(autotuner, "configs", ())) > 1:
            entry[1].choice = spelled(chosen)

    def _kernel_of(self, function: Any, python: Any, raw: Any) -> _LaunchedKernel:
        entry = self._kernels.get(id(function))
        if entry is not None:
            return entry[1]
        name = str(getattr(python or function, "__name__", "unnamed"))
        if any(kernel.name == name for _, kernel in self._kernels.values()):
            name = f"{getattr(python or function, '__module__', '')}.{name}"
        device = "" if raw is None else facts.device_word(raw[1].type)
        kernel = _LaunchedKernel(name, device, type(function).__name__ == "InterpretedFunction")
        self._kernels[id(function)] = (function, kernel)
        return kernel

    # --- what a trace holds ---

    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that were launched."""
        spellings: dict[str, list[Launched]] = defaultdict(list)
        for counter in self.counters.values():
            spellings[counter.kernel.spelled(counter.source)].append(counter)
        return tuple(self._kernel(name, counters) for name, counters in spellings.items())

    def _kernel(self, name: str, counters: list[Launched]) -> Kernel:
        kernel, sources = counters[0].kernel, [counter.source for counter in counters]
        verdicts = {None if source is None else source.atomic for source in sources}
        lines = [line for source in sources if source is not None for line in source.lines]
        return Kernel(
            name=name,
            language=KernelLanguage.USER_TRITON,
            device=kernel.device,
            atomic=True if True in verdicts else None if None in verdicts else False,
            is_parallel=not kernel.is_interpreted,  # the interpreter runs one program after the other
            lines=tuple(dict.fromkeys(lines)) if self.keeps_lines else (),
            choice=kernel.choice,
            by_stopwatch=True if kernel.choice else None,
        )

    def group(self, counter: Launched) -> CallGroup:
        """The launches of ``counter`` as a group of calls."""
        origin = counter.origin
        return CallGroup(
            op=f"triton.{counter.kernel.name}",
            **origin.in_words(),
            count=counter.count,
            node=counter.node,
            facts=facts.common_facts(counter.raw),
            kernels=(counter.kernel.spelled(counter.source),),
        )


def _tensors(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors of a launch by the names of their parameters."""
    names = list(getattr(function, "arg_names", ()))
    arguments = {**dict(zip(names, args, strict=False)), **kwargs}
    return {str(name): value for name, value in arguments.items() if isinstance(value, torch.Tensor)}


def _on_run(listener: Launches, call: Call) -> None:
    if not call.kwargs.get("warmup"):
        keywords = {name: value for name, value in call.kwargs.items() if name not in ("grid", "warmup")}
        listener.launched(call.args[0], call.args[1:], keywords, call.frame)


def _on_compiled(listener: Launches, call: Call) -> None:
    """A kernel that was compiled ahead of time is launched: ``kernel[grid](...)``."""
    function = getattr(getattr(call.first, "src", None), "fn", None)
    listener.launched(function if function is not None else call.first, (), {}, call.frame)


def _timed(time: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    listeners = WATCHES.listeners
    for listener in listeners:
        listener.is_timing += 1
    try:
        with without_recording():
            return time(*args, **kwargs)
    finally:
        for listener in listeners:
            listener.is_timing -= 1


def _watched() -> Iterator[Target]:
    yield Target([(seams.loaded("triton.runtime.jit", "JITFunction"), "run")], before=_on_run)
    yield Target([(seams.loaded("triton.runtime.interpreter", "InterpretedFunction"), "run")], before=_on_run)
    yield Target([(seams.loaded("triton.compiler.compiler", "CompiledKernel"), "__getitem__")], before=_on_compiled)
    autotuner = seams.loaded("triton.runtime.autotuner", "Autotuner")
    yield Target([(autotuner, "_bench")], around=_timed)
    yield Target([(autotuner, "run")], after=lambda listener, call: listener.tuned(call.first))


#: The watches of this process.
WATCHES: Watchers[Launches] = Watchers(_watched)
