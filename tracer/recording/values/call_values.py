"""Digests of each call: its inputs before it runs, its outputs after, both passed to the writer."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tracer.facts import MISSING, Args, Kwargs
from tracer.recording import patching
from tracer.recording.calls import DRAW
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.memory_observers import StorageObservers
from tracer.recording.observers import Interest, Observer
from tracer.recording.origin.optimizers import OptimizerWatch
from tracer.recording.randomness.generators import state_of
from tracer.recording.storage import WRITES, argument_at
from tracer.recording.torch_private import seams
from tracer.recording.values import digest as digest_of
from tracer.recording.values import digest_bytes, parts_of
from tracer.recording.values.call_digests import PARTIAL, SENDS, CallDigests, Plan, is_late_copy, plan_of
from tracer.recording.values.digest_table import Awaited, DeferredDigests, DeviceDigests, DigestTable, Slot
from tracer.trace.records import Environment
from tracer.trace.values import Group, Header, Mark, ValueKind, ValuesWriter, fold
from tracer.trace.values.columns import TURN_SHIFT

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_is_contiguous: Any = torch._C.TensorBase.is_contiguous
_NOT_READ = int(Mark.INPUT_NOT_DIGESTED)
_NOT_WRITTEN = int(Mark.OUTPUT_NOT_DIGESTED)
_TURNED = int(Mark.TURNED)
_READ_UNWRITTEN = int(Mark.READ_UNWRITTEN)

Named = tuple[ValueKind, str, int]
"""Kind, name and position of a tensor that no recorded call made."""


class ValuesFile:
    """The file of digests and magnitudes of one recording, written from ``start`` to ``stop``, any number of times."""

    def __init__(self, path: Path, header: Callable[[Environment], Header], optimizer: OptimizerWatch) -> None:
        self.path = path
        self.first_step = 0
        """Optimizer steps that ended before recording began: steps count from 0, as ``--steps`` counts them."""
        self.writer: ValuesWriter | None = None
        """``None``: nothing is written now."""
        self._made: ValuesWriter | None = None
        self._header = header
        self._optimizer = optimizer
        _LIVING.add(self)

    @property
    def step(self) -> int:
        return self.first_step + self._optimizer.steps

    def start(self, environment: Environment) -> None:
        """Begin, or resume; raises ``TraceError`` where the file cannot be written."""
        if self._made is None:
            self.writer = self._made = ValuesWriter(self.path, self._header(environment))
            self.step_ended()
            for name, state in default_states().items():
                self.writer.moment(ValueKind.GENERATOR, name, state)
        else:
            self._made.reopen()
            self.writer = self._made

    def place(self) -> int:
        return 0 if self._made is None else self._made.calls

    def step_ended(self) -> None:
        """From the next call on, another step runs."""
        if self.writer is not None:
            self.writer.step(self.step)

    def stop(self, partial: str) -> None:
        """Close the file; ``partial``: why the recording is not whole."""
        self.writer = None
        if self._made is not None:
            self._made.close(partial)

    def end(self, partial: str) -> None:
        """Close the file, even in the middle of a call; ``partial``: why the recording is not whole, if it is not."""
        if self._made is not None and (partial or not self._made.is_closed):
            self._made.reopen()
            self.stop(partial)
        self.writer = None


class CallValues(Observer):
    """Digests of one recording's calls. ``name_of`` names a tensor that no call produced."""

    def __init__(
        self,
        file: ValuesFile,
        name_of: Callable[[torch.Tensor], Named],
        optimizer: OptimizerWatch,
        followed: StorageObservers,
    ) -> None:
        self.file = file
        self.is_paused = False
        """Whether the calls made now are not the program's own."""
        self.device = DeviceDigests()
        self.memory = DigestTable(self.device.digest, followed.registry)
        self.failures = 0
        """Calls that failed to be digested, and are marked so."""
        self._name_of = name_of
        self._optimizer = optimizer
        self._unwritten = followed.unwritten
        self._plans: dict[OverloadInfo, Plan] = {}
        self._groups: dict[CallCounter, int] = {}
        self._serial = 0
        self._lock = threading.RLock()
        self._deferred = DeferredDigests(self.device)

    def wants(self, info: OverloadInfo) -> Interest:
        plan = plan_of(info.func, info.access, self._spell)
        if plan is None:
            return False
        self._plans[info] = plan
        return True

    def _spell(self, text: str) -> int:
        return self.file.writer.numbers(text) if self.file.writer is not None else 0

    def not_computed(self, info: OverloadInfo, counter: CallCounter) -> None:
        if (writer := self.file.writer) is not None:
            writer.call(self._group(writer, info, counter), 0, 0, mark_bits=_NOT_READ | _NOT_WRITTEN)

    def _group(self, writer: ValuesWriter, info: OverloadInfo, counter: CallCounter) -> int:
        if counter not in self._groups:
            group = Group(op=info.name, **counter.origin.in_words(), is_forked=counter.origin.is_forked)
            self._groups[counter] = writer.group(group)
        return self._groups[counter]

    # --- before the call ---

    def before(
        self, info: OverloadInfo, counter: CallCounter | None, asked: Any, args: Args, kwargs: Kwargs
    ) -> CallDigests | None:
        writer = self.file.writer
        if writer is None or self.is_paused:
            return None
        plan = self._plans[info]
        reading = CallDigests(plan, self._unwritten.read_count)
        memory = self.memory
        is_optimizing = self._optimizer.active
        if memory.samples_always is is_optimizing:
            memory.samples_always = not is_optimizing
            memory.phase += 1
        try:
            reading.numbers = plan.numbers(args, kwargs)
            unread = None if plan.unread_at is None else plan.unread_at(args, kwargs)
            for position, name, role in plan.reads:
                value = argument_at(position, name, args, kwargs)
                if value is not None and (position < 0 or position != unread):
                    self.read(reading, role, value)
            if asked is not None and DRAW in info.readers and (drawn := drawn_before(info, asked, args, kwargs)):
                writer.draw(*drawn)
        except Exception:
            self.failures += 1
            reading.mark_bits |= _NOT_READ
        return reading

    def read(self, reading: CallDigests, role: int, value: Any) -> None:
        plan = reading.plan
        kind = type(value)
        if kind is not _Tensor and kind is not _Parameter:
            if kind is list or kind is tuple:
                for item in value:
                    self.read(reading, role, item)
                return
            if not isinstance(value, _Tensor):
                return
            if seams.dispatches_itself(kind):
                self._read_whole(reading, value)
                return
        try:
            stored = self.memory.stored(value)
            if stored.is_fresh:
                if role in PARTIAL or plan.moves:
                    reading.hands_on_unwritten = plan.moves
                    return  # unwritten memory that it does not use
                if plan.access.is_foreign and role != SENDS:
                    reading.fresh.append((value, None if plan.is_collective else self.device.digest(value)))
                    return
                stored.is_fresh = False
            lies = None
            if stored.origin is not None and not _is_contiguous(value):
                lies = self.memory.as_it_lies(value, stored)
                if lies is not None and lies[1]:
                    reading.read(lies[0], stored.origin, lies[1])
                    return
            digest, changed = self.memory.read(value, stored)
            changed = changed or lies is not None
        except (NotImplementedError, RuntimeError):  # a layout without a storage, or without one shape
            self._read_whole(reading, value)
            return
        if digest is None:
            reading.mark_bits |= _NOT_READ
            return
        origin = stored.origin
        if origin is None or changed:
            origin = stored.origin = self._enter(value, digest, changed)
        reading.read(digest, origin)

    def _read_whole(self, reading: CallDigests, value: Any) -> None:
        """A tensor that consists of tensors: sparse, or a subclass."""
        digest = digest_of(value)
        if digest is None:
            reading.mark_bits |= _NOT_READ
            return
        origin = self.memory.origin_of(parts_of(value))
        reading.read(digest, self._enter(value, digest, False) if origin is None else origin)

    def _enter(self, value: Any, digest: Any, changed: bool) -> int:
        """Add an entry for a tensor whose bytes come from no recorded call."""
        assert self.file.writer is not None
        kind, name, position = self._name_of(value)
        is_later = type(digest) is Slot
        kind = ValueKind.OUTSIDE_CHANGE if changed else kind
        origin = self.file.writer.entry(kind, name, 0 if is_later else digest, position)
        if is_later:
            self._deferred.entries.append((origin, digest))
        return origin

    # --- after the call ---

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Kwargs, result: Any, frame: Any
    ) -> None:
        writer, call = self.file.writer, begun
        if writer is None or call is None:
            return
        if self._unwritten.read_count != call.unwritten_reads:
            call.mark_bits |= _READ_UNWRITTEN
        with self._lock:
            self._collected(call, partial(self._collect, args, kwargs, result))
            self._tell(writer, self._group(writer, info, counter), call)

    def ran(
        self, call: CallDigests, group: int, written: Iterable[Any], read_only: Container[int], drawn: Mapping[str, int]
    ) -> None:
        """A compiled region ran. ``read_only``: storages that it may return unwritten; ``drawn``: generators' earlier
        states."""
        writer = self.file.writer
        if writer is None:
            return

        def collect(call: CallDigests) -> None:
            for value in written:
                if isinstance(value, _Tensor) and seams.storage_id(value) in read_only:
                    call.wrote(self.digest_now(value))
                elif value is not None:
                    self._wrote(call, WRITES, value)

        with self._lock:
            self._collected(call, collect)
            for name, state in drawn.items():
                writer.draw(name, state)
            self._tell(writer, group, call)

    def _collected(self, call: CallDigests, collect: Callable[[CallDigests], None]) -> None:
        self._serial += 1
        call.serial = self._serial
        try:
            collect(call)
        except Exception:
            self.failures += 1
            call.mark_bits |= _NOT_WRITTEN

    def _tell(self, writer: ValuesWriter, group: int, call: CallDigests) -> None:
        """Pass a call to the writer; digests that wait for a device or for other processes are settled later."""
        is_pending = bool(call.awaited) or self.device.is_used
        call.outputs += (awaited.slot for awaited in call.awaited)
        turned = _TURNED | call.turn << TURN_SHIFT if call.turn else 0
        index = writer.call(
            group,
            0 if is_pending else fold(call.inputs),
            0 if is_pending else fold(call.outputs),
            call.origins,
            call.numbers,
            int(call.plan.mark_bits) | call.mark_bits | turned,
            call.keeps,
            pending=is_pending,
        )
        if is_pending:
            self._deferred.calls[index] = call.inputs, call.outputs
        for stored in call.written:
            stored.origin = index
        for awaited in call.awaited:
            self._deferred.when_read(writer, index, awaited)

    def _collect(self, args: Args, kwargs: Kwargs, result: Any, call: CallDigests) -> None:
        plan = call.plan
        if plan.gives_unwritten:
            for value in (result, args[0] if plan.access.grows and args else None):
                if isinstance(value, _Tensor):
                    stored = self.memory.stored(value)
                    stored.forget(call.serial)
                    stored.is_fresh = not seams.fills_uninitialized_memory()
                    stored.is_outside = stored.was_handed_out
                    call.written.append(stored)
            return
        if plan.moves and is_late_copy(args, kwargs, result):
            call.is_late = True
            call.outputs += call.inputs  # what was read stands for what will be there
        for position, name, role in plan.written:
            value = argument_at(position, name, args, kwargs)
            if value is not None:
                self._wrote(call, role, value, is_counted=True)
        for value, before in call.fresh:
            if _gives_part(result, value):  # what it wrote; the rest stays as it was
                self.memory.stored(value).is_fresh = False
                call.collected.add(id(value))
            elif type(before) is int and id(value) not in call.collected and before == self.device.digest(value):
                self.memory.stored(value).is_fresh = False  # it did not write it, so it read it
                self.read(call, WRITES, value)
            else:
                self._wrote(call, WRITES, value)
        if plan.scratch and isinstance(result, (tuple, list)):
            for place, value in enumerate(result):
                if place in plan.scratch and isinstance(value, _Tensor):
                    call.written.append(self.memory.stored(value))
                else:
                    self._wrote(call, WRITES, value)
            return
        self._wrote(call, WRITES, result)

    def _wrote(self, call: CallDigests, role: int, value: Any, *, is_counted: bool = False) -> None:
        """Digest one output, or several; ``is_counted``: an argument, whose version grows when the call ends."""
        kind = type(value)
        is_plain = kind is _Tensor or kind is _Parameter
        if not is_plain:
            if kind is list or kind is tuple:
                call.add_all(self.memory, value, partial(self._wrote, call, role))
                return
            if not isinstance(value, _Tensor):
                if isinstance(value, (bool, int, float, complex)):
                    call.outputs.append(digest_bytes(repr(value).encode()))
                return
        if id(value) in call.collected:
            return
        call.collected.add(id(value))
        if not is_plain and seams.dispatches_itself(kind):
            self._wrote_whole(call, value)
            return
        try:
            stored = self.memory.stored(value)
            call.written.append(stored)
            if stored.origin is not None and _is_part(role, value):
                call.keeps = stored.origin  # what stays there, of which it may have read its part
            is_awaited = call.plan.is_collective and not call.plan.is_wait
            if call.hands_on_unwritten:
                stored.is_fresh = True
            elif stored.is_fresh and (is_awaited or not _is_part(role, value)):
                stored.is_fresh = False
            if call.is_late or is_awaited:
                stored.forget(call.serial)
                if not call.is_late:
                    geometry = value.shape, value.stride(), value.storage_offset()
                    call.awaited.append(Awaited(stored, Slot(), value.dtype, geometry))
                return
            if stored.is_fresh and (role in PARTIAL or call.hands_on_unwritten):
                stored.forget(call.serial)
                return  # what was not written holds what was there
            call.wrote(self.memory.wrote(value, stored, call.serial, is_counted=is_counted))
        except (NotImplementedError, RuntimeError):
            self._wrote_whole(call, value)

    def _wrote_whole(self, call: CallDigests, value: Any) -> None:
        call.wrote(digest_of(value))
        for part in parts_of(value):
            stored = self.memory.stored(part)
            stored.forget(call.serial)
            call.written.append(stored)

    def digest_now(self, tensor: torch.Tensor) -> Any:
        """The digest of a tensor outside any call, from the table if its bytes did not change."""
        with suppress(NotImplementedError, RuntimeError):
            if not seams.dispatches_itself(type(tensor)):
                return self.memory.read(tensor, self.memory.stored(tensor))[0]
        return digest_of(tensor)

    def is_unwritten(self, tensor: torch.Tensor) -> bool:
        """Whether its memory was allocated and not written completely since."""
        with suppress(NotImplementedError, RuntimeError):
            return not seams.dispatches_itself(type(tensor)) and self.memory.stored(tensor).is_fresh
        return False

    def moment(self, kind: ValueKind, name: str, tensor: torch.Tensor) -> None:
        digest = None if self.file.writer is None else self.digest_now(tensor)
        if type(digest) is Slot:
            self._deferred.moments.append((kind, name, digest))
        elif digest is not None and self.file.writer is not None:
            self.file.writer.moment(kind, name, digest)

    def settle(self) -> None:
        self.memory.step_began = self._serial
        if self.file.writer is not None:
            with self._lock:
                self._deferred.settle(self.file.writer)


