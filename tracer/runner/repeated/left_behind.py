"""What a run leaves besides its model: the files that it wrote, and what Python printed, each as it is.

Text holds dates, durations and names, which differ between runs that train alike: it is told apart from other files.
A run that is not recorded is held against others by its text alone, in which times are no difference.
"""

from __future__ import annotations

import codecs
import io
import os
import pickletools
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import shorten
from typing import Any

import msgspec
import xxhash

from tracer.names import ValueKind
from tracer.runner.repeated.folder import NO_RESULTS, Walk, entries_of

#: Lines that are digested, bytes of files.
_MOST_LINES, _MOST_BYTES = 10_000, 2**30
#: Files of so many bytes are read before the run, all together so many, to tell what was appended to them.
_SMALL, _MOST_READ_BEFORE = 2**20, 2**26
#: Characters of a line that has not ended which are kept.
_LONGEST_LINE = 2**24
_READ = 2**20
#: Folders that hold no results.
_CLOSED = NO_RESULTS | {".cache", ".pytest_cache"}
#: Files that hold the time of their writing, or a process of their own.
_NOT_COMPARED = (".pyc", ".db", ".sqlite", ".sqlite3", ".pdf", ".svg", ".lock", ".pid", ".sock", ".prof", ".gz", ".tmp")
_NOT_COMPARED_BEGINS = (b"SQLite format 3", b"\x1f\x8b", b"%PDF")
_EVENTS = "events.out.tfevents."
#: How a pickle names what it makes, and what checkpoints hold that is no data of a library's but torch's.
_MAKING = frozenset({"GLOBAL", "STACK_GLOBAL", "INST"})
_OF_CHECKPOINTS = ("torch", "collections ", "builtins ", "datetime ", "pathlib", "argparse ")
#: Dates, durations and speeds.
_QUANTITY = r"[\d.]+(e-?\d+)?( ?([mun]?s|sec(ond)?s?|min(ute)?s?|h|hours?|\w+/s\w*)\b)"
_TIMED = r"(?<![a-z])((run|wall)?time|took|elapsed|sec(ond)?s|eta|duration)\w*\W{0,4}"
_DATES = r"\d+:\d\d(:\d\d)?([.,]\d+)?|\d+-\d\d-\d\d"
_TIME = re.compile(f"{_DATES}|{_QUANTITY}|{_TIMED}{_QUANTITY}?", re.IGNORECASE)
_NUMBER = re.compile(r"\S*\d\S*")
#: Characters of a printed line that are shown.
_SHOWN = 60


def _digest(data: str | bytes) -> int:
    return xxhash.xxh3_64_intdigest(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data) or 1


class Left(msgspec.Struct, frozen=True):
    """What a run printed and wrote, without times."""

    lines: list[str]
    files: dict[str, int]
    """Digests by path."""


def without_times(text: str) -> str:
    """``text`` with its dates, durations and speeds left out: these differ in runs that train alike."""
    return _TIME.sub("~", text)


def plain_otherwise(recorded: Sequence[Left], plain: Left) -> str | None:
    """What a run leaves otherwise than two that agree in it: ``prints `a` in place of `b```; empty if nothing.

    ``None`` if they leave nothing that could tell: a file, or a line with a number.
    """
    first, second = (Counter(left.lines) for left in recorded)
    both, own = first & second, Counter(plain.lines)
    lacks, others = both - own, own - (first | second)
    surplus = others.total() - (first - both).total()  # as many lines differ in every run
    if lacks and surplus > 0:  # another number; other words may say no more than how long it took
        ours, theirs, those = (_by_words(left.lines) for left in (*recorded, plain))
        changed = {*map(_words_of, others)}
        varying = {
            words: {at for pair in zip(lines, theirs.get(words, ()), strict=False) for at in _differing(*pair)}
            for words, lines in ours.items()
        }
        for line in lacks:
            if (words := _words_of(line)) in changed:
                other = those[words][min(ours[words].index(line), len(those[words]) - 1)]
                if _differing(line, other) - varying[words]:
                    return f"prints `{shorten(other, _SHOWN)}` in place of `{shorten(line, _SHOWN)}`"
    files = dict(recorded[0].files.items() & recorded[1].files.items())
    for name in files.keys() & plain.files.keys():
        if plain.files[name] != files[name]:
            return f"writes another {name}"
    tells = files.keys() & plain.files.keys() or any(map(_NUMBER.search, both))
    return "" if tells and not lacks and surplus <= 0 else None


def _words_of(line: str) -> str:
    """What a line says but for its numbers."""
    return _NUMBER.sub("0", line)


