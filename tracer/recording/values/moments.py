"""Digests of states: parameters, gradients, optimizer states, generators, batches.

They are read before each optimizer step, when the module or optimizer that holds them is freed, and when the recording
ends. Reading draws nothing, initializes no device and keeps no tensor alive.
"""

from __future__ import annotations

import gc
import marshal
import random
import struct
import sys
import weakref
from _thread import get_ident
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from typing import Any

import torch

from tracer.recording.origin.modules import ModuleStack, joined
from tracer.recording.randomness.own_generators import words_as_bytes
from tracer.recording.torch_private import seams
from tracer.recording.values import digest as digest_of
from tracer.recording.values import digest_bytes
from tracer.recording.values.call_values import CallValues, Named, default_states
from tracer.trace.values import ValueKind, ValuesWriter, fold
from tracer.trace.values.columns import NO_DIGEST, text_digest

_Tensor = torch.Tensor
_NUMBERS = (int, float, bool, complex, str, type(None))
_DOUBLE = struct.Struct("<d")
#: Fields of a scheduler or a scaler that are read at most.
_MOST_FIELDS = 64
#: Modules and optimizers whose last state is kept.
_MOST_OWNERS = 100_000

State = tuple[ValueKind, str, Any]
"""A state's kind and name, and a tensor or a number."""


class _Owner:
    """A module or an optimizer, digested as it is freed: ``parts`` live until its weak reference's callback ran."""

    def __init__(self, thing: Any, states: Callable[..., Iterator[State]], is_recorded: bool, **parts: Any) -> None:
        self.parts = parts
        self.is_recorded = is_recorded
        """Whether a recorded thread met it, and not others alone."""
        self._states = states
        self._last: list[State] | None = None
        """Its states as it died, digested; ``None`` while it lives."""
        self.with_nan: set[tuple[ValueKind, str]] = set()
        """Those of its last states that hold NaN, as far as they were read on the host, or while it lived."""
        self.ref = weakref.ref(thing, self._die)

    def _die(self, _: object) -> None:
        last: list[State] = []
        with suppress(Exception):  # a state of somebody's may refuse to be read
            for kind, name, state in self._read():  # no device is waited for when a state is freed: 0
                last.append((kind, name, 0 if isinstance(state, _Tensor) else state))
        self._last = last
        self.parts.clear()

    def read(self) -> Iterable[State]:
        """Its last states: digests, and tensors of a device."""
        if self._last is None:
            self.with_nan.clear()
        return self._read(waits=True) if self._last is None else self._last

    def _read(self, *, waits: bool = False) -> Iterator[State]:
        for kind, name, state in self._states(**self.parts):
            is_on_device = isinstance(state, _Tensor) and not state.is_cpu
            if (waits or not is_on_device) and _holds_nan(state):
                self.with_nan.add((kind, name))
            yield kind, name, state if is_on_device else _digest(state)

    def tensors(self) -> Iterator[torch.Tensor]:
        with suppress(Exception):
            yield from (state for _, _, state in self._states(**self.parts) if isinstance(state, _Tensor))


def _holds_nan(state: Any) -> bool:
    """Whether a number or any element is NaN; the minimum is NaN if any element is."""
    if not isinstance(state, _Tensor):
        return isinstance(state, float) and state != state
    if not seams.is_dense(state) or not state.is_floating_point() or not state.numel():
        return False
    with suppress(NotImplementedError, RuntimeError), seams.without_modes(), seams.without_torch_function():
        return bool(state.detach().amin().isnan())
    return False


def _digest(state: Any) -> int:
    return digest_of(state) or 0 if isinstance(state, _Tensor) else text_digest(repr(state))


