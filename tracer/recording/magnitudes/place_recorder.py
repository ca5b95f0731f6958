"""Takes magnitudes at the places of a training step: modules, losses, gradients, parameters, compiled regions."""

from __future__ import annotations

import sys
import weakref
from _thread import get_ident
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from types import FrameType
from typing import Any, TypeVar

import msgspec
import torch
from msgspec.structs import replace
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._pytree import tree_leaves

from tracer.facts import Args, Kwargs
from tracer.names import OWN_CODE, Phase, PlaceKind
from tracer.recording.calls import DRAW
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.compiled.executions import RegionObserver, RegionRun
from tracer.recording.magnitudes import DeviceSketch, Measured, Part, Sketch, measured, part_of, storage_of
from tracer.recording.magnitudes.batch_rows import BatchRows, PartRows, contents_of
from tracer.recording.magnitudes.naming import Naming
from tracer.recording.observers import Interest, Observer
from tracer.recording.options import PlaceOptions
from tracer.recording.origin import placed
from tracer.recording.origin.attribution import Attribution
from tracer.recording.origin.modules import OWN_HOOK, ModuleStack
from tracer.recording.patching import WatchedCall, WatchedFunction, Watchers
from tracer.recording.torch_private import seams
from tracer.recording.values import unseen
from tracer.recording.values.call_values import ValuesFile, default_states, drawn_before
from tracer.recording.values.moments import leaves
from tracer.trace.values import Form, PlaceName
from tracer.trace.values.places import REGION_DRAW, STATE_NOTED

_getframe = sys._getframe
_Tensor = torch.Tensor
_Read = TypeVar("_Read")
#: Tensors of one input or output that are followed.
_MOST_LEAVES = 64
#: Rows that wait for a device before it is waited for.
_MOST_WAITING = 2048
#: Wrappers whose child is the module that they wrap: two configurations may differ in them alone.
_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_WRAPPING = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "OptimizedModule")
#: Those whose places are their child's, which they call with what they were called with.
_CALLING = ("DistributedDataParallel", "DataParallel")


class _Running(msgspec.Struct, eq=False):
    module: torch.nn.Module
    path: str
    phase: Phase
    site: dict[str, str]
    undo: Callable[[], Any] = lambda: None
    """Takes away the hook that follows its own hooks, if there is one."""
    is_followed: bool = False

    def place(self, kind: PlaceKind, name: str, phase: Phase | None = None) -> PlaceName:
        """The place of an input, an output or the gradient of one."""
        return PlaceName(kind=kind, module=self.path, name=name, phase=phase or self.phase, **self.site)


