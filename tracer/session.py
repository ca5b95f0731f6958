"""``DeterminismTracer`` records, by its ``Session``; ``judge`` judges a trace.

Importing this module imports no torch: a trace is judged without it, and the recorder loads when recording begins.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from tracer.errors import TraceError, UsageError, reason_of
from tracer.names import Backend, Settings
from tracer.recording.options import Keep, LineOptions, RecordOptions, Trials
from tracer.trace import Trace

if TYPE_CHECKING:
    import torch

    from tracer.findings import Finding, Process
    from tracer.recording.lines.recording import LineRecording
    from tracer.recording.options import OneRank
    from tracer.recording.process.following import ChildTraces
    from tracer.recording.process_watch import ProcessWatch
    from tracer.recording.recorder import Recorder
    from tracer.report import Report
    from tracer.trace.records import FactValue

F = TypeVar("F", bound=Callable[..., Any])


class Session:
    """One recording: its recorder, the thread that entered it, and its files; ``watch`` may outlast it."""

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        options: RecordOptions = RecordOptions(),  # noqa: B008  (frozen)
        *,
        on_step: Callable[[int], None] | None = None,
        watch: ProcessWatch | None = None,
    ) -> None:
        if model is not None and not hasattr(model, "named_modules"):
            hint = "the recording's name is DeterminismTracer(name=...)"
            raise UsageError(f"model={model!r} is no module", hint=hint)
        if on_step is not None and not callable(on_step):
            hint = "it is called with the number of steps so far"
            raise UsageError(f"on_step={on_step!r} cannot be called", hint=hint)
        self._model = model
        self.options = options
        self._lines: LineRecording | None = None
        self._on_step, self._watch = on_step, watch
        self._one_rank: OneRank | None = None
        if options.world_size is not None:
            from tracer.recording.options import OneRank

            self._one_rank = OneRank.of(options.rank or 0, options.world_size)
        self._fake_tensors = ExitStack()
        self._values_folder: weakref.finalize[..., Session] | None = None
        self._is_left_by_fork = False
        """Whether this is a forked child, which records itself."""
        self._depth = 0
        self._entering = threading.RLock()
        self._thread = threading.current_thread()

    @functools.cached_property
    def recorder(self) -> Recorder:
        """The recorder; torch is imported with it."""
        from tracer.recording.recorder import Recorder
        from tracer.tables.asked import asked, compiled_facts

        recorder = Recorder(
            self._model,
            self.options,
            asked=asked().facts,
            asked_compiled=compiled_facts,
            variables=asked().variables,
            values=self._path if self.options.values or self.options.magnitudes else None,
            on_step=self._on_step,
            watch=self._watch,
        )
        self._model = None  # the recorder holds its modules weakly
        return recorder

    @functools.cached_property
    def _children(self) -> ChildTraces | None:
        if not self.options.children:
            return None
        from tracer.recording.process.following import ChildTraces

        return ChildTraces(None, self.options)

    def enter(self, *, steps_before: int = 0) -> None:
        """Begin to record on this thread, or go on: ``steps_before`` optimizer steps ended before, which number values.

        Raises ``UsageError`` while another thread is inside.
        """
        if self._is_left_by_fork:
            return
        with self._entering:
            here = threading.current_thread()
            if self._depth == 0:
                model = self._model
                if self.recorder.file is not None:
                    self.recorder.file.first_step = max(0, steps_before - self.recorder.optimizer.steps)
                if self.options.fake:
                    from tracer.recording.fake import on_fake_tensors
                    from tracer.recording.options import FakeMachine

                    for parameter in () if model is None else model.parameters():  # made before: no fake gradients
                        self._fake_tensors.callback(setattr, parameter, "grad", parameter.grad)
                    self._fake_tensors.enter_context(on_fake_tensors(FakeMachine(), self._one_rank))
                self.recorder.start()
                self._begin_lines()
                if self._children is not None:
                    self._children.begin(self._left_by_fork)
                self._thread = here
                if here is not threading.main_thread():
                    _guards()[id(self)] = _ThreadGuard(self)
            elif here.ident != self._thread.ident:
                raise UsageError(
                    f"this DeterminismTracer records thread {self._thread.name}, and not {here.name} at the same time",
                    hint="give each thread a tracer of its own",
                )
            self._depth += 1

    def leave(self, problem: type[BaseException] | None = None) -> None:
        """Undo one ``enter``, because of ``problem`` if there is one; the outermost stops recording.

        Raises ``UsageError`` on another thread, and if nothing was entered.
        """
        if self._is_left_by_fork:
            return
        if self._depth == 0:
            raise UsageError("this DeterminismTracer was left more often than entered", hint="use it in a `with`")
        if threading.get_ident() != self._thread.ident:
            if problem is not None:  # it says more than this error
                return
            raise UsageError(
                f"this DeterminismTracer was entered on thread {self._thread.name}, and is left on another",
                hint="leave it on the thread that entered it",
            )
        self._depth -= 1
        if self._depth == 0:
            _guards().pop(id(self), None)
            if problem is not None and problem is not SystemExit:
                self.recorder.partial = problem.__name__
            if self._children is not None:
                self._children.end()
            if self._lines is not None:
                self._lines.stop()
            self.recorder.stop()
            self._fake_tensors.close()

    def __enter__(self) -> Session:
        self.enter()
        return self

    def __exit__(self, problem: type[BaseException] | None, value: object, traceback: object) -> None:
        self.leave(problem)

    def _begin_lines(self) -> None:
        """Follow the lines of the program, those of the frames that run already too."""
        if self.options.lines is None:
            return
        from tracer.recording.lines.recording import begun_lines
        from tracer.recording.origin import programs_frame

        if self._lines is not None:
            self._lines.start(programs_frame())
            return
        values = self.recorder.values
        next_call = None if values is None else values.file.place
        self._lines = begun_lines(self._path, self.options.lines, next_call, programs_frame())
        if values is not None:
            self._lines.digests.written_by = values.written_by

    def _left_by_fork(self) -> None:
        """This process was forked inside: it records itself, and leaves what its parent records."""
        self._is_left_by_fork, self._depth = True, 0
        _guards().pop(id(self), None)
        self.recorder.stop()

    def thread_ended(self) -> None:
        """The thread that entered ends inside: a mode left on it would abort the interpreter."""
        if self._depth and threading.get_ident() == self._thread.ident:
            self._depth = 0
            self.recorder.partial = "its thread ended before it was left"
            self.recorder.stop()

    @property
    def trace(self) -> Trace:
        """The recording so far."""
        from tracer import __version__

        trace = self.recorder.trace(__version__)
        if self._one_rank is not None:
            one = {"rank": self._one_rank.rank, "world_size": self._one_rank.world_size}
            trace = replace(trace, sources=tuple(replace(source, **one) for source in trace.sources))
        return trace if self._children is None else replace(trace, children=self._children.listed())

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The recordings so far: ``trace``, and those of child processes that made an optimizer step."""
        if self._children is None:
            return (self.trace,)
        from tracer.trace.file import family_of

        return family_of(self.trace, self._children.output)

    @property
    def values(self) -> Path | None:
        """The file of digests and magnitudes; ``None`` where none are kept."""
        return None if self.recorder.file is None else self.recorder.file.path

    def flush_values(self) -> None:
        """Write the digests so far to their file."""
        file = self.recorder.file
        if self.recorder.values is not None and file is not None and file.writer is not None:
            file.writer.flush()

    def end_values(self, partial: str) -> None:
        """Close the file of digests, saying why it is not whole; a signal's handler may call this."""
        if self.recorder.file is not None:
            self.recorder.file.end(partial)

    def save_inputs(self, path: str | os.PathLike[str]) -> None:
        """Write the inputs that were kept, if any were asked for, beside the trace ``path``."""
        kept_inputs = self.recorder.kept_inputs
        if kept_inputs is not None:
            from tracer.trace.file import inputs_path

            kept_inputs.write(inputs_path(os.path.abspath(path)))

    def save_beside(self, path: str | os.PathLike[str]) -> None:
        """Write what else was recorded beside the trace ``path``: digests, rows of lines, what child processes left."""
        from tracer.trace.file import child_path, files_of_children, inputs_path, values_path
        from tracer.trace.lines import files_of_lines, lines_path

        path = os.path.abspath(path)
        if self.values is not None and self.values != values_path(path):
            try:
                _copy(self.values, values_path(path))
            except TraceError:
                if self._values_folder is not None:
                    self._values_folder.detach()
                raise
        if self.options.lines is not None and (written := lines_path(self._path)) != (beside := lines_path(path)):
            for file in files_of_lines(self._path):
                _copy(file, beside.with_name(beside.name + file.name.removeprefix(written.name)))
        if self._children is None:
            return
        for earlier in files_of_children(path):
            with suppress(OSError):  # it would be taken for this recording's
                earlier.unlink()
        for child in self._children.listed():
            written, beside = child_path(self._children.output, child.role), child_path(path, child.role)
            if written.is_file():
                Trace.load(written).save(beside)
                for path_of in (values_path, inputs_path):
                    if path_of(written).is_file():
                        _copy(path_of(written), path_of(beside))

    @functools.cached_property
    def _path(self) -> Path:
        for named in (self.options.values, self.options.magnitudes):
            if isinstance(named, str):
                return Path(os.path.abspath(named))
        folder = mkdtemp(prefix="tracer-")
        self._values_folder = weakref.finalize(self, _remove, folder, os.getpid())
        return Path(folder, "step.values")


