"""When CUDA, its libraries and the collectives' libraries were first used: they read some settings only then.

A start through torch's own functions is seen as it happens; any other is noticed before the next note. The first use of
a library by ops is read off the recorded calls, at no cost while recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import torch

from tracer.names import EventKind, Subsystem
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.events import EventLog
from tracer.recording.origin.sites import placed
from tracer.recording.patching import Call
from tracer.recording.torch_private import setting_seams as seams
from tracer.recording.torch_private.seams import answers_reads
from tracer.recording.watchers import Target, Watchers
from tracer.trace.records import Event

#: Groups of calls of the table of settings, and the library that such a call uses on CUDA.
_GROUPS = {"matrix-products": Subsystem.CUBLAS, "convolutions": Subsystem.CUDNN}
#: Namespaces of collectives, and the library that they use, by device.
_COLLECTIVES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
_COLLECTIVE_LIBRARIES = {"cuda": Subsystem.NCCL, "npu": Subsystem.HCCL}
#: What starts with the first call on a device.
_DEVICES = {"cuda": Subsystem.CUDA, "npu": Subsystem.NPU}


class FirstUses:
    """Notes in ``log`` what starts."""

    def __init__(self, log: EventLog) -> None:
        self.log = log

    def start(self) -> None:
        """Begin to watch; what runs already was first used before."""
        _STARTS.add(self)
        self.look()

    def stop(self) -> None:
        """Stop watching."""
        self.look()
        _STARTS.discard(self)

    def look(self) -> None:
        """Watch what was loaded since, and note what started unseen."""
        _STARTS.look_again()
        self.cuda_started(None)

    def cuda_started(self, call: Call | None) -> None:
        """CUDA's start was called, which calls itself again before it is done; or nobody saw it start."""
        if not self.log.was_used(Subsystem.CUDA) and torch.cuda.is_initialized():
            self.log.first_use(Subsystem.CUDA, None if call is None else call.frame)

    def group_made(self, call: Call) -> None:
        """A process group was made. Without a backend, torch starts each device's library at its first collective."""
        words = (argument for argument in (*call.args, call.kwargs.get("backend")) if isinstance(argument, str))
        backend = next(words, "").lower()
        for subsystem in _COLLECTIVE_LIBRARIES.values():
            if subsystem in backend:
                self.log.first_use(subsystem, call.frame)


def _is_first_use(event: Event, subsystem: Subsystem) -> bool:
    """Return whether ``event`` is that of the first use of ``subsystem``."""
    return event.kind is EventKind.FIRST_USE and event.name == subsystem.value


def where_cuda_started() -> str:
    """``path:line`` of the call that started CUDA; empty if nobody was watching."""
    for watch in _STARTS.listeners:
        watch.look()
        for event in watch.log.listed():
            if _is_first_use(event, Subsystem.CUDA) and event.location:
                return event.location
    return ""


def first_calls(counted: Iterable[tuple[OverloadInfo, CallCounter]], recorded: Iterable[Event] = ()) -> Iterator[Event]:
    """The first recorded call of each library and device, as an event of that call's position and line.

    On fake tensors that run as a machine with GPUs, the CPU's calls are CUDA's once it was started (``recorded``).
    """
    started = (event.first for event in recorded if _is_first_use(event, Subsystem.CUDA) and answers_reads())
    since = next(started, None)
    counters: dict[Subsystem, CallCounter] = {}
    for info, counter in counted:
        for subsystem in _used_by(info.name, counter, since):
            if subsystem not in counters or counter.order < counters[subsystem].order:
                counters[subsystem] = counter
    for subsystem, counter in counters.items():
        yield Event(
            kind=EventKind.FIRST_USE,
            name=str(subsystem),
            **placed(counter.origin.site, counter.origin.called_from),
            phase=counter.origin.phase,
            while_recording=True,
            first=counter.order,
            last=counter.order,
        )


def with_first_calls(recorded: Iterable[Event], calls: Iterable[Event]) -> tuple[Event, ...]:
    """All events in order; of several first uses of one library, the earliest."""
    events = list(recorded)
    for call in calls:
        same = [event for event in events if event.kind is EventKind.FIRST_USE and event.name == call.name]
        if all(call.first <= other.first for other in same):
            events = [*(event for event in events if event not in same), call]
    return tuple(sorted(events, key=lambda event: event.first))


def _used_by(op: str, counter: CallCounter, since: int | None) -> Iterator[Subsystem]:
    device = getattr(counter.raw[1], "type", "") if counter.raw is not None else ""
    if device == "cpu" and since is not None and counter.order > since:
        device = "cuda"
    if device not in _DEVICES:
        return
    yield _DEVICES[device]
    if op.partition(".")[0] in _COLLECTIVES:
        yield _COLLECTIVE_LIBRARIES[device]
    elif device == "cuda":
        for subsystem, ops in _ops_of_libraries().items():
            if op in ops or op.rpartition(".")[0] in ops:
                yield subsystem


@cache
def _ops_of_libraries() -> dict[Subsystem, frozenset[str]]:
    from tracer.tables.settings.rows import load_rows  # asked for with the first call on CUDA

    return {_GROUPS[group.name]: frozenset(group.ops) for group in load_rows().group if group.name in _GROUPS}


def _targets() -> Iterator[Target]:
    yield Target([seams.START_OF_CUDA], after=FirstUses.cuda_started)
    yield from (Target(holders, after=FirstUses.group_made) for holders in seams.process_group_starts())


_STARTS: Watchers[FirstUses] = Watchers(_targets)
