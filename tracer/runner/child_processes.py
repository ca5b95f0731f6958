"""Records the child processes of a recorded script, each in a trace beside its parent's."""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from tracer.recording import patching
from tracer.recording.options import Keep
from tracer.recording.patching import Call, Watch
from tracer.recording.process.child_traces import ChildTask, ChildTraces
from tracer.recording.process.following import FOLLOWING, Event
from tracer.runner.imports import when_imported
from tracer.runner.outcome import ScriptRecording
from tracer.runner.ranks import current_rank
from tracer.runner.steps import Steps
from tracer.trace.paths import child_path, files_of_children, values_path

#: Children that are recorded; further ones are counted.
MOST_CHILDREN = 256
#: A trace is written as its process goes: after each of the first steps, then for one part in so many of its time.
_FIRST_STEPS, _SHARE = 8, 20
_POOL = os.path.join("multiprocessing", "pool.py")
#: What a pool sends to a worker that it ends, and may end by a signal before it has gone.
_NO_TASK = pickle.dumps(None)


class _Current:
    """The recording of this process."""

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
        start=recording.steps.start,
        stop=recording.steps.stop,
        values=recording.values is not None,
        eager=recording.is_eager,
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
    _Current.recording = None
    process = os.getpid()
    role = FOLLOWING.claimed(role)
    if sum(event.event == "records" for event in FOLLOWING.events()) >= MOST_CHILDREN:
        FOLLOWING.log(Event(role=role, event="is-too-many"))
        return
    order = msgspec.json.decode(task, type=ChildTask)
    output = child_path(order.output, role)
    recording = ScriptRecording(
        os.path.basename(sys.argv[0]) if sys.argv else "",
        output,
        output,
        Steps(order.start, order.stop),
        rank=current_rank(),
        exit_after=False,
    )
    recording.child, recording.is_quiet, recording.is_eager = role, True, order.eager
    recording.values = values_path(output) if order.values else None
    recording.source_folder = order.source_folder
    keep = Keep(order.keep, bytes=order.keep_bytes)
    recording.options = {**order.options, "on_step": _writing(recording), "keep": keep}
    if order.options.get("magnitudes"):
        recording.options["magnitudes"] = str(values_path(output))
    if order.trials is not None:
        recording.options["trials"] = order.trials
    _Current.recording = recording
    FOLLOWING.left_by_fork = recording.left_by_fork
    atexit.register(_end_at_exit, recording)
    recording.begin()
    _when_it_ends(lambda ended_by: _end(recording, ended_by))
    _when_a_pool_waits(recording)

    def begun() -> None:
        FOLLOWING.log(Event(role=role, event="records", pid=process))
        atexit.register(_end_at_exit, recording)  # before the files that recording has opened are closed

    when_imported("torch", begun)


def _writing(recording: ScriptRecording) -> Callable[[int], None]:
    """Writes the trace after each optimizer step, since pools and Ray kill their processes in the end."""
    last, cost = 0.0, 0.0

    def stepped(count: int) -> None:
        nonlocal last, cost
        began = time.monotonic()
        if count <= _FIRST_STEPS or began - last >= _SHARE * cost:
            recording.save_so_far()
            last = time.monotonic()
            cost = last - began

    return stepped


def _when_a_pool_waits(recording: ScriptRecording) -> None:
    """Complete the trace between two tasks of a ``multiprocessing`` pool, which ends its workers by a signal.

    It is before the result of the last task is sent: the pool may end its workers as soon as it has that.
    """
    connections = getattr(sys.modules.get("multiprocessing.connection"), "_ConnectionBase", None)
    is_paused, tasks, last, cost = False, 0, 0.0, 0.0

    def answers(call: Call) -> None:
        nonlocal is_paused, tasks, last, cost
        if is_paused or not _is_of_pool(call) or _Current.recording is not recording:
            return
        tasks += 1
        began = time.monotonic()
        if tasks <= _FIRST_STEPS or began - last >= _SHARE * cost:
            is_paused = recording.pause()
            last = time.monotonic()
            cost = last - began

    def has_task(call: Call) -> None:
        nonlocal is_paused
        if is_paused and _is_of_pool(call) and _Current.recording is recording and call.result != _NO_TASK:
            is_paused = False
            recording.resume()

    if connections is not None:
        patching.place([(connections, "send_bytes")], Watch(answers))
        patching.place([(connections, "recv_bytes")], Watch(after=has_task))


def _is_of_pool(call: Call) -> bool:
    """Whether a pool's worker is sending a result or receiving a task through a queue."""
    worker = call.frame.f_back
    while worker is not None and worker.f_globals.get("__name__") == patching.__name__:
        worker = worker.f_back  # the queue's method is watched too
    code = None if worker is None else worker.f_code
    return code is not None and code.co_name == "worker" and code.co_filename.endswith(_POOL)


def _when_it_ends(end: Callable[[str], None]) -> None:
    """Call ``end`` with the reason when this process ends by itself, by a normal exit or ``os._exit``."""

    def leaves(call: Call) -> None:
        code = call.args[0] if call.args else call.kwargs.get("status", 0)
        end(f"exit code {code}" if code else "")

    def left(call: Call) -> None:
        end(f"exit code {call.result}" if call.result else "")

    patching.place([(os, "_exit")], Watch(leaves))
    processes = getattr(sys.modules.get("multiprocessing.process"), "BaseProcess", None)
    if processes is not None:
        patching.place([(processes, "_bootstrap")], Watch(after=left))


def _end_at_exit(recording: ScriptRecording) -> None:
    _end(recording, getattr(getattr(sys, "last_type", None), "__name__", ""))


def _end(recording: ScriptRecording, ended_by: str) -> None:
    if _Current.recording is not recording:
        return
    _Current.recording = None
    with suppress(Exception):  # no business of the program's
        recording.finish(ended_by, may_import=False)
        trace = recording.trace
        sources = () if trace is None else trace.sources
        rank = current_rank()
        FOLLOWING.log(
            Event(
                role=recording.child,
                event="ends",
                rank=None if rank is None else rank.rank,
                calls=sum(source.calls for source in sources),
                optimizer_steps=sum(source.optimizer_steps for source in sources),
                ended_by=ended_by,
                generators=() if trace is None else trace.generators,
                draws=() if trace is None else trace.draws,
            )
        )