class DeterminismTracer:
    """Records every op that runs inside a ``with`` block, on this thread and in its backward passes.

    Entering the same recorder again adds to its trace; nested entering has no further effect. It also decorates
    functions, generators and coroutines, which are recorded while they run, not while they are suspended. One thread is
    recorded at a time. Parameters, gradients, outputs and random streams are bit-identical with and without the
    recorder.

    Raises ``UsageError`` for an option of the wrong type, and if the recorder is entered or left on another thread
    while it records.

    Parameters
    ----------
    model
        Module whose ``named_modules()`` gives the module paths. Without it, a path begins with the class of the
        outermost module. Only a weak reference is kept.
    name
        Name of the recording in reports.
    library
        Further packages (top-level names) whose code counts as a library's, as that of installed packages does.
    values
        Record digests of what each call reads and writes, to compare two runs: the path of the file, or ``True`` for a
        file beside the trace, written by ``save``. It costs more than recording alone; see ``docs/values.md``.
    magnitudes
        Record how large results are at each place of the step (a module's output, a loss, a gradient, a parameter), to
        compare two configurations: the path of the file, or ``True``. If ``values`` is set too, both share one file.
        See ``docs/compare.md``.
    trials
        Number of times that each call which the tables call a risk on its own device is replayed on the spot; the
        results are compared bit by bit and reported in ``CallGroup.tried``. ``trials=5`` is short for ``Trials(5)``;
        ``Trials(5, all=True)`` replays every call. See ``Trials`` and ``docs/trials.md``.
    data_facts
        Read the data of calls that write by an index or choose among values, for unique indices and ties, and report
        them in ``CallGroup.data``. The verdict then holds for these data. Each such call waits for the device.
    rows
        Make each call again on one sample of the batch and on half of them, and report in ``Trace.rows`` whether its
        rows are equal, bit by bit, whatever stands beside them. ``True`` takes as many samples as the first tensor has
        rows that a model is handed; a number says how many. A trial waits for the device. See ``docs/rows.md``.
    keep
        Save the inputs of the first call of each group whose op matches a glob, for ``tracer repro --with-values``:
        ``keep="index_add*"``, several globs, or ``Keep("index_add*", bytes=2**28)``. ``save`` writes them beside the
        trace: ``step.inputs.safetensors`` for ``step.trace.json``. Each copy waits for the device.
    on_step
        Called after each optimizer step that ends inside the block, with the number of such steps so far.
    fake
        Run the block on fake tensors, which take no memory and hold no data; build the model inside the block. Values
        that the program reads are 1. See ``docs/fake.md``.
    world_size, rank
        With ``fake=True``, run the block as rank ``rank`` (default 0) of a job of ``world_size`` ranks: the variables
        of ``torchrun`` are set, and process groups made inside are torch's fake ones, whose collectives return at once.
        Raises ``RankError`` if the block makes them for another rank.
    children
        Record the Python processes that are started inside the block too, however they are started. Each that makes an
        optimizer step has a trace of its own: ``save`` writes ``step.trace.child-1.json`` beside ``step.trace.json``,
        and ``report`` includes them. Processes that cannot be followed remain blind spots. If another recording of this
        process already follows its children, they belong to that one. See ``docs/whole-jobs.md``.
    lines
        Record which of the program's lines changed which value too, to find where two runs begin to differ in Python.
        It implies ``values``, and is for diagnosis: it costs up to three times a step. ``Lines(library=("timm",))``
        follows that package's lines as well. Where a debugger, or coverage before Python 3.12, traces the program
        already, one line says so and the rest is recorded. See ``docs/repeat.md``.
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        *,
        name: str | None = None,
        library: Iterable[str] = (),
        values: bool | str | os.PathLike[str] = False,
        magnitudes: bool | str | os.PathLike[str] = False,
        trials: Trials | int = 0,
        data_facts: bool = False,
        rows: bool | int = False,
        keep: Keep | str | Iterable[str] = (),
        on_step: Callable[[int], None] | None = None,
        fake: bool = False,
        world_size: int | None = None,
        rank: int | None = None,
        children: bool = False,
        lines: LineOptions | bool = False,
    ) -> None:
        spelled = locals()
        options = {field: spelled[field] for field in RecordOptions.__struct_fields__ if field in spelled}
        self._session = Session(model, RecordOptions(**{**options, "name": name or ""}), on_step=on_step)

    def __enter__(self) -> DeterminismTracer:
        self._session.enter()
        return self

    def __exit__(self, problem: type[BaseException] | None, value: object, traceback: object) -> None:
        self._session.leave(problem)

    def __call__(self, function: F) -> F:
        """Decorate ``function``: each call of it is recorded.

        Raises ``UsageError`` for a generator and a coroutine, between whose turns other code runs.
        """
        in_turns = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        if any(is_kind(function) for is_kind in in_turns):
            raise UsageError(
                f"{function.__qualname__} runs in turns, and cannot be decorated",
                hint="use `with recorder:` inside it, around what is to be recorded",
            )

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return recorded  # type: ignore[return-value]

    @property
    def values(self) -> Path | None:
        """The file of digests; ``None`` where none are kept. It is whole when the recording has ended."""
        return self._session.values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to ``path``, and the digests, if they are kept, to a file beside it.

        For ``step.trace.json`` that is ``step.values``; a file that ``values`` named stays where it is too. Traces of
        child processes lie beside it as well. Raises ``TraceError`` if any cannot be written; it names the file that
        has the data instead.
        """
        try:
            self._session.save_beside(path)
        finally:
            self.trace.save(path)
            self._session.save_inputs(path)

    @property
    def optimizer_steps(self) -> int:
        """Optimizer steps that ended while recording."""
        return self._session.recorder.optimizer.steps

    @property
    def trace(self) -> Trace:
        """The recording so far; can be read while recording and after."""
        return self._session.trace

    def report(
        self,
        backend: str = Backend.RECORDED,
        torch: str = "recorded",
        settings: str | Mapping[str, FactValue] = Settings.RECORDED,
        *,
        strict: bool = False,
        host: Iterable[str] = (),
    ) -> Report:
        """Judge what was recorded so far, child processes included; see ``judge``."""
        traces = self._session.traces
        return judge_job(traces, backend=backend, torch=torch, settings=settings, strict=strict, host=tuple(host))


