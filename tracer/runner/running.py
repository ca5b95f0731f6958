"""Runs a script under the recorder, with the exit code that it has without."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import msgspec

from tracer.errors import RankError, UsageError
from tracer.files import collector_paused
from tracer.plain import say
from tracer.recording import patching
from tracer.recording.options import RecordOptions
from tracer.recording.patching import Call, Watch
from tracer.runner.interrupts import AGAIN, end_by, interrupt_held
from tracer.runner.outcome import ScriptRecording
from tracer.runner.ranks import Rank
from tracer.runner.replacing import followed_by_exec
from tracer.runner.script import prepare
from tracer.runner.steps import Steps
from tracer.runner.tracebacks import trim
from tracer.trace.paths import values_path

#: Sent by job schedulers, torchrun and a closing terminal; they end a Python process at once.
DEADLY = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def trace_before_dying(recording: ScriptRecording) -> Iterator[None]:
    """Write ``recording`` before such a signal ends the process as it would have without us.

    Nothing is raised into the script, whose ``finally`` blocks would not have run either. A signal that the
    script or its parent handles or ignores is left alone; a forked child just dies.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process = os.getpid()
    writing_since = 0.0

    def write_and_die(number: int, frame: FrameType | None) -> None:
        nonlocal writing_since
        if os.getpid() != process:
            end_by(number)
        elif recording.is_writing:
            # ``timeout`` and schedulers send a signal twice at once; one that comes later is for a process that hangs.
            if recording.waiting and time.monotonic() - writing_since > AGAIN:
                end_by(number)
            recording.waiting.append(number)
            writing_since = writing_since or time.monotonic()
        else:
            recording.is_writing = True
            recording.waiting.append(number)
            writing_since = time.monotonic()
            try:
                say(recording.finish(f"ended by {signal.Signals(number).name}", dying=True))
            except Exception as problem:
                with suppress(Exception):  # the script's stream may be in the middle of a line
                    say(f"tracer: error: the trace was not written as asked: {problem}")
            finally:
                end_by(number)

    ours = [number for number in DEADLY if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, write_and_die)
    try:
        yield
    finally:
        for number in ours:
            if signal.getsignal(number) is write_and_die:
                signal.signal(number, signal.SIG_DFL)
        for number in recording.waiting:
            os.kill(os.getpid(), number)


@contextmanager
def trace_before_leaving(recording: ScriptRecording, leave: Callable[[], None]) -> Iterator[None]:
    """Write ``recording`` before ``os._exit`` ends the process, and call ``leave`` then.

    A thread may call it while another is in the middle of an op.
    """

    def leaves(call: Call) -> None:
        code = call.args[0] if call.args else call.kwargs.get("status", 0)
        is_main = threading.current_thread() is threading.main_thread()
        try:
            line = recording.finish(f"exit code {code}" if code else "", dying=not is_main, may_import=False)
        except Exception as problem:
            line = f"tracer: error: the trace was not written as asked: {problem}"
        say(line)
        leave()

    lift = patching.place([(os, "_exit")], Watch(leaves))
    try:
        yield
    finally:
        if lift is not None:
            lift()


if TYPE_CHECKING:
    from tracer.names import ValueKind
    from tracer.recording.fake.machine import Machine, OneRank

INTERRUPTED = -signal.SIGINT
"""The code of a script that control-C ended: Python dies of the signal itself, and so does ``main``."""


