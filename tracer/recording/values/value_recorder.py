"""The digests of one recording: when they begin and end, the file, and what loaders, schedulers and scalers do."""

from __future__ import annotations

import sys
from _thread import get_ident
from collections import Counter
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.weak import WeakIdKeyDictionary

from tracer.recording.compiled.executions import RegionRun
from tracer.recording.memory_observers import StorageObservers
from tracer.recording.origin import placed, spell
from tracer.recording.origin.attribution import Attribution
from tracer.recording.patching import WatchedCall, WatchedFunction, Watchers
from tracer.recording.process.following import FOLLOWING
from tracer.recording.storage import READS
from tracer.recording.torch_private import seams
from tracer.recording.values import digest_bytes
from tracer.recording.values.call_digests import CallDigests, RegionPlan
from tracer.recording.values.call_values import CallValues, ValuesFile, default_states
from tracer.recording.values.moments import MomentWriter, digest_of_numbers
from tracer.trace.values import Group, Mark, ValueKind
from tracer.trace.values.columns import NO_DIGEST

if TYPE_CHECKING:
    from tracer.recording.compiled.listing import RegionList

_NUMBERS = (int, float, bool)
_NOT_READ = int(Mark.INPUT_NOT_DIGESTED)
_READ_UNWRITTEN = int(Mark.READ_UNWRITTEN)


class Begun(NamedTuple):
    run: RegionRun
    reading: CallDigests
    changed: list[torch.Tensor]
    """Inputs that the region writes to; the others may be freed while it runs."""
    read_only: set[int]
    generators: dict[str, int]


class RegionValues:
    """Digests of compiled regions, each execution as one call, which draws if a generator of the process advanced."""

    def __init__(self, calls: CallValues, regions: Callable[[], RegionList]) -> None:
        """``regions`` describes them; asked for with the first one that runs."""
        self._calls = calls
        self._regions = regions
        self._plan = RegionPlan()
        self._groups: dict[RegionRun, int] = {}

    def before(self, run: RegionRun, compiled: Any, inputs: Any) -> Begun | None:
        calls = self._calls
        writer = calls.file.writer
        if writer is None or calls.is_paused:
            return None
        reading = CallDigests(self._plan)
        changed: list[torch.Tensor] = []
        untouched: set[int] = set()
        generators: dict[str, int] = {}
        try:
            written = getattr(compiled, "mutated_input_idxs", None) or ()
            numbers = []
            with torch.no_grad():
                for place, value in enumerate(inputs):
                    if isinstance(value, torch.Tensor):
                        if place in written:
                            changed.append(value)
                        else:
                            untouched.add(seams.storage_id(value))
                        if calls.is_unwritten(value):
                            if place in written:
                                continue  # memory for a result
                            reading.mark_bits |= _READ_UNWRITTEN
                        calls.read(reading, READS, value)
                    elif isinstance(value, _NUMBERS):
                        numbers.append(f"input {place}={value!r}")
            if numbers:
                reading.numbers = writer.numbers(", ".join(numbers))
            generators = default_states()
        except Exception:
            calls.failures += 1
            reading.mark_bits |= _NOT_READ
        calls.is_paused = True  # kernels of torch's own that it calls are part of it
        return Begun(run, reading, changed, untouched - {0, *map(seams.storage_id, changed)}, generators)

    def after(self, begun: Begun | None, result: Any) -> None:
        calls = self._calls
        writer = calls.file.writer
        if begun is None or writer is None:
            return
        try:
            states = default_states()
            drawn = {name: before for name, before in begun.generators.items() if states.get(name, before) != before}
            run = begun.run
            if run not in self._groups:
                group = Group(
                    op=f"compiled.{run.code.direction}",
                    phase=self._regions().phase_of(run),
                    module=run.scope.path,
                    **placed(run.site, run.called_from),
                    region=self._regions().name_of(run.code),
                )
                self._groups[run] = writer.group(group)
            written = [*(result if isinstance(result, (tuple, list)) else (result,)), *begun.changed]
            with torch.no_grad():
                calls.ran(begun.reading, self._groups[run], written, begun.read_only, drawn)
        except Exception:
            calls.failures += 1

    def left(self, begun: Begun | None) -> None:
        """It is over, also where it failed."""
        if begun is not None:
            self._calls.is_paused = False