class MomentWriter:
    def __init__(self, calls: CallValues, modules: ModuleStack) -> None:
        self._calls = calls
        self._modules = modules
        self._batches: dict[int, Named] = {}
        self._owned: dict[int, Named] = {}
        self._module_count = 0
        self._owners: list[_Owner] = []
        """Modules and optimizers that were met, in that order; other threads add to it."""
        self._owner_by_id: dict[int, _Owner] = {}
        self._owned_modules = 0
        self.has_unrecorded_threads: Callable[[], bool] = lambda: False
        self._losses: list[Any] = []
        """Of this step: numbers, and copies of tensors that lie on a device."""
        self.left_behind: Callable[[], Iterable[tuple[ValueKind, str, int, int]]] = tuple
        """Further results that a run leaves when the recording ends: kind, name, digest and position."""

    def named(self, tensor: torch.Tensor) -> Named:
        """The kind, name and position of a tensor that no recorded call produced."""
        name, _ = self._modules.parameter(tensor)
        if name or isinstance(tensor, torch.nn.Parameter):
            return ValueKind.PARAMETER, name, -1
        batch = self._batches.get(seams.storage_id(tensor))
        if batch is not None:
            return batch
        if self._module_count != self._modules.count:
            self._module_count = self._modules.count
            states = reversed([*self._states()])  # a shared one's first name comes last
            self._owned = {seams.storage_id(owned): (kind, path, -1) for kind, path, owned in states}
        return self._owned.get(seams.storage_id(tensor), (ValueKind.OUTSIDE, "", -1))

    def _states(self) -> Iterator[State]:
        for path, module in self._modules.alive():
            yield from _states_of_module(path, module._parameters, module._buffers)

    def write(self, kind: ValueKind, name: str, digest: int, position: int = -1, text: str = "") -> None:
        if self._calls.file.writer is not None:
            self._calls.file.writer.moment(kind, name, digest, position, text)

    def _put(self, kind: ValueKind, name: str, value: Any) -> None:
        """Write a state that is a tensor or a number."""
        if isinstance(value, _Tensor):
            self._calls.moment(kind, name, value)
        elif isinstance(value, _NUMBERS) and kind is not ValueKind.GRADIENT:
            self.text(kind, name, repr(value))

    def text(self, kind: ValueKind, name: str, text: str) -> None:
        self.write(kind, name, text_digest(text), text=text)

    def before_step(self, optimizer: Any) -> None:
        is_recorded = get_ident() == self._modules.thread or seams.graph_task_id() != -1
        self._follow_optimizer(optimizer, is_recorded=is_recorded)
        if not is_recorded:
            return  # threads step in any order
        self._follow_modules()
        for number, group in enumerate(optimizer.param_groups):
            for key, value in group.items():
                if key == "lr" or isinstance(value, _Tensor):
                    self._put(ValueKind.HYPERPARAMETER, f"{key} of group {number}", value)
            others = (f"{key}={value!r}" for key, value in group.items() if key != "lr" and _is_numbers(value))
            self.text(ValueKind.HYPERPARAMETER, f"others of group {number}", ", ".join(others))
            states = [(parameter, optimizer.state.get(parameter) or {}) for parameter in group["params"]]
            dtypes: dict[str, dict[str, None]] = {}
            for key, value in (entry for _, state in states for entry in state.items()):
                if isinstance(value, _Tensor):
                    dtypes.setdefault(key, {})[str(value.dtype).removeprefix("torch.")] = None
            for key, several in dtypes.items():
                self.text(ValueKind.OPTIMIZER_STATE, f"{key} of group {number}", ", ".join(several))
            for place, (parameter, state) in enumerate(states):
                name = self._modules.parameter(parameter)[0] or f"parameter {place} of group {number}"
                self._put(ValueKind.PARAMETER, name, parameter)
                self._put(ValueKind.GRADIENT, name, parameter.grad)
                for key, value in state.items():
                    self._put(ValueKind.OPTIMIZER_STATE, f"{key} of {name}", value)
        for kind, name, tensor in self._states():
            if kind is ValueKind.BUFFER:
                self._calls.moment(kind, name, tensor)
        self.generators()

    def at_the_end(self) -> None:
        """The last state of every module and optimizer, dead ones too, read anew: unrecorded writes show here."""
        writer = self._calls.file.writer
        if writer is None:
            return
        self._follow_modules()
        self._write_unrecorded(writer)
        times: Counter[tuple[ValueKind, str]] = Counter()
        for owner in [owner for owner in self._owners if owner.is_recorded]:
            with suppress(Exception):  # a module of somebody's may refuse to be read
                for kind, name, state in owner.read():
                    unique = _numbered(times, kind, name)
                    if isinstance(state, _Tensor):
                        self._calls.moment(kind, unique, state)
                    else:
                        writer.moment(kind, unique, state)
                    if (kind, name) in owner.with_nan:
                        writer.moment(ValueKind.NAN, kind.of(unique), 1)
        self.generators()
        for kind, name, digest, position in self.left_behind():
            writer.moment(kind, name, digest, position)

    def runs_unrecorded(self, module: torch.nn.Module) -> None:
        """``module`` runs on a thread that is not recorded: its last state is compared, at least."""
        owner = self._owner_of(module)
        if owner is not None and not owner.is_recorded:
            return
        for name, inner in module.named_modules():
            if self._owner_of(inner) is None:
                self._follow_module(joined(type(module).__name__, name), inner, is_recorded=False)

    def _write_unrecorded(self, writer: ValuesWriter) -> None:
        """The last states of modules that ran on other threads alone, of optimizers that these stepped first, and of
        what no module holds, in the order of their digests: threads meet them in any order."""
        states: list[State] = []
        for owner in self._owners:
            with suppress(Exception):
                if not owner.is_recorded:
                    states += ((kind, f"{name} (other threads)", state) for kind, name, state in owner.read())
        if self.has_unrecorded_threads():
            owned_ids = {id(tensor) for owner in self._owners for tensor in owner.tensors()}
            for leaf in _leaf_tensors(owned_ids):
                name = f"a tensor of shape {list(leaf.shape)} that requires a gradient"
                states.append((ValueKind.PARAMETER, name, _digest(leaf)))
        digested = [(kind, name, state) for kind, name, state in states if not isinstance(state, _Tensor)]
        times: Counter[tuple[ValueKind, str]] = Counter()
        for kind, name, digest in sorted(digested):
            writer.moment(kind, _numbered(times, kind, name), digest)

    def _owner_of(self, thing: Any) -> _Owner | None:
        owner = self._owner_by_id.get(id(thing))
        return owner if owner is not None and owner.ref() is thing else None

    def _follow_modules(self) -> None:
        if self._owned_modules == self._modules.count:
            return
        self._owned_modules = self._modules.count
        for path, module in self._modules.alive():
            owner = self._owner_of(module)
            if owner is not None and not owner.is_recorded:
                self._owners.remove(owner)
                owner = None
            if owner is None and (module._parameters or module._buffers):
                self._follow_module(path, module, is_recorded=True)

    def _follow_optimizer(self, optimizer: Any, *, is_recorded: bool) -> None:
        """Follow ``optimizer`` from its first step on; loading its state gives it other lists."""
        owner = self._owner_of(optimizer)
        if owner is None:
            parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
            names = {id(parameter): self._modules.parameter(parameter)[0] for parameter in parameters}
            owner = _Owner(optimizer, _states_of_optimizer, is_recorded, names=names)
            self._follow(optimizer, owner)
        owner.parts.update(groups=optimizer.param_groups, state=optimizer.state)

    def _follow_module(self, path: str, module: torch.nn.Module, *, is_recorded: bool) -> None:
        parts = {"parameters": module._parameters, "buffers": module._buffers}
        self._follow(module, _Owner(module, _states_of_module, is_recorded, path=path, **parts))

    def _follow(self, thing: Any, owner: _Owner) -> None:
        if len(self._owners) < _MOST_OWNERS:
            self._owners.append(owner)
            self._owner_by_id[id(thing)] = owner

    def generators(self) -> None:
        """Every generator that exists: torch's, Python's, NumPy's if it is loaded."""
        for name, digest in default_states().items():
            self.write(ValueKind.GENERATOR, name, digest)
        self.host_generators()

    def host_generators(self) -> None:
        state = words_as_bytes(random.getstate())
        self.write(ValueKind.GENERATOR, "python", digest_bytes(marshal.dumps(state, 2)))
        hidden = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
        if hidden is not None:
            kind, keys, *rest = hidden.get_state(legacy=True)
            digest = fold((digest_bytes(keys.tobytes()), text_digest(f"{kind} {rest}")))
            self.write(ValueKind.GENERATOR, "numpy", digest)

    def batch(self, name: str, position: int, batch: Any) -> None:
        digests: list[int] = []
        self._batches.clear()
        for path, leaf in leaves(batch, ""):
            if isinstance(leaf, _Tensor):
                digest = self._calls.digest_now(leaf)
                self._batches[seams.storage_id(leaf)] = (ValueKind.BATCH, f"{name}{path and ', '}{path}", position)
                if type(digest) is int:
                    digests.append(digest)
            elif isinstance(leaf, (*_NUMBERS, bytes)):
                digests.append(text_digest(repr(leaf)))
        self.write(ValueKind.BATCH, name, fold(digests), position)

    def returned(self, name: str, value: Any) -> None:
        """The program got ``value``: each tensor in it is one output; what is no tensor is left out."""
        for path, leaf in leaves(value, ""):
            if isinstance(leaf, _Tensor):
                self._calls.moment(ValueKind.RETURNED, f"{name}{path and ' '}{path}", leaf)

    def loss(self, tensor: Any) -> None:
        """``backward`` is called on ``tensor``. What lies on a device is read at the step's end."""
        if type(tensor) is not _Tensor or tensor.numel() != 1 or tensor.is_meta or not tensor.is_floating_point():
            return
        with seams.without_modes(), seams.without_torch_function(), torch.no_grad():
            self._losses.append(float(tensor) if tensor.is_cpu else tensor.detach().clone())

    def step_ends(self) -> None:
        losses, self._losses = self._losses, []
        with seams.without_modes(), seams.without_torch_function():
            for position, loss in enumerate(losses):
                self.write(ValueKind.LOSS, "loss", int.from_bytes(_DOUBLE.pack(float(loss)), "little"), position)

    def state(self, kind: ValueKind, thing: Any, times: Counter[tuple[ValueKind, str]]) -> None:
        name = _numbered(times, kind, type(thing).__name__)
        fields = [(key, value) for key, value in vars(thing).items() if not key.startswith("_init")][:_MOST_FIELDS]
        numbers = [f"{key.lstrip('_')}={value!r}" for key, value in fields if _is_numbers(value)]
        self.text(kind, name, ", ".join(numbers))
        for key, value in fields:
            if isinstance(value, _Tensor):
                self._put(kind, f"{key.lstrip('_')} of {name}", value)


