"""What a run leaves besides its model: the files that it wrote, and what Python printed.

Names, dates, durations, process numbers and random names differ between runs that train alike, so they are blotted out
of text before it is digested.
"""

from __future__ import annotations

import io
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import xxhash

from tracer.names import ValueKind
from tracer.runner.repeated.walking import NO_RESULTS, Walk, entries_of

#: Lines that are digested, bytes of files.
_MOST_LINES, _MOST_BYTES = 10_000, 2**30
#: Files of so many bytes are read before the run, all together so many, to tell what was appended to them.
_SMALL, _MOST_READ_BEFORE = 2**20, 2**26
#: The largest file that is read as text.
_MOST_TEXT = 2**24
_READ = 2**20
#: Folders that hold no results.
_CLOSED = NO_RESULTS | {".cache", ".pytest_cache"}
#: Files that hold the time of their writing, or a process of their own.
_NOT_COMPARED = (".pyc", ".db", ".sqlite", ".sqlite3", ".pdf", ".svg", ".lock", ".pid", ".sock", ".prof", ".gz", ".tmp")
_NOT_COMPARED_BEGINS = (b"SQLite format 3", b"\x1f\x8b", b"%PDF")
_EVENTS = "events.out.tfevents."

_NUMBER = r"[-+]?\d[\d,_]*(?:\.\d+)?(?:e[-+]?\d+)?"
_UNIT = (
    r"(?:s|sec|secs|second|seconds|ms|msec|us|µs|ns|min|mins|minute|minutes|h|hr|hrs|hour|hours"
    r"|[kmgt]i?b|bytes|[\w]+/s(?:ec)?|s/\w+|fps|hz|rps)"
)
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_OF_TIME = (
    r"(?:time|took|elapsed|duration|wall|eta|latency|throughput|speed|uptime|timestamp|started|finished|seconds|secs"
    r"|pid|process|thread|port|host|hostname|user|uuid|guid|run|run_id|run id|memory|rss)"
)
#: The last words of a name that a trainer gives such a number: ``train_samples_per_second``, ``eval_runtime``.
_TIMED = r"\w*(?:runtime|_time|_seconds|_secs|_ms|_duration|_elapsed|_latency|_throughput|_speed|_per_s(?:ec(?:ond)?)?)"
#: What differs between runs that train alike, longest spelling first.
_BLOTS = re.compile(
    "|".join(
        (
            r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
            r"\b0x[0-9a-f]+\b",
            r"<[^\s<>@]+@[^\s<>@]+>",  # the identity of a message
            r"(?:/tmp|/var/folders|/dev/shm)/\S+",
            r"\btmp\w{8}\b",
            rf"\b{_MONTH}\.?\s+\d{{1,2}}\b(?:,?\s+\d\d:\d\d(?::\d\d)?)?(?:,?\s+(?:19|20)\d\d\b)?",
            r"\b(?:19|20)\d\d[-/.]?[01]\d[-/.]?[0-3]\d(?:[t _-]?\d\d[:.h-]?\d\d(?:[:.m-]?\d\d)?(?:[.,]\d+)?)?"
            r"(?:z|[+-]\d\d:?\d\d)?\b",
            r"\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b",
            r"(?<![.\w])-?\d{12,}\b(?!\.)",
            r"\b1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b",
            rf"{_NUMBER}\s*{_UNIT}\b",
            rf"\b{_OF_TIME}(?:_\w+)?[\"']?\s*[:=(\[]?\s*[\"']?[\w.+-]*",
            rf"\b{_TIMED}[\"']?\s*[:=]\s*[\"']?[\w.+-]*",
            # Names of commits and runs; 64 digits and more are digests, and a digest of weights is a result.
            r"(?<![.\w])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,63}\b",
        )
    ),
    re.IGNORECASE,
)

_WORD = re.compile(r"[^\s,;:'\"()\[\]{}]+")


def without_time(line: str) -> str:
    """``line`` without what differs between runs that train alike; a loss and a name of one's own stay.

    Its words are sorted: a set is printed in another order by each process.
    """
    return " ".join(sorted(_WORD.findall(_BLOTS.sub("~", line))))


def _digest(data: str | bytes) -> int:
    return xxhash.xxh3_64_intdigest(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data) or 1