def _guards() -> dict[int, _ThreadGuard]:
    """Guards of the sessions that this thread is inside of; they are freed when the thread ends."""
    guards: dict[int, _ThreadGuard] = _ThreadGuard.here.__dict__.setdefault("guards", {})
    return guards


class _ThreadGuard:
    """Leaves a session when the thread that is inside of it ends."""

    here = threading.local()

    def __init__(self, session: Session) -> None:
        self._session = session

    def __del__(self) -> None:
        with suppress(Exception):  # where the interpreter ends too, little is left to call
            self._session.thread_ended()


def _copy(written: Path, beside: Path) -> None:
    """Copy a file beside a trace. Raises ``TraceError``, which names the file that has the data."""
    try:
        beside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(written, beside)
    except OSError as problem:
        with suppress(OSError):
            beside.unlink()
        message = f"cannot write {beside}: {reason_of(problem)}"
        raise TraceError(message, hint=f"the values are in {written}") from problem


def _remove(folder: str, process: int) -> None:
    """Remove the folder of values that nobody saved, unless this is a forked child."""
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
    from tracer.tables.compiled import load_compilers
    from tracer.tables.loading import load_switches, load_tables
    from tracer.tables.rules import load_rows, load_translations

    if backend == Backend.RECORDED:  # a run on fake tensors ran as the machine that was asked for
        machines = {source.fake_as.partition(":")[0] for source in trace.sources}
        backend = next((name for name in Backend if name in machines), backend)
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
    return Report(judgement, judged_calls=calls)