def run_script(
    target: str,
    args: Sequence[str] = (),
    *,
    output: Path,
    as_module: bool = False,
    steps: Steps = Steps(),  # noqa: B008  (frozen)
    exit_after_steps: bool = False,
    with_source: bool = False,
    options: RecordOptions = RecordOptions(),  # noqa: B008  (frozen)
    machine: Machine | None = None,
    one_rank: OneRank | None = None,
    quiet: bool = False,
    left_behind: Callable[[], Iterable[tuple[ValueKind, str, int, int]]] = tuple,
    rank: Rank | None = None,
    own_line: Sequence[str] = (),
    at_start: tuple[Callable[[str, msgspec.Raw], None], object] | None = None,
) -> int:
    """Run ``target`` as Python would, write its trace to ``output``, and return the script's exit code.

    The trace is written when the last of ``steps`` was recorded, and again when the script ends, for any reason but
    ``SIGKILL``, ``abort`` and an exit by C code in the recorded part; a trace that was cut short says so.
    ``sys.argv``, ``sys.path`` and ``__main__`` stay the script's, as threads and exit handlers of the script go on
    using them. ``options`` say what is recorded, values and
    magnitudes into the file beside the trace, ``left_behind`` what the run leaves besides its model, for the digests.
    ``own_line`` is the command line that runs a script so (see ``replacing``).
    ``at_start``, a function of a module and what it is called with after the process's role, is called in child
    processes that are recorded and not forked, before their first line.
    ``machine`` is what a run on fake tensors is run as; ``None`` for real ones. ``one_rank`` is the rank of a job that
    it stands for.
    Raises ``UsageError`` if there is nothing to run, or a script that is another rank, and ``TraceError`` if the trace
    cannot be written.
    """
    name = target if as_module else os.path.basename(os.path.normpath(target))
    # The script may change the working directory.
    recording = ScriptRecording(
        name, Path(os.path.abspath(output)), output, steps, rank=rank, exit_after=exit_after_steps
    )
    recording.is_quiet, recording.options = quiet, options.with_values_at(values_path(os.path.abspath(output)))
    recording.machine, recording.one_rank = machine, one_rank
    recording.left_behind = left_behind
    if at_start is not None:
        recording.at_start = (f"{at_start[0].__module__}:{at_start[0].__qualname__}", at_start[1])
    recording.source_folder = os.getcwd() if with_source else None
    ended_by, code = "", 0
    problem: BaseException | None = None
    with trace_before_dying(recording), ExitStack() as watched:
        watched.enter_context(followed_by_exec(recording, own_line, watched.close))
        watched.enter_context(trace_before_leaving(recording, watched.close))
        if options.children:
            watched.enter_context(_following(recording))
        with collector_paused():
            recording.begin()
        running = False
        try:
            script = prepare(target, args, as_module=as_module)
            sys.modules["__main__"] = script.main
            running = True
            recording.forget_earlier()
            recording.begin_lines()
            exec(script.code, vars(script.main))
        except SystemExit as leaving:
            code = _exit_code(leaving)
            if isinstance(leaving.code, str) and _lacks_gpu(leaving, machine):
                ended_by = f"SystemExit, {_NO_GPU}"
        except KeyboardInterrupt as interrupt:
            ended_by, problem, code = "interrupted", interrupt, INTERRUPTED
        except BaseException as error:
            if isinstance(error, RankError) or (isinstance(error, UsageError) and not (running and recording.is_begun)):
                recording.discard()
                raise
            ended_by, problem, code = type(error).__name__, error, 1
            if _lacks_gpu(error, machine):
                ended_by += f", {_NO_GPU}"
        closing_line = ""
        try:
            with interrupt_held(), collector_paused():
                closing_line = recording.finish(ended_by, may_import=not isinstance(problem, KeyboardInterrupt))
        except KeyboardInterrupt:  # it came while the trace was written
            code = INTERRUPTED
        finally:
            if problem is not None:
                _print_as_python_does(problem)
    say(closing_line)
    return code


_NO_GPU = "as there is no GPU: add --as cuda:8.0"
#: Words for what a machine without a GPU lacks, as torch and programs spell them.
_GPU = re.compile("cuda|gpu|accelerator", re.IGNORECASE)


def _lacks_gpu(problem: BaseException, machine: Machine | None) -> bool:
    """Return whether a run on fake tensors without a GPU ended because it asked for one, as far as its words say."""
    return machine is not None and machine.capability is None and _GPU.search(str(problem)) is not None


def _following(recording: ScriptRecording) -> AbstractContextManager[None]:
    from tracer.runner.child_processes import followed

    return followed(recording)


def _exit_code(leaving: SystemExit) -> int:
    """The exit code of ``sys.exit(...)`` in Python: an integer itself; anything else is printed, and 1."""
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code
    if sys.stderr is not None:
        with suppress(OSError, ValueError, AttributeError):  # as it is: these words are the script's
            print(leaving.code, file=sys.stderr, flush=True)
    return 1


def _print_as_python_does(problem: BaseException) -> None:
    """Print an uncaught exception through ``sys.excepthook``, which the script may have replaced."""
    trim(problem)
    try:
        sys.excepthook(type(problem), problem, problem.__traceback__)
    except Exception:
        sys.__excepthook__(type(problem), problem, problem.__traceback__)
