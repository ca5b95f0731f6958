"""Records the child processes of a recorded script, each in a trace beside its parent's."""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import msgspec

from tracer.names import SeedOrigin
from tracer.recording import patching
from tracer.recording.patching import Watch, WatchedCall
from tracer.recording.process.following import FOLLOWING, ChildTask, ChildTraces, LogLine, remove_left, unknown_child
from tracer.runner.imports import when_imported
from tracer.runner.outcome import ScriptRecording
from tracer.runner.ranks import current_rank
from tracer.runner.script import StepRange, Task
from tracer.trace import Trace
from tracer.trace.file import child_path, files_of_children
from tracer.trace.records import Generator

#: Children that are recorded; further ones are counted.
MOST_CHILDREN = 256
#: A trace is written as its process goes, which may be killed: the first times always, then for one part in so many of
#: its time.
_FIRST_TIMES, _SHARE = 8, 20
_Result = TypeVar("_Result")


class _CurrentProcess:
    recording: ScriptRecording | None = None


@contextmanager
def followed(recording: ScriptRecording) -> Iterator[None]:
    """Record each Python process that the script starts within this context, as ``recording`` is recorded."""
    for earlier in files_of_children(recording.output):
        with suppress(OSError):  # it would be taken for this run's
            earlier.unlink()
    traces = ChildTraces(
        recording.output,
        recording.options,
        at_start=recording.at_start,
        start=recording.task.steps.start,
        stop=recording.task.steps.stop,
        ends_before=recording.task.ends_before,
        source_folder=recording.source_folder,
    )
    recording.children = traces.listed
    process = os.getpid()
    traces.begin(recording.left_by_fork)
    try:
        yield
    finally:
        if os.getpid() == process:
            traces.end()
            traces.remove()


def begin(role: str, task: msgspec.Raw) -> None:
    """Record this process, the child ``role``; a recording inherited by fork has been left."""
    _CurrentProcess.recording = None
    process = os.getpid()
    role = FOLLOWING.claimed(role)
    if sum(event.event == "records" for event in FOLLOWING.events()) >= MOST_CHILDREN:
        FOLLOWING.log(LogLine(role=role, event="is-too-many"))
        return
    order = msgspec.json.decode(task, type=ChildTask)
    steps = StepRange(order.start, order.stop)
    recording = ScriptRecording(
        Task(target=sys.argv[0] if sys.argv else "", steps=steps, ends_before=order.ends_before),
        child_path(order.output, role),
        rank=current_rank(),
        options=order.options,
        source_folder=order.source_folder,
        is_quiet=True,
        child=role,
    )
    save = _rationed(recording.save_so_far)
    recording.on_step = lambda count: save()
    _CurrentProcess.recording = recording
    FOLLOWING.left_by_fork = recording.left_by_fork
    atexit.register(_end, recording)
    recording.begin()
    _when_it_ends(lambda ended_by: _end(recording, ended_by))
    _when_tasks_come(recording)

    def begun() -> None:
        FOLLOWING.log(LogLine(role=role, event="records", pid=process))
        atexit.register(_end, recording)  # before the files that recording has opened are closed

    when_imported("torch", begun)
    recording.begin_lines()


def _rationed(work: Callable[[], _Result]) -> Callable[[], _Result | None]:
    """``work``, done each of the first times, then for one part in so many of the time; ``None`` where it is not."""
    times, last, cost = 0, 0.0, 0.0

    def rationed() -> _Result | None:
        nonlocal times, last, cost
        times += 1
        began = time.monotonic()
        if times > _FIRST_TIMES and began - last < _SHARE * cost:
            return None
        result = work()
        last = time.monotonic()
        cost = last - began
        return result

    return rationed


def _when_tasks_come(recording: ScriptRecording) -> None:
    """Write the whole trace between two tasks of a worker that may be ended while it waits."""
    is_paused = False
    pause = _rationed(recording.pause)

    def ends() -> None:
        nonlocal is_paused
        if not is_paused and _CurrentProcess.recording is recording:
            is_paused = bool(pause())
            for each in () if is_paused else recordings():
                each.task_ends()

    def begins(sent: bytes) -> None:
        nonlocal is_paused
        if is_paused and _CurrentProcess.recording is recording:
            is_paused = False
            recording.resume()
        FOLLOWING.task = sent
        for each in recordings():
            each.task_begins(sent)

    def recordings() -> Iterable[Any]:
        values = sys.modules.get("tracer.recording.values.value_recorder")
        return () if values is None else values.RECORDINGS.listeners

    between_tasks(ends, begins)


def _when_it_ends(end: Callable[[str], None]) -> None:
    """Call ``end`` with the reason when this process ends by itself, by a normal exit or ``os._exit``."""

    def leaves(call: WatchedCall) -> None:
        code = call.args[0] if call.args else call.kwargs.get("status", 0)
        end(f"exit code {code}" if code else "")

    def left(call: WatchedCall) -> None:
        end(f"exit code {call.result}" if call.result else "")

    def is_replaced(call: WatchedCall) -> None:
        if os.access(call.args[0], os.X_OK):  # a path is searched by trying
            end("")

    patching.place([(os, "_exit")], Watch(leaves))
    patching.place([(os, "execv"), (os, "execve")], Watch(is_replaced))
    processes = getattr(sys.modules.get("multiprocessing.process"), "BaseProcess", None)
    if processes is not None:
        patching.place([(processes, "_bootstrap")], Watch(after=left))


