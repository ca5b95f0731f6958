"""Follows the program's own lines, and writes after each what it changed.

Python tells of lines by ``sys.monitoring`` from 3.12 on, by ``sys.settrace`` before. A frame whose line was executed
often enough passes it over, and looks at ever larger distances: state that differs stays different until there. The
step in which two runs are known to diverge has all its rows again.
"""

from __future__ import annotations

import dis
import inspect
import math
import os
import signal
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count, islice, repeat
from operator import length_hint
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from tracer.plain import say
from tracer.recording.lines.code_lines import attributes_in, lines_of, resolved
from tracer.recording.lines.generator_states import generators
from tracer.recording.lines.library_imports import LibraryImports
from tracer.recording.lines.variable_digests import CODE, Executed, VariableDigests, digest_text, is_of_data
from tracer.recording.options import LineOptions
from tracer.recording.origin import LIBRARY, USER, Site, Sites, is_tracers_own, outwards, spell
from tracer.recording.patching import is_in_between
from tracer.trace.lines import (
    ARGUMENTS,
    ENVIRONMENT,
    GENERATOR,
    GLOBAL,
    NO_DIGEST,
    RETURNED,
    SAMPLED_FROM,
    STATIC,
    TIME_IS_UP,
    Entered,
    LineCode,
    LineNote,
    LineRecord,
    LineRow,
    LinesHeader,
    LineText,
    Text,
    encode,
    files_beside,
    is_plain,
    lines_path,
    whole_statement,
)

if TYPE_CHECKING:
    from tracer.recording.lines.holding import HeldLines

_NO_TEXT = LineText()
#: Executions of hot lines that a frame passes over at first, then twice as many each time.
_FIRST_WINDOW = 128
#: Values from which on a look is costly, and such looks after which a name that does not change is passed over.
_COSTLY, _SETTLED = 128, 32
#: Values that are looked at for all rows of a line, before it has enough of them.
_MOST_LOOKED = 60_000
#: Values that are looked at while modules of the program's own import each other; later ones are looked at as they end.
_OF_IMPORTS = 200_000
#: Temporary names, the latest, that are looked for in texts.
_NAMES = 64
#: Names in a listed folder, the latest, whose makers are looked for; of so many that are looked at.
_LISTED, _MOST_LISTED = 64, 4096
#: How code names environment variables.
_OF_ENVIRONMENT = frozenset({"environ", "getenv", "putenv"})
#: What is added to the numbers of rows where they begin anew.
_ANEW = 1 << 40


class _Code:
    """A function of the program's."""

    def __init__(self, number: int, code: CodeType, file: str, *, is_library: bool) -> None:
        self.number, self.code, self.file, self.is_library = number, code, file, is_library
        self.function = getattr(code, "co_qualname", code.co_name)
        self.is_module = code.co_name == "<module>"
        self.is_coroutine = bool(code.co_flags & inspect.CO_COROUTINE)
        self.texts = lines_of(code)
        loaded = {path.partition(".")[0] for text in self.texts.values() for path in (*text.reads, *text.stores)}
        local = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        self.held: frozenset[int] = frozenset()
        """Its lines that are held."""
        self.attributes = attributes_in(code)
        self.reads_environment = not _OF_ENVIRONMENT.isdisjoint(code.co_names)
        self._named: dict[int, frozenset[str]] = {}
        self.globals = () if self.is_module else tuple(sorted((loaded & {*code.co_names}) - local))

    def location(self, line: int) -> str:
        """As it is held; 0 for what a call is given."""
        return f"{self.file}:{line or f'{self.code.co_firstlineno}{ARGUMENTS}'}"

    def named(self, line: int) -> frozenset[str]:
        """The names that a line reads or stores."""
        if line not in self._named:
            text = self.texts.get(line, _NO_TEXT)
            self._named[line] = frozenset(path.partition(".")[0] for path in (*text.reads, *text.stores))
        return self._named[line]


class _Thread(threading.local):
    """What is counted by thread."""

    def __init__(self) -> None:
        self.number, self.began = -1, time.thread_time()
        self.calls: dict[int, int] = {}
        self.left: dict[int, int] = {}
        """By identity of a code of whose calls there are enough: calls before the next that is recorded."""
        self.totals: dict[tuple[int, int], int] = {}
        self.looked: dict[tuple[int, int], int] = {}
        """By code and line: values that were looked at after its executions."""
        self.stack: list[_FollowedFrame] = []
        self.files: dict[str, tuple[int, int]] = {}
        """By path: files that were opened to be read since the last row, and written by this run."""


