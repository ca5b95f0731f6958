"""The two names that join the floors below: ``DeterminismTracer`` records, ``judge`` judges a trace.

Importing this module imports no torch: a trace is judged without it, and the recorder loads when recording begins.
"""

from __future__ import annotations

import inspect
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from tracer.errors import TraceError, UsageError, reason_of
from tracer.names import Backend, Settings
from tracer.recording.decorating import recorded_while_running
from tracer.recording.options import KEEP_BYTES, TRIAL_MEMORY, Keep, Trials
from tracer.trace import Trace

if TYPE_CHECKING:
    import torch

    from tracer.findings import Finding
    from tracer.recording.process_watch import ProcessWatch
    from tracer.recording.recorder import Recorder
    from tracer.report import Report
    from tracer.trace.records import FactValue

F = TypeVar("F", bound=Callable[..., Any])


class DeterminismTracer:
    """Records every op that runs inside a ``with`` block, on this thread and in its backward passes.

    Entering again adds to the same trace; entering while inside does nothing more. It can decorate a function too, a
    generator and a coroutine as well: they are recorded while they run, and not while they wait. One thread is recorded
    at a time: entering on another meanwhile, and leaving there, raise ``UsageError``.
    What runs is untouched: parameters, gradients, outputs and random streams are bit-identical with and without.

    Parameters
    ----------
    model
        Spells module paths as ``model.named_modules()`` does; without it the outermost module's class leads. Held
        weakly.
    name
        What the recording is called in reports.
    library
        Further packages (top-level names) whose code is not the user's own, as installed packages are not.
    values
        Keep digests of what each call reads and writes, to hold two runs against each other: the path of the file, or
        ``True`` for one that ``save`` puts beside the trace. Costs more than a recording without; see
        ``docs/values.md``.
    trials
        Make each call that the tables hold for a risk on its own device again, so many times, on the spot, and compare
        the results to the bit; what was found stands with its group, ``CallGroup.tried``. See ``docs/trials.md``.
    trial_all
        Try every call, not those at risk alone.
    trial_memory
        Bytes that the trials of one call may copy and hold; a call that needs more is counted as not tried.
    trial_threads
        Try on another number of threads too (on a CPU): what differs there differs between machines.
    data_facts
        Look at the data of calls that write by an index or choose among values: unique indices, ties. What they settle
        is deterministic for these data, ``CallGroup.data``. It reads values, and waits for a device at each such call.
    keep_inputs
        Globs of ops (``index_add*``), lines, files and modules: the data of the first call of each of their groups are
        kept, for ``tracer repro --with-values``; ``save`` writes them beside the trace, ``step.inputs.safetensors`` for
        ``step.trace.json``. On a device each copy waits for it.
    keep_bytes
        What they may take together; 256 MiB where it is not said.
    on_optimizer_step
        Called after each optimizer step that ends inside the block, with the number of such steps so far.
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        *,
        name: str | None = None,
        library: Iterable[str] = (),
        values: bool | str | os.PathLike[str] = False,
        trials: int = 0,
        trial_all: bool = False,
        trial_memory: int | None = None,
        trial_threads: bool = False,
        data_facts: bool = False,
        keep_inputs: str | Iterable[str] = (),
        keep_bytes: int | None = None,
        on_optimizer_step: Callable[[int], None] | None = None,
    ) -> None:
        self._model = model
        self._name = name or ""
        self._library = (library,) if isinstance(library, str) else tuple(library)
        self._on_optimizer_step = on_optimizer_step
        self._values = values
        memory = TRIAL_MEMORY if trial_memory is None else trial_memory
        self._trials = Trials(trials, all=trial_all, threads=trial_threads, memory=memory)
        self._data_facts = data_facts
        globs = keep_inputs if isinstance(keep_inputs, str) else tuple(keep_inputs)
        self._keep = Keep(globs, KEEP_BYTES if keep_bytes is None else keep_bytes) if globs else None
        self._values_folder: weakref.finalize[..., DeterminismTracer] | None = None
        self._depth = 0
        self._entering = threading.RLock()
        self._thread = threading.current_thread()
        self._lazy_recorder: Recorder | None = None
        self.keeps_source = False
        """Are lines of generated code kept with a region's kernels? To be set before it is entered."""
        self.first_step = 0
        """Optimizer steps that ended before it is entered: values number theirs from it. To be set before."""
        self.watch: ProcessWatch | None = None
        """What watches the process for longer than this records; to be set before it is entered. ``None``: its own."""

    @property
    def _recorder(self) -> Recorder:
        if self._lazy_recorder is None:
            from tracer import __version__
            from tracer.recording.recorder import Recorder
            from tracer.tables.compilers import compiled_facts
            from tracer.tables.loading import named_variables, required_facts

            self._lazy_recorder = Recorder(
                self._model,
                name=self._name,
                library=self._library,
                asked=required_facts(),
                asked_compiled=compiled_facts,
                variables=named_variables(),
                on_optimizer_step=self._on_optimizer_step,
                watch=self.watch,
                values=self._values_path(),
                trials=self._trials,
                data_facts=self._data_facts,
                keep=self._keep,
                tracer_version=__version__,
            )
            self._lazy_recorder.regions.keeps_lines = self.keeps_source
            if self.keeps_source:
                self._lazy_recorder.launched.keep_lines()
            if self._lazy_recorder.values is not None:
                self._lazy_recorder.values.first_step = self.first_step
            self._model = None  # the recorder holds its modules weakly
        return self._lazy_recorder

    def __enter__(self) -> DeterminismTracer:
        with self._entering:
            here = threading.current_thread()
            if self._depth == 0:
                self._recorder.start()
                self._thread = here
                if here is not threading.main_thread():
                    _guards()[id(self)] = _ThreadGuard(self)
            elif here.ident != self._thread.ident:
                raise UsageError(
                    f"this DeterminismTracer records thread {self._thread.name}, and not {here.name} at the same time",
                    hint="give each thread a tracer of its own",
                )
            self._depth += 1
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._depth == 0:
            raise UsageError("this DeterminismTracer was left more often than entered", hint="use it in a `with`")
        if threading.get_ident() != self._thread.ident:
            if exc_type is not None:  # which says more; the thread that entered leaves, or ends
                return
            raise UsageError(
                f"this DeterminismTracer was entered on thread {self._thread.name}, and is left on another",
                hint="leave it on the thread that entered it",
            )
        self._depth -= 1
        if self._depth == 0:
            _guards().pop(id(self), None)
            if exc_type is not None and exc_type is not SystemExit:
                self.mark_partial(exc_type.__name__)
            self._recorder.stop()

    def __call__(self, function: F) -> F:
        """Decorate ``function``: each call of it is recorded, a generator and a coroutine while they run.

        Raises ``UsageError`` for an asynchronous generator.
        """
        if inspect.isasyncgenfunction(function):
            raise UsageError(
                f"{function.__qualname__} is an asynchronous generator, which cannot be decorated",
                hint="use `with tracer:` inside it, around what is to be recorded",
            )
        return recorded_while_running(self, function)

    def thread_ended(self) -> None:
        """The thread that entered ends inside: nothing may stay on it, or the interpreter aborts as it ends."""
        if self._depth and threading.get_ident() == self._thread.ident:
            self._depth = 0
            self.mark_partial("its thread ended before it was left")
            self._recorder.stop()

    def mark_partial(self, reason: str) -> None:
        """Say that recording ended before the step did; the reason goes into the trace."""
        self._recorder.partial = reason

    def _values_path(self) -> Path | None:
        if not self._values:
            return None
        if self._values is not True:
            return Path(os.path.abspath(self._values))
        folder = mkdtemp(prefix="tracer-")
        self._values_folder = weakref.finalize(self, _remove, folder, os.getpid())
        return Path(folder, "step.values")

    @property
    def values(self) -> Path | None:
        """The file of digests; ``None`` where none are kept. It is whole when the recording has ended."""
        recorded = self._recorder.values
        return None if recorded is None else recorded.path

    def end_values(self, partial: str) -> None:
        """Close the file of digests, saying why it is not whole; from a signal's handler as well."""
        if self._recorder.values is not None:
            self._recorder.values.end(partial)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to ``path``, and the digests, where they are kept, to a file beside it.

        For ``step.trace.json`` that is ``step.values``; a file that ``values`` named stays where it is as well. Raises
        ``TraceError`` where either cannot be written, which names the file where it is instead.
        """
        try:
            self._save_values(path)
        finally:
            self.trace.save(path)
            self.save_inputs(path)

    def _save_values(self, path: str | os.PathLike[str]) -> None:
        from tracer.trace.values import values_path

        beside = values_path(os.path.abspath(path))
        if self.values is None or beside == self.values:
            return
        try:
            beside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.values, beside)
        except OSError as problem:
            if self._values_folder is not None:
                self._values_folder.detach()
            with suppress(OSError):
                beside.unlink()
            message = f"cannot write {beside}: {reason_of(problem)}"
            raise TraceError(message, hint=f"the values are in {self.values}") from problem

    def save_inputs(self, path: str | os.PathLike[str]) -> None:
        """Write the data that were kept, if any were asked for, beside the trace ``path``."""
        kept = self._recorder.kept
        if kept is not None:
            from tracer.trace.values import inputs_path

            kept.write(inputs_path(os.path.abspath(path)))

    @property
    def optimizer_steps(self) -> int:
        """Optimizer steps that ended while recording."""
        return self._recorder.optimizer.steps

    @property
    def trace(self) -> Trace:
        """What was recorded so far; can be read while recording and after."""
        from tracer import __version__

        return self._recorder.trace(__version__)

    def report(
        self,
        backend: str = Backend.RECORDED,
        torch: str = "recorded",
        settings: str | Mapping[str, FactValue] = Settings.RECORDED,
        *,
        strict: bool = False,
        host: Iterable[str] = (),
    ) -> Report:
        """Judge what was recorded so far; see ``judge``."""
        return judge(self.trace, backend=backend, torch=torch, settings=settings, strict=strict, host=host)


_HERE = threading.local()


def _guards() -> dict[int, _ThreadGuard]:
    """Guards of the tracers that this thread is inside of; the thread's end lets go of them."""
    guards: dict[int, _ThreadGuard] = _HERE.__dict__.setdefault("guards", {})
    return guards


