"""Processes that this one starts, each handed a role, so that it records itself in its own trace. Imports no torch.

A Python process that is started inherits ``PYTHONPATH`` with the folder ``bootstrap`` in front, and its role, in the
environment that C code sees: ``os.environ`` stays the program's. A forked one is told by a hook. All processes of a job
add to one log, from which the first one reads in the end what became of each.
"""

from __future__ import annotations

import itertools
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
from msgspec.structs import replace as _replace

from tracer.names import ChildState, SeedOrigin, StartedBy
from tracer.recording import patching
from tracer.recording.options import RecordOptions
from tracer.recording.origin import Sites, placed, programs_frame
from tracer.recording.patching import WatchedCall, original_of
from tracer.recording.process.children import (
    CHILDREN,
    FORKS_FOR_PROCESSES,
    ChildLog,
    is_loader_worker,
    is_started_by_torch,
    runs_python,
)
from tracer.trace.file import LOWEST_SHARED, child_path
from tracer.trace.records import Child, Generator

_VARIABLE = "TRACER_CHILDREN"
_BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")
_LOG, _ORDER, _START = "log", "order.json", "start.json"
#: Where the environment stands among the arguments of ``Popen._execute_child`` and functions of ``os``.
_ENVIRONMENT_AT = {
    "_execute_child": 7,
    "posix_spawn": 2,
    "posix_spawnp": 2,
    "execv": 2,
    "execve": 2,
    "fork_exec": 5,  # of _posixsubprocess, which multiprocessing and loky call
}
_POOLS = ("multiprocessing.pool", "concurrent.futures.process", "loky.process_executor")
#: How long a process that was started may take until its Python runs.
_SECONDS_TO_BEGIN = 60.0
LogStep = tuple[str, object]
"""A function, ``module:function``, and what it is called with after a role."""


class LogLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the log."""

    role: str
    event: str
    """``starts`` (its parent says so), ``begins``, ``loads-torch``, ``records``, ``is-too-many``, ``ends``; without
    torch, ``numpy`` and ``python``: it loaded the module of that generator."""
    pid: int = 0
    child: Child | None = None
    """What is known of it as it starts, by its parent, or ends, by itself."""


class Started(msgspec.Struct):
    """The number of processes that one process has started while they were followed; roles come from it."""

    number: int = 0
    server: str = ""
    """The role of the fork server, which is started with the first process that it forks."""
    served: int = 0


class ChildOrder(msgspec.Struct, frozen=True):
    """The task of a child that has torch: call ``begin``, a dotted name, with its role and ``task``."""

    begin: str
    task: msgspec.Raw


class Following(ChildLog):
    """The processes that this process starts, while they are followed; the listener beside those that count them."""

    def __init__(self) -> None:
        super().__init__(Sites())
        self.role = ""
        """This process's own; empty for the first of a job."""
        self.task = b""
        """The task that this process has begun last, as it was sent to it, if it is a worker of a pool."""
        self.folder = ""
        """The folder that child processes report in; empty while none are followed."""
        self._started = Started()
        self.left_by_fork: Callable[[], None] = lambda: None
        """Called in a forked child before it records itself: it leaves what its parent records."""
        self._next = threading.local()
        """The role of the process that this thread starts next."""
        self._starting = threading.RLock()
        """Held while a process starts that inherits the environment, which all threads share."""
        self._lifts: list[Callable[[], None]] = []
        self._hooked = False

    def follow(self, folder: str, begin: LogStep, started: Started, at_start: LogStep | None = None) -> None:
        """Follow what this process starts from now on, in ``folder``, or go on there: ``started`` counts.

        A child calls ``begin`` as it loads torch, and ``at_start`` as Python starts, unless it was forked.
        """
        for name, step in ((_ORDER, begin), (_START, at_start)):
            if step is not None:
                with open(os.path.join(folder, name), "wb") as stream:
                    stream.write(msgspec.json.encode({"begin": step[0], "task": step[1]}))
        with open(os.path.join(folder, _LOG), "ab"):
            pass
        self._enter(folder, "", started)

    def take_over(self, folder: str, role: str, started: int) -> None:
        """Go on for a process that has begun elsewhere, as ``role``, has forked ``started`` ones, and loads torch."""
        self._enter(folder, role, Started(started))
        _call(self.folder, _ORDER, self.role)

    def child_starts(self, folder: str, role: str) -> None:
        """Python starts, in the child ``role``: do what is to be done before its first line."""
        self.folder = folder
        own, self.folder = self.claimed(role, "start"), ""
        _call(folder, _START, own)

    def leave(self) -> None:
        CHILDREN.discard(self)
        self._listens = False
        while self._lifts:
            self._lifts.pop()()
        if self.folder:
            self.folder = ""
            put, unset = original_of(os.putenv), original_of(os.unsetenv)
            for name in ("PYTHONPATH", _VARIABLE):
                if name in os.environ:
                    put(name, os.environ[name])
                else:
                    unset(name)

    def log(self, event: LogLine) -> None:
        """Add to the log, in one write; nothing where the job's first process has ended and removed it."""
        with suppress(OSError):
            handle = os.open(os.path.join(self.folder, _LOG), os.O_WRONLY | os.O_APPEND)
            try:
                os.write(handle, msgspec.json.encode(event) + b"\n")
            finally:
                os.close(handle)

    def claimed(self, role: str, what: str = "child") -> str:
        """``role`` for this process alone, numbered where others have inherited it, as those that C starts do."""
        for number in itertools.count(LOWEST_SHARED):
            own = role if number == LOWEST_SHARED else f"{role}.{number}"
            with suppress(FileExistsError):
                os.close(os.open(os.path.join(self.folder, f"{what}-{own}"), os.O_CREAT | os.O_EXCL))
                return own
        raise AssertionError

    def events(self, folder: str = "") -> list[LogLine]:
        """The log so far, of ``folder`` or the one that is followed in."""
        try:
            with open(os.path.join(folder or self.folder, _LOG), "rb") as stream:
                return msgspec.json.Decoder(LogLine).decode_lines(stream.read())
        except (OSError, msgspec.MsgspecError):
            return []

    # --- of this process's own ---

    def _enter(self, folder: str, role: str, started: Started) -> None:
        self.folder, self.role, self._started, self._listens = folder, role, started, True
        CHILDREN.add(self)
        owners = {"_execute_child": subprocess.Popen, "fork_exec": sys.modules["_posixsubprocess"]}
        for name in _ENVIRONMENT_AT:
            self._lifts.append(patching.answered_by(partial(self._passing_on, name), (owners.get(name, os), name)))
        if not self._hooked and hasattr(os, "register_at_fork"):
            self._hooked = True  # after the hook that lifts what the parent has replaced
            os.register_at_fork(before=self._about_to_fork, after_in_child=self._forked)

    # --- processes that start ---

    def process_starts(self, call: WatchedCall) -> None:
        process = call.first
        methods: Any = sys.modules["multiprocessing"]
        method = getattr(process, "_start_method", None) or methods.get_start_method(allow_none=True)
        known = methods.get_all_start_methods()
        started_by = StartedBy(method or known[0]) if method is None or method in known else StartedBy.SPAWN
        served = started_by is StartedBy.FORKSERVER
        if is_loader_worker(process):
            started_by = StartedBy.LOADER
        elif getattr(getattr(process, "_target", None), "__module__", "").endswith(_POOLS):
            started_by = StartedBy.POOL
        self._start(started_by, call.frame, served=served)

    def program_starts(self, call: WatchedCall) -> None:
        if is_started_by_torch(call.frame, "_inductor"):
            self._next.role = ""
        else:  # any program may start Python in the end; one that says so is missed where it is not heard of
            self._start(StartedBy.PROGRAM, call.frame, is_counted=runs_python((*call.args, None, None)[1]))

    def forks(self, frame: FrameType) -> None:
        """Nothing: the hook that comes before has counted it."""

    def _start(
        self, started_by: StartedBy, frame: FrameType | None, *, served: bool = False, is_counted: bool = True
    ) -> None:
        started = self._started
        if not served or not started.server:
            started.number += 1
        role = inherited = f"{self.role}.{started.number}" if self.role else str(started.number)
        if served:
            started.server = inherited = started.server or role
            started.served += 1
            role = f"{inherited}.{started.served}"
        self._next.role = inherited
        if is_counted:
            place = placed(self._sites.innermost(frame), self._sites.users_own(frame))
            child = _replace(unknown_child(role), started_by=started_by, **place)
            self.log(LogLine(role=role, event="starts", child=child))
        with self._starting:
            self._put_variables()

    def _put_variables(self) -> None:
        put = original_of(os.putenv)
        for name, value in self._variables(os.environ).items():
            put(name, value)

    def _variables(self, program: Mapping[Any, Any]) -> dict[str, str]:
        """Return the variables that a started process needs beside those that the program passes on."""
        role = getattr(self._next, "role", "")
        if not role or not self.folder:
            return {}
        own = program.get("PYTHONPATH")
        ours = _BOOTSTRAP if own is None else f"{_BOOTSTRAP}{os.pathsep}{own}"
        if own is not None and own.split(os.pathsep)[0] == _BOOTSTRAP:
            ours = own
        return {"PYTHONPATH": ours, _VARIABLE: f"{role}:{self.folder}"}

    def _passing_on(self, name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call of the function ``name``, which starts a program, with an extended environment."""
        place = _ENVIRONMENT_AT[name]
        if name.startswith("exec"):
            self._next.role = self.role
        passed = args[place] if len(args) > place else None
        if isinstance(passed, Mapping) and all(isinstance(key, str) for key in passed):
            args = (*args[:place], {**passed, **self._variables(passed)}, *args[place + 1 :])
        elif isinstance(passed, list):  # as C code takes it: the last of a name counts
            program = dict(os.fsdecode(entry).partition("=")[::2] for entry in passed)
            program |= self._variables(program)
            entries = [os.fsencode(f"{key}={value}") for key, value in program.items()]
            args = (*args[:place], entries, *args[place + 1 :])
        if passed is not None:
            return call(*args, **kwargs)
        with self._starting:
            self._put_variables()
            return call(*args, **kwargs)

    def _about_to_fork(self) -> None:
        frame = programs_frame()
        file = frame.f_code.co_filename if frame is not None else ""
        if self.folder and not file.endswith(FORKS_FOR_PROCESSES):
            self._start(StartedBy.FORK, frame)
        elif file.endswith("subprocess.py"):  # it becomes another program at once
            self._next.role = ""

    def _forked(self) -> None:
        role, folder = getattr(self._next, "role", ""), self.folder
        if not role or not folder:
            self.folder = ""
            return
        self._lifts.clear()  # they were lifted
        self._starting = threading.RLock()  # another thread may have held it
        with suppress(Exception):  # what the parent had entered may be on a thread that is not here
            self.left_by_fork()
        self._enter(folder, role, Started())
        self.log(LogLine(role=role, event="begins", pid=os.getpid()))
        with suppress(Exception):  # no business of the program's
            _call(self.folder, _ORDER, self.role)


def unknown_child(role: str) -> Child:
    """The child ``role``, of which nothing else is known yet."""
    return Child(role=role, started_by=StartedBy.UNSEEN, state=ChildState.NOT_FOLLOWED)


def _call(folder: str, name: str, role: str) -> None:
    """Do what the file ``name`` says, as the child ``role``."""
    with open(os.path.join(folder, name), "rb") as stream:
        order = msgspec.json.decode(stream.read(), type=ChildOrder)
    pkgutil.resolve_name(order.begin)(role, order.task)


def children_of(events: Iterable[LogLine], has_trace: Callable[[str], bool]) -> tuple[Child, ...]:
    """Return each process's role, state and end, in the order of roles. ``has_trace``: whether a role has a trace."""
    by_role: dict[str, dict[str, LogLine]] = {}
    is_left: Counter[str] = Counter()
    """Processes of a role, or that have inherited it, that loaded torch and were not heard of again."""
    for event in events:
        by_role.setdefault(event.role, {})[event.event] = event
        first, _, number = event.role.rpartition(".")
        inherited = first if number.isdigit() and int(number) > LOWEST_SHARED else event.role
        is_left[inherited] += {"loads-torch": 1, "records": -1, "is-too-many": -1}.get(event.event, 0)
    children: dict[Child, int] = {}
    for role in sorted(by_role, key=lambda role: [int(part) for part in role.split(".")]):
        heard = by_role[role]
        said = (heard[event].child if event in heard else None for event in ("starts", "ends"))
        start, end = (child or unknown_child(role) for child in said)
        if has_trace(role):
            state = ChildState.RECORDED
        elif "begins" not in heard:
            state = ChildState.NOT_FOLLOWED
        elif "is-too-many" in heard:
            state = ChildState.ONE_TOO_MANY
        elif "ends" in heard:
            state = ChildState.UNTRAINED if "records" in heard else ChildState.WITHOUT_TORCH
        elif "records" in heard:
            state = ChildState.CUT_SHORT
        else:
            state = ChildState.NOT_FOLLOWED if is_left[role] > 0 else ChildState.WITHOUT_TORCH
        loaded = (Generator(name=name, origin=SeedOrigin.UNSEEN) for name in ("numpy", "python") if name in heard)
        is_line = state in (ChildState.UNTRAINED, ChildState.RECORDED)
        child = _replace(
            end,
            started_by=start.started_by,
            **start.place._asdict(),
            state=state,
            generators={ChildState.UNTRAINED: end.generators, ChildState.WITHOUT_TORCH: tuple(loaded)}.get(state, ()),
            draws=end.draws if state is ChildState.UNTRAINED else (),
        )
        same = (each for each in children if each.parent == child.parent and _replace(each, role=role) == child)
        alike = child if is_line else next(same, child)
        children[alike] = children.get(alike, 0) + 1
    return tuple(_replace(child, count=count) for child, count in children.items())


#: Of this process.
FOLLOWING = Following()


#: How the folder of a job's log is named, and the file in it that says that the first process needs it no more.
_PREFIX, _LEFT = "tracer-", "left"
#: What a child process runs as it loads torch: it records itself as a script is recorded.
_BEGIN = "tracer.runner.child_processes:begin"


class ChildTask(msgspec.Struct, frozen=True, kw_only=True):
    """Options with which every child is recorded, the same as its parent's."""

    output: str
    """The parent's trace."""
    start: int = 0
    stop: int | None = None
    ends_before: int | None = None
    source_folder: str | None = None
    options: RecordOptions


class ChildTraces:
    """Follows what this process starts while it is entered; a child's trace lies beside ``output``.

    ``options`` are those of the recording; without ``output`` traces lie in a temporary folder, until this is removed.
    ``at_start`` is done in a child that was not forked before its first line.
    """

    def __init__(
        self, output: Path | None, options: RecordOptions, *, at_start: LogStep | None = None, **task: Any
    ) -> None:
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LEFT}"):  # by those that were killed
            remove_left(str(left.parent))
        self._folder = tempfile.mkdtemp(prefix=_PREFIX)
        self._process = os.getpid()
        # At exit too: after the hook of ``multiprocessing``, which ends the children that are daemons.
        weakref.finalize(self, _remove, self._folder, self._process)
        self.output = output or Path(self._folder, "step.json")
        """The trace that children's traces lie beside."""
        self._task = ChildTask(output=str(self.output), options=_replace(options, name=""), **task)
        self._at_start = at_start
        self._started = Started()
        self._is_entered = False

    def begin(self, left_by_fork: Callable[[], None]) -> None:
        """Follow what this process starts from now on; nothing where another recording follows it.

        ``left_by_fork`` is called in a forked child, which is to leave its parent's recording.
        """
        if not FOLLOWING.folder:
            self._is_entered = True
            FOLLOWING.follow(self._folder, (_BEGIN, self._task), self._started, self._at_start)
            FOLLOWING.left_by_fork = left_by_fork

    def end(self) -> None:
        """Follow no more: processes that run on go on recording themselves."""
        if self._is_entered and os.getpid() == self._process:
            self._is_entered = False
            FOLLOWING.leave()

    def listed(self) -> tuple[Child, ...]:
        """Return each child process so far: its role, its state, and how it ended."""
        return children_of(FOLLOWING.events(self._folder), lambda role: child_path(self.output, role).exists())

    def remove(self) -> None:
        """Remove what children left in the temporary folder."""
        _remove(self._folder, self._process)


def _remove(folder: str, process: int) -> None:
    """Remove a recording's own folder, unless this is a forked child, or a process that runs on will begin there."""
    if os.getpid() == process:
        with suppress(OSError):
            Path(folder, _LEFT).touch()
        remove_left(folder)


def remove_left(folder: str) -> None:
    """Remove ``folder`` if its job's first process has left it, and none but this one of its processes runs on."""
    if os.path.exists(os.path.join(folder, _LEFT)):
        events = FOLLOWING.events(folder)
        others = {event.pid for event in events} - {0, os.getpid()}
        begun = {event.role for event in events if event.event == "begins"}
        is_awaited = any(event.event == "starts" and event.role not in begun for event in events)
        if is_awaited:  # it was started and has not begun, as some never do
            is_awaited = time.time() - os.stat(os.path.join(folder, _LOG)).st_mtime < _SECONDS_TO_BEGIN
        if not is_awaited and not any(map(_is_running, others)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    """Return whether this process exists. One that ended and was not waited for does not, where that can be read."""
    try:
        os.kill(process, 0)
        with open(f"/proc/{process}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] != b"Z"
    except ProcessLookupError:
        return False
    except OSError:
        return True