class PlaceRecorder(RegionObserver):
    """Records magnitudes in ``file`` from ``start`` to ``stop``, any number of times."""

    def __init__(
        self, file: ValuesFile, attribution: Attribution, places: PlaceOptions, rank: int | None, world_size: int | None
    ) -> None:
        self.file = file
        self.calls_of = places.calls_of
        """A module whose single calls are places too."""
        self._attribution = attribution
        self._modules = attribution.modules
        self._naming = Naming(places) if places.names_of else None
        self._batch_rows: BatchRows | None = None
        if places.rows_of:
            is_class_here = not self._modules.model_class
            self._batch_rows = BatchRows(places, rank or 0, world_size or 1, is_class_here=is_class_here)
        self.gradients = GradientFollower(self, attribution.modules)
        self._optimizer = attribution.optimizer
        self._sites = attribution.sites
        self._running: list[_Running] = []
        self._handles: list[Any] = []
        self._counts: Counter[Any] = Counter()
        self._initial: set[Any] = set()
        """The parameters and buffers that were recorded as they were initially."""
        self._rows: dict[int, tuple[weakref.ref[torch.Tensor], int, int, Form, int]] = {}
        """By ``id`` of a tensor whose row was written in this step: itself, its version, row, form and offset."""
        self._waiting: list[tuple[PlaceName, Form, int, int, Sketch | DeviceSketch | None, int, int]] = []
        self._optimizers: list[tuple[weakref.ref[Any], dict[str, Any]]] = []
        self._known_modules = -1

    # --- beginning and end ---

    def start(self) -> None:
        self._handles = [
            register_module_forward_pre_hook(self._hook(self._enters)),
            register_module_forward_hook(self._hook(self._leaves), always_call=True),
        ]
        self._optimizer.before_step.append(self._before_step)
        _RECORDERS.add(self)

    def stop(self) -> None:
        _RECORDERS.discard(self)
        for handle in self._handles:
            handle.remove()
        self._handles = []
        with suppress(ValueError):
            self._optimizer.before_step.remove(self._before_step)
        while self._running:
            self._running.pop().undo()
        if self.file.writer is not None:
            self._note_states()
            self._record_gradients((self.name_of(parameter), parameter) for parameter in self.gradients.unread())
        self.gradients.forget()
        self._settle()
        self._rows.clear()

    def step_ended(self) -> None:
        self._note_states()
        for reference, site in self._optimizers:
            with suppress(Exception):  # a user's optimizer may keep anything, and be gone
                self._after_step(reference(), site)
        self._optimizers.clear()
        self._settle()
        self._counts.clear()
        self._rows.clear()

    # --- modules ---

    def _hook(self, tell: Callable[..., None]) -> Callable[..., None]:
        def hook(module: torch.nn.Module, *arguments: Any) -> None:
            if is_compiling() or self.file.writer is None:
                return
            if get_ident() != self._modules.thread and seams.graph_task_id() == -1:
                return
            with suppress(Exception):  # what a program passes may refuse to be read
                tell(module, _getframe(1), *arguments)

        setattr(hook, OWN_HOOK, True)
        return hook

    def _enters(self, module: torch.nn.Module, frame: FrameType, inputs: Any) -> None:
        scope = self._modules.scope
        if not scope.is_module or seams.is_compiled_module(module) or seams.is_generated_module(module):
            return
        if type(module).__name__ in _CALLING:
            return
        phase = Phase.RECOMPUTE if seams.graph_task_id() != -1 else Phase.FORWARD
        site = placed(self._sites.innermost(frame), scope.called_from)
        running = _Running(module, self.spelt(scope.path), phase, site)
        is_outermost = not self._running
        if is_outermost:
            self._note_new_modules()
        self._running.append(running)
        if module._forward_hooks:
            self._follow_hooks(running)
        named = frame.f_locals.get("kwargs") or {}
        with unseen():
            tensors = [*_tensors(inputs), *_tensors(named)]
            if is_outermost and phase is Phase.FORWARD:
                self._note_rows(running, tensors, len([*_tensors(inputs)]))
            for name, tensor in tensors:
                self.record(running.place(PlaceKind.INPUT, name), tensor, shared=True)

    def _note_rows(self, running: _Running, tensors: list[tuple[str, torch.Tensor]], positional: int) -> None:
        """The rows that the program itself hands to a module."""
        contents = contents_of(running.module, positional, tensors)
        if contents is None:
            return
        mode = "" if running.module.training else "evaluating"
        place = replace(running.place(PlaceKind.ROWS, mode), module=self.called(running.path)[0])
        sketch: Any = DeviceSketch(flat := contents.reshape(-1), flat.new_zeros(3))
        if flat.is_cpu:
            sketch = sketch.read()
        self._write(place, Form("rows", tuple(contents.shape)), self._occurrence(place.key), sketch=sketch)
        if self._batch_rows is not None:
            self._batch_rows.enters(place, self.file.step, contents)

    def _follow_hooks(self, running: _Running) -> None:
        """Register a forward hook that runs after the module's own hooks in this call."""
        hooks, key = running.module._forward_hooks, id(running)

        def last(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            hooks.pop(key, None)
            running.is_followed = False
            with suppress(Exception):
                self._returns(running, output)

        setattr(last, OWN_HOOK, True)
        hooks[key] = last
        running.undo, running.is_followed = partial(hooks.pop, key, None), True

    def _leaves(self, module: torch.nn.Module, frame: FrameType, inputs: Any, output: Any) -> None:
        if not any(running.module is module for running in self._running):
            return
        while (running := self._running.pop()).module is not module:
            running.undo()  # it was left without its hook
        if not running.is_followed:
            self._returns(running, output)
        elif sys.exc_info()[0] is not None and output is None:
            running.undo()

    def _returns(self, running: _Running, output: Any) -> None:
        with unseen():
            for name, tensor in _tensors(output):
                if tensor.is_floating_point():
                    self.record(running.place(PlaceKind.OUTPUT, name), tensor, shared=True)
                    self._follow_gradient(running, name, tensor)

    def _follow_gradient(self, running: _Running, name: str, tensor: torch.Tensor) -> None:
        """Let the node that made an output tell the gradient that enters it. The graph stays as it is: a view whose
        base was written since would get a new node by being asked for it."""
        if running.phase is not Phase.FORWARD or not tensor.requires_grad or (tensor._is_view() and tensor._version):
            return
        node, number = tensor.grad_fn, tensor.output_nr
        if node is None:
            return
        place = running.place(PlaceKind.OUTPUT_GRADIENT, name, Phase.BACKWARD)
        occurrence = self._occurrence(("ahead", place.key))
        waits = [True]

        def tell(gradients: tuple[torch.Tensor | None, ...]) -> None:
            gradient = gradients[number]
            if waits and gradient is not None:
                waits.clear()  # a second pass through the same graph is another place in no run
                with suppress(Exception), unseen():
                    self.record(place, gradient, shared=True, occurrence=occurrence)

        node.register_prehook(tell)

    def _note_new_modules(self) -> None:
        """The parameters and buffers of modules that were met since, as they are before their first call; each once, as
        a ``forward`` that makes a module, such as a loss, says nothing new of those that were trained since."""
        if self._known_modules == self._modules.count:
            return
        seen: set[int] = set()
        with unseen():
            for path, module in self._modules.alive():
                for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                    if not isinstance(tensor, _Tensor) or not tensor.is_floating_point() or id(tensor) in seen:
                        continue
                    seen.add(id(tensor))
                    place = PlaceName(kind=PlaceKind.INITIAL, module=self.spelt(path), name=name, phase=Phase.OTHER)
                    if place.key not in self._initial:
                        self._initial.add(place.key)
                        self.record(place, tensor)
        self._known_modules = self._modules.count

    # --- losses, gradients, parameters ---

    def differentiates(self, call: WatchedCall) -> None:
        """``backward`` is called on a tensor, or on several; not by a checkpoint inside another backward pass."""
        if seams.graph_task_id() != -1:
            return
        self.gradients.forget()
        self._note_states()
        losses = call.first if isinstance(call.first, (list, tuple)) else (call.first,)
        site = self._line(call.frame)
        with unseen():
            for tensor in losses:
                if isinstance(tensor, _Tensor) and tensor.is_floating_point():
                    self.record(PlaceName(kind=PlaceKind.LOSS, phase=Phase.OTHER, **site), tensor)

    def differentiated(self, call: WatchedCall) -> None:
        if seams.graph_task_id() == -1:
            with unseen():
                self.gradients.backward_ended()

    def _record_gradients(self, parameters: Iterable[tuple[tuple[str, str], torch.Tensor]]) -> None:
        with suppress(Exception), unseen():
            for name, parameter in tuple(parameters):
                self.gradients.record(name, parameter)

    def _before_step(self, optimizer: Any) -> None:
        if not any(reference() is optimizer for reference, _ in self._optimizers):
            self._optimizers.append((weakref.ref(optimizer), self._line(_getframe(1))))
        self._record_gradients(self._parameters(optimizer))

    def _line(self, frame: FrameType | None) -> dict[str, Any]:
        return placed(self._sites.innermost(frame), self._sites.users_own(frame))

    def _after_step(self, optimizer: Any, site: dict[str, Any]) -> None:
        with unseen():
            for (module, name), parameter in self._parameters(optimizer):
                place = PlaceName(kind=PlaceKind.PARAMETER, module=module, name=name, phase=Phase.OPTIMIZER, **site)
                self.record(place, parameter)
                for key, value in (optimizer.state.get(parameter) or {}).items():
                    if isinstance(value, _Tensor) and value.is_floating_point() and value.numel() > 1:
                        self.record(replace(place, kind=PlaceKind.STATE, name=f"{key} of {name}"), value)

    def _parameters(self, optimizer: Any) -> Iterator[tuple[tuple[str, str], torch.Tensor]]:
        for number, group in enumerate(optimizer.param_groups):
            for index, parameter in enumerate(group["params"]):
                module, name = self.name_of(parameter)
                yield (module, name or f"parameter {index} of group {number}"), parameter

    def name_of(self, parameter: torch.Tensor) -> tuple[str, str]:
        """The module's path and the name of a parameter; empty for other tensors."""
        full, path = self._modules.parameter(parameter)
        return self.spelt(path), full.removeprefix(path).lstrip(".")

    # --- compiled regions: a ``RegionObserver`` ---

    def before(self, run: RegionRun, compiled: Any, inputs: Any) -> RegionRun | None:
        self._region(run, "input", inputs)
        for generator in run.draws:
            self.draws(REGION_DRAW, generator, 0, (), **placed(run.site, run.called_from))
        return run

    def after(self, begun: RegionRun | None, result: Any) -> None:
        if begun is not None:
            self._region(begun, "output", result if isinstance(result, (tuple, list)) else (result,))

    def _region(self, run: RegionRun, what: str, tensors: Any) -> None:
        phase = Phase.OPTIMIZER if run.in_optimizer else Phase.BACKWARD if run.in_engine else Phase.FORWARD
        module, site = self.spelt(run.scope.path), placed(run.site, run.called_from)
        with suppress(Exception), unseen():
            for index, tensor in enumerate(tensors):
                if isinstance(tensor, _Tensor) and tensor.is_floating_point():
                    name = f"[{run.code.direction} {what} {index}]"
                    self.record(PlaceName(kind=PlaceKind.REGION, module=module, name=name, phase=phase, **site), tensor)

    def running(self, node: Any = None) -> tuple[str, ...]:
        """What the module is called that runs, or that made an autograd node; empty: none."""
        if node is not None:
            return self.called(self._attribution.inside_engine(node, _getframe(1))[0].scope.path)
        return self.called(self._modules.scope.path)

    def called(self, path: str) -> tuple[str, ...]:
        path = self.spelt(path)
        return (path,) if self._naming is None else self._naming.of(path)

    def named(self, place: PlaceName, tensor: torch.Tensor) -> Sequence[tuple[PlaceName, torch.Tensor]]:
        """The places that a tensor is recorded at: several where it holds together what has places of its own."""
        return [(place, tensor)] if self._naming is None else self._naming.places(place, tensor)

    # --- decisions ---

    def place_of_decision(self, name: str) -> PlaceName:
        node = seams.current_node()
        phase = Phase.FORWARD if node is None else Phase.BACKWARD
        site = {} if node is not None else placed(self._sites.innermost(_getframe(1)), self._modules.scope.called_from)
        return PlaceName(kind=PlaceKind.DECISION, module=self.running(node)[0], name=name, phase=phase, **site)

    def decides(self, place: PlaceName, tensor: torch.Tensor, number: int, occurrence: int) -> None:
        """A call decides by ``tensor``, the argument with this ``number`` among floating ones."""
        name = f"{place.name} #{number}" if number else place.name
        self.record(replace(place, name=name), tensor, occurrence=occurrence)

    def falls_otherwise(self, place: PlaceName, count: int, of: int, occurrence: int) -> None:
        """It would have decided ``count`` of ``of`` values otherwise than the run that it follows."""
        self._write(replace(place, kind=PlaceKind.FLIP), Form("decisions", (count, of)), occurrence)

    # --- draws ---

    def draws(self, op: str, generator: str, state: int, shape: tuple[int, ...] = (), **site: str) -> None:
        """``op`` draws from ``generator``, whose state has this digest before."""
        place = PlaceName(kind=PlaceKind.DRAW, name=op, phase=Phase.OTHER, **site)
        self._write(place, Form(generator, shape), 0, bits=state)

    def _note_states(self) -> None:
        """Where the generators stand: compiled code draws without a call, and perhaps what eager code would."""
        for name, state in default_states().items():
            self.draws(STATE_NOTED, name, state)

    # --- rows ---

    def record(
        self, place: PlaceName, tensor: torch.Tensor, *, shared: bool = False, occurrence: int | None = None
    ) -> None:
        """Write a row. ``shared``: another place of this step may hold the very tensor, which is not read again."""
        if self.file.writer is None or not tensor.numel():
            return
        for own, piece in self.named(place, tensor):
            number = self._occurrence(own.key) if occurrence is None else occurrence
            part = _readable(part_of, piece)
            several = [PartRows([] if part is None else [part], number)]
            if self._batch_rows is not None and part is not None:
                several = self._batch_rows.rows(own, self.file.step, number, part)
            for parts, number in several:
                self._record(own, piece, number, parts, shared=shared)

    def _record(
        self, place: PlaceName, tensor: torch.Tensor, occurrence: int, parts: list[Part], *, shared: bool
    ) -> None:
        if shared and parts and (known := self._rows.get(id(tensor))) is not None:
            reference, version, same, form, offset = known
            is_same = reference() is tensor and version == tensor._version
            if is_same and (form.shape, offset) == (parts[0].shape, parts[0].offset):
                self._write(place, form, occurrence, same)
                return
        found = _readable(measured, *parts) if parts else None
        row = self.put(place, tensor, found, occurrence=occurrence)
        if shared and found is not None:
            self._rows[id(tensor)] = (weakref.ref(tensor), tensor._version, row, found.form, found.offset)

    def measure(self, tensor: torch.Tensor) -> Measured | None:
        part = _readable(part_of, tensor)
        return None if part is None else _readable(measured, part)

    def put(
        self,
        place: PlaceName,
        tensor: torch.Tensor,
        found: Measured | None,
        same: int = -1,
        occurrence: int | None = None,
    ) -> int:
        """Write a row of what was measured of ``tensor``; ``same``: the row that holds it. Its number."""
        row = 0 if self.file.writer is None else self.file.writer.places + len(self._waiting)
        if not tensor.numel():
            return row
        occurrence = self._occurrence(place.key) if occurrence is None else occurrence
        if found is None:
            self._write(place, Form(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)), occurrence)
        elif found.form.held != 0 and same >= 0:
            self._write(place, found.form, occurrence, same)
        elif found.form.held != 0:
            self._write(place, found.form, occurrence, sketch=found.sketch, bits=found.bits, offset=found.offset)
        return row

    def _occurrence(self, of: Any) -> int:
        self._counts[of] += 1
        return int(self._counts[of]) - 1

    def _write(
        self,
        place: PlaceName,
        form: Form,
        occurrence: int,
        same: int = -1,
        sketch: Sketch | DeviceSketch | None = None,
        bits: int = 0,
        offset: int = 0,
    ) -> None:
        if self.file.writer is None:
            return  # a forked child
        if self._waiting or isinstance(sketch, DeviceSketch):
            self._waiting.append((place, form, occurrence, same, sketch, bits, offset))
            if len(self._waiting) >= _MOST_WAITING:
                self._settle()
        elif sketch is None:
            self.file.writer.place(place, form, occurrence, same=same, magnitudes=(0.0, 0.0, 0, bits))
        else:
            sums, magnitudes = sketch.sums.tobytes(), (*sketch.extent, bits)
            self.file.writer.place(place, form, occurrence, sums=sums, offset=offset, magnitudes=magnitudes)

    def _settle(self) -> None:
        """Read what lies on devices, and write what waited for it."""
        waiting, self._waiting = self._waiting, []
        with unseen():
            for place, form, occurrence, same, sketch, *rest in waiting:
                on_host = sketch.read() if isinstance(sketch, DeviceSketch) else sketch
                self._write(place, form, occurrence, same, on_host, *rest)

    @staticmethod
    def spelt(path: str) -> str:
        """A module's path without wrappers, so that a wrapped model's places are those of the model."""
        parts = [part for part in path.split(".") if part not in _WRAPPERS]
        if parts[1:2] == ["module"] and parts[0] in _WRAPPING:
            del parts[1]
        return ".".join(parts)


