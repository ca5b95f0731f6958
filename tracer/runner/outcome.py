"""Writes the trace when the recording or the script ends, and prints where."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from tracer.errors import TracerError, UsageError
from tracer.files import collector_paused
from tracer.plain import say
from tracer.recording.options import RecordOptions
from tracer.runner.imports import before_imports, when_imported
from tracer.runner.interrupts import interrupt_held
from tracer.runner.ranks import Rank
from tracer.runner.script import StepRange, Task
from tracer.trace.file import values_path

if TYPE_CHECKING:
    from tracer.names import ValueKind
    from tracer.recording.lines.recording import LineRecording
    from tracer.recording.options import FakeMachine, OneRank
    from tracer.recording.process.following import LogStep
    from tracer.recording.process_watch import ProcessWatch
    from tracer.recording.values.value_recorder import ValuesRecording
    from tracer.runner.window import StepWindow
    from tracer.trace import Trace
    from tracer.trace.records import Child, Environment


@dataclass(eq=False)
class ScriptRecording:
    """The recording of one script, from its import of torch to the trace's file."""

    task: Task
    """The script, and its steps that are recorded."""
    shown: Path
    """The file that the trace goes to, as the user spelled it."""
    rank: Rank | None = None
    options: RecordOptions = RecordOptions()  # noqa: RUF009  (frozen)
    """What is recorded."""
    source_folder: str | None = None
    """The folder below which lines of code are kept with the trace; ``None`` keeps none."""
    hint_folder: str | None = None
    """The folder below which the program's own files are read for hints; ``None`` reads none."""
    machine: FakeMachine | None = None
    """The machine that fake tensors stand in for; ``None`` for a run on real ones."""
    one_rank: OneRank | None = None
    """The rank of a job that a run on fake tensors stands for; ``None`` for a process of its own."""
    left_behind: Callable[[], Iterable[tuple[ValueKind, str, int, int]]] = tuple
    """Further results that the run leaves: kind, name, digest and position of each, for the file of values."""
    is_quiet: bool = False
    """Whether no line about the written trace is printed."""
    at_start: LogStep | None = None
    """The action in child processes that are not forked, before their first line."""
    child: str = ""
    """The role of the process that is recorded; empty for the one that the user started. A child has a trace only if it
    trains (an optimizer stepped, or gradients were computed) or infers."""

    def __post_init__(self) -> None:
        target = self.task.target
        self.name = target if self.task.as_module or not target else os.path.basename(os.path.normpath(target))
        self.output = Path(os.path.abspath(self.shown))  # the script may change the working directory
        self.options = self.options.with_values_at(values_path(self.output))
        self.on_step: Callable[[int], None] | None = None
        """Called after each optimizer step that is recorded."""
        self.children: Callable[[], tuple[Child, ...]] = tuple
        """The child processes of the script: role, state, and how each ended."""
        self.is_writing = False
        self.waiting: list[int] = []
        """Deadly signals that came while the trace was written, and wait for its end."""
        self.is_begun = False
        """Whether torch was loaded, and everything entered that the recording needs: a signal may come before."""
        self._fake = ExitStack()
        self._lines: LineRecording | None = None
        self._window: StepWindow | None = None
        self._watch: ProcessWatch | None = None
        self._process = os.getpid()
        self._torch: ModuleType | None = None
        """torch, once it is whole."""
        self._is_finished = False
        self._written: Trace | None = None
        self._said = ""

    def begin(self) -> None:
        """Watch what the script sets, and start recording as soon as torch is imported."""
        from tracer.recording.origin import Sites
        from tracer.recording.process.children import CHILDREN
        from tracer.recording.process_watch import ProcessWatch
        from tracer.recording.randomness.host_generators import HOST
        from tracer.recording.torch_private import LAUNCHER
        from tracer.tables.asked import asked

        self._watch = ProcessWatch(Sites(), asked().variables, from_start=True)
        self._watch.enter()
        when_imported("numpy", lambda: None)  # control-C waits until it is loaded
        when_imported("numpy.random", lambda: HOST.look_again(nobody_seeded=True))
        before_imports(HOST.imports)
        when_imported(LAUNCHER, HOST.look_again)
        when_imported("multiprocessing.process", CHILDREN.look_again)
        when_imported("torch", self._open)
        for name in ("triton", "triton.runtime.interpreter"):
            when_imported(name, _watch_launches)
        if self.options.eager:
            when_imported("torch._dynamo", _switch_compilation_off)

    def begin_lines(self) -> None:
        """Follow the lines of the program, whose first one comes next."""
        if self.options.lines is not None and self._process == os.getpid():
            from tracer.recording.lines.recording import begun_lines

            def values() -> ValuesRecording | None:
                return None if self._window is None else self._window.session.recorder.values

            def next_call() -> int | None:
                return None if (recorded := values()) is None else recorded.file.place()

            def written_by(tensor: Any) -> int:
                return 0 if (recorded := values()) is None else recorded.written_by(tensor)

            self._lines = begun_lines(self.output, self.options.lines, next_call)
            self._lines.digests.written_by = written_by

    def _step_ended(self, count: int) -> None:
        if self._lines is not None:
            self._lines.step_ended(count)
        if self.on_step is not None:
            self.on_step(count)

    def _open(self) -> None:
        if self._is_finished:  # a forked child that loads torch by itself
            return
        with interrupt_held(), collector_paused():
            self._torch = sys.modules.get("torch")
            self._begin_recording(sys._getframe(1))

    def _begin_recording(self, frame: FrameType) -> None:
        from tracer.runner.window import StepWindow
        from tracer.session import Session

        if self.machine is not None:
            from tracer.recording.fake import LIBRARIES, on_fake_tensors

            look = self._fake.enter_context(on_fake_tensors(self.machine, self.one_rank))
            for library in LIBRARIES:
                when_imported(library, partial(look, library))
        session = Session(
            # Lines and children are followed from the script's first line on.
            options=msgspec.structs.replace(self.options, name=self.name, lines=None, children=False),
            on_step=self._step_ended,
            watch=self._watch,
        )
        if session.recorder.values is not None:
            session.recorder.values.moments.left_behind = self.left_behind
        if self._watch is not None:
            self._watch.torch_loaded(frame)
        self._window = StepWindow(session, self.task, self._write_early)
        self._window.open()
        self.is_begun = True

    @property
    def trace(self) -> Trace | None:
        """The trace so far; ``None`` if torch was not loaded."""
        return None if self._window is None else self._window.session.trace

    def save_so_far(self) -> None:
        """Write the trace so far, while the script runs."""
        if self._window is not None and self._window.settings is not None:
            self._window.session.flush_values()
            with suppress(TracerError):
                self._write(self._window, "its process was killed, or runs on", rescue=False)

    def pause(self) -> bool:
        """The process is idle and may be killed: make the trace complete until ``resume``.

        False where nothing was paused.
        """
        window = self._window
        if window is None or window.settings is None or not window.pause():
            return False
        with suppress(TracerError):
            self._write(window, self._missed(window), rescue=False)
        return True

    def resume(self) -> None:
        assert self._window is not None
        self._window.resume()
        self.save_so_far()

    def left_by_fork(self) -> None:
        """Leave the recording in a process that was forked from the recorded one; write nothing."""
        self._is_finished = True
        self._lines = None  # the lines of a forked process are its own
        self.discard()

    def discard(self) -> None:
        """Stop without writing a trace, because there was no script to run."""
        if self._window is not None:
            self._window.close()
        self._end_watch()

    def _end_watch(self) -> None:
        self._fake.close()
        if self._lines is not None:
            self._lines.stop()
        if self._watch is not None:
            self._watch.leave()
            self._watch = None

    def _write_early(self) -> None:
        """Write the trace as soon as its last step is recorded, so that it survives if the script is killed later.

        ``finish`` writes it anew where what the script did meanwhile belongs to it (loaders, settings that come too
        late). A pipe takes one trace only, and what fails here is tried again, and told, at the end.
        """
        window = self._window
        if (
            window is None
            or os.getpid() != self._process
            or (os.path.exists(self.output) and not os.path.isfile(self.output))
        ):
            return
        self.is_writing = True
        try:
            with suppress(TracerError):
                self._write(window, "", rescue=False)
                if not self.is_quiet:
                    self._said = self._closing_line(window, "")
                    say(self._said)
        finally:
            self.is_writing = False
        while self.waiting:
            os.kill(self._process, self.waiting.pop(0))

    def finish(self, ended_by: str = "", *, dying: bool = False, may_import: bool = True) -> str:
        """Stop, write the trace, and return the closing line; empty if it was printed already.

        ``ended_by`` says what ended the script early. A window that was full by then is whole all the same.
        A process that the script forked writes nothing: the trace is its parent's. A process that is
        ``dying`` may be in the middle of an op, where the recorder cannot be left, and need not be.
        Without a recording torch is imported for a trace of nothing, unless ``may_import`` forbids it, or torch or
        NumPy is half imported: their libraries cannot be initialized twice.
        """
        if os.getpid() != self._process or self._is_finished:
            return ""
        self.is_writing = True
        half_imported = {name.partition(".")[0] for name in sys.modules}.difference(sys.modules) & {"torch", "numpy"}
        never = self._window is None and (dying or not may_import or bool(half_imported))
        if never or (dying and not self.is_begun):
            self._end_watch()
            self._is_finished, self.is_writing = True, False
            reason = "torch was not imported" if self._torch is None else "recording had not begun"
            return f"tracer: no trace was written: {reason}{ended_by and f' ({ended_by})'}"
        if self._torch is not None:  # an interrupt right after its import made Python forget it
            sys.modules.setdefault("torch", self._torch)
        if self._window is None:
            try:
                import torch  # noqa: F401  (calls ``_open``)
            except ImportError as problem:
                raise UsageError(f"torch cannot be imported: {problem}", hint="pip install torch") from problem
        if self._window is None:  # the script took the watcher away
            self._open()
        window = self._window
        assert window is not None
        if dying:
            window.read_settings()
        else:
            window.close()
        partial = self._missed(window, ended_by)
        window.session.end_values(partial)
        if not self.child or window.finished or _has_model(window.session.trace):
            self._write(window, partial)
        self._end_watch()
        self._is_finished, self.is_writing = True, False
        line = "" if self.is_quiet else self._closing_line(window, partial)
        return "" if line == self._said else line

    def _missed(self, window: StepWindow, ended_by: str = "") -> str:
        """Return the reason why the recording is incomplete; empty if it is complete."""
        if window.complete or self._trains_elsewhere(window, ended_by):
            return ""
        return ended_by or window.blocked or self.task.steps.missed(window.finished)

    def _trains_elsewhere(self, window: StepWindow, ended_by: str = "") -> bool:
        """Whether it ended, without a step, once processes that it started had trained: it waits for them alone."""
        return not (ended_by or window.finished) and any(child.optimizer_steps for child in self.children())

    def _write(self, window: StepWindow, partial: str, *, rescue: bool = True) -> None:
        """Write the current trace, unless the file already holds it."""
        trace = self._signed(window.session.trace, partial, window.settings)
        if self.source_folder is not None:
            from tracer.runner.script import source_lines

            trace = msgspec.structs.replace(trace, source_lines=source_lines(trace, self.source_folder))
        if self.hint_folder is not None:
            from tracer.runner.hints import hints_of

            trace = msgspec.structs.replace(trace, hints=hints_of(trace, self.hint_folder))
        if trace != self._written:
            trace.save(self.output, rescue=rescue)
            window.session.save_inputs(self.output)
            self._written = trace

    def _signed(self, trace: Trace, partial: str, settings: Environment | None) -> Trace:
        """``trace`` with what only the runner knows: its source, and the settings that the script made meanwhile."""
        devices = trace.environment.devices
        environment = msgspec.structs.replace(settings or trace.environment, devices=devices)
        if self._watch is not None:
            from tracer.recording.process.environment import under

            environment = under(self._watch.with_inductor(environment), self._watch.log.settings_of_calls)
        rank = self.rank
        sources = tuple(
            msgspec.structs.replace(
                source,
                name=source.name or self.name,
                rank=rank.rank if rank else source.rank,
                world_size=rank.world_size if rank else source.world_size,
                child=self.child,
                partial=partial or source.partial,
                fake_as="" if self.machine is None else str(self.machine),
                eager=self.options.eager,
            )
            for source in trace.sources
        )
        return msgspec.structs.replace(trace, environment=environment, sources=sources, children=self.children())

    def _closing_line(self, window: StepWindow, partial: str) -> str:
        trace = self._written
        assert trace is not None
        from tracer.names import Training

        what = "step" if any(source.steps_by_hand for source in trace.sources) else "optimizer step"
        steps = _counted(sum(source.steps for source in trace.sources), what)
        program = "inference" if trace.training is Training.INFERENCE else steps
        parts = [
            f"tracer: {self.shown}{' (partial)' if partial else ''}: {_counted(trace.call_count, 'call')} "
            f"in {_counted(len(trace.calls), 'group')}, {program}"
        ]
        if window.finished == 0 and self.task.steps != StepRange() and not self._trains_elsewhere(window):
            parts.append(f"no optimizer step ended, so --steps {self.task.steps} was never over")
        elif partial:
            parts.append(partial)
        parts.append(f"next: tracer report {shlex.quote(str(self.shown))}")
        return "; ".join(parts)


def _has_model(trace: Trace) -> bool:
    """Return whether the process trained a model or ran one, other than to prepare a batch."""
    from torch.utils.data import get_worker_info

    from tracer.names import Phase, Training

    is_inference = trace.training is Training.INFERENCE and get_worker_info() is None
    return is_inference or any(call.phase is Phase.BACKWARD for call in trace.calls)


def _watch_launches() -> None:
    launches = sys.modules.get("tracer.recording.launched")
    if launches is not None:  # else nothing is recorded yet
        launches.WATCHES.look_again()


def _switch_compilation_off() -> None:
    from tracer.recording.torch_private.compile_seams import switch_compilation_off

    switch_compilation_off()


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