class LineRecording:
    """The lines of this process and of those that it forks, from ``start`` to ``stop``.

    Own files are those below ``roots`` that are of no installed package, and the packages of ``asked.library``.
    """

    def __init__(self, path: Path, roots: Iterable[str], asked: LineOptions = LineOptions()) -> None:  # noqa: B008  (frozen)
        self.path, self.asked = path, asked
        self.next_call: Callable[[], int | None] = lambda: None
        """Returns the index of the next call in the file of values; ``None`` if none is written."""
        self.problem = ""
        """The reason why no lines are recorded; empty if they are."""
        forms = (form(root) for root in roots for form in (os.path.abspath, os.path.realpath))
        self._roots = tuple({os.path.join(root, "") for root in forms})
        self._began = time.time_ns()
        self._lists = False
        """Whether it lists a folder itself."""
        self._written_at: dict[str, dict[str, int]] = {}
        """By folder: what was opened there to be written, or made, and when."""
        self._made: Counter[str] = Counter()
        """By line: how many temporary names it has made."""
        self._seconds = asked.seconds or math.inf
        self._sites = Sites()
        self._own: dict[str, bool] = {}
        self._codes: dict[int, _Code] = {}
        self._texts: dict[tuple[int, int], Text] = {}
        self._written: set[Any] = set()
        self.thread = _Thread()
        self._threads, self._frames, self._numbers = count(), count(1), count()
        """Numbers of threads, frames and codes: two threads never take the same one."""
        self._forks, self._is_threaded = 0, False
        self._role, self._process = "", os.getpid()
        self._output = -1
        self.left_of_imports = _OF_IMPORTS
        self.digests = VariableDigests()
        self.held: HeldLines | None = None
        if asked.held:
            from tracer.recording.lines.holding import HeldLines

            self.held = HeldLines(asked)
            self.held.names = self.digests.names
        self._generators: dict[str, str] = {}
        self._variables: dict[bytes, bytes] = {**vars(os.environ)["_data"]}
        """The environment when it was last looked at."""
        self._set: dict[str, str] = {}
        """The digests of environment variables that the program has set."""
        self._source: _Monitoring | _Tracing = _Monitoring(self) if sys.version_info >= (3, 12) else _Tracing(self)
        self.is_on = self._was_on = False

    def start(self, frame: FrameType | None = None) -> None:
        """Follow this thread and those that it starts; ``frame``: the innermost one that runs already."""
        for left in () if self._was_on else files_beside(self.path):  # an earlier run's
            left.unlink()
        self._open(self.path, goes_on=self._was_on)
        self.problem = self._source.start(frame)
        if self.problem:
            self.write(LineNote(self.problem))
            say(f"tracer: lines are not recorded: {self.problem}")
            return
        self.is_on = self._was_on = True
        _forking(self)

    def stop(self) -> None:
        """Follow no more; what was written stays."""
        if self.is_on:
            self.is_on = False
            if lost := self._source.stop():
                self.write(LineNote(lost))
        _forking(None)
        if self._output >= 0:
            output, self._output = self._output, -1
            with suppress(OSError):
                os.close(output)

    def _open(self, path: Path, *, goes_on: bool = False) -> None:
        if goes_on:
            self._output = os.open(path, os.O_WRONLY | os.O_APPEND)
            return
        from tracer import __version__

        self._output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
        self._written = set()
        self.write(LinesHeader(tracer_version=__version__))
        for frame in self.thread.stack:  # a fork goes on in them
            frame.write_entered({})

    def is_over(self) -> bool:
        """Return whether no lines are followed any more, as the time for them is up."""
        if self.is_on and time.thread_time() - self.thread.began > self._seconds:
            self.write(LineNote(TIME_IS_UP))
            self.stop()
        return not self.is_on

    def opens(self, path: str, flags: int) -> None:
        """A file is opened. What a run reads of a file that it wrote itself comes from where it was written."""
        path = os.path.abspath(path)
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._written_at.setdefault(os.path.dirname(path), {})[path] = time.time_ns() // 1000
        elif not path.startswith(("/proc/", "/sys/")):
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode) and status.st_mtime_ns >= self._began:
                written = self._written_at.get(os.path.dirname(path), {}).get(path, 0)
                self.thread.files[path] = written, status.st_mtime_ns // 1000

    def lists(self, folder: str) -> None:
        """A folder is listed. Names in it that this run made come from where they were made."""
        if self._lists:
            return
        folder = os.path.abspath(folder)
        made = self._written_at.get(folder, {})
        latest = islice(reversed(made.items()), _LISTED)
        self.thread.files.update((path, (at, 0)) for path, at in latest if os.path.lexists(path))
        if os.stat(folder).st_mtime_ns < self._began:
            return
        self._lists = True  # no audit of what the recorder lists itself
        try:
            with os.scandir(folder) as entries:  # what C++ wrote (`torch.save`), of which Python is not told
                others = (entry for entry in islice(entries, _MOST_LISTED) if entry.path not in made)
                unknown = [entry for entry in others if not entry.name.startswith(f"{self.path.stem}.")]
            times = ((entry.path, entry.stat(follow_symlinks=False).st_mtime_ns) for entry in unknown)
            new = sorted(((at // 1000, path) for path, at in times if at >= self._began), reverse=True)
            self.thread.files.update((path, (at, -1)) for at, path in new[:_LISTED])
        finally:
            self._lists = False

    def names(self, path: str) -> None:
        """A temporary file or folder is made: its name is another one in each run, its place among those is not."""
        own = next((each for each in outwards(sys._getframe(1)) if self.follows(each.f_code.co_filename)), None)
        at = "" if own is None else f"{os.path.basename(own.f_code.co_filename)}:{own.f_lineno}"
        self._made[at] += 1
        names = self.digests.names
        names[os.path.splitext(os.path.basename(path))[0]] = f"<{at} {self._made[at]}>"
        if len(names) > _NAMES:
            del names[next(iter(names))]

    def write(self, row: LineRecord) -> None:
        """Write one row at once."""
        if self._output >= 0:
            os.write(self._output, encode(row) + b"\n")

    def step_ended(self, count: int) -> None:
        """So many steps have ended: in the one that was asked for, rows of this thread begin anew."""
        if count == self.asked.anew_at and self.is_on:
            for counted in (self.thread.calls, self.thread.left, self.thread.totals, self.thread.looked):
                counted.clear()
            for frame in self.thread.stack:
                frame.hot.clear()
                frame.passed = (frame.passed // _ANEW + 1) * _ANEW  # numbers of rows are none that were before
                frame.counts = dict.fromkeys(frame.counts, frame.passed)
            self._source.anew()

    # --- forked processes ---

    def before_fork(self) -> None:
        """This thread forks a process."""
        self._forks += 1

    def in_child(self) -> None:
        """This process was forked: it has a file of its own."""
        if not self.is_on or self._process == os.getpid():
            return
        self._process = os.getpid()
        self._role, self._forks = f"{self._role}.{self._forks}", 0
        with suppress(OSError):
            os.close(self._output)
        self._output, self.next_call = -1, lambda: None  # its calls are not its parent's
        with suppress(OSError):
            self._open(self.path.with_name(self.path.name + self._role))

    def move_to(self, path: Path) -> None:
        """This process was forked, and is recorded by itself: its lines go to ``path``."""
        self.in_child()  # whichever hook of a fork comes first
        left, self.path, self._role = self.path.with_name(self.path.name + self._role), path, ""
        os.close(self._output)
        with suppress(OSError):
            left.unlink()
        self._open(path)

    # --- frames ---

    def follows(self, filename: str) -> bool:
        """Return whether the lines of a file are the program's own; decided once."""
        own = self._own.get(filename)
        if own is not None:
            return own
        if own := not (filename.startswith("<") or is_tracers_own(filename)):
            kind, path = self._sites.kind_of(filename), os.path.abspath(filename)
            parts = Path(path).with_suffix("").parts if self.asked.library and kind > 0 else ()
            own = (kind == USER and path.startswith(self._roots)) or not {*self.asked.library}.isdisjoint(parts)
        self._own[filename] = own
        return own

    def is_own_module(self, name: str) -> bool:
        """Return whether a module of this name is one of the program's; decided once it is loaded."""
        file = getattr(sys.modules.get(name), "__file__", None)
        return type(file) is str and self.follows(file)

    def is_inside(self, filename: str) -> bool:
        """Return whether a library's file is called from a line that is followed into its calls."""
        if not self.asked.inside or not self.thread.stack or self._sites.kind_of(filename) != LIBRARY:
            return False
        top = self.thread.stack[-1]
        return top.is_inside or f"{top.code.file}:{top.line}" in self.asked.inside

    def entered(self, frame: FrameType, *, is_inside: bool = False) -> _FollowedFrame:
        """A recorded call of a function of the program's begins."""
        thread, code = self.thread, frame.f_code
        if thread.number < 0:
            thread.number = next(self._threads)
            self._is_threaded |= thread.number > 0
        known = self._code(code, is_inside=is_inside)
        before = thread.calls.get(known.number, 0)
        calls = before + 1 if before < SAMPLED_FROM or known.held else _next_sampled(before)
        thread.calls[known.number] = calls
        if calls >= SAMPLED_FROM and not known.held:
            thread.left[id(code)] = _next_sampled(calls) - calls - 1
        state = _FollowedFrame(self, known, next(self._frames), thread, calls)
        if thread.stack:
            state.called_from(thread.stack[-1], frame)
            state.is_import = known.is_module or thread.stack[-1].is_import
        state.is_inside = is_inside
        state.answers_signal = bool(thread.stack) and _answers_signal(frame)
        is_given = self.held is not None and self.held.gives
        changed = {} if is_given else state.changes(frame, is_entered=True)
        state.write_entered(changed)
        thread.stack.append(state)
        if 0 in known.held:  # what the call is given
            state._holds(frame, 0, [name for name in changed if not name.startswith(GENERATOR)], None, returns=False)
        return state

    def running(self, frame: FrameType | None) -> Iterator[tuple[FrameType, _FollowedFrame]]:
        """Yield those of the program's frames from ``frame`` outwards, outermost first, that are followed from here."""
        for running in reversed(list(outwards(frame))):
            if self.follows(running.f_code.co_filename) and not self.passes(running.f_code):
                state = self.entered(running)
                state.line, state.counts[0] = running.f_lineno, 1
                yield running, state

    def passes(self, code: CodeType) -> bool:
        """Return whether no line of a function is followed: where lines are held, if it has none of these.

        So are functions that modules call as they are imported, once enough was seen of that.
        """
        if is_in_between(code):
            return True
        if self.left_of_imports <= 0 and code.co_name != "<module>":
            stack = self.thread.stack
            if stack and stack[-1].is_import:
                return True
        return self.held is not None and not self._code(code, is_inside=False).held

    def _code(self, code: CodeType, *, is_inside: bool) -> _Code:
        known = self._codes.get(id(code))
        if known is None:
            folder = self._sites.working_directory
            path = os.path.join(folder, code.co_filename)
            file = spell(Site(path, 0, "", USER, folder)).rpartition(":")[0]
            known = self._codes[id(code)] = _Code(next(self._numbers), code, file, is_library=is_inside)
            if self.held is not None:
                known.held = frozenset(line for line in (0, *known.texts) if known.location(line) in self.asked.held)
        return known

    def write_text(self, code: _Code, line: int, frame: FrameType) -> None:
        """Write what a line reads, when it is met first."""
        key = (code.number, line)
        if key not in self._written:
            self._written.add(key)
            if key not in self._texts:
                self._texts[key] = Text(code.number, line, resolved(code.texts.get(line, _NO_TEXT), frame))
            self.write(self._texts[key])
            if "signal.signal" in self._texts[key].text.calls:
                self._write_handlers()

    def _write_handlers(self) -> None:
        """Write what the program's handlers of signals read and store: one that is called in ours is not followed."""
        for number in signal.valid_signals():
            handler: Any = signal.getsignal(number)
            if type(handler) not in (FunctionType, MethodType):
                continue
            code = getattr(inspect.unwrap(getattr(handler, "__func__", handler)), "__code__", None)
            if type(code) is CodeType and self.follows(code.co_filename):
                known = self._code(code, is_inside=False)
                self.write_code(known, is_handler=True)
                for line, text in known.texts.items():
                    self.write(Text(known.number, line, text))

    def write_code(self, code: _Code, *, is_handler: bool = False) -> None:
        """Write what rows refer to, once, before another thread takes it for written."""
        if code.number not in self._written or is_handler:
            first = code.code.co_firstlineno
            self.write(LineCode(code.number, code.file, code.function, first, code.is_library, is_handler))
            self._written.add(code.number)

    def place(self) -> int:
        """Index of the next call in the file of values; -1 where there is none."""
        place = self.next_call()
        return -1 if place is None else place

    def environment(self) -> dict[str, str]:
        """The digests of environment variables that the program has set."""
        if (now := vars(os.environ)["_data"]) != self._variables:
            new = {name: value for name, value in [*now.items()] if self._variables.get(name) != value}
            paths = ((f"{ENVIRONMENT}.{os.fsdecode(name)}", os.fsdecode(value)) for name, value in new.items())
            self._set.update((path, self.digests.of(value)) for path, value in paths)
            self._variables |= new
        return self._set

    def changed_generators(self) -> dict[str, str]:
        """The states of global generators that changed since the last row."""
        changed = {name: state for name, state in generators() if self._generators.get(name) != state}
        self._generators.update(changed)
        return changed


class _FollowedFrame:
    """One call of a function of the program's. It holds digests, and no value."""

    def __init__(self, recording: LineRecording, code: _Code, number: int, thread: _Thread, count: int) -> None:
        self.recording, self.code, self.number, self.thread, self.count = recording, code, number, thread, count
        self.line = code.code.co_firstlineno
        self.known: dict[str, str] = {}
        self.counts: dict[int, int] = {}
        """How often each line was executed; of those that are passed over, the number of its last row."""
        self.hot: set[int] = set()
        """Lines of which there are rows enough: they are passed over until ``left`` is none."""
        self.window = self.left = self.passed = 0
        """Hot lines from one look to the next, those left of them, and all that were passed over."""
        self.looks = 0
        """Looks since the first costly one."""
        self.moved: dict[str, int] = {}
        """By name: at which of these it was seen to change."""
        self.lengths: dict[str, int] = {}
        """By name: how many entries a container of much data had then."""
        self.is_stale = self.is_inside = self.is_import = False
        self.parent = (-1, 0, 0)
        self.answers_signal = False

    def called_from(self, above: _FollowedFrame, frame: FrameType | None) -> None:
        """``frame``, whose state this is, was called from that of ``above``."""
        line = above.line
        while above.hot and (frame := None if frame is None else frame.f_back) is not None:
            if frame.f_code is above.code.code:  # hot lines are not noted
                line = frame.f_lineno
                break
        self.parent = (above.number, line, above.counts.get(line, 0) + 1)

    def write_entered(self, changed: dict[str, str]) -> None:
        """Write that the call begins."""
        recording = self.recording
        recording.write_code(self.code)
        number = self.thread.number
        place = self.call = recording.place()
        entered = Entered(
            number, self.number, self.code.number, self.count, *self.parent, place, changed, self.answers_signal
        )
        recording.write(entered)

    def goes_on(self) -> None:
        """A generator is resumed."""
        self.thread.stack.append(self)
        self.call = self.recording.place()
        if self.recording.held is not None:  # what was drawn meanwhile is of lines that are not followed
            self.recording.changed_generators()

    def on_line(self, frame: FrameType, line: int) -> None:
        """A line begins, so the one before it has ended; those passed over in between count among ``passed``."""
        if not self.counts:  # the call itself is no line
            self.counts[0], self.line = 1, line
            self._begins(frame, line)
            return
        self._passed_over()
        ended, self.line = self.line, line
        if line in self.hot:
            self.window = self.left = max(_FIRST_WINDOW, self.passed % _ANEW)
        self._look(frame, ended)
        self._begins(frame, line)

    def _begins(self, frame: FrameType, line: int) -> None:
        if line in self.code.held and (held := self.recording.held) is not None:
            if not held.gives:  # what lines before it changed
                self.changes(frame)
            held.before(self._executed(frame, line, self.code.texts.get(line, _NO_TEXT), None))

    def on_return(self, frame: FrameType, value: Any) -> None:
        """The function returns or yields ``value``."""
        self.counts.setdefault(0, 1)
        self._passed_over()
        self.line = self.line if frame.f_trace_lines else frame.f_lineno
        self._look(frame, self.line, value, returns=True)
        stack = self.thread.stack
        if self in stack:
            del stack[stack.index(self) :]

    def _passed_over(self) -> None:
        passed = self.window - self.left
        self.is_stale |= passed > 0
        self.passed += passed
        self.window = self.left

    def _look(self, frame: FrameType, line: int, value: Any = None, *, returns: bool = False) -> None:
        """Write the row of an execution of ``line``, unless there are enough of it."""
        recording, key = self.recording, (self.code.number, line)
        if recording.is_over():
            return
        if recording.held is not None:  # what comes of it shows in the calls
            self._look_to_hold(recording.held, frame, line, value, returns=returns)
            self.call = recording.place()
            return
        if self.is_import and recording.left_of_imports <= 0 and not returns:
            frame.f_trace_lines, self.is_stale = False, True
            return
        n = self.counts[line] = self.counts.get(line, 0) + 1
        if line in self.hot:
            n = self.counts[line] = max(n, SAMPLED_FROM + self.passed)
        elif n % _ANEW >= SAMPLED_FROM:
            self.hot.add(line)
        total = self.thread.totals[key] = self.thread.totals.get(key, 0) + 1
        most = SAMPLED_FROM if line not in self.hot else 2 * SAMPLED_FROM
        is_costly = self.thread.looked.get(key, 0) > _MOST_LOOKED
        is_enough = is_costly or (total > most and not self.is_stale)
        if is_enough and total & (total - 1):
            self.is_stale = True
            return
        recording.write_text(self.code, line, frame)
        looked = recording.digests.looked
        changed = self.changes(frame, 0 if returns else line)
        self.thread.looked[key] = self.thread.looked.get(key, 0) + recording.digests.looked - looked
        if not frame.f_trace_lines:
            self._write_texts(frame, changed)
        if returns and self._gives_results(frame):
            changed[RETURNED] = recording.digests.of(value)
        is_sampled, self.is_stale = self.is_stale or is_costly or total > SAMPLED_FROM, False
        self.call = recording.place()
        files, self.thread.files = tuple(self.thread.files.values()), {}
        ended = time.time_ns() // 1000
        recording.write(LineRow(self.number, line, n, self.call, changed, returns, is_sampled, ended, files))

    def _gives_results(self, frame: FrameType) -> bool:
        """Return whether what it returns is a value of the program's."""
        return not self.code.is_module and not (self.code.is_coroutine and _is_suspended(frame))

    def _look_to_hold(self, held: HeldLines, frame: FrameType, line: int, value: Any, *, returns: bool) -> None:
        """Keep or give the values of a line that is held."""
        recording, names = self.recording, tuple[str, ...]()
        if not held.gives:
            recording.write_text(self.code, line, frame)
            changed = self.changes(frame) if line in self.code.held else {}
            if returns and self._gives_results(frame):
                changed[RETURNED] = NO_DIGEST
            own = [name for name, digest in changed.items() if not digest.startswith(STATIC)] or [*changed]
            names = (*own, *self._stored(line))
        self._holds(frame, line, names, value, returns=returns)

    def _write_texts(self, frame: FrameType, changed: Iterable[str]) -> None:
        """Write what the lines read that store what ``changed``, if these were not looked at one by one."""
        names = {path.partition(".")[0] for path in changed}
        for line, text in self.code.texts.items():
            if not names.isdisjoint(text.stores):
                self.recording.write_text(self.code, line, frame)

    def _holds(self, frame: FrameType, line: int, names: Sequence[str], value: Any, *, returns: bool) -> None:
        """Keep or give the values of a line, if it is held."""
        recording, held = self.recording, self.recording.held
        if held is None or line not in self.code.held or (returns and _is_suspended(frame)):
            return
        met, number = recording._texts, self.code.number  # with what may be called
        texts = {at: met[number, at].text if (number, at) in met else text for at, text in self.code.texts.items()}
        own = texts.get(line, _NO_TEXT)
        text = whole_statement([each for each in texts.values() if each.first == own.first]) if own.first else own
        are_given = held.after(self._executed(frame, line, text, value), names, (self.call, recording.place()))
        if held.over and self.code.location(line) in held.over:
            self.code.held -= {line}
        if are_given and not returns and line:
            self.line = frame.f_lineno

    def _executed(self, frame: FrameType, line: int, text: LineText, value: Any) -> Executed:
        process = f"{self.recording.path.name.partition('.child-')[2]}{self.recording._role}"
        return Executed(frame, self.code.location(line), process, self._executor(frame), text, value)

    def _executor(self, frame: FrameType) -> tuple[str, str]:
        """The name of the thread that executes a frame, and what its task is given: threads take others in each run."""
        thread = vars(threading)["_active"].get(threading.get_ident())  # no other way makes none
        if thread is threading.main_thread():
            return "", ""
        own = [each for each in outwards(frame) if self.recording.follows(each.f_code.co_filename)]
        code, values = own[-1].f_code, own[-1].f_locals
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        parts = (part for name in names if name in values for part in self.recording.digests.named(name, values[name]))
        given = [part for part in parts if is_plain(part[1]) or part[1].startswith("s")]
        return str(getattr(thread, "_name", "")), digest_text(repr(given)) if given else ""

    def _stored(self, line: int) -> Iterator[str]:
        """Yield what a line stores and what may be equal by chance, or has a part that is not seen."""
        for stored in self.code.texts.get(line, _NO_TEXT).stores:
            for path in (stored, GLOBAL + stored):
                inside = (name for name in self.known if name.startswith(f"{path}."))
                if path in self.known or any(self.known[name].endswith(NO_DIGEST) for name in inside):
                    yield path

    def changes(self, frame: FrameType, line: int = 0, *, is_entered: bool = False) -> dict[str, str]:
        """The digests of names whose values are others than at the last look.

        Where a look is costly, what did not change for long is looked at by a ``line`` that names it, and now and then;
        so is a container of much data as long as it has as many entries.
        """
        digests, known, changed = self.recording.digests, self.known, {}
        is_own, attributes = self.recording.is_own_module, self.code.attributes
        looked, settled = digests.looked, self.looks - _SETTLED
        named = self.code.named(line) if line and settled > 0 and self.looks % _SETTLED else None
        if named is not None and self.recording._is_threaded:  # what others changed before the next line reads it
            named |= self.code.named(self.line)
        for name, value in list(frame.f_locals.items()):
            if name[:2] == "__" and type(value) is not FunctionType:
                continue
            if named is not None and name not in named and self._is_settled(name, value, settled):
                continue
            for path, digest in self._look_at(name, value):
                if known.get(path) != digest:
                    known[path] = changed[path] = digest
            if name in attributes:
                for path, digest in digests.of_static(name, value, attributes[name], is_own):
                    if known.get(path) != digest:
                        known[path] = changed[path] = digest
        for name in self.code.globals:
            value = frame.f_globals.get(name)
            if named is not None and name not in named and self._is_settled(name, value, settled):
                continue
            is_bare = issubclass(type(value), CODE) and not (type(value) is FunctionType and value.__dict__)
            if value is not None and not is_bare:
                for path, digest in self._look_at(name, value):
                    path = GLOBAL + path
                    if known.get(path) != digest:
                        known[path] = digest
                        if not is_entered:
                            changed[path] = digest
        for path, digest in self.recording.environment().items() if self.code.reads_environment else ():
            if known.get(path) != digest:
                known[path] = changed[path] = digest
        looked = digests.looked - looked
        if looked > _COSTLY or self.looks:
            self.looks += 1
            self.moved.update((path.removeprefix(GLOBAL).partition(".")[0], self.looks) for path in changed)
        if self.is_import:
            self.recording.left_of_imports -= looked + len(known)
        changed.update(self.recording.changed_generators())
        return changed

    def _look_at(self, name: str, value: Any) -> Iterator[tuple[str, str]]:
        """Yield the digests of what a name holds, and note the length of a container of much data."""
        digests = self.recording.digests
        looked = digests.looked
        yield from digests.named(name, value)
        if digests.looked > looked + _COSTLY and is_of_data(value):
            self.lengths[name] = len(value)

    def _is_settled(self, name: str, value: Any, settled: int) -> bool:
        """Return whether a name that no line names now holds, most likely, what it held at the last look."""
        length = self.lengths.get(name)
        return self.moved.get(name, 0) < settled or (length is not None and is_of_data(value) and len(value) == length)


def _answers_signal(frame: FrameType) -> bool:
    """Return whether Python calls it as a handler: what it is given last is the frame that was interrupted."""
    code = frame.f_code
    if frame.f_back is None or not 2 <= code.co_argcount <= 3:
        return False
    given = frame.f_locals.get(code.co_varnames[code.co_argcount - 1])
    callers = outwards(frame.f_back)  # a decorator's may be between
    return type(given) is FrameType and any(each is given for each in callers)


def _is_suspended(frame: FrameType) -> bool:
    """Return whether a generator or coroutine goes on later: how often it waits is nobody's value."""
    return frame.f_lasti >= 0 and dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("YIELD")


def _next_sampled(n: int) -> int:
    """The first power of two above ``n``."""
    return 1 << n.bit_length()


def _trace_of(state: _FollowedFrame) -> Any:
    """The local trace function of a frame."""
    passes = repeat(None, 0)

    def trace(
        frame: FrameType, event: str, value: Any, state: _FollowedFrame = state, hot: set[int] = state.hot
    ) -> Any:
        nonlocal passes
        if event == "line" and frame.f_lineno in hot:
            for _ in passes:  # counts down in C, and ``None`` goes on (3.10, 3.11): every name costs in a long loop
                return None
        try:
            left = state.left = length_hint(passes)
            if event == "line":
                state.on_line(frame, frame.f_lineno)
            elif event == "return":
                state.on_return(frame, value)
            if state.left != left:
                passes = repeat(None, state.left)
        except Exception:  # a failure of the recorder must not reach the program
            pass
        return trace

    return trace


_TRACE = next(code for code in _trace_of.__code__.co_consts if isinstance(code, CodeType))


class _Tracing:
    """``sys.settrace``: one at a time, of this thread and those that Python starts."""

    def __init__(self, recording: LineRecording) -> None:
        self._recording = recording
        self._threads: Any = None
        self._attached: list[FrameType] = []
        self._entered = self._first_look()
        self._imports = LibraryImports(self._entered, recording.follows)

    def start(self, frame: FrameType | None) -> str:
        """Begin, in frames that run already as well."""
        if sys.gettrace() is not None:
            return "a debugger, or a measurement of coverage, traces this program already"
        for running, state in self._recording.running(frame):
            running.f_trace = _trace_of(state)
            self._attached.append(running)
        self._threads = threading.gettrace() if hasattr(threading, "gettrace") else None
        if not self._recording.asked.library and not self._recording.asked.inside:
            sys.meta_path.insert(0, self._imports)
        threading.settrace(self._entered)
        sys.settrace(self._entered)
        return ""

    def stop(self) -> str:
        """End, also in the frames that run on."""
        is_ours = sys.gettrace() == self._entered
        if is_ours:
            sys.settrace(None)
        threading.settrace(self._threads)
        with suppress(ValueError):
            sys.meta_path.remove(self._imports)
        for frame in self._attached:
            frame.f_trace = None
        self._attached.clear()
        return "" if is_ours else "the program traces itself from some line on"

    def anew(self) -> None:
        """Lines that are passed over are told of all the same."""

    def _first_look(self) -> Callable[[FrameType, str, Any], Any]:
        """Python asks at each call of any function: an answer for libraries that takes no call of ours."""
        own, is_inside, begins = self._recording._own.get, bool(self._recording.asked.inside), self._begins

        def entered(frame: FrameType, event: str, value: Any) -> Any:
            if own(frame.f_code.co_filename) is False and not is_inside:
                return None
            return begins(frame, event, value)

        return entered

    def _begins(self, frame: FrameType, event: str, value: Any) -> Any:
        recording, code = self._recording, frame.f_code
        filename = code.co_filename
        try:
            is_inside = not recording.follows(filename)
            if is_inside and not recording.is_inside(filename):
                return None
            if event != "call" or recording.is_over() or recording.passes(code):
                return None
            known: Any = frame.f_trace
            if type(known) is FunctionType and known.__code__ is _TRACE:  # ours: a generator goes on
                known.__defaults__[0].goes_on()  # type: ignore[index]
                return known
            left = recording.thread.left
            if left.get(id(code)):
                left[id(code)] -= 1
                return None
            return _trace_of(recording.entered(frame, is_inside=is_inside))
        except Exception:  # a failure of the recorder must not reach the program
            return None


class _Monitoring:
    """``sys.monitoring``: beside debuggers and coverage, in all threads."""

    def __init__(self, recording: LineRecording) -> None:
        self._recording = recording
        self._frames: dict[int, _FollowedFrame] = {}
        """By the identity of a frame: holding the frame would keep its values alive."""
        self._passing: set[int] = set()
        """By the identity of codes of which lines are passed over."""
        self._tool = -1

    def start(self, frame: FrameType | None) -> str:
        """Begin, in frames that run already as well."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        self._tool = next((number for number in (4, 3) if monitoring.get_tool(number) is None), -1)
        if self._tool < 0:
            return "other tools have taken all places of sys.monitoring"
        monitoring.use_tool_id(self._tool, "determinism-tracer")
        events = monitoring.events
        for event, callback in (
            (events.PY_START, self._begins),
            (events.PY_RESUME, self._resumes),
            (events.LINE, self._line),
            (events.PY_RETURN, self._returns),
            (events.PY_YIELD, self._yields),
            (events.PY_UNWIND, self._unwinds),
        ):
            monitoring.register_callback(self._tool, event, callback)
        monitoring.set_events(self._tool, events.PY_START | events.PY_UNWIND)
        monitoring.restart_events()  # an earlier recording left files out
        self._disable = monitoring.DISABLE
        self._of_code = events.PY_RESUME | events.LINE | events.PY_RETURN | events.PY_YIELD
        for running, state in self._recording.running(frame):
            self._frames[id(running)] = state
            monitoring.set_local_events(self._tool, running.f_code, self._of_code)
        return ""

    def stop(self) -> str:
        """End, and give the place back."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        monitoring.set_events(self._tool, 0)
        for code in [known.code for known in self._recording._codes.values()]:
            monitoring.set_local_events(self._tool, code, 0)
        monitoring.free_tool_id(self._tool)
        self._frames.clear()
        return ""

    def _begins(self, code: CodeType, offset: int) -> Any:
        recording = self._recording
        is_inside = not recording.follows(code.co_filename)
        if is_inside and not recording.is_inside(code.co_filename):
            return None if recording.asked.inside else self._disable
        with suppress(Exception):  # a failure of the recorder must not reach the program
            if recording.passes(code):
                return None
            frame, left = sys._getframe(1), recording.thread.left
            if left.get(id(code)):
                left[id(code)] -= 1
                self._frames.pop(id(frame), None)  # of a frame that died unheard
                return None
            if not recording.is_over():
                if id(code) in self._passing:  # another call has passed lines over
                    self.anew()
                self._frames[id(frame)] = recording.entered(frame, is_inside=is_inside)
                sys.monitoring.set_local_events(self._tool, code, self._of_code)  # type: ignore[attr-defined]
        return None

    def _resumes(self, code: CodeType, offset: int) -> None:
        if (state := self._state(sys._getframe(1))) is not None:
            state.goes_on()

    def _line(self, code: CodeType, line: int) -> Any:
        frame = sys._getframe(1)
        state = self._frames.get(id(frame))
        if state is None or state.code.code is not code:
            return None
        if state.left and line in state.hot:  # nothing is told of this line until ``anew``
            state.left -= 1
            self._passing.add(id(code))
            return self._disable
        with suppress(Exception):  # a failure of the recorder must not reach the program
            state.on_line(frame, line)
        return None

    def anew(self) -> None:
        """Lines that were passed over are told of again."""
        self._passing.clear()
        sys.monitoring.restart_events()  # type: ignore[attr-defined]

    def _returns(self, code: CodeType, offset: int, value: Any) -> None:
        self._ends(sys._getframe(1), value, is_over=True)

    def _yields(self, code: CodeType, offset: int, value: Any) -> None:
        self._ends(sys._getframe(1), value, is_over=False)

    def _unwinds(self, code: CodeType, offset: int, problem: BaseException) -> None:
        self._ends(sys._getframe(1), None, is_over=True)

    def _state(self, frame: FrameType) -> _FollowedFrame | None:
        state = self._frames.get(id(frame))
        return state if state is not None and state.code.code is frame.f_code else None

    def _ends(self, frame: FrameType, value: Any, *, is_over: bool) -> None:
        if (state := self._state(frame)) is not None:
            if is_over:
                del self._frames[id(frame)]
            with suppress(Exception):
                state.on_return(frame, value)


def begun_lines(
    trace: Path,
    asked: LineOptions,
    next_call: Callable[[], int | None] | None = None,
    frame: FrameType | None = None,
) -> LineRecording:
    """Follow the lines of this process, beside ``trace``; a forked process goes on with its parent's recording.

    The program's own files are those below the working directory and the script's folder.
    ``next_call`` and ``frame`` are those of ``LineRecording``.
    """
    path, inherited = lines_path(trace), _Current.recording
    if inherited is not None and inherited.is_on:
        inherited.move_to(path)
        inherited.next_call = next_call or inherited.next_call
        return inherited
    lines = LineRecording(path, (os.getcwd(), *filter(None, sys.path[:1])), asked)
    lines.next_call = next_call or lines.next_call
    lines.start(frame)
    return lines


class _Current:
    """The recording whose lines a fork continues."""

    recording: LineRecording | None = None
    is_registered = is_told_of_files = False


def _forking(recording: LineRecording | None) -> None:
    _Current.recording = recording
    if not _Current.is_registered and hasattr(os, "register_at_fork"):
        _Current.is_registered = True
        os.register_at_fork(
            before=lambda: None if _Current.recording is None else _Current.recording.before_fork(),
            after_in_child=lambda: None if _Current.recording is None else _Current.recording.in_child(),
        )
    if recording is not None and not _Current.is_told_of_files:
        _Current.is_told_of_files = True
        sys.addaudithook(_audit)


_NAMING = ("tempfile.mkstemp", "tempfile.mkdtemp")
_OF_FILES = frozenset({"open", "os.mkdir", "os.rename", "os.listdir", "os.scandir", *_NAMING})


def _is_recorders(recording: LineRecording, frame: FrameType) -> bool:
    """Return whether the recorder itself does it: its kernels are compiled into files, and found there again."""
    for code in (each.f_code for each in outwards(frame)):
        if recording.follows(code.co_filename):
            return False
        if is_tracers_own(code.co_filename) and not is_in_between(code):
            return True
    return False


def _audit(event: str, args: tuple[Any, ...]) -> None:
    """Note files that are opened; a hook of Python's, which stays until the process ends."""
    if event in _OF_FILES and (recording := _Current.recording) is not None and recording.is_on:
        with suppress(Exception):  # a failure of the recorder must not reach the program
            if _is_recorders(recording, sys._getframe(1)):
                return
            if event in ("os.listdir", "os.scandir"):
                recording.lists(os.fsdecode("." if args[0] is None else args[0]))
            elif event in _NAMING:
                recording.names(os.fsdecode(args[0]))
            elif type(path := args[event == "os.rename"]) in (str, bytes):
                recording.opens(os.fsdecode(path), args[2] if event == "open" else os.O_WRONLY)
