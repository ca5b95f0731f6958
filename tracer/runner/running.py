"""Running a script under the recorder, to the exit code that it would have had without."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracer.errors import RankError, UsageError
from tracer.plain import say
from tracer.runner.interrupts import interrupt_held
from tracer.runner.outcome import ScriptRecording, collections_held
from tracer.runner.ranks import Rank
from tracer.runner.script import prepare
from tracer.runner.signals import trace_before_dying
from tracer.runner.steps import Steps
from tracer.runner.tracebacks import trim

if TYPE_CHECKING:
    import msgspec

    from tracer.names import ValueKind
    from tracer.recording.fake.machine import Machine
    from tracer.recording.fake.one_rank import OneRank

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
    eager: bool = False,
    machine: Machine | None = None,
    one_rank: OneRank | None = None,
    quiet: bool = False,
    values: Path | None = None,
    options: Mapping[str, Any] | None = None,
    left_behind: Callable[[], Iterable[tuple[ValueKind, str, int, int]]] = tuple,
    rank: Rank | None = None,
    children: bool = False,
    at_start: tuple[Callable[[str, msgspec.Raw], None], object] | None = None,
) -> int:
    """Run ``target`` as Python would, write its trace to ``output``, and return the script's exit code.

    The trace is written when the last of ``steps`` was recorded, and again when the script ends, for any reason but
    ``os._exit`` and ``SIGKILL`` in the recorded part; a trace that was cut short says so.
    ``sys.argv``, ``sys.path`` and ``__main__`` stay the script's, as threads and exit handlers of the script go on
    using them. ``values`` is where digests go, if they are wanted, ``options`` are further ones of
    ``DeterminismTracer`` (``trials``), ``left_behind`` says what the run leaves besides its model, for the digests.
    ``children`` records the Python processes that the script starts too; ``at_start``, a function of a module and what
    it is called with after the process's role, is called in those that are not forked before their first line.
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
    recording.is_eager, recording.is_quiet = eager, quiet
    recording.machine, recording.one_rank = machine, one_rank
    recording.values = None if values is None else Path(os.path.abspath(values))
    recording.options = dict(options or {})
    recording.left_behind = left_behind
    if at_start is not None:
        recording.at_start = (f"{at_start[0].__module__}:{at_start[0].__qualname__}", at_start[1])
    recording.source_folder = os.getcwd() if with_source else None
    ended_by, code = "", 0
    problem: BaseException | None = None
    with trace_before_dying(recording), _following(recording) if children else nullcontext():
        with collections_held():
            recording.begin()
        running = False
        try:
            script = prepare(target, args, as_module=as_module)
            sys.modules["__main__"] = script.main
            running = True
            recording.forget_earlier()
            exec(script.code, vars(script.main))
        except SystemExit as leaving:
            code = _exit_code(leaving)
        except KeyboardInterrupt as interrupt:
            ended_by, problem, code = "interrupted", interrupt, INTERRUPTED
        except BaseException as error:
            if isinstance(error, RankError) or (isinstance(error, UsageError) and not (running and recording.is_begun)):
                recording.discard()
                raise
            ended_by, problem, code = type(error).__name__, error, 1
        closing_line = ""
        try:
            with interrupt_held(), collections_held():
                closing_line = recording.finish(ended_by, may_import=not isinstance(problem, KeyboardInterrupt))
        except KeyboardInterrupt:  # it came while the trace was written
            code = INTERRUPTED
        finally:
            if problem is not None:
                _print_as_python_does(problem)
    say(closing_line)
    return code


def _following(recording: ScriptRecording) -> AbstractContextManager[None]:
    from tracer.runner.child_processes import followed

    return followed(recording)


def _exit_code(leaving: SystemExit) -> int:
    """What Python makes of ``sys.exit(...)``: a number as it is, anything else printed and 1."""
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