def _tensors(value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of an input or output with their names. A single one has none, and nor has the first of several."""
    tensors = ((name, leaf) for name, leaf in leaves(value, "") if isinstance(leaf, _Tensor))
    return (("" if name == "[0]" else name, leaf) for name, leaf in islice(tensors, _MOST_LEAVES))


_RECORDERS: Watchers[PlaceRecorder] = Watchers(
    lambda: [
        WatchedFunction(
            [(torch.autograd, "backward")], before=PlaceRecorder.differentiates, after=PlaceRecorder.differentiated
        )
    ]
)


def _readable(read: Callable[..., _Read | None], *arguments: Any) -> _Read | None:
    """What ``read`` returns; ``None`` for elements that cannot be read."""
    with suppress(RuntimeError, TypeError, NotImplementedError):
        return read(*arguments)
    return None


class Draws(Observer):
    """Gives every call that draws from a generator to ``recorder``, with the generator's state before it."""

    def __init__(self, recorder: PlaceRecorder) -> None:
        self._recorder = recorder

    def wants(self, info: OverloadInfo) -> Interest:
        return DRAW in info.readers

    def before(
        self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs
    ) -> tuple[str, int] | None:
        return drawn_before(info, asked, args, kwargs)

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Kwargs, result: Any, frame: Any
    ) -> None:
        if begun is not None:
            shape = tuple(getattr(result, "shape", ()))
            self._recorder.draws(info.name, begun[0], begun[1], shape, **counter.origin.line())