def _numbered(times: Counter[tuple[ValueKind, str]], kind: ValueKind, name: str) -> str:
    """``name``, with a number from the second time on."""
    times[kind, name] += 1
    return f"{name}#{times[kind, name]}" if times[kind, name] > 1 else name


def _leaf_tensors(owned_ids: Container[int]) -> Iterator[torch.Tensor]:
    """Live host tensors that require a gradient and are no call's result, except those with ``owned_ids``."""
    for thing in gc.get_objects():
        if issubclass(type(thing), _Tensor) and id(thing) not in owned_ids:
            with suppress(Exception):  # a tensor of somebody's own may refuse to be read
                if thing.is_leaf and thing.requires_grad and thing.is_cpu:
                    yield thing


def _states_of_module(path: str, parameters: Any, buffers: Any) -> Iterator[State]:
    for kind, tensors in ((ValueKind.PARAMETER, parameters), (ValueKind.BUFFER, buffers)):
        for name, tensor in tuple(tensors.items()):
            if isinstance(tensor, _Tensor):
                yield kind, joined(path, name), tensor


def _states_of_optimizer(names: dict[int, str], groups: Any, state: Any) -> Iterator[State]:
    for number, group in enumerate(groups):
        for place, parameter in enumerate(group["params"]):
            name = names.get(id(parameter))
            if not name:
                name = f"parameter {place} of group {number}"
                yield ValueKind.PARAMETER, name, parameter
            for key, value in (state.get(parameter) or {}).items():
                if isinstance(value, (_Tensor, *_NUMBERS)):
                    yield ValueKind.OPTIMIZER_STATE, f"{key} of {name}", value


def _is_numbers(value: Any) -> bool:
    return all(isinstance(item, _NUMBERS) for item in (value if isinstance(value, (list, tuple)) else (value,)))


def digest_of_numbers(value: Any) -> int:
    """The digest of a number, a string or a collection of them; ``NO_DIGEST`` for others, whose ``repr`` may differ."""
    numbers = [leaf for _, leaf in leaves(value, "")]
    is_plain = bool(numbers) and any(number is not None for number in numbers) and _is_numbers(numbers)
    return text_digest(repr(value)) if is_plain else NO_DIGEST


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The leaves of a batch, each with its path: ``[0]``, ``['labels']``."""
    if isinstance(value, dict) or (hasattr(value, "keys") and hasattr(value, "__getitem__")):
        for key in value.keys():  # noqa: SIM118  (a user's mapping need not iterate)
            yield from leaves(value[key], f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from leaves(item, f"{path}[{place}]")
    else:
        yield path, value