class _ThreadGuard:
    """Leaves a tracer when the thread that is inside of it ends."""

    def __init__(self, tracer: DeterminismTracer) -> None:
        self._tracer = tracer

    def __del__(self) -> None:
        with suppress(Exception):  # where the interpreter ends too, little is left to call
            self._tracer.thread_ended()


def _remove(folder: str, process: int) -> None:
    """Remove the folder of values that nobody saved; a child that was forked leaves its parent's alone."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def judge(
    trace: Trace,
    *,
    backend: str = Backend.RECORDED,
    torch: str = "recorded",
    settings: str | Mapping[str, FactValue] = Settings.RECORDED,
    strict: bool = False,
    host: Iterable[str] = (),
) -> Report:
    """Hold ``trace`` against the determinism tables for a target, and report.

    Parameters
    ----------
    backend
        ``cpu``, ``cuda``, ``rocm``, ``xpu``, ``mps``, ``npu``, or ``recorded``: each call's own device.
    torch
        A torch version such as ``2.13``, or ``recorded``.
    settings
        ``recorded``, ``default`` (deterministic mode off, torch's default flags), ``warn``, or ``deterministic`` (mode
        on, ``CUBLAS_WORKSPACE_CONFIG`` set). Or settings in place of the recorded ones, by name: fields of
        ``trace.environment`` (``deterministic_mode``, ``cudnn_benchmark``), environment variables, torch's dotted
        names, and ``seed.torch``, ``seed.python``, ``seed.numpy`` to ``True``: ``report.planned_settings``, for one.
    strict
        Answer ``unknown`` for a torch that is newer than a table was reviewed for, in place of the newest reviewed
        version's verdict.
    host
        Globs of files, lines (``data.py:12``), functions and modules whose calls run on the host whatever the backend,
        as transforms and schedulers do: they are judged for the CPU. What a ``DataLoader`` fetched in the recorded
        process is known without; ``tracer report`` and ``tracer check`` read comments ``# tracer: host`` too.

    Raises
    ------
    TargetError
        The target does not exist; the message lists what does.
    """
    from tracer.judging import judge_calls, make_target
    from tracer.report import Report
    from tracer.tables.compilers import load_compilers
    from tracer.tables.loading import load_tables
    from tracer.tables.settings.rows import load_rows
    from tracer.tables.settings.switches import load_switches
    from tracer.tables.translation import load_translations

    target = make_target(trace.environment, backend=backend, torch=torch, settings=settings, host=host)
    tables, translations, rows = load_tables(), load_translations(), load_rows()
    judgement, calls = judge_calls(
        trace,
        tables,
        target,
        strict=strict,
        translations=translations,
        rows=rows,
        switches=load_switches(),
        compilers=load_compilers() if trace.regions else {},
    )
    return Report(judgement, calls=calls)


def findings_of_others(report: Report, traces: Iterable[Trace], **target: Any) -> tuple[Finding, ...]:
    """What ``report`` on merged ``traces`` lacks, since it judges all by the first one's environment.

    Recordings of each other environment are judged by their own, for the same ``target`` (see ``judge``); a finding
    that ``report`` has with that verdict is not given again.
    """
    from tracer.gate.baseline import risk_of
    from tracer.trace import merge_traces

    groups: list[list[Trace]] = []
    for trace in traces:
        for group in groups:
            if group[0].environment == trace.environment:
                group.append(trace)
                break
        else:
            groups.append([trace])
    if len(groups) < 2:
        return ()
    met = {(risk_of(finding), finding.verdict) for finding in report.findings}
    others = []
    for group in groups:
        for finding in judge(merge_traces(group), **target).findings:
            if (key := (risk_of(finding), finding.verdict)) not in met:
                met.add(key)
                others.append(finding)
    return tuple(others)
