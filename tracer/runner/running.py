"""Runs a script under the recorder, with the exit code that it has without."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from linecache import getline
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import tracer
from tracer.errors import RankError, UsageError
from tracer.files import collector_paused
from tracer.plain import say
from tracer.recording import patching
from tracer.recording.patching import Watch, WatchedCall
from tracer.runner.interrupts import AGAIN, end_by, handled, interrupt_held
from tracer.runner.outcome import ScriptRecording
from tracer.runner.script import prepare

if TYPE_CHECKING:
    from tracer.recording.options import FakeMachine


#: Sent by job schedulers, torchrun and a closing terminal; they end a Python process at once.
DEADLY = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def _finished(recording: ScriptRecording, ended_by: str, *, dying: bool, may_import: bool = True) -> str:
    try:
        return recording.finish(ended_by, dying=dying, may_import=may_import)
    except Exception as problem:
        return f"tracer: error: the trace was not written as asked: {problem}"


@contextmanager
def trace_before_dying(recording: ScriptRecording) -> Iterator[None]:
    """Write ``recording`` before such a signal ends the process as it would have without us.

    Nothing is raised into the script, whose ``finally`` blocks would not have run either. A signal that the
    script or its parent handles or ignores is left alone. A forked child has no handler: Python calls one only between
    two bytecodes, so a signal that comes just before a call of the system would not end that.
    """
    writing_since = 0.0

    def write_and_die(number: int, frame: FrameType | None) -> None:
        nonlocal writing_since
        if recording.is_writing:
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
                with suppress(Exception):  # the script's stream may be in the middle of a line
                    say(_finished(recording, f"ended by {signal.Signals(number).name}", dying=True))
            finally:
                end_by(number)

    try:
        with handled(DEADLY, write_and_die, signal.SIG_DFL) as put_back:
            patching.in_children(put_back)
            yield
    finally:
        for number in recording.waiting:
            os.kill(os.getpid(), number)


def _watch_ends(recording: ScriptRecording, watched: ExitStack) -> None:
    """Write ``recording`` before ``os._exit`` ends the process, which a thread may call while another is in the middle
    of an op; save it before the script replaces its process, and say so. ``watched`` is closed then."""

    def leaves(call: WatchedCall) -> None:
        code = call.args[0] if call.args else call.kwargs.get("status", 0)
        is_main = threading.current_thread() is threading.main_thread()
        say(_finished(recording, f"exit code {code}" if code else "", dying=not is_main, may_import=False))
        watched.close()

    def replace(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if os.access(args[0], os.X_OK):  # it is searched for by trying
            watched.close()
            recording.save_so_far()
            name = os.fsdecode(args[1][0])
            hint = "set beforehand what it sets" if os.path.basename(name).startswith("python") else "record that one"
            say(f"tracer: the script replaces its process by {name} (exec), which is not recorded; {hint}")
        return call(*args, **kwargs)

    for names, watch in ((("execv", "execve"), Watch(around=replace)), (("_exit",), Watch(leaves))):
        if (lift := patching.place([(os, name) for name in names], watch)) is not None:
            watched.callback(lift)


INTERRUPTED = -signal.SIGINT
"""The code of a script that control-C ended: Python dies of the signal itself, and so does ``main``."""


def run_script(recording: ScriptRecording) -> int:
    """Run the script of ``recording`` as Python would, write its trace, and return the script's exit code.

    The trace is written when the last of its steps was recorded, and again when the script ends, for any reason but
    ``SIGKILL``, ``abort`` and an exit by C code in the recorded part; a trace that was cut short says so.
    ``sys.argv``, ``sys.path`` and ``__main__`` stay the script's, as threads and exit handlers of the script go on
    using them.
    Raises ``UsageError`` if there is nothing to run, or a script that is another rank, and ``TraceError`` if the trace
    cannot be written.
    """
    task, machine = recording.task, recording.machine
    ended_by, code = "", 0
    problem: BaseException | None = None
    with trace_before_dying(recording), ExitStack() as watched:
        _watch_ends(recording, watched)
        if recording.options.children:
            from tracer.runner.child_processes import followed

            watched.enter_context(followed(recording))
        with collector_paused():
            recording.begin()
        running = False
        try:
            script = prepare(task.target, task.args, as_module=task.as_module)
            running = True
            if recording.output.is_file():  # it would be mistaken for this run's if the script is killed
                with suppress(OSError):
                    recording.output.unlink()
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
                trim(problem)
                hook = sys.excepthook  # the script may have replaced it
                try:
                    hook(type(problem), problem, problem.__traceback__)
                except Exception:
                    sys.__excepthook__(type(problem), problem, problem.__traceback__)
    say(closing_line)
    return code


_NO_GPU = "as there is no GPU: add --as cuda:8.0"
#: Words for what a machine without a GPU lacks, as torch and programs spell them.
_GPU = re.compile("cuda|gpu|accelerator", re.IGNORECASE)


def _lacks_gpu(problem: BaseException, machine: FakeMachine | None) -> bool:
    """Return whether a run on fake tensors without a GPU ended because it asked for one, as far as its words say."""
    return machine is not None and machine.capability is None and _GPU.search(str(problem)) is not None


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


# --- tracebacks as the script alone would have printed them --------------------------------------------------------

_OURS = os.path.dirname(os.path.abspath(tracer.__file__)) + os.sep
_BUNDLED = os.path.join(_OURS, "bundled") + os.sep
# The recorder's mode calls torch's entry of an ordinary op from here: an error that ends here is the op's.
_MODE = (os.path.join(_OURS, "recording", "mode.py"), "__torch_dispatch__")
# What stands in for a watched function calls it by these names, written in C as it may be: its error is the caller's.
_ORIGINAL = r"\b(?:_tracer_original|call_through|original)\("
# How the recorder's mode calls the op that it was handed; the untouched call goes there from C++.
_OP_CALL = os.path.join("torch", "_ops.py")


def trim(error: BaseException) -> None:
    """Remove the tracer's frames from the traceback of ``error``, its causes and its contexts.

    Where the innermost frame is the tracer's own, the error is too, and the traceback stays whole.
    """
    for link in _chain(error):
        frames: list[TracebackType] = []
        traceback = link.__traceback__
        while traceback is not None:
            frames.append(traceback)
            traceback = traceback.tb_next
        if frames and _is_ours(frames[-1]) and not _made_a_call(frames[-1]) and isinstance(link, Exception):
            continue
        link.__traceback__ = _rebuilt(frames)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """``error``, its causes and contexts, and the members of groups, each once."""
    visited: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        exception = waiting.pop()
        if exception is None or id(exception) in visited:
            continue
        visited.add(id(exception))
        yield exception
        waiting += [exception.__cause__, exception.__context__, *getattr(exception, "exceptions", ())]


def _is_ours(frame: TracebackType) -> bool:
    code = frame.tb_frame.f_code
    is_tracers = code.co_filename.startswith(_OURS) and not code.co_filename.startswith(_BUNDLED)
    return is_tracers or patching.is_in_between(code)


def _made_a_call(frame: TracebackType) -> bool:
    code = frame.tb_frame.f_code
    line = getline(code.co_filename.removesuffix(patching.PASSED_OVER), frame.tb_lineno)
    is_modes = (code.co_filename, code.co_name) == _MODE
    return is_modes or patching.is_in_between(code) or re.search(_ORIGINAL, line) is not None


def _rebuilt(frames: list[TracebackType]) -> TracebackType | None:
    """The frames of the script alone, innermost last."""
    script_frames: list[TracebackType] = []
    after_ours = False
    for frame in frames:
        path = frame.tb_frame.f_code.co_filename
        if _is_ours(frame) or (after_ours and (path.endswith(_OP_CALL) or path.startswith("<frozen importlib"))):
            after_ours = True
            continue
        after_ours = False
        script_frames.append(frame)
    traceback: TracebackType | None = None
    for frame in reversed(script_frames):
        traceback = TracebackType(traceback, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return traceback