def judge_job(traces: Iterable[Trace], **target: Any) -> Report:
    """``judge`` the recordings of one job together; the report compares its ranks, and tells its processes apart."""
    from tracer.trace.differences import compare_ranks
    from tracer.trace.merging import merge_traces

    traces = tuple(traces)
    report = judge(merge_traces(traces), **target)
    return dataclasses.replace(
        report,
        ranks=compare_ranks(trace for trace in traces if not trace.children or trace.call_count),
        processes=processes_of(report, traces, **target),
    )


def findings_of_others(report: Report, traces: Iterable[Trace], **target: Any) -> tuple[Finding, ...]:
    """Findings that ``report`` on merged ``traces`` lacks, since it judges all by the first one's environment.

    Recordings of each environment are judged by their own, for the same ``target`` (see ``judge``); findings that
    ``report`` has with that verdict are left out.
    """
    from tracer.gate import risk_of
    from tracer.trace.merging import merge_traces

    groups: list[list[Trace]] = []
    for trace in traces:
        same = next((group for group in groups if group[0].environment == trace.environment), None)
        if same is None:
            groups.append(same := [])
        same.append(trace)
    others: dict[object, Finding] = {}
    for group in groups if len(groups) > 1 else ():
        for finding in judge(merge_traces(group), **target).findings:
            others.setdefault((risk_of(finding), finding.verdict), finding)
    present = {(risk_of(finding), finding.verdict) for finding in report.findings}
    return tuple(finding for risk, finding in others.items() if risk not in present)


def processes_of(report: Report, traces: Iterable[Trace], **target: Any) -> tuple[Process, ...]:
    """The processes whose ``traces`` are merged in ``report``, and those that left none; empty without children."""
    from tracer.findings import Process
    from tracer.gate import risk_of
    from tracer.trace.file import role_of

    traces = tuple(traces)
    children = {child.role: child for trace in traces for child in trace.children}
    if not children:
        return ()
    positions: dict[object, list[int]] = {}
    for position, finding in enumerate(report.findings):
        positions.setdefault(risk_of(finding), []).append(position)
    by_role: dict[str, set[int]] = {role: set() for role in ("", *children)}
    for trace in traces:
        role = role_of(trace)
        for finding in judge(trace, **target).findings:
            by_role.setdefault(role, set()).update(positions.get(risk_of(finding), ()))
    names = {role: f"child {role}" if role else "main process" for role in by_role}
    return tuple(
        Process(name=names[role], child=children.get(role), findings=tuple(sorted(shown)))
        for role, shown in by_role.items()
    )