class LeftBehind:
    """Follows what this process prints and writes, from before the script's first line on.

    ``without`` is a folder whose files are not the script's.
    """

    def __init__(self, without: str) -> None:
        self._folder = os.getcwd()
        self._walk = Walk(without, closed=_CLOSED)
        self._process = os.getpid()
        self._before = dict(self._entries())
        self._heads: dict[str, int] = {}
        """Digests of small files before the run."""
        left = _MOST_READ_BEFORE
        for path, (size, *_) in self._before.items():
            if 0 < size <= _SMALL and (left := left - size) >= 0:
                self._heads[path] = self._head(path, size)
        self._output = follow_output()

    def states(self) -> Iterator[tuple[ValueKind, str, int, int]]:
        """Kind, name, digest and position of each: as they are now."""
        if os.getpid() != self._process:
            return
        if self._output is not None:
            lines = self._output.printed.lines()
            yield from ((ValueKind.OUTPUT, f"line {number}", _digest(line), -1) for number, line in lines)
        left = _MOST_BYTES
        for path, status in self._entries():
            before = self._before.get(path)
            if before == status:
                continue
            left -= status[0]
            if left < 0:
                return
            size = before[0] if before is not None and before[0] < status[0] else 0
            if size and path not in self._heads:
                continue  # it grew, and was too large to know what was there
            file, name = os.path.join(self._folder, path), _BLOTS.sub("~", path)
            with suppress(OSError, ValueError, zipfile.BadZipFile):
                whole = _digest_of_file(file, 0)
                if whole is None:
                    continue
                yield ValueKind.FILE, name, whole, -1
                if size and self._heads[path] == self._head(path, size):  # it was appended to
                    yield ValueKind.FILE, name, _digest_of_file(file, size) or 0, 1

    def _head(self, path: str, size: int) -> int:
        """The digest of a file's first bytes; 0 where it cannot be read."""
        with suppress(OSError), open(os.path.join(self._folder, path), "rb") as stream:
            return _digest(stream.read(size))
        return 0

    def _entries(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        """The files below the working directory that are compared, by relative path, with size, time and number."""
        for entry in entries_of(self._folder, self._walk):
            if entry.is_file and not _holds_its_time(os.path.basename(entry.path)):
                yield entry.path, entry.stamp


def _holds_its_time(name: str) -> bool:
    return name.endswith(_NOT_COMPARED) or name.startswith(_EVENTS)


def _digest_of_file(path: str, start: int) -> int | None:
    """The digest of a file from byte ``start`` on; ``None`` for one that is not compared.

    Of its lines where it is text, of its members' checksums where it is a zip, which holds times.
    """
    with open(path, "rb") as stream:
        head = stream.read(32)
        if head.startswith(_NOT_COMPARED_BEGINS):
            return None
        stream.seek(start)
        if head.startswith(b"PK") and not start:
            with zipfile.ZipFile(stream) as packed:
                members = [(entry.filename.partition("/")[2] or entry.filename, entry.CRC) for entry in packed.filelist]
            return _digest(repr(sorted(members)))
        if os.fstat(stream.fileno()).st_size - start <= _MOST_TEXT:
            data = stream.read()
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError:
                return _digest(data)
            if "\0" in text:
                return _digest(data)
            return _digest("\n".join(sorted(map(without_time, text.splitlines()))))
        state = xxhash.xxh3_64()
        while data := stream.read(_READ):
            state.update(data)
        return state.intdigest() or 1


class Printed:
    """Lines as they were printed, without what differs between runs that train alike."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open = ""

    def add(self, text: str) -> None:
        """More text; a line that a carriage return overwrites is none."""
        if len(self._lines) >= _MOST_LINES:
            return
        *lines, self._open = (self._open + text).split("\n")
        self._lines += lines
        self._open = self._open[-_MOST_TEXT:]

    def lines(self) -> Iterator[tuple[int, str]]:
        """Those that are not blank, numbered from 1."""
        for number, line in enumerate([*self._lines[:_MOST_LINES], self._open], 1):
            if (last := line.rstrip("\r").rpartition("\r")[2].strip()) and len(self._lines) <= _MOST_LINES:
                yield number, without_time(last)


class _Followed(io.TextIOWrapper):
    """Standard output that keeps what is printed."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        options: dict[str, Any] = {
            "encoding": stream.encoding,
            "errors": stream.errors,
            "newline": "\n",
            "line_buffering": stream.line_buffering,
            "write_through": stream.write_through,
        }
        super().__init__(stream.detach(), **options)
        self.printed = Printed()

    def write(self, text: str) -> int:
        count = super().write(text)
        self.printed.add(text)
        return count


def follow_output() -> _Followed | None:
    """Follow what Python prints to standard output; ``None`` where that is closed, or somebody's own."""
    if type(sys.stdout) is not io.TextIOWrapper or sys.stdout is not sys.__stdout__:
        return None
    sys.stdout.flush()
    followed = _Followed(sys.stdout)
    sys.stdout = sys.__stdout__ = followed  # type: ignore[misc]
    return followed
