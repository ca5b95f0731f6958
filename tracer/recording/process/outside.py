"""What the program takes in from outside: files, directories, programs, names, clocks, each with its line.

The functions that ``OutsideKind`` names are replaced while somebody watches. An audit hook of Python's would see little
more, and costs more than it may: it is called for each ``id``, each frame and each code object that anybody asks for,
four times an op while recording (a recorded step of small ops took 15 % longer, Python 3.11), and cannot be removed.
What importing a module opens never comes this way, because ``importlib`` holds functions of its own.

Nothing is read twice by the program's own means: the bytes of a file are read through the descriptor that the program
got, at places of their own, so that its position stays. Of names, addresses and variables a keyed digest is kept, whose
key is the machine's. Imports no torch.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import os
import re
import signal
import stat
import sys
import tempfile
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from types import FrameType
from typing import Any

from tracer.names import OutsideKind
from tracer.recording import patching
from tracer.recording.events import EventLog
from tracer.recording.origin.sites import (
    LIBRARY,
    NOWHERE,
    USER,
    Site,
    Sites,
    below_packages,
    is_torchs_own,
    is_tracers_own,
    placed,
    programs_frame,
)
from tracer.recording.patching import Call, Holder, held_by, original_of
from tracer.recording.process.completions import LIMITED, Completions, done_in_time, has_limit, is_timeout
from tracer.recording.watchers import Target, Watchers
from tracer.trace.records import OutsideInput

#: Files up to this many bytes are digested whole, of larger ones the beginning, the middle and the end.
_WHOLE = 32 << 20
#: So many bytes one recording digests; further files are digested in parts.
_BUDGET = 1 << 30
_PART = 1 << 16
_BLOCK = 1 << 20
#: Names of one kind that are told apart at one line, and inputs that are told apart in all.
_NAMES_A_LINE, _INPUTS = 32, 4096
#: Values of one input that go into its digest: a loop that waits for a clock reads it without end.
_VALUES = 16
#: The same of the items of a queue; and SQL statements of one connection that are looked at.
_TAKEN, _STATEMENTS = 4096, 10_000
#: What in an SQL statement is another one in each run.
_DRAWS_IN_SQL = (
    r"(?i)\brandom(?:blob)?\s*\(|\bcurrent_(?:time(?:stamp)?|date)\b|'now'"
    r"|\b(?:date|time|datetime|julianday|unixepoch)\s*\(\s*\)"
)
#: A directory larger than this, as ``stat`` has it, is not listed again to learn the order of its entries.
_LARGE_DIRECTORY = 1 << 20

_PATHLIB = "pathlib"
#: Watched modules that are loaded later than their packages.
_LATER = (
    *("multiprocessing.queues", "multiprocessing.connection", "torch.profiler.profiler", "torch.utils.benchmark"),
    *("http.client", "email.message", "concurrent.futures._base", "multiprocessing.pool"),
    *("asyncio.tasks", "asyncio.streams", "asyncio.queues", "multiprocessing.process"),
)
_RANDOM_DEVICES = frozenset({"/dev/urandom", "/dev/random"})
_STANDARD = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")


def _of_standard(*paths: str) -> frozenset[str]:
    """Files of the standard library."""
    return frozenset(os.path.join(_STANDARD, *path.split("/")) for path in paths)


#: Torch's modules that open what the program names; what its others open (the compiler's caches) is their own affair.
_TORCH_PASSES_ON = tuple(
    os.path.join("torch", *path)
    for path in (
        ("serialization.py",),
        ("hub.py",),
        ("utils", "data", ""),
        ("distributed", "checkpoint", ""),
        ("package", ""),
        ("jit", "_serialization.py"),
    )
)
#: Read sources, for a traceback or an answer about code.
_READS_SOURCES = frozenset({"linecache.py", "tokenize.py", "inspect.py", "traceback.py", "runpy.py", "zipimport.py"})
#: Changes what the program is given, and stands for the function itself.
_CIRCUMSTANCES = os.path.join("runner", "repeated", "circumstances", "")
#: What stands in a call that is watched.
_WATCHES = frozenset({__file__, patching.__file__})
#: What stands between ``os.environ.get``, or another such function, and the one that is watched.
_STANDS_BETWEEN = frozenset(
    {
        *(os.path.join(_STANDARD, name) for name in ("os.py", "_collections_abc.py")),
        os.path.join(_STANDARD, "email", "utils.py"),
        *("<frozen os>", "<frozen _collections_abc>", os.path.join(_STANDARD, "multiprocessing", "context.py")),
    }
)
#: Read the times of files on behalf of the program: they stand in the archives that it makes.
_ARCHIVERS = _of_standard("tarfile.py", "zipfile.py", "zipfile/__init__.py")
#: Ask a socket on behalf of the program.
_OF_SOCKETS = _of_standard("socketserver.py", "http/server.py", "asyncio/trsock.py")
_MESSAGES = os.path.join(_STANDARD, "email", "message.py")
_OF_HEADERS = frozenset(f"email.message.Message.{name}" for name in ("get", "get_all", "items"))
_OWN, _PASSES_ON = -1, 0
#: What ``tempfile`` calls its files.
_DRAWN_NAME = re.compile(r"tmp[a-z0-9_]{8}(?=$|[/.\\])")

#: With so many arguments these are given a moment, and read no clock.
_GIVEN_A_MOMENT = {"time.localtime": 1, "time.gmtime": 1, "time.ctime": 1, "time.strftime": 2}
_OPEN, _READ, _CLOSE = os.open, os.read, os.close

_Key = tuple[OutsideKind, str, Site, Site]


def _xxhash() -> Any:
    """Loaded with the first digest: a recording that takes nothing in loads nothing more."""
    import xxhash

    return xxhash


class _Input:
    """One input while it is counted, or all further ones of a line."""

    def __init__(self, calls: int, path: str, by_import: bool, *, is_rest: bool) -> None:
        self.calls, self.path, self.by_import, self.is_rest = calls, path, by_import, is_rest
        self.count = self.values = self.size = self.modified = 0
        self._hasher: Any = None
        self._sum = 0
        """Of further ones: the sum of their digests, which hangs on no order."""
        self._order: Any = None
        self._key = ""
        self.is_partial = False
        self.limit = _VALUES
        self.stamp: object = None
        """The file's device, inode, size and modification time when it was digested last."""

    @property
    def wants_more(self) -> bool:
        """Whether a further value is digested."""
        return self.is_rest or self.values < self.limit

    def add(self, value: bytes, *, key: str = "") -> None:
        """Add one value to the digest; ``key``: the short name of the key that it was made with."""
        if not self.wants_more:
            return
        self.values += 1
        self._key = key
        if self.is_rest:
            self._sum = (self._sum + _xxhash().xxh3_64_intdigest(value)) % 2**64
            return
        self._hasher = self._hasher or _xxhash().xxh3_64()
        self._hasher.update(value)

    def add_order(self, value: bytes) -> None:
        """Add one order of a directory's entries."""
        self._order = self._order or _xxhash().xxh3_64()
        self._order.update(value)

    @property
    def digest(self) -> str:
        """As a trace has it; empty where nothing was digested."""
        if not self.values:
            return ""
        return self._key + (f"{self._sum:016x}" if self.is_rest else self._hasher.hexdigest())

    @property
    def order(self) -> str:
        """The same of the orders."""
        return self._order.hexdigest() if self._order is not None else ""