def _by_words(lines: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault(_words_of(line), []).append(line)
    return found


def _differing(first: str, second: str) -> set[int]:
    """Which of the numbers in two lines differ that say the same otherwise; a number may differ in any such line."""
    pairs = zip(_NUMBER.findall(first), _NUMBER.findall(second), strict=False)
    return {at for at, (ours, theirs) in enumerate(pairs) if ours != theirs}


class LeftBehind:
    """Follows what this process prints and writes, from before the script's first line on.

    ``without`` is a folder whose files are not the script's.
    """

    def __init__(self, without: str) -> None:
        self._folder = os.getcwd()
        self._walk = Walk(without, closed=_CLOSED)
        self._process = os.getpid()
        self._before = dict(self._entries())
        self._heads: dict[str, int] = {}  # digests of small files before the run
        left = _MOST_READ_BEFORE
        for path, (size, *_) in self._before.items():
            if 0 < size <= _SMALL and (left := left - size) >= 0:
                self._heads[path] = self._head(path, size)
        self.left = Left([], {})
        """What ``states`` has told."""
        self._output: _FollowedFile | None = None
        """What Python prints to standard output; ``None`` where that is closed, or somebody's own."""
        if type(sys.stdout) is io.TextIOWrapper and sys.stdout is sys.__stdout__:
            sys.stdout.flush()
            self._output = _FollowedFile(sys.stdout)
            sys.stdout = sys.__stdout__ = self._output  # type: ignore[misc]

    def states(self) -> Iterator[tuple[ValueKind, str, int, int]]:
        """Kind, name, digest and position of each: as they are now."""
        if os.getpid() != self._process:
            return
        if self._output is not None:
            lines = [*self._output.lines()]
            self.left.lines[:] = [without_times(line) for _, line in lines]
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
            file = os.path.join(self._folder, path)
            with suppress(OSError, ValueError, zipfile.BadZipFile):
                beside = _beside_tensors(file)
                kind, whole = _digest_of_file(file, 0, beside)
                if kind is None:
                    continue
                yield kind, path, whole, -1
                if beside:
                    yield ValueKind.TEXT, f"{path} beside its tensors", _digest(repr(beside)), -1
                if size and self._heads[path] == self._head(path, size):  # it was appended to
                    yield kind, path, _digest_of_file(file, size)[1], 1
                if kind is ValueKind.TEXT and status[0] <= _SMALL:
                    whole = _digest(without_times(Path(file).read_text("utf-8")))
                self.left.files[path] = whole

    def _head(self, path: str, size: int) -> int:
        """The digest of a file's first bytes; 0 where it cannot be read."""
        with suppress(OSError), open(os.path.join(self._folder, path), "rb") as stream:
            return _digest(stream.read(size))
        return 0

    def _entries(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        """The files below the working directory that are compared, by relative path, with size, time and number."""
        for entry in entries_of(self._folder, self._walk):
            name = os.path.basename(entry.path)
            if entry.is_file and not name.endswith(_NOT_COMPARED) and not name.startswith(_EVENTS):
                yield entry.path, entry.stamp


def _digest_of_file(path: str, start: int, beside: tuple[str, int] | None = None) -> tuple[ValueKind | None, int]:
    """What a file is, and its digest from byte ``start`` on (of a zip, its members' but ``beside``); no kind: it is not
    compared."""
    with open(path, "rb") as stream:
        head = stream.read(32)
        if head.startswith(_NOT_COMPARED_BEGINS):
            return None, 0
        stream.seek(start)
        if head.startswith(b"PK") and not start:
            with zipfile.ZipFile(stream) as packed:
                members = [(entry.filename.partition("/")[2] or entry.filename, entry.CRC) for entry in packed.filelist]
            if beside:  # torch digests the whole too
                members = [each for each in members if each != beside and not each[0].endswith("serialization_id")]
            return ValueKind.FILE, _digest(repr(sorted(members)))
        if head.startswith(b"\x80") and not start and os.path.getsize(path) <= _SMALL:
            data = stream.read()
            if _MAKING.isdisjoint(code.name for code, _, _ in pickletools.genops(data)):  # numbers and texts alone
                return ValueKind.TEXT, _digest(data)
            stream.seek(0)
        state, decoder, is_text = xxhash.xxh3_64(), codecs.getincrementaldecoder("utf-8")(), True
        while data := stream.read(_READ):
            state.update(data)
            try:
                is_text = is_text and "\0" not in decoder.decode(data)
            except UnicodeDecodeError:
                is_text = False
        return ValueKind.TEXT if is_text else ValueKind.FILE, state.intdigest() or 1


def _beside_tensors(path: str) -> tuple[str, int] | None:
    """The part of a checkpoint of torch's that holds numbers and texts beside tensors: times, names, arguments."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as packed:
        part = next((each for each in packed.filelist if each.filename.endswith("/data.pkl")), None)
        if part is None or part.file_size > _SMALL:
            return None
        made = (arg for code, arg, _ in pickletools.genops(packed.read(part)) if code.name in _MAKING)
        is_plain = all(type(name) is str and name.startswith(_OF_CHECKPOINTS) for name in made)
    return (part.filename.partition("/")[2], part.CRC) if is_plain else None


class _FollowedFile(io.TextIOWrapper):
    """Standard output, which keeps its lines."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        options: dict[str, Any] = {name: getattr(stream, name) for name in ("encoding", "errors")}
        options |= {name: getattr(stream, name) for name in ("line_buffering", "write_through")}
        super().__init__(stream.detach(), newline="\n", **options)
        self._lines: list[str] = []
        self._open = ""

    def write(self, text: str) -> int:
        count = super().write(text)
        if len(self._lines) < _MOST_LINES:
            *lines, self._open = (self._open + text).split("\n")
            self._lines += lines
            self._open = self._open[-_LONGEST_LINE:]
        return count

    def lines(self) -> Iterator[tuple[int, str]]:
        """Those that are not blank, numbered from 1; what a carriage return overwrites is left out."""
        for number, line in enumerate([*self._lines[:_MOST_LINES], self._open], 1):
            if (last := line.rstrip("\r").rpartition("\r")[2].strip()) and len(self._lines) <= _MOST_LINES:
                yield number, last