def _is_part(role: int, value: torch.Tensor) -> bool:
    """Return whether something stays of what the memory of a written argument held."""
    return role in PARTIAL or value.nbytes < seams.storage_bytes(value)


def _gives_part(result: Any, whole: torch.Tensor) -> bool:
    """Return whether a result is a part of the memory of ``whole``, and not all of it."""
    parts = [part for part in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(part, _Tensor)]
    smaller = (part for part in parts if not seams.dispatches_itself(type(part)) and part.nbytes < whole.nbytes)
    return any(seams.storage_id(part) == seams.storage_id(whole) for part in smaller)


def drawn_before(info: OverloadInfo, asked: Any, args: Args, kwargs: Kwargs) -> tuple[str, int] | None:
    """The generator that a call is about to draw from, and the digest of its state, 0 if unknown; ``None``: none."""
    drawn = asked[list(info.readers).index(DRAW)]
    if drawn is MISSING:
        return None
    generator = next((value for value in (*args, *kwargs.values()) if isinstance(value, torch.Generator)), None)
    if generator is None:
        device = kwargs.get("device")
        if device is None:
            tensor = info.primary(args, kwargs)
            device = tensor.device if tensor is not None else seams.default_device()
        _, generator = seams.default_generator(torch.device(device))
    return str(drawn[0]), _state_digest(generator)


def _state_digest(generator: Any) -> int:
    state = b"" if generator is None else state_of(generator)
    return digest_bytes(state) if state else 0


def default_states() -> dict[str, int]:
    """The digest of each default generator's state that can be read."""
    return {name: digest for name, generator in seams.default_generators() if (digest := _state_digest(generator))}


#: Those that live: in a forked child, which the mode follows into, nothing is written.
_LIVING: weakref.WeakSet[ValuesFile] = weakref.WeakSet()


def _stop_writing() -> None:
    for file in tuple(_LIVING):
        file.writer = None


patching.in_children(_stop_writing)