class _QueueOrder:
    """The threads that put into a queue, in the order of their items in it, and in which these were taken."""

    def __init__(self) -> None:
        self.producers: set[str] = set()
        self.waiting: deque[str] = deque()
        self.calls = 0
        """Calls that were recorded before the first was taken."""
        self.taken: list[str] = []
        """Not digested yet: as long as one thread alone put in, nothing is."""


class OutsideLog:
    """One recording's inputs from outside."""

    def __init__(self, sites: Sites, events: EventLog) -> None:
        self._sites = sites
        self._events = events
        self._inputs: dict[_Key, _Input] = {}
        self._names: dict[tuple[OutsideKind, Site, Site], int] = {}
        """The number of names of a kind at each line."""
        self._kinds: dict[str, int] = {}
        self._written: set[str] = set()
        self._left = _BUDGET
        self._queues: weakref.WeakKeyDictionary[Any, _QueueOrder] = weakref.WeakKeyDictionary()
        self._own_ports: set[int] = set()
        """The ports of its own sockets, which the system chooses: another one in each run."""
        self._timers: dict[int, _Input] = {}
        """By the signal that they send."""
        self._handlers: dict[int, tuple[Site, Site]] = {}
        """By signal, where the program set a function for it."""
        self._threads: weakref.WeakKeyDictionary[threading.Thread, tuple[_Input, int]] = weakref.WeakKeyDictionary()
        """Those that run, and how many calls were recorded before."""
        self.completions = Completions()

    def start(self) -> None:
        """Begin to watch."""
        OUTSIDE.add(self)

    def stop(self) -> None:
        """Watch no more."""
        OUTSIDE.discard(self)

    def listed(self) -> tuple[OutsideInput, ...]:
        """Every input, in the order of first times; threads beside which calls were recorded alone."""
        beside: Counter[_Input] = Counter()
        for source, began in list(self._threads.values()):
            beside[source] += self._events.calls_recorded() - began
        return tuple(
            OutsideInput(
                kind=kind,
                name=spelt(source.path, self._sites.working_directory) if source.path else name,
                **placed(site, own),
                digest=source.digest,
                order=source.order,
                is_partial=source.is_partial,
                size=source.size + beside[source],
                modified=source.modified,
                by_import=source.by_import,
                calls=source.calls,
                count=source.count,
            )
            for (kind, name, site, own), source in self._inputs.items()
            if kind is not OutsideKind.THREAD or source.size + beside[source]
        )

    # --- who asks ---

    def reader(self, frame: FrameType | None) -> FrameType | None:
        """The frame that asked for a file or a program, behind those that only pass it on; ``None`` for nobody's."""
        while frame is not None:
            kind = self._kind_of(frame.f_code.co_filename)
            if kind != _PASSES_ON:
                return frame if kind > 0 else None
            frame = frame.f_back
        return None

    def asker(self, frame: FrameType | None, between: frozenset[str] = _STANDS_BETWEEN) -> FrameType | None:
        """The frame of the user's own code that called, or ``None``: what a library reads of the host is its own.

        ``between``: files that ask on behalf of others.
        """
        while frame is not None:
            name = frame.f_code.co_filename
            if name not in between and name not in _WATCHES and _CIRCUMSTANCES not in name:
                return frame if self._sites.kind_of(name) == USER else None
            frame = frame.f_back
        return None

    def _kind_of(self, filename: str) -> int:
        kind = self._kinds.get(filename)
        if kind is None:
            kind = self._kinds[filename] = self._classify(filename)
        return kind

    def _classify(self, filename: str) -> int:
        if _CIRCUMSTANCES in filename or filename in _WATCHES:
            return _PASSES_ON
        kind = self._sites.kind_of(filename)
        if kind in (USER, LIBRARY):
            return kind
        if is_torchs_own(filename):
            return _PASSES_ON if any(part in filename for part in _TORCH_PASSES_ON) else _OWN
        if is_tracers_own(filename) or os.path.basename(filename) in _READS_SOURCES:
            return _OWN
        return _PASSES_ON if filename.startswith((_STANDARD, "<")) else _OWN

    # --- what comes in ---

    def note(self, kind: OutsideKind, name: str, frame: FrameType | None, *, path: str = "") -> _Input | None:
        """Count one input at the line of ``frame``; ``path`` where it is a file."""
        if frame is None:
            return None
        site, own = self._sites.innermost(frame), self._sites.users_own(frame)
        return self._note_at(kind, name, site, own, path=path, by_import=self._sites.is_import(frame))

    def _note_at(
        self, kind: OutsideKind, name: str, site: Site, own: Site, *, path: str = "", by_import: bool = False
    ) -> _Input:
        place = (kind, site, own)
        key = (kind, path or name, site, own)
        source, is_rest = self._inputs.get(key), False
        if source is None:
            many = self._names.get(place, 0)
            if many >= _NAMES_A_LINE or len(self._inputs) >= _INPUTS:
                key, path, is_rest = (kind, "", site, own), "", True
                source = self._inputs.get(key)
        if source is None:
            self._names[place] = self._names.get(place, 0) + 1
            full = os.path.join(os.getcwd(), path) if path else ""
            source = self._inputs[key] = _Input(self._events.place(), full, by_import, is_rest=is_rest)
        source.count += 1
        return source

    def opened(self, name: str, call: Call) -> None:
        """A file was opened."""
        file = call.first if call.args else call.kwargs.get("file", call.kwargs.get("path"))
        path, mode = _path_of(file), _mode_of(name, call)
        if not path or mode is None:
            return
        frame = self.reader(call.frame)
        if frame is None:
            return
        is_own = os.path.abspath(path) in self._written
        if mode != "r":
            self.wrote(path)
        if mode == "w" or is_own:
            return
        descriptor = call.result if isinstance(call.result, int) else call.result.fileno()
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            return
        source = self.note(OutsideKind.FILE, "", frame, path=path)
        if source is not None:
            self._digest_file(source, path, descriptor, status)

    def wrote(self, path: str) -> None:
        """The program writes a file: what it reads there later does not come from outside."""
        if len(self._written) < _INPUTS:
            self._written.add(os.path.abspath(path))

    def _digest_file(self, source: _Input, path: str, descriptor: int, status: os.stat_result) -> None:
        if path in _RANDOM_DEVICES:  # its bytes are gone once they are looked at, and no two reads agree
            source.add(original_of(os.urandom)(8))
        if not stat.S_ISREG(status.st_mode):
            return
        source.size, source.modified = status.st_size, status.st_mtime_ns // 10**6
        stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp == source.stamp or not hasattr(os, "pread"):
            return
        source.stamp = stamp
        digest, is_partial = self._digest(descriptor, status.st_size)
        source.is_partial |= is_partial
        source.add(digest if not source.is_rest else digest + _DRAWN_NAME.sub("tmp*", path).encode(errors="replace"))

    def _digest(self, descriptor: int, size: int) -> tuple[bytes, bool]:
        """Digest of a file's bytes, and whether that is of parts; its position stays where it is."""
        hasher = _xxhash().xxh3_64(size.to_bytes(8, "big"))
        if size <= min(_WHOLE, self._left):
            self._left -= size
            at = 0
            while block := os.pread(descriptor, _BLOCK, at):
                hasher.update(block)
                at += len(block)
                if at > _WHOLE:
                    break
            return hasher.digest(), at > _WHOLE
        for at in (0, size // 2, max(size - _PART, 0)):
            hasher.update(os.pread(descriptor, _PART, at))
        return hasher.digest(), True

    def listed_directory(self, name: str, call: Call) -> None:
        """A directory was listed; an iterator over one is left alone, and the directory listed once more."""
        path = _path_of(call.first if call.args or call.kwargs else ".") or _path_of(call.kwargs.get("path"))
        frame = self.reader(call.frame)
        if frame is None or not path:
            return
        listing = self.note(OutsideKind.DIRECTORY, "", frame, path=path)
        if listing is None or not listing.wants_more:
            return
        entries = call.result if isinstance(call.result, list) else None
        if entries is None and os.stat(path).st_size <= _LARGE_DIRECTORY:
            entries = os.listdir(path)
        if entries is None:
            return
        listing.size = len(entries)
        spellings = [_DRAWN_NAME.sub("tmp*", os.fsdecode(entry)).encode(errors="surrogateescape") for entry in entries]
        listing.add(b"\0".join(sorted(spellings)))
        listing.add_order(b"\0".join(spellings))

    def opens_database(self, name: str, call: Call) -> None:
        """A database is about to be opened: a later look would take away its locks."""
        path = _path_of(call.first if call.args else call.kwargs.get("database"))
        frame = self.reader(call.frame)
        if frame is None or not path or path == ":memory:" or os.path.abspath(path) in self._written:
            return
        database = self.note(OutsideKind.DATABASE, "", frame, path=path)
        if database is not None and database.count == 1:
            if os.path.isfile(path):
                self._digest_at(database, path)
            else:
                database.add(b"")
        self.wrote(path)

    def _digest_at(self, source: _Input, path: str) -> None:
        descriptor = _OPEN(path, os.O_RDONLY)
        try:
            self._digest_file(source, path, descriptor, os.fstat(descriptor))
        finally:
            _CLOSE(descriptor)

    def loads(self, name: str, call: Call) -> None:
        """``ctypes`` loads a library."""
        library = _path_of(call.args[1] if len(call.args) > 1 else call.kwargs.get("name"))
        frame = self.reader(call.frame)
        if frame is None or not library:
            return
        library_input = self.note(OutsideKind.LIBRARY, os.path.basename(library), frame)
        if library_input is not None and os.path.isfile(library):
            self._digest_at(library_input, library)

    def library_loaded(self, name: str, call: Call) -> None:
        """Make the library that the program's own code loaded report its calls."""
        frame = self.reader(call.frame)
        if frame is not None and self._sites.kind_of(frame.f_code.co_filename) == USER:
            from tracer.recording.process.foreign_calls import tell_of_calls

            path = _path_of(call.args[1] if len(call.args) > 1 else call.kwargs.get("name"))
            library = os.path.basename(path) or "the C library"
            tell_of_calls(call.first, partial(_tell_of_foreign_call, library))

    def called_foreign(self, name: str, answer: tuple[bytes, bool], frame: FrameType) -> None:
        """The program's own line called a compiled function; ``answer`` is what can be compared, and whether all is."""
        source = self.note(OutsideKind.FOREIGN_CALL, name, self.asker(frame))
        if source is not None and source.wants_more:
            compared, is_whole = answer
            source.is_partial |= not is_whole
            source.add(compared)

    def runs_program(self, name: str, call: Call) -> None:
        """A program is started, or what it answered is read."""
        answered = name.endswith("communicate")
        if answered:
            command = getattr(call.first, "args", None)
        elif name.endswith("_execute_child"):
            command = call.args[1] if len(call.args) > 1 else None
        else:
            command = call.first if name == "os.system" else call.args[1] if len(call.args) > 1 else None
        frame = self.reader(call.frame)
        words = _words_of(command)
        if (
            frame is None
            or not words
            or (name == "os.posix_spawn" and call.frame.f_code.co_filename.startswith(_STANDARD))
        ):
            return
        program = self.note(OutsideKind.PROGRAM, os.path.basename(words[0]), frame)
        if program is not None and answered and program.count > 1:  # it was counted as it started
            program.count -= 1
        has_output = answered and call.result != (None, None)
        if program is not None and (has_output or not answered):
            program.is_partial = not has_output
            self._add_value(program, call.result if has_output else tuple(words))

    def connects(self, name: str, call: Call) -> None:
        """A socket is connected."""
        frame = self.reader(call.frame)
        address = call.args[1] if len(call.args) > 1 else None
        if frame is None or address is None:
            return
        port = f"port {address[1]}" if isinstance(address, tuple) and len(address) > 1 else "a local socket"
        if isinstance(address, tuple) and address[1:2] and address[1] in self._own_ports:
            port, address = "a server of its own", ()
        connection = self.note(OutsideKind.CONNECTION, port, frame)
        if connection is not None:
            connection.is_partial = True
            self._add_value(connection, address)

    def reads_variable(self, name: str, call: Call) -> None:
        """An environment variable is asked for."""
        frame = self.asker(call.frame)
        if frame is None or not isinstance(variable := call.args[1], str):
            return
        value = call.first._data.get(call.first.encodekey(variable))
        self._add_value(self.note(OutsideKind.VARIABLE, variable, frame), value)

    def asked(self, kind: OutsideKind, name: str, call: Call) -> None:
        """A function of the host, the machine or a clock answered."""
        frame = self.asker(call.frame)
        if frame is not None and len(call.args) < _GIVEN_A_MOMENT.get(name, len(call.args) + 1):
            self._add_value(self.note(kind, name, frame), call.result)

    def asks_port(self, name: str, call: Call) -> None:
        """A socket is asked for its own address."""
        if isinstance(call.result, tuple):
            self._own_ports.update(call.result[1:2])
        self._add_value(self.note(OutsideKind.PORT, name, self.asker(call.frame, _OF_SOCKETS)), call.result)

    def receives(self, name: str, call: Call) -> None:
        """What a server answered is read: its body, a header, or bytes from a socket."""
        part = name.rpartition(".")[2]
        frame: FrameType | None = call.frame
        if name in _OF_HEADERS:
            while frame is not None and (frame.f_code.co_filename == _MESSAGES or frame.f_code.co_name == "getheader"):
                frame = frame.f_back
            header = call.args[1] if len(call.args) > 1 else ""
            what = f"header {header} of an answer" if header else "the headers of an answer"
            if type(call.first).__name__ == "HTTPMessage" and (frame := self.asker(frame)) is not None:
                self._add_value(self.note(OutsideKind.ANSWER, what, frame), repr(call.result))
            return
        asker = self.asker(frame) if part == "recv" else self.reader(frame)
        what = "bytes from a socket" if part == "recv" else "the body of an answer"
        source = self.note(OutsideKind.ANSWER, what, asker)
        if source is not None and isinstance(call.result, bytes):
            source.limit = _TAKEN
            source.add(call.result[:_PART])

    def asks_file_time(self, name: str, call: Call) -> None:
        """The program's own line asks when a file was written, or for all that is known of it."""
        frame: FrameType | None = call.frame
        if frame is not None and frame.f_code.co_name in ("stat", "lstat") and _PATHLIB in frame.f_code.co_filename:
            frame = frame.f_back
        frame = self.asker(frame, _STANDS_BETWEEN | _ARCHIVERS)
        path = _path_of(call.first)
        is_open = name == "os.fstat"
        if frame is None or not (path or is_open):
            return
        times: Any = call.result
        if isinstance(times, os.stat_result):
            times = times.st_mtime_ns, times.st_ctime_ns, times.st_ino
        self._add_value(self.note(OutsideKind.FILE_TIME, name if is_open else "", frame, path=path), times)

    def database_opened(self, name: str, call: Call) -> None:
        """Listen to the statements of a database's connection: some draw."""
        connection: Any = call.result
        left = [_STATEMENTS]

        def runs(statement: str) -> None:
            left[0] -= 1
            if not left[0] or self not in OUTSIDE.listeners:
                connection.set_trace_callback(None)
            elif draws := re.search(_DRAWS_IN_SQL, statement):
                self.note(OutsideKind.RANDOM_QUERY, draws[0].rstrip("( )").lower(), self.reader(sys._getframe(1)))

        connection.set_trace_callback(runs)

    def queue_changes(self, name: str, call: Call) -> None:
        """A thread put something into a queue, or took something; it holds the queue's lock."""
        if not name.startswith("queue."):
            self._takes_from_processes(name, call)
            return
        order = self._queues.setdefault(call.first, _QueueOrder())
        if name.endswith("_put"):
            producer = threading.current_thread().name
            order.producers.add(producer)
            order.waiting.append(producer)
            return
        if not order.waiting or len(order.taken) >= _TAKEN:
            return
        order.calls = order.calls or self._events.place()
        order.taken.append(order.waiting.popleft())
        frame = self.reader(call.frame) if len(order.producers) > 1 else None
        source = self.note(OutsideKind.QUEUE, "queue.Queue.get", frame)
        if source is not None:
            source.limit, source.calls = _TAKEN, min(source.calls, order.calls)
            for producer in order.taken:
                source.add(producer.encode())
            order.taken.clear()

    def _takes_from_processes(self, name: str, call: Call) -> None:
        """Processes put something into a queue, and this one took it: the order is that in which they did."""
        frame = self.asker(call.frame)
        if name == "os.read" and (frame is None or not _is_pipe(call.first)):
            return
        self.takes(OutsideKind.QUEUE, name, frame, call.result)

    def takes(self, kind: OutsideKind, name: str, frame: FrameType | None, item: object) -> None:
        """One of several items is taken in: what they are and their order are told apart."""
        source = self.note(kind, name, frame)
        if source is None or source.values >= _TAKEN:
            return
        source.limit, source.is_rest = _TAKEN, True
        held = _bytes_of(item)
        source.add(held)
        source.add_order(held)

    def completion(self, name: str, frame: FrameType | None) -> _Input | None:
        """The input of the program's own line that goes on with what is done first."""
        source = self.note(OutsideKind.COMPLETION, name, frame)
        if source is not None:
            source.limit = _TAKEN
        return source

    def found_done(self, name: str, call: Call) -> None:
        """Of several that the program waits for, one was done first."""
        frame = self.asker(call.frame)
        first = self.completions.first_of(name, call) if frame is not None else None
        if first is not None and (source := self.completion(name, frame)) is not None:
            source.add(first)

    def asks_whether_there_is(self, name: str, call: Call) -> None:
        """The program's own line asks whether there is a file or a directory."""
        frame, path = self.asker(call.frame), _path_of(call.first)
        if frame is not None and path and os.path.abspath(path) not in self._written:
            source = self.note(OutsideKind.EXISTENCE, "", frame, path=path)
            if source is not None:
                source.add(str(call.result).encode())

    def waited(self, name: str, frame: FrameType | None, is_done: object) -> None:
        """The program's own line waited no longer than a time."""
        source = self.note(OutsideKind.READINESS, name, frame)
        if source is not None:
            source.limit = _TAKEN
            source.add(str(is_done).encode())

    def waits_with_function(self, name: str, call: Call) -> None:
        """A function of the program is to run when a future is done, or a result of a pool of processes."""
        is_pools = name.endswith("__init__")
        if is_pools and not (call.args[2:] and call.args[2]) and not call.kwargs.get("callback"):
            return
        frame = self.reader(call.frame) if is_pools else self.asker(call.frame)
        source = self.completion("multiprocessing.pool.Pool.apply_async" if is_pools else name, frame)
        if source is not None:
            self.completions.tell(call.first, source)

    def sets_timer(self, name: str, call: Call) -> None:
        """The program has the system send it a signal later."""
        timer = self.note(OutsideKind.TIMER, name, self.asker(call.frame))
        if timer is not None:
            which = call.first if name.endswith("setitimer") else 0
            self._timers[_of_timers()[which]] = timer

    def thread_runs(self, name: str, call: Call) -> None:
        """Count the calls that are recorded from the start to the end of a thread of the program's own."""
        thread: threading.Thread = call.first
        if not name.endswith("start"):
            running, began = self._threads.pop(thread)
            running.size += self._events.calls_recorded() - began
            return
        runs: Any = getattr(thread, "function", None) or getattr(thread, "_target", None) or type(thread).run
        runs = inspect.unwrap(getattr(runs, "func", runs))  # behind a ``functools.partial``
        code, frame = runs.__code__, self.reader(call.frame)
        if self._sites.kind_of(code.co_filename) != USER:
            return
        line = f"{spelt(code.co_filename, self._sites.working_directory)}:{code.co_firstlineno}"
        source = self.note(OutsideKind.THREAD, f"{runs.__name__} at {line}", frame)
        if source is not None:
            self._threads[thread] = source, self._events.calls_recorded()

    def takes_unwritten(self, name: str, call: Call) -> None:
        """NumPy hands out an array as it is in memory."""
        array: Any = call.result
        frame = self.asker(call.frame)
        if frame is None or array.dtype.hasobject or not array.size or not _is_called_in(frame, name):
            return
        held = array.ravel(order="K")[: _PART // array.itemsize or 1].tobytes()
        self.gives_unwritten(name, held, frame, array.nbytes)

    def gives_unwritten(self, name: str, held: bytes, frame: FrameType, size: int = 0) -> None:
        """The function ``name`` gave memory of ``size`` bytes that nobody has written, and that holds these."""
        source = self.note(OutsideKind.UNWRITTEN_MEMORY, name, self.asker(frame))
        if source is not None and source.wants_more:
            source.size += size or len(held)
            source.add(held)

    def handles(self, number: int, frame: FrameType) -> None:
        """The program sets a function for a signal."""
        self._handlers[number] = self._sites.innermost(frame), self._sites.users_own(frame)

    def interrupted(self, number: int) -> None:
        """A function of the program runs since a signal came."""
        source = self._timers.get(number)
        site, own = self._handlers.get(number, (NOWHERE, NOWHERE))
        if site.kind == USER and number not in _of_timers():
            source = self._note_at(OutsideKind.TIMER, signal.Signals(number).name, site, own)
        if source is not None:
            source.add(str(self._events.calls_recorded()).encode())

    @staticmethod
    def _add_value(source: _Input | None, value: object) -> None:
        if source is not None and source.wants_more:
            key = machine_key()
            source.add(_keyed(key, value), key=_name_of(key))


def _is_called_in(frame: FrameType, function: str) -> bool:
    """Whether the current line of ``frame`` calls ``function``: NumPy's C code does too, and writes all of it."""
    name = function.rpartition(".")[2]
    if name not in frame.f_code.co_names:
        return False

    from tracer.recording.program_text.source_tree import call_of, called_name

    call = call_of(frame)
    return call is None or called_name(call) in (name, "")


def _path_of(value: Any) -> str:
    """The path that a function was given; empty for a descriptor and for what is none."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return os.fsdecode(value)
    return ""


def _mode_of(name: str, call: Call) -> str | None:
    """``r``, ``w``, or ``rw`` for what is read and written; ``None`` for what opens no data."""
    if name == "os.open":
        flags = call.args[1] if len(call.args) > 1 else call.kwargs.get("flags", 0)
        access = flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
        return "r" if access == os.O_RDONLY else "w"
    mode = call.args[1] if len(call.args) > 1 else call.kwargs.get("mode", "r")
    if not isinstance(mode, str):
        return None
    if any(letter in mode for letter in "wxa"):
        return "w"
    return "rw" if "+" in mode else "r"


def _is_pipe(descriptor: Any) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _bytes_of(item: Any, depth: int = 4) -> bytes:
    """Bytes that are the same for what one queue gives in two runs: numbers, texts, arrays and what holds them. Of
    anything else its class alone."""
    if isinstance(item, (str, bytes, int, float, complex, type(None))):
        return repr(item).encode(errors="surrogateescape")
    if isinstance(item, (list, tuple, dict)) and depth:
        parts = item.items() if isinstance(item, dict) else item
        return b"\0".join(_bytes_of(part, depth - 1) for part in itertools.islice(parts, _TAKEN))
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(item, numpy.ndarray) and not item.dtype.hasobject:
        return bytes(item.ravel()[: _PART // (item.itemsize or 1)].tobytes())
    if torch is not None and type(item) is torch.Tensor and item.device.type == "cpu" and item.is_contiguous():
        import ctypes

        return ctypes.string_at(item.data_ptr(), min(item.nbytes, _PART))
    return type(item).__qualname__.encode()


def _words_of(command: Any) -> list[str]:
    """A command line as words."""
    if isinstance(command, (str, bytes, os.PathLike)):
        return os.fsdecode(command).split()
    return [os.fsdecode(word) for word in command or () if isinstance(word, (str, bytes, os.PathLike))]


# --- what names nobody ---


@cache
def machine_key() -> bytes:
    """The key of this machine's digests of names: without it nobody can guess names by trying."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            descriptor = _OPEN(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            if text := _READ(descriptor, 64).strip():
                return hashlib.blake2b(text).digest()
        finally:
            _CLOSE(descriptor)
    home = os.stat(os.path.expanduser("~"))
    return hashlib.blake2b(f"{home.st_dev} {home.st_ino} {sys.platform}".encode()).digest()


def _keyed(key: bytes, value: object) -> bytes:
    hasher = hashlib.blake2b(key=key, digest_size=16)
    for part in value if isinstance(value, tuple) else (value,):
        text = part if isinstance(part, (bytes, str)) else repr(part)
        hasher.update(text if isinstance(text, bytes) else text.encode(errors="surrogateescape"))
        hasher.update(b"\0")
    return hasher.digest()


@cache
def _name_of(key: bytes) -> str:
    return f"{hashlib.blake2b(b'tracer', key=key, digest_size=2).hexdigest()}:"


def spelt(path: str, working_directory: str) -> str:
    """``path`` relative to the working directory, or as much of it as names no user."""
    path = os.path.normpath(path)
    here = working_directory.rstrip(os.sep) + os.sep  # which may lie in a temporary folder
    if here != os.sep and path.startswith(here) and not below_packages(path):
        return _DRAWN_NAME.sub("tmp*", path[len(here) :]).replace(os.sep, "/")
    if path == working_directory:
        return "."
    path = _DRAWN_NAME.sub("tmp*", path)
    if installed := below_packages(path):
        return installed.replace(os.sep, "/")
    home = os.path.expanduser("~")
    for folder, shown in (
        (tempfile.gettempdir(), "<temporary>"),
        (_DRAWN_NAME.sub("tmp*", os.path.dirname(working_directory)), os.pardir),
        (home, "~"),
    ):
        if folder.rstrip(os.sep) and path.startswith(folder.rstrip(os.sep) + os.sep):
            return os.path.join(shown, path[len(folder.rstrip(os.sep)) + 1 :]).replace(os.sep, "/")
        if path == folder:
            return shown
    if path.startswith(("/proc/", "/sys/", "/dev/", "/etc/", "/usr/")):
        return path
    return f".../{os.path.basename(path)}"


# --- the functions ---

_Reads = Callable[[OutsideLog, str, Call], None]
#: What ends the name of a function of those that is read when it is done: by what it gave, or that it ended.
_ANSWERS = (".communicate", "._bootstrap_inner")  # Python 3.10 to 3.14
#: Kinds that are read in a way of their own; what the functions of all others answer is digested.
_AFTER: Mapping[OutsideKind, _Reads] = {
    OutsideKind.FILE: OutsideLog.opened,
    OutsideKind.DIRECTORY: OutsideLog.listed_directory,
    OutsideKind.PORT: OutsideLog.asks_port,
    OutsideKind.ANSWER: OutsideLog.receives,
    OutsideKind.FILE_TIME: OutsideLog.asks_file_time,
    OutsideKind.QUEUE: OutsideLog.queue_changes,
    OutsideKind.COMPLETION: OutsideLog.found_done,
    OutsideKind.EXISTENCE: OutsideLog.asks_whether_there_is,
    OutsideKind.TIMER: OutsideLog.sets_timer,
    OutsideKind.UNWRITTEN_MEMORY: OutsideLog.takes_unwritten,
}
#: Source files whose calls are not watched: ``realpath`` and ``exists`` ask of each part of a path whether it is there,
#: thousands of times while a large package is imported.
_NOT_FROM: Mapping[OutsideKind, frozenset[str]] = {
    OutsideKind.FILE_TIME: frozenset(asks.__code__.co_filename for asks in (os.path.realpath, os.path.exists)),
}
#: Those that are read before the call, because it may not come back, raise, or set something off.
_BEFORE: Mapping[OutsideKind, _Reads] = {
    OutsideKind.DATABASE: OutsideLog.opens_database,
    OutsideKind.PROGRAM: OutsideLog.runs_program,
    OutsideKind.LIBRARY: OutsideLog.loads,
    OutsideKind.CONNECTION: OutsideLog.connects,
    OutsideKind.VARIABLE: OutsideLog.reads_variable,
    OutsideKind.THREAD: OutsideLog.thread_runs,
}


#: Those that are read when the call is done as well.
_BEFORE_AND_AFTER: Mapping[OutsideKind, _Reads] = {
    OutsideKind.DATABASE: OutsideLog.database_opened,
    OutsideKind.LIBRARY: OutsideLog.library_loaded,
}
#: Kinds that are noted for the program's own lines alone, of functions that imports call all the time.
_OF_OWN_LINES = (OutsideKind.FILE_TIME, OutsideKind.VARIABLE, OutsideKind.EXISTENCE)


def _watched(kinds: Iterable[OutsideKind] = OutsideKind, module: str = "") -> Iterator[Target]:
    """The functions of ``kinds``; those of ``module`` alone where it is named."""
    for kind in kinds:
        for names in kind.functions:
            if module and f"{module}." not in names:
                continue
            name = names.split()[0]
            holders = _holders(names)
            if kind in _BEFORE_AND_AFTER:
                after = partial(_read, _BEFORE_AND_AFTER[kind], name)
                yield Target(holders, before=partial(_read, _BEFORE[kind], name), after=after)
            elif kind in _BEFORE and not name.endswith(_ANSWERS):
                yield Target(holders, before=partial(_read, _BEFORE[kind], name))
            elif kind in _BEFORE:
                yield Target(holders, after=partial(_read, _BEFORE[kind], name))
            elif kind in _AFTER:
                not_from = _NOT_FROM.get(kind, frozenset())
                yield Target(holders, after=partial(_read, _AFTER[kind], name), not_from=not_from)
            else:
                yield Target(holders, after=partial(_ask, kind, name))


def _watched_besides(module: str = "") -> Iterator[Target]:
    """Further functions; those of ``module`` alone where it is named."""
    for names, watch in _BESIDES:
        if not module or f"{module}." in names:
            yield watch(_holders(names))


def _read(read: _Reads, name: str, log: OutsideLog, call: Call) -> None:
    read(log, name, call)


def _ask(kind: OutsideKind, name: str, log: OutsideLog, call: Call) -> None:
    log.asked(kind, name, call)


#: Functions whose results are awaited, with the kind of input that they are.
_AWAITED = (
    *((OutsideKind.ANSWER, f"asyncio.streams.StreamReader.{name}") for name in ("read", "readline", "readexactly")),
    (OutsideKind.ANSWER, "asyncio.streams.StreamReader.readuntil"),
    (OutsideKind.QUEUE, "asyncio.queues.Queue.get"),
    (OutsideKind.COMPLETION, "asyncio.tasks.wait asyncio.wait"),
)


def _askers() -> tuple[FrameType | None, list[OutsideLog]]:
    """The innermost frame that is not this package's, and the recordings for which it is the program's own line."""
    logs: list[OutsideLog] = []
    frame = programs_frame()
    with suppress(Exception):  # no business of the program's
        logs = [log for log in OUTSIDE.listeners if log.asker(frame) is not None]
    return frame, logs


def _note_wait(name: str, frame: FrameType | None, logs: list[OutsideLog], is_done: Callable[[], object]) -> None:
    with suppress(Exception):  # no business of the program's
        for log in logs:
            log.waited(name, frame, is_done())


def _raises_otherwise(problem: BaseException) -> bool:
    return not is_timeout(problem)


def _awaits(
    kind: OutsideKind, name: str, inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Take in what the program's own line awaits."""
    frame, logs = _askers()
    if not logs:
        return inner(*args, **kwargs)
    return _taken_when_awaited(lambda result: _takes_awaited(kind, name, frame, logs, result), inner(*args, **kwargs))


async def _taken_when_awaited(takes: Callable[[Any], None], awaitable: Any) -> Any:
    result = await awaitable
    with suppress(Exception):  # no business of the program's
        takes(result)
    return result


def _takes_awaited(kind: OutsideKind, name: str, frame: FrameType | None, logs: list[OutsideLog], result: Any) -> None:
    for log in logs:
        if kind is not OutsideKind.COMPLETION:
            what = "bytes from a stream" if kind is OutsideKind.ANSWER else name
            log.takes(kind, what, frame, result)
        elif (source := log.completion(name, frame)) is not None:
            source.add("\0".join(map(log.completions.mark_of, result[0])).encode())


def _waits_for_a_time(name: str, inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Note whether what the program's own line waits for is done in time."""
    frame, logs = _askers() if has_limit(name, args, kwargs) else (None, [])
    if not logs:
        return inner(*args, **kwargs)
    try:
        result = inner(*args, **kwargs)
    except BaseException as problem:
        _note_wait(name, frame, logs, partial(_raises_otherwise, problem))
        raise
    _note_wait(name, frame, logs, partial(done_in_time, args[0], result))
    return result


def _awaits_for_a_time(inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    frame, logs = _askers()
    return _awaited_for_a_time(frame, logs, inner(*args, **kwargs)) if logs else inner(*args, **kwargs)


async def _awaited_for_a_time(frame: FrameType | None, logs: list[OutsideLog], awaitable: Any) -> Any:
    try:
        result = await awaitable
    except BaseException as problem:
        _note_wait("asyncio.wait_for", frame, logs, partial(_raises_otherwise, problem))
        raise
    _note_wait("asyncio.wait_for", frame, logs, lambda: True)
    return result


def _as_completed(inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Note which future is done next, wherever the program's own line asks for them one by one."""
    frame, logs = _askers()
    return _noted_as_done(frame, logs, inner(*args, **kwargs)) if logs else inner(*args, **kwargs)


def _noted_as_done(frame: FrameType | None, logs: list[OutsideLog], futures: Iterator[Any]) -> Iterator[Any]:
    for future in futures:
        with suppress(Exception):  # no business of the program's
            for log in logs:
                source = log.completion("concurrent.futures.as_completed", frame)
                if source is not None:
                    source.add(log.completions.mark_of(future).encode())
        yield future


def _tasks_as_completed(inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    frame, logs = _askers()
    takes = partial(_takes_next, frame, logs)
    given = inner(*args, **kwargs)
    if not logs or sys.version_info >= (3, 13):  # from then on what it gives is awaited in two ways
        return given
    return (_taken_when_awaited(takes, awaitable) for awaitable in given)


def _takes_next(frame: FrameType | None, logs: list[OutsideLog], result: Any) -> None:
    for log in logs:
        log.takes(OutsideKind.COMPLETION, "asyncio.as_completed", frame, result)


_HANDLER = "_tracer_handler"


def _of_timers() -> tuple[int, ...]:
    """The signals that timers send, by ``setitimer``'s numbers; none on Windows."""
    names = ("SIGALRM", "SIGVTALRM", "SIGPROF")
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


def _sets_handler(inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the program's handler of a signal report its runs; ``getsignal`` returns the program's own."""
    handler = args[1] if len(args) == 2 and not kwargs else None
    if not OUTSIDE.listeners or not (inspect.isfunction(handler) or inspect.ismethod(handler)):
        return _own_handler(inner(*args, **kwargs))
    for log in OUTSIDE.listeners:
        log.handles(args[0], sys._getframe())

    @functools.wraps(handler)
    def runs(number: int, frame: FrameType | None) -> Any:
        for log in OUTSIDE.listeners:
            log.interrupted(number)
        return handler(number, frame)

    setattr(runs, _HANDLER, handler)
    return _own_handler(inner(args[0], runs))


def _asks_handler(inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _own_handler(inner(*args, **kwargs))


def _own_handler(handler: Any) -> Any:
    """Return the handler that the program set."""
    return getattr(handler, _HANDLER, handler)


def _tell_of_foreign_call(library: str, name: str, result: Any, args: tuple[Any, ...], frame: FrameType) -> None:
    if OUTSIDE.listeners:
        from tracer.recording.process.foreign_calls import answered, unwritten_memory

        with suppress(Exception):  # no business of the program's
            memory = unwritten_memory(name, result, args)
            answer = answered(result, args) if memory is None else None
            for log in OUTSIDE.listeners:
                if memory is not None:
                    log.gives_unwritten(name, memory, frame)
                elif answer is not None:
                    log.called_foreign(f"{name} of {library}", answer, frame)


def _saves(log: OutsideLog, call: Call) -> None:
    if path := _path_of(call.args[1] if len(call.args) > 1 else call.kwargs.get("f")):
        log.wrote(path)


_FUTURE, _RESULT = "concurrent.futures._base.Future", "multiprocessing.pool.ApplyResult"
#: Functions that are watched besides those that ``OutsideKind`` names, and how.
_BESIDES: tuple[tuple[str, Callable[[Sequence[Holder]], Target]], ...] = (
    ("torch.serialization.save torch.save", partial(Target, before=_saves)),  # its C++ code writes the file
    ("signal.signal", partial(Target, around=_sets_handler)),
    ("signal.getsignal", partial(Target, around=_asks_handler)),
    ("os.fork", partial(Target, after=lambda log, call: log.completions.starts(call.result))),
    (
        "subprocess.Popen._execute_child",
        partial(Target, after=lambda log, call: log.completions.starts(call.first.pid)),
    ),
    (f"{_FUTURE}.__init__", partial(Target, after=lambda log, call: log.completions.begins(call))),
    *(
        (name, partial(Target, before=lambda log, call: log.completions.ends(call.first)))
        for name in (f"{_FUTURE}._invoke_callbacks", f"{_RESULT}._set")
    ),
    *(
        (name, partial(Target, before=partial(_read, OutsideLog.waits_with_function, name)))
        for name in (f"{_FUTURE}.add_done_callback", f"{_RESULT}.__init__")
    ),
    (
        "concurrent.futures._base.as_completed concurrent.futures.as_completed",
        partial(Target, around=_as_completed),
    ),
    ("asyncio.tasks.as_completed asyncio.as_completed", partial(Target, around=_tasks_as_completed)),
    ("asyncio.tasks.wait_for asyncio.wait_for", partial(Target, around=_awaits_for_a_time)),
    *((name, partial(Target, around=partial(_waits_for_a_time, name))) for name in LIMITED),
    *((names, partial(Target, around=partial(_awaits, kind, names.split()[0]))) for kind, names in _AWAITED),
)


def _holders(names: str) -> list[Holder]:
    """Return the holders of the function with these dotted names, of modules that are loaded.

    A module that was loaded while it was replaced took what stands for it: there it is seen already.
    """
    holders: list[Holder] = []
    for number, name in enumerate(names.split()):
        path, _, attribute = name.rpartition(".")
        owner = _loaded(path)
        if owner is not None and (number == 0 or held_by(owner, attribute) is getattr(owner, attribute, None)):
            holders.append((owner, attribute))
    return holders


def _loaded(path: str) -> Any:
    """The module or class of this dotted name; ``None`` where it is not loaded."""
    parts = path.split(".")
    for split in range(len(parts), 0, -1):
        owner: Any = sys.modules.get(".".join(parts[:split]))
        if owner is not None:
            for part in parts[split:]:
                owner = getattr(owner, part, None)
            return owner
    return None


def modules_watched() -> tuple[str, ...]:
    """The modules whose functions are watched."""
    names = (name for kind in OutsideKind for names in kind.functions for name in names.split())
    return tuple(dict.fromkeys((*(name.split(".")[0] for name in names), *_LATER)))


class _Outside(Watchers[OutsideLog]):
    """Watches of this process; whoever asks it to look again, in each step, has it look only where a module came."""

    def __init__(self) -> None:
        super().__init__(self._targets)
        self._looked: tuple[int, str] | None = None
        """The number of modules at the last look, and the newest."""
        self._at_rest: tuple[tuple[int, str], list[Target]] | None = None
        """The same when nothing was replaced, and what there was to watch."""
        self._kinds: tuple[OutsideKind, ...] = tuple(OutsideKind)

    def imported(self, module: str) -> None:
        """Watch the functions of ``module``, which was just imported."""
        if self.listeners:
            self.watch([*_watched(self._kinds, module), *_watched_besides(module)])

    @contextmanager
    def while_torch_loads(self) -> Iterator[None]:
        """Leave out what is noted for the program's own lines alone, and what torch calls 12,000 times as it loads."""
        kinds = self._kinds
        self._kinds = tuple(kind for kind in kinds if kind not in _OF_OWN_LINES)
        self.unwatch(_watched(_OF_OWN_LINES))
        try:
            yield
        finally:
            self._kinds = kinds
            if self.listeners:
                self.watch(_watched(_OF_OWN_LINES))

    def look_again(self) -> None:
        newest = _newest_module()
        if not self.placed or newest != self._looked:
            super().look_again()
            self._looked = newest

    def _targets(self) -> list[Target]:
        if self.placed:
            return self._all()
        newest = _newest_module()
        if self._at_rest is None or self._at_rest[0] != newest:
            self._at_rest = newest, self._all()
        return self._at_rest[1]

    def _all(self) -> list[Target]:
        return [*_watched(self._kinds), *_watched_besides()]


def _newest_module() -> tuple[int, str]:
    return len(sys.modules), next(reversed(sys.modules))


#: The watch of this process.
OUTSIDE = _Outside()