def _generators(trace: Trace) -> tuple[Generator, ...]:
    """The process's own and the program's; one that was seeded with what differs in every run is the machine's."""
    drawn = {event.location for event in trace.events if event.is_drawn}
    machine = SeedOrigin.MACHINE
    own = (msgspec.structs.replace(g, origin=machine) if g.seeded_at in drawn else g for g in trace.generators)
    made = (Generator(name=g.kind, origin=machine, drew=g.drew or None) for g in trace.own_generators)
    return (*own, *made)


def _end(recording: ScriptRecording, ended_by: str | None = None) -> None:
    """``ended_by``: the reason; ``None``: the error that nobody caught, if there is one."""
    if ended_by is None:
        ended_by = getattr(getattr(sys, "last_type", None), "__name__", "")
    if _CurrentProcess.recording is not recording:
        return
    _CurrentProcess.recording = None
    with suppress(Exception):  # no business of the program's
        recording.finish(ended_by, may_import=False)
        trace = recording.trace
        sources = () if trace is None else trace.sources
        rank = current_rank()
        child = msgspec.structs.replace(
            unknown_child(recording.child),
            rank=None if rank is None else rank.rank,
            calls=sum(source.calls for source in sources),
            optimizer_steps=sum(source.steps for source in sources),
            ended_by=ended_by,
            generators=() if trace is None else _generators(trace),
            draws=() if trace is None else trace.draws,
        )
        FOLLOWING.log(LogLine(role=recording.child, event="ends", child=child))
        remove_left(FOLLOWING.folder)


# --- the loops of pools' workers -----------------------------------------------------------------------------------


_QUEUES = os.path.join("multiprocessing", "queues.py")
#: What tells a worker of the next task, by the bytes that hold it.
_UNPACKS = "multiprocessing.reduction:ForkingPickler.loads"
#: What a pool sends to a worker that is to leave.
_NO_TASK = frozenset(pickle.dumps(None, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1))


class _Loop(NamedTuple):
    file: str
    """The end of its path."""
    function: str
    ends: str
    """The function that it calls after each task, before the result is sent: ``module:Class.method``."""
    begins: str = _UNPACKS
    """The function that is called as the next task begins."""
    through: str | None = _QUEUES
    """The end of the path of a file whose functions call these for it."""

    def calls(self, frame: FrameType | None) -> bool:
        """Return whether the loop makes the call that ``frame`` makes."""
        while frame is not None and (
            frame.f_globals.get("__name__") == patching.__name__  # what lies between is watched too
            or (self.through is not None and frame.f_code.co_filename.endswith(self.through))
        ):
            frame = frame.f_back
        code = None if frame is None else frame.f_code
        return code is not None and code.co_name == self.function and code.co_filename.endswith(self.file)

    def holder(self, name: str) -> Iterator[tuple[Any, str]]:
        """The class and attribute of ``ends`` or ``begins``; nothing where it is not loaded."""
        for one in name.split():
            module, _, path = one.partition(":")
            owner, _, method = path.rpartition(".")
            holder = sys.modules.get(module)
            if holder is not None and (not owner or hasattr(holder, owner)):
                yield (getattr(holder, owner) if owner else holder), method


_LOOPS = (
    _Loop(
        os.path.join("multiprocessing", "pool.py"),
        "worker",
        ends="multiprocessing.connection:_ConnectionBase.send_bytes",
    ),
    _Loop(
        os.path.join("concurrent", "futures", "process.py"),
        "_process_worker",
        ends="concurrent.futures.process:_sendback_result",
    ),
    _Loop(  # checked on joblib 1.6, which holds its own
        os.path.join("loky", "process_executor.py"),
        "_process_worker",
        ends="joblib.externals.loky.process_executor:_sendback_result loky.process_executor:_sendback_result",
    ),
    _Loop(  # checked on Ray 2.60, whose own loop is C++ code that this function calls
        os.path.join("ray", "_private", "worker.py"),
        "main_loop",
        ends="ray._private.worker:Worker.record_task_log_end",
        begins="ray._private.worker:Worker.record_task_log_start",
        through=None,
    ),
)


def between_tasks(ends: Callable[[], None], begins: Callable[[bytes], None]) -> None:
    """Call ``ends`` when this process has done a task, and ``begins`` when it gets the next, if it is a worker: with
    what it was sent, function and arguments; empty where that was not seen.

    ``ends`` comes before the result is sent: whoever waits for that may end the process as soon as it has it.
    """
    for loop in _LOOPS:

        def ended(call: WatchedCall, loop: _Loop = loop) -> None:
            if loop.calls(call.frame):
                ends()

        def begun(call: WatchedCall, loop: _Loop = loop) -> None:
            sent = call.first if loop.begins is _UNPACKS else b""
            if sent not in _NO_TASK and loop.calls(call.frame):
                begins(bytes(sent))

        frame: FrameType | None = sys._getframe()
        while frame is not None:  # torch may be loaded by what the first task needs, as that is unpacked
            sent = frame.f_locals.get("res") if frame.f_code.co_filename.endswith(_QUEUES) else None
            if isinstance(sent, bytes) and loop.calls(frame):
                begins(sent)
            frame = frame.f_back
        patching.place(loop.holder(loop.ends), Watch(ended))
        patching.place(loop.holder(loop.begins), Watch(begun))