class CallPlaces(Observer):
    def __init__(self, recorder: PlaceRecorder) -> None:
        self._recorder = recorder
        self._module = recorder.calls_of

    def wants(self, info: OverloadInfo) -> Interest:
        """Every call: where it is made decides. What unwritten memory holds is no result."""
        return not info.access.allocates

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Kwargs, result: Any, frame: Any
    ) -> None:
        words = counter.origin.in_words()
        module = words["module"] = self._recorder.called(words["module"])[0]
        is_inside = module.startswith(f"{self._module}.") and not self._module.endswith(OWN_CODE)
        if module != self._module.removesuffix(OWN_CODE) and not is_inside:
            return
        with unseen():
            for path, tensor in leaves(result, ""):
                if getattr(tensor, "is_floating_point", bool)():
                    place = PlaceName(kind=PlaceKind.CALL, name=f"{info.name}{path}", **words)
                    self._recorder.record(place, tensor)


class _Left(msgspec.Struct, eq=False):
    parameter: weakref.ref[torch.Tensor]
    measured: list[Measured | None] | None = None
    """Of each of its parts, before a call touched it."""
    line: dict[str, Any] = {}


class GradientFollower(Observer):
    """Follows the gradients of all parameters from one backward pass to the step that reads them."""

    def __init__(self, rows: PlaceRecorder, modules: ModuleStack) -> None:
        self._rows = rows
        self._modules = modules
        self._left: dict[int, _Left] = {}
        self._in: dict[int, list[_Left]] = {}
        self._derived: dict[int, dict[str, Any]] = {}
        """Storages of what was computed from gradients, with its line."""

    def backward_ended(self) -> None:
        self.forget()
        for parameter in (each for _, module in self._modules.alive() for each in module._parameters.values()):
            if parameter is None or parameter.grad is None or not parameter.is_leaf:
                continue
            if (part := part_of(parameter.grad)) is not None and id(parameter) not in self._left:
                left = self._left[id(parameter)] = _Left(weakref.ref(parameter))
                self._in.setdefault(storage_of(part.local), []).append(left)

    def forget(self) -> None:
        self._left.clear()
        self._in.clear()
        self._derived.clear()

    def unread(self) -> Iterator[torch.Tensor]:
        """Parameters whose gradient no step has read since."""
        parameters = [left.parameter() for left in self._left.values()]
        return (parameter for parameter in parameters if parameter is not None)

    def record(self, name: tuple[str, str], parameter: torch.Tensor) -> None:
        """The gradient as backward left it, and as it is now with the line that changed it last."""
        gradient = parameter.grad
        if gradient is None:
            return
        left = self._left.pop(id(parameter), None)
        if not self._left:
            self._in.clear()
        line = (None if left is None else left.line) or self._derived.get(storage_of(gradient), {})
        for at, (place, piece) in enumerate(self._places(name, gradient)):
            before = None if left is None or left.measured is None else left.measured[at]
            now = self._rows.measure(piece)
            row = self._rows.put(place, piece, before or now)
            is_same = before is None or (now is not None and 0 != before.bits == now.bits)
            place = replace(place, phase=Phase.OPTIMIZER, **line)
            self._rows.put(place, piece, now, row if is_same else -1)

    def _places(self, name: tuple[str, str], gradient: torch.Tensor) -> Sequence[tuple[PlaceName, torch.Tensor]]:
        place = PlaceName(kind=PlaceKind.GRADIENT, module=name[0], name=name[1], phase=Phase.BACKWARD)
        return self._rows.named(place, gradient)

    # --- calls ---

    def wants(self, info: OverloadInfo) -> Interest:
        """Calls that are made while there are gradients that no step has read."""
        return self._in

    def before(self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs) -> bool:
        """Measure gradients that the call is the first to touch; returns whether it touches any."""
        if counter is None or seams.graph_task_id() != -1:
            return False
        touched = False
        with suppress(Exception), unseen():
            written = {*map(id, info.access.written_tensors(args, kwargs))} if info.mutates else set()
            for tensor in _tensors_in((args, kwargs)):
                storage = storage_of(tensor)
                touched = touched or storage in self._derived
                for left in self._in.get(storage, ()):
                    touched = True
                    parameter = left.parameter()
                    if left.measured is None and parameter is not None and parameter.grad is not None:
                        places = self._places(self._rows.name_of(parameter), parameter.grad)
                        left.measured = [self._rows.measure(piece) for _, piece in places]
                    if id(tensor) in written:
                        left.line = counter.origin.line()
        return touched

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Kwargs, result: Any, frame: Any
    ) -> None:
        """What was computed from a gradient may become the gradient."""
        if not begun:
            return
        with suppress(Exception):
            read = {storage_of(tensor) for tensor in _tensors_in((args, kwargs))}
            for tensor in _tensors_in(result):
                if (storage := storage_of(tensor)) not in read:
                    self._in[storage] = []  # a gradient's, perhaps, which is gone: its memory is given anew
                if not self._in.get(storage):
                    self._derived[storage] = counter.origin.line()


def _tensors_in(values: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, _Tensor))
