"""Work launched past the dispatcher: Triton kernels that a program launches itself, and replays of CUDA graphs.

A launch is counted at its line, its kernel's source read once. Integers add up to the same sum in any order, but if the
result of such an addition is used, it hands out places in order of arrival. A swap is a lock. Launches for timing, and
Inductor's, are not counted. Checked on Triton 3.6.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import textwrap
import weakref
from _thread import get_ident
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from tracer.names import BlindSpotKind, KernelLanguage
from tracer.recording import calls as facts
from tracer.recording.blind_spots import BlindSpots
from tracer.recording.calls.groups import CallCounter
from tracer.recording.compiled import spelled
from tracer.recording.origin import outwards
from tracer.recording.origin.attribution import Attribution
from tracer.recording.patching import WatchedCall, WatchedFunction, Watchers
from tracer.recording.torch_private import compile_seams, seams
from tracer.recording.torch_private.seams import loaded, without_recording
from tracer.trace.records import CallGroup, Kernel

if TYPE_CHECKING:  # loaded where values are asked for
    from tracer.recording.values.call_digests import CallDigests
    from tracer.recording.values.value_recorder import LaunchValues
    from tracer.trace.values import Group

_SWAPS = ("atomic_cas", "atomic_xchg")
_ASSEMBLY = "inline_asm_elementwise"
#: Calls whose result is no pointer any more.
_LOADS = ("load", "atomic_add", "atomic_cas", "atomic_xchg", "atomic_max", "atomic_min")
#: Most levels of functions that a kernel calls.
_DEEPEST = 8


def python_function(kernel: Any) -> Any:
    """The Python function that a kernel was made of; ``None`` if there is none."""
    inner = getattr(kernel, "fn", None)
    while inner is not None and not inspect.isfunction(inner):
        inner = getattr(inner, "fn", None)
    return inner


def adds_in_any_order(function: Any, whole_numbers: Mapping[str, bool]) -> bool | None:
    """Return whether a kernel's Python function adds in an order that varies; ``None`` if that is not certain.

    Raises ``LookupError`` without a source. ``whole_numbers``: which parameters are tensors of those.
    """
    reader = _Reader(whole_numbers)
    if function is None or not reader.read(function, 0, is_kernel=True):
        raise LookupError
    return True if reader.adds else None if reader.is_uncertain else False


class _Reader:
    def __init__(self, whole_numbers: Mapping[str, bool]) -> None:
        self._whole_numbers = whole_numbers
        self._read: set[int] = set()
        self.adds = self.is_uncertain = False
        """Whether it adds in an order that varies, or may."""

    def read(self, function: Any, depth: int, *, is_kernel: bool = False) -> bool:
        """Read one function and those that it names; ``False`` without a source."""
        if id(function) in self._read or depth > _DEEPEST:
            return True
        self._read.add(id(function))
        try:
            text = textwrap.dedent(inspect.getsource(function))
            definition = next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
        except (OSError, TypeError, SyntaxError, ValueError, RecursionError, StopIteration):
            return False
        names = dict(function.__globals__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            with suppress(ValueError):  # not filled yet
                names[name] = cell.cell_contents
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
        if called in _SWAPS:
            self.adds = True
        elif called == "atomic_add":
            keywords = [keyword.value for keyword in node.keywords if keyword.arg == "pointer"]
            into = next(iter((*node.args, *keywords)), None)
            if pointers is None or into is None or not pointers.are_of_whole_numbers(into):
                self.adds = True
            self.is_uncertain |= is_used
        elif called == _ASSEMBLY:
            source = ast.get_source_segment(text, node) or ""
            self.is_uncertain |= "atom" in source or "red." in source


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


def _resolved(node: ast.AST, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    owner = _resolved(node.value, names) if isinstance(node, ast.Attribute) else None
    return getattr(owner, node.attr, None) if isinstance(node, ast.Attribute) and inspect.ismodule(owner) else None


#: The recorder launches a kernel for digests.
_OWN = "tracer.recording.values"
_WHOLE = ("int", "uint", "bool")
_INDUCTOR = os.path.join("torch", "_inductor", "")
#: The caller of torch's own helper for captures and replays is at most so many frames up.
_NEAR = 8


class _LaunchedKernel(msgspec.Struct):
    """One kernel."""

    name: str
    device: str
    is_interpreted: bool
    choice: str = ""
    has_source: bool = True
    atomic: dict[Any, bool | None] = msgspec.field(default_factory=dict)
    """By the kinds of numbers that it was called with."""

    def spelled(self, atomic: bool | None) -> str:
        """Its name, marked if it adds integers in some launches and floats in others."""
        is_harmless = atomic is False and len(set(self.atomic.values())) > 1
        return f"{self.name} (whole numbers)" if is_harmless else self.name


class LaunchedRecord:
    """The launches of one recording; ``on_unseen`` is called before work that may write to any tensor."""

    def __init__(self, attribution: Attribution, blind_spots: BlindSpots, on_unseen: Callable[[], None]) -> None:
        self._attribution, self._sites = attribution, attribution.sites
        self._note = blind_spots.note
        self._on_unseen = on_unseen
        self.values: LaunchValues | None = None
        self._begun: dict[int, tuple[CallDigests, Group, list[weakref.ref[torch.Tensor]]]] = {}
        """By thread: the launch that is under way, which may fail."""
        self._knows_triton = False
        self._kernels: dict[int, tuple[Any, _LaunchedKernel]] = {}
        """By ``id`` of the compiled function, which is kept: it is no tensor."""
        self.launches: dict[Any, CallCounter] = {}
        """Each with its kernel, and whether that adds in an order that varies, as ``extra``."""
        self.is_timing = 0

    def look_again(self) -> None:
        """Watch Triton if it was loaded since."""
        if not self._knows_triton and "triton.runtime.jit" in sys.modules:
            self._knows_triton = True
            WATCHES.look_again()

    def runs(self, call: WatchedCall) -> None:
        if not call.kwargs.get("warmup"):
            named = {**dict(zip(getattr(call.first, "arg_names", ()), call.args[1:], strict=False)), **call.kwargs}
            self.launched(
                call.first, {name: named[name] for name in named if name not in ("grid", "warmup")}, call.frame
            )

    def compiled_runs(self, call: WatchedCall) -> None:
        """A kernel that was compiled ahead of time is launched: ``kernel[grid](...)``."""
        function = getattr(getattr(call.first, "src", None), "fn", None)
        self.launched(function if function is not None else call.first, {}, call.frame)

    def launched(self, function: Any, arguments: dict[str, Any], frame: FrameType | None) -> None:
        """``function`` is launched at ``frame`` with ``arguments``, as far as they are known."""
        node = seams.current_node()
        if self.is_timing or (node is None and get_ident() != self._attribution.modules.thread):
            return
        while frame is not None and self._sites.kind_of(frame.f_code.co_filename) == 0:
            if frame.f_globals.get("__name__", "").startswith(_OWN):
                return
            frame = frame.f_back
        self._on_unseen()
        python = python_function(function)
        tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
        raw = next(((tensor.dtype, tensor.device, tensor.layout, tensor.ndim) for tensor in tensors.values()), None)
        kernel = self._kernel_of(function, python, raw)
        whole = {name: str(tensor.dtype).removeprefix("torch.").startswith(_WHOLE) for name, tensor in tensors.items()}
        kinds = tuple(sorted(whole.items()))
        if kinds not in kernel.atomic:
            try:
                kernel.atomic[kinds] = adds_in_any_order(python, whole)
            except LookupError:
                kernel.atomic[kinds], kernel.has_source = None, False
        if not kernel.has_source:
            self._note(BlindSpotKind.TRITON, f"Triton kernel {kernel.name} was launched", frame)
        where = self._attribution
        origin, _ = where.outside_engine(frame) if node is None else where.inside_engine(node, frame)
        kind = type(node).__name__ if node is not None else ""
        key = (kernel.name, kinds, origin, kind, raw)
        counter = self.launches.get(key)
        if counter is None:
            name = where.node_name(node) if node is not None else ""
            counter = self.launches[key] = CallCounter(origin, raw, None, name, (kernel, kernel.atomic[kinds]))
        counter.count += 1
        if self.values is not None and tensors:
            plain = {name: value for name, value in arguments.items() if isinstance(value, (int, float))}
            numbers = ", ".join(f"{name}={value!r}" for name, value in plain.items())
            if (reading := self.values.before(tensors.values(), numbers)) is not None:
                from tracer.trace.values import Group

                group = Group(op=f"triton.{kernel.name}", **counter.origin.in_words())
                self._begun[get_ident()] = reading, group, [*map(weakref.ref, tensors.values())]

    def ended(self, call: WatchedCall) -> None:
        """The kernel was launched: what it writes is digested behind it."""
        reading, group, tensors = self._begun.pop(get_ident(), (None, None, ()))
        if reading is not None and group is not None and self.values is not None:
            self.values.after(reading, group, [tensor for each in tensors if (tensor := each()) is not None])

    def tuned(self, call: WatchedCall) -> None:
        """Triton's autotuner ran a kernel, and has chosen its configuration."""
        function = autotuner = call.first
        while hasattr(function, "fn") and not inspect.isfunction(function.fn):
            function = function.fn  # below autotuners and heuristics
        entry = self._kernels.get(id(function))
        chosen = getattr(autotuner, "best_config", None)
        if entry is not None and chosen is not None and len(getattr(autotuner, "configs", ())) > 1:
            entry[1].choice = spelled(chosen)

    def _kernel_of(self, function: Any, python: Any, raw: Any) -> _LaunchedKernel:
        if id(function) in self._kernels:
            return self._kernels[id(function)][1]
        name = str(getattr(python or function, "__name__", "unnamed"))
        if any(kernel.name == name for _, kernel in self._kernels.values()):
            name = f"{getattr(python or function, '__module__', '')}.{name}"
        device = "" if raw is None else facts.device_word(raw[1].type)
        kernel = _LaunchedKernel(name, device, type(function).__name__ == "InterpretedFunction")
        self._kernels[id(function)] = (function, kernel)
        return kernel

    def replayed(self, call: WatchedCall) -> None:
        if not any(_INDUCTOR in caller.f_code.co_filename for caller in islice(outwards(call.frame), _NEAR)):
            self._on_unseen()
            self._note(BlindSpotKind.CUDA_GRAPH, "a CUDA graph was replayed", call.frame)

    # --- what a trace holds ---

    def kernels(self) -> tuple[Kernel, ...]:
        spellings = defaultdict[str, list[tuple[_LaunchedKernel, bool | None]]](list)
        for kernel, atomic in (counter.extra for counter in self.launches.values()):
            spellings[kernel.spelled(atomic)].append((kernel, atomic))
        kernels = []
        for name, launched in spellings.items():
            kernel, verdicts = launched[0][0], [atomic for _, atomic in launched]
            kernels.append(
                Kernel(
                    name=name,
                    language=KernelLanguage.USER_TRITON,
                    device=kernel.device,
                    atomic=True if True in verdicts else None if None in verdicts else False,
                    is_parallel=not kernel.is_interpreted,  # the interpreter runs one program after the other
                    choice=kernel.choice,
                    by_stopwatch=True if kernel.choice else None,
                )
            )
        return tuple(kernels)

    def groups(self) -> Iterator[tuple[int, CallGroup]]:
        for counter in self.launches.values():
            kernel, atomic = counter.extra
            group = CallGroup(
                op=f"triton.{kernel.name}",
                **counter.origin.in_words(),
                count=counter.count,
                node=counter.node,
                facts=facts.common_facts(counter.raw),
                kernels=(kernel.spelled(atomic),),
            )
            yield counter.order, group


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


def _watched() -> Iterator[WatchedFunction]:
    for module, name in (("jit", "JITFunction"), ("interpreter", "InterpretedFunction")):
        runs = [(loaded(f"triton.runtime.{module}", name), "run")]
        yield WatchedFunction(runs, before=LaunchedRecord.runs, after=LaunchedRecord.ended)
    yield WatchedFunction(
        [(loaded("triton.compiler.compiler", "CompiledKernel"), "__getitem__")], before=LaunchedRecord.compiled_runs
    )
    autotuner = loaded("triton.runtime.autotuner", "Autotuner")
    yield WatchedFunction([(autotuner, "_bench")], around=_timed)
    yield WatchedFunction([(autotuner, "run")], after=LaunchedRecord.tuned)
    yield WatchedFunction([(loaded(*compile_seams.CUDA_GRAPH), "replay")], before=LaunchedRecord.replayed)


#: The watches of this process.
WATCHES: Watchers[LaunchedRecord] = Watchers(_watched)
