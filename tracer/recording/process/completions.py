"""Which of several was done first: futures, tasks, child processes, threads at a barrier, ranks that send.

Each is told apart by what is the same in every run: a future and a process by the number of those before it, a task by
its name. Imports no torch.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from tracer.recording.patching import Call

_Marks = Iterable[object]


class Adds(Protocol):
    """An input from outside, to which values are added."""

    def add(self, value: bytes) -> None:
        """Add one value."""


class Completions:
    """What one recording saw begin, numbered, and the inputs that hang on what is done first."""

    def __init__(self) -> None:
        self._futures: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._processes: dict[int, int] = {}
        """The number of a child process, by its id."""
        self._numbers = itertools.count()
        self._told: weakref.WeakKeyDictionary[Any, Adds] = weakref.WeakKeyDictionary()
        """Futures that run a function of the program's when they are done."""

    def begins(self, call: Call) -> None:
        """A future was made."""
        self._futures[call.first] = next(self._numbers)

    def starts(self, process: int) -> None:
        """A child process was started; one that was numbered already keeps its number."""
        self._processes.setdefault(process, len(self._processes))

    def mark_of(self, item: Any) -> str:
        """What tells a future or a task apart."""
        named = getattr(item, "get_name", None)
        return named() if named is not None else str(self._futures.get(item))

    def tell(self, future: Any, source: Adds) -> None:
        """Add the mark of ``future`` to ``source`` when it is done."""
        self._told[future] = source
        if getattr(future, "done", lambda: False)():
            self.ends(future)

    def ends(self, future: Any) -> None:
        """A future, or a result of a pool of processes, is done: functions that wait for it run now."""
        source = self._told.pop(future, None)
        if source is not None:
            source.add(str(getattr(future, "_job", None) or self.mark_of(future)).encode())

    def first_of(self, name: str, call: Call) -> bytes | None:
        """What the function ``name`` found done; ``None`` where that hangs on nobody's being first."""
        marks = FIRST[name](self, call)
        return None if marks is None else "\0".join(map(str, marks)).encode()

    def child(self, call: Call) -> _Marks | None:
        """Of ``os.wait()``, ``os.wait3(options)`` and ``os.waitpid(-1, options)``."""
        process = call.result[0]
        is_any = len(call.args) < 2 or call.args[0] == -1
        return (self._processes.get(process), call.result[1]) if is_any and process else None

    def futures(self, call: Call) -> _Marks:
        """Of ``concurrent.futures.wait``: those that are done, in the order of the set that it returns."""
        return map(self.mark_of, call.result.done)

    def ready(self, call: Call) -> _Marks | None:
        """Of functions that are given lists, and return what of each is ready."""
        several = isinstance(call.result, tuple)
        asked, found = (call.args[:3], call.result) if several else (call.args[:1], (call.result,))
        lists = [list(choices) for choices in asked if isinstance(choices, (list, tuple))]
        if len(lists) != len(found) or not any(found):
            return None
        return [list(map(choices.index, chosen)) for choices, chosen in zip(lists, found, strict=True)]


def _thread_at_barrier(_: Completions, call: Call) -> _Marks:
    return threading.current_thread().name, call.result


def _sender(_: Completions, call: Call) -> _Marks | None:
    names_one = len(call.args) > 1 or call.kwargs.get("src", call.kwargs.get("group_src")) is not None
    return None if names_one and call.args[1:2] != (None,) else (call.result,)


def _keys(_: Completions, call: Call) -> _Marks | None:
    return [key.fd for key, _ in call.result] or None


#: What each watched function found, by its name.
FIRST: Mapping[str, Callable[[Completions, Call], _Marks | None]] = {
    **dict.fromkeys(("os.wait", "os.wait3", "os.waitpid"), Completions.child),
    "concurrent.futures._base.wait": Completions.futures,
    **dict.fromkeys(("multiprocessing.connection.wait", "select.select"), Completions.ready),
    **dict.fromkeys((f"selectors.{kind}.select" for kind in ("EpollSelector", "KqueueSelector")), _keys),
    "threading.Barrier.wait": _thread_at_barrier,
    "torch.distributed.distributed_c10d.recv": _sender,
}


#: Functions that wait no longer than a time, and the position of that among their arguments.
LIMITED: Mapping[str, int] = {
    **{f"concurrent.futures._base.Future.{name}": 1 for name in ("result", "exception")},
    **{f"threading.{name}": 1 for name in ("Thread.join", "Event.wait", "Condition.wait")},
    **{f"multiprocessing.pool.ApplyResult.{name}": 1 for name in ("get", "wait")},
    "multiprocessing.process.BaseProcess.join": 1,
    "subprocess.Popen.wait": 1,
    "queue.Queue.get": 2,
    "queue.Queue.get_nowait": 0,
    "multiprocessing.queues.Queue.get": 2,
    "multiprocessing.queues.Queue.get_nowait": 0,
}
#: Names of what they raise when it is over: there are several errors of one name, in modules that may not be loaded.
_TIMEOUTS = ("TimeoutError", "Empty", "TimeoutExpired")


def has_limit(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether the function ``name`` is called to wait no longer than a time."""
    place = LIMITED[name]
    limit = args[place] if len(args) > place else kwargs.get("timeout")
    block = args[1] if place == 2 and len(args) > 1 else kwargs.get("block", True)
    return place == 0 or limit is not None or not block


def is_timeout(problem: BaseException) -> bool:
    """Return whether it says that the time is over."""
    return type(problem).__name__ in _TIMEOUTS


def done_in_time(waited_for: Any, result: Any) -> object:
    """Whether it was done, of a function that raised nothing."""
    is_alive = getattr(waited_for, "is_alive", None)
    return not is_alive() if is_alive is not None else result if isinstance(result, bool) else True