class LaunchValues:
    """Digests of Triton kernels that the program launches: each launch is one call that may write all its tensors."""

    def __init__(self, calls: CallValues) -> None:
        self._calls = calls
        self._plan = RegionPlan(mark_bits=0)

    def before(self, tensors: Iterable[torch.Tensor], numbers: str) -> CallDigests | None:
        calls = self._calls
        writer = calls.file.writer
        if writer is None or calls.is_paused:
            return None
        reading = CallDigests(self._plan)
        with torch.no_grad():
            for tensor in tensors:
                if not calls.is_unwritten(tensor):  # else it is memory for a result
                    calls.read(reading, READS, tensor)
        reading.numbers = writer.numbers(numbers) if numbers else 0
        return reading

    def after(self, reading: CallDigests, group: Group, tensors: Iterable[torch.Tensor]) -> None:
        if (writer := self._calls.file.writer) is not None:
            with torch.no_grad():
                self._calls.ran(reading, writer.group(group), tensors, (), {})


class ValuesRecording:
    """Keeps digests in ``file`` from ``start`` to ``stop``, any number of times."""

    def __init__(
        self, file: ValuesFile, attribution: Attribution, followed: StorageObservers, regions: Callable[[], RegionList]
    ) -> None:
        self.file = file
        self._is_begun = False
        self._optimizer = attribution.optimizer
        self._modules = attribution.modules
        self._sites = attribution.sites
        self.calls = CallValues(file, lambda tensor: self.moments.named(tensor), self._optimizer, followed)
        self.regions = RegionValues(self.calls, regions)
        self.launches = LaunchValues(self.calls)
        self.moments = MomentWriter(self.calls, attribution.modules)
        self._iterators: MutableMapping[Any, str] = WeakIdKeyDictionary()
        self._indices: MutableMapping[Any, dict[int, int]] = WeakIdKeyDictionary()
        """By iterator and position: digests of indices whose batches were not given yet."""
        self._stepping: MutableMapping[Any, ValueKind] = WeakIdKeyDictionary()
        """Schedulers and scalers, which are read at every step."""

    def written_by(self, tensor: Any) -> int:
        """The number of the last recorded call that wrote a tensor's memory; 0 if none did."""
        stored = self.calls.memory.live.get(seams.storage_id(tensor))
        return 0 if stored is None else stored.stamp

    def start(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self.moments.host_generators()
            self.task_begins(FOLLOWING.task)
        RECORDINGS.add(self)
        self._optimizer.before_step.append(self._before_step)

    def stop(self) -> None:
        RECORDINGS.discard(self)
        with suppress(ValueError):
            self._optimizer.before_step.remove(self._before_step)
        self.moments.step_ends()
        with suppress(Exception):  # a user's module may refuse to be read
            self.moments.at_the_end()
        self.calls.settle()

    def step_ended(self) -> None:
        self.calls.settle()
        self.moments.step_ends()

    def task_begins(self, sent: bytes) -> None:
        """A worker of a pool begins a task; ``sent``: function and arguments, empty for none."""
        if sent:
            self.moments.write(ValueKind.TASK, "", digest_bytes(sent))

    def task_ends(self) -> None:
        """A worker of a pool has done a task, and may be ended while it waits for the next."""
        self.calls.settle()
        if self.file.writer is not None:
            self.file.writer.flush()

    def _before_step(self, optimizer: Any) -> None:
        with suppress(Exception):  # a user's optimizer may keep anything
            self.moments.before_step(optimizer)
        self._write_stepping()

    def _write_stepping(self) -> None:
        with suppress(Exception):  # another thread may make more of them meanwhile
            times: Counter[tuple[ValueKind, str]] = Counter()
            for thing, kind in list(self._stepping.items()):
                self.moments.state(kind, thing, times)

    def loader_iterates(self, call: WatchedCall) -> None:
        """A loader made an iterator, named after the line that asked for it."""
        site = self._sites.users_own(call.frame)
        if call.result is not None:
            name = f"DataLoader at {spell(site)}" if site.path else "DataLoader"
            self._iterators[call.result] = name
            if getattr(call.result, "_num_workers", 0):
                self.moments.text(ValueKind.WORKER_SEED, name, repr(call.result._base_seed))

    def loader_asks(self, call: WatchedCall) -> None:
        """A sampler gave the indices of one batch: this process loads it now, workers long before it is asked for."""
        iterator, digest = call.first, digest_of_numbers(call.result)
        if not getattr(iterator, "_num_workers", 0):
            self.moments.host_generators()  # the data set may draw from them now
            name = self._iterators.get(iterator) or "DataLoader"
            self.moments.write(ValueKind.INDICES, name, digest, iterator._num_yielded)
        elif digest != NO_DIGEST:
            self._indices.setdefault(iterator, {})[iterator._send_idx] = digest

    def loader_gave(self, call: WatchedCall) -> None:
        iterator = call.first
        position = max(0, getattr(iterator, "_num_yielded", 0) - 1)
        with torch.no_grad():
            name = self._iterators.get(iterator) or "DataLoader"
            self.moments.batch(name, position, call.result)
            if iterator in self._indices:
                self.moments.write(ValueKind.INDICES, name, self._indices[iterator].pop(position, NO_DIGEST), position)

    def differentiates(self, call: WatchedCall) -> None:
        """``backward`` is called on one tensor; of several none is the loss, and other threads' have no order."""
        if get_ident() == self._modules.thread:
            with suppress(Exception):  # a tensor of somebody's own may refuse to be read
                self.moments.loss(call.first)

    def model_returned(self, module: torch.nn.Module, output: Any) -> None:
        """An outermost module returned ``output``; a training's are compared by what follows from them."""
        if not (module.training and torch.is_grad_enabled()):
            with suppress(Exception):  # a container of somebody's own may refuse to be read
                self.moments.returned(f"output of {self._modules.path(module)}", output)

    def steps(self, call: WatchedCall, kind: ValueKind, *, may_skip: bool = False) -> None:
        """``may_skip``: it decides now whether an update is made, and is read before."""
        self._stepping[call.first] = kind
        if may_skip:
            self._write_stepping()


def _receiving(inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls that only take over what a worker sent are not the program's: when they are made is a matter of time."""
    for recording in RECORDINGS.listeners:
        recording.calls.is_paused = True
    try:
        return inner(*args, **kwargs)
    finally:
        for recording in RECORDINGS.listeners:
            recording.calls.is_paused = False


def _functions() -> list[WatchedFunction]:
    def holders(module: str, owner: str, *names: str) -> list[Any]:
        return [(getattr(sys.modules.get(module), owner, None), name) for name in names]

    loading, scheduling = "torch.utils.data.dataloader", "torch.optim.lr_scheduler"
    schedulers = holders(scheduling, "LRScheduler", "__init__", "step", "load_state_dict")
    schedulers += holders(scheduling, "ReduceLROnPlateau", "__init__", "step", "load_state_dict")
    scaling, scaler = ("torch.amp.grad_scaler", "GradScaler"), partial(ValuesRecording.steps, kind=ValueKind.SCALER)
    return [
        WatchedFunction(holders(loading, "DataLoader", "__iter__"), after=ValuesRecording.loader_iterates),
        WatchedFunction(holders(loading, "_BaseDataLoaderIter", "__next__"), after=ValuesRecording.loader_gave),
        WatchedFunction(holders(loading, "_BaseDataLoaderIter", "_next_index"), after=ValuesRecording.loader_asks),
        WatchedFunction(holders(loading, "_MultiProcessingDataLoaderIter", "_try_get_data"), around=_receiving),
        WatchedFunction(schedulers, before=partial(ValuesRecording.steps, kind=ValueKind.SCHEDULER)),
        WatchedFunction(holders(*scaling, "step"), before=partial(scaler, may_skip=True)),
        WatchedFunction(holders(*scaling, "update", "load_state_dict"), before=scaler),
        WatchedFunction([(sys.modules.get("torch.autograd"), "backward")], before=ValuesRecording.differentiates),
    ]


#: The replacements of this process.
RECORDINGS: Watchers[ValuesRecording] = Watchers(_functions)
