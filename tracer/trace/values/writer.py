"""Writing a file of values as the run goes, in bounded memory."""

from __future__ import annotations

import os
import struct
import threading
import time
import weakref
from array import array
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from tracer.errors import TraceError, reason_of
from tracer.names import ValueKind
from tracer.plain import all_encodable
from tracer.trace.values import columns
from tracer.trace.values.columns import Group, Header, Mark, Name, text_digest
from tracer.trace.values.places import Form, PlaceName

#: Calls that are collected before they are written.
BLOCK_CALLS = 8192
#: Seconds after which a step's end, or one call in 64, writes what there is.
BLOCK_SECONDS = 1.0
#: Calls that are kept back for one that is pending; after that it counts as not digested.
MOST_KEPT_BACK = 1 << 20
#: Bytes of sums that are collected before they are written.
MOST_SUMS = 1 << 22
#: Texts of numbers that are kept, and the longest of them; what comes after has its digest alone.
MOST_TEXTS = 100_000
LONGEST_TEXT = 200

_PACK = columns.CALL.pack
_ROW = columns.CALL.size
#: Where ``inputs`` and ``outputs`` lie in a row.
_DIGESTS = struct.Struct("<QQ")
_DIGESTS_AT = 4
_MARKS = struct.Struct("<H")
_MARKS_AT = 28
_UNSETTLED = int(Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED)
_MOST_ORIGINS = 0xFFFF


class _Numbers(dict[Any, int]):
    """Numbers things in the order in which they are met."""

    def __init__(self) -> None:
        self.new: list[Any] = []
        """Those that are not written yet."""

    def __missing__(self, thing: Any) -> int:
        self[thing] = number = len(self)
        self.new.append(thing)
        return number


class ValuesWriter:
    """Writes calls, entries, draws and moments in order.

    Methods for the hot path only append. An error of the disk ends the writing, never the training: ``failed`` says
    why. A forked child writes nothing.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header) -> None:
        """Create ``path`` with its header. Raises ``TraceError`` where it cannot be written."""
        self.path = Path(path)
        self.failed = ""
        """The reason why nothing more is written; empty while all is well."""
        self.calls = 0
        """Calls so far: the index of the next one."""
        self.raw_bytes = 0
        """Bytes written, before compression."""
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self._file: FileIO | None = None
        self._end = 0
        """Offset of the end block, if it was written."""
        self._groups, self._names, self._place_names, self._forms = (_Numbers() for _ in range(4))
        self._texts: set[int] = set()
        self._entries = 0
        self._step = 0
        self._written = 0
        self._pending: set[int] = set()
        self.places = 0
        """Places so far: the index of the next row."""
        self._sums = 0
        """Sums so far."""
        self._sums_data = bytearray()
        self._clear()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._open("wb")
        except (OSError, ValueError) as problem:
            raise TraceError(f"cannot write {path}: {reason_of(problem)}", hint="choose another path") from problem
        self._put(columns.HEADER, _packed(header))
        if self.failed:
            with suppress(OSError):
                self.path.unlink()

    def group(self, group: Group) -> int:
        """The number of ``group``, by which calls name it."""
        return self._groups[group]

    def numbers(self, text: str) -> int:
        """The digest of the numbers among a call's arguments, spelt ``alpha=1, 0.001``, which the reader shows. The
        spelling has to tell 1 from 1.0 and True. An empty text is 0: no numbers."""
        return self._text(text_digest(text), text) if text else 0

    def entry(self, kind: ValueKind, name: str, digest: int, position: int = -1) -> int:
        """The next call reads something that no recorded call wrote; returns its origin, for ``call``. Once per tensor:
        while its bytes stay the same, later calls pass the same origin."""
        self._tables["entry"].append((self._names[Name(kind, name)], position, digest, self.calls))
        self._entries += 1
        return -self._entries

    def draw(self, generator: str, state: int) -> None:
        """The next call draws from ``generator``, whose state has this digest before the call."""
        self._tables["draw"].append((self.calls, self._names[Name(ValueKind.GENERATOR, generator)], state))

    def call(
        self,
        group: int,
        inputs: int,
        outputs: int,
        origins: Iterable[int] = (),
        numbers: int = 0,
        mark_bits: int = 0,
        keeps: int | None = None,
        pending: bool = False,
    ) -> int:
        """Record one call; returns its index, which is the origin of what it wrote.

        ``inputs``, ``outputs``: folded digests (``fold``). ``origins``: where each input came from, calls and entries;
        duplicates are dropped. ``keeps``: the origin of memory that the call wrote in part. ``pending``: the digests
        are not known yet; until ``settle`` gives them, nothing from this call on is written.
        """
        index = self.calls
        several = list(dict.fromkeys(origins))
        if len(several) > _MOST_ORIGINS:
            latest = set(sorted(several)[-_MOST_ORIGINS:])
            several = [origin for origin in several if origin in latest]
        self._origins.extend([index - origin if origin >= 0 else origin for origin in several])
        self._rows += _PACK(group, inputs, outputs, numbers, mark_bits, len(several))
        if keeps is not None:
            self._tables["keep"].append((index, keeps))
        if pending:
            self._pending.add(index)
        self.calls = index + 1
        if not index & 63 and (index - self._written >= BLOCK_CALLS or time.monotonic() - self._last > BLOCK_SECONDS):
            self.flush()
        return index

    def settle(self, call: int, inputs: int, outputs: int, mark_bits: int = 0) -> None:
        """Set the digests of a pending call, and add ``marks`` to its own."""
        if call in self._pending:
            at = (call - self._written) * _ROW
            _DIGESTS.pack_into(self._rows, at + _DIGESTS_AT, inputs, outputs)
            if mark_bits:
                self._add_mark_bits(call, mark_bits)
            self._pending.discard(call)

    def _add_mark_bits(self, call: int, mark_bits: int) -> None:
        at = (call - self._written) * _ROW + _MARKS_AT
        _MARKS.pack_into(self._rows, at, _MARKS.unpack_from(self._rows, at)[0] | mark_bits)

    def settle_entry(self, origin: int, digest: int) -> None:
        """Set the digest of an entry of a pending call."""
        rows = self._tables["entry"]
        row = -1 - origin - (self._entries - len(rows))
        if row >= 0:
            name, position, _, call = rows[row]
            rows[row] = (name, position, digest, call)

    def moment(self, kind: ValueKind, name: str, digest: int, position: int = -1, text: str = "") -> None:
        """A state as it is now; ``text``: what it is in words, where that is short (``0.001``)."""
        self._tables["moment"].append((self._names[Name(kind, name)], position, digest, self.calls, self._step))
        if text:
            self._text(digest, text)

    def place(
        self,
        name: PlaceName,
        form: Form,
        occurrence: int,
        *,
        sums: bytes = b"",
        same: int = -1,
        offset: int = 0,
        magnitudes: tuple[float, float, int, int] = (0.0, 0.0, 0, 0),
    ) -> int:
        """Record what stands at a place; returns its row. ``magnitudes``: norm, largest, not finite, digest."""
        count = len(sums) // 8
        where = (self._place_names[name], self._forms[form], occurrence, self._step, same, self._sums, count, offset)
        self._tables["place"].append((*where, *magnitudes))
        self._sums_data += sums
        self._sums += count
        self.places += 1
        if len(self._sums_data) > MOST_SUMS:
            self._write_sums()
        if not self.places & 63 and time.monotonic() - self._last > BLOCK_SECONDS:
            self.flush()
        return self.places - 1

    def _write_sums(self) -> None:
        if self._sums_data:
            self._put(columns.SUMS, bytes(self._sums_data))
            self._sums_data.clear()

    def step(self, number: int) -> None:
        """From the next call on it is step ``number``; steps count from 1."""
        self._step = number
        self._tables["step"].append((self.calls, number))
        # A step that ends on another thread must not write what this one is about to.
        if time.monotonic() - self._last > BLOCK_SECONDS and threading.get_ident() == self._thread:
            self.flush()

    def flush(self) -> None:
        """Write all calls and places up to now, unless some calls are pending still."""
        if os.getpid() != self._pid:
            return
        if self._pending:
            if self.calls - self._written < MOST_KEPT_BACK and self._file is not None:
                return
            self._give_up_pending()
        self._write_sums()  # before the rows that speak of them
        block = self._block() if self._file is not None else None
        if block is not None:
            self._put(columns.ROWS, _packed(block))
        self._written = self.calls
        self._clear()

    def close(self, partial: str = "") -> None:
        """Write the rest and the end block; ``partial`` says why recording ended early."""
        if self._file is None or os.getpid() != self._pid:
            return
        self._give_up_pending()
        self.flush()
        if self._file is not None:
            self._end = self._file.tell()
        self._put(columns.END, _packed(columns.End(calls=self.calls, partial=partial)))
        self._shut()

    @property
    def is_closed(self) -> bool:
        """Whether the end was written, or writing given up."""
        return self._file is None

    def reopen(self) -> None:
        """Go on after ``close``: the end block is cut off."""
        if self._file is not None or self.failed or os.getpid() != self._pid:
            return
        try:
            file = self._open("r+b")
            file.truncate(self._end)
            file.seek(self._end)
        except OSError as problem:
            self.failed = reason_of(problem)
            self._shut()

    def _open(self, mode: Literal["wb", "r+b"]) -> FileIO:
        self._file = file = open(self.path, mode, buffering=0)  # noqa: SIM115 (closed by _shut)
        self._closing = weakref.finalize(self, file.close)  # a recording that nobody ends leaves no file open
        return file

    def _shut(self) -> None:
        if self._file is not None:
            self._file = None
            with suppress(OSError):
                self._closing()

    def _give_up_pending(self) -> None:
        """Mark calls that nobody settled as not digested."""
        for call in self._pending:
            self._add_mark_bits(call, _UNSETTLED)
        self._pending.clear()

    def _text(self, digest: int, text: str) -> int:
        if digest not in self._texts and len(self._texts) < MOST_TEXTS:
            self._texts.add(digest)
            self._new_texts.append((digest, text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."))
        return digest

    def _clear(self) -> None:
        self._last = time.monotonic()
        self._rows = bytearray()
        self._origins = array("i")
        self._tables: dict[str, list[tuple[float, ...]]] = {
            table: [] for table in columns.TABLES if table not in ("call", "origin")
        }
        self._new_texts: list[tuple[int, str]] = []
        for numbers in (self._groups, self._names, self._place_names, self._forms):
            numbers.new = []

    def _block(self) -> columns.PackedBlock | None:
        """Return what was collected; ``None`` if that is nothing."""
        tables = {
            "call": np.frombuffer(bytes(self._rows), columns.TABLES["call"]),
            "origin": np.array(self._origins, "<i4").view(columns.TABLES["origin"]),
            **{table: np.array(rows, columns.TABLES[table]) for table, rows in self._tables.items() if rows},
        }
        self.raw_bytes += sum(rows.nbytes for table, rows in tables.items() if table != "place")
        block = columns.PackedBlock(
            first=self._written,
            first_place=self.places - len(self._tables["place"]),
            groups=self._groups.new,
            names=self._names.new,
            texts=self._new_texts,
            place_names=self._place_names.new,
            forms=self._forms.new,
            tables={table: columns.packed(rows) for table, rows in tables.items() if len(rows)},
        )
        return block if block.tables or block.groups or block.names or block.texts else None

    def _put(self, kind: bytes, body: bytes) -> None:
        """Write a block; after a failure, write nothing more."""
        if self._file is None:
            return
        begin = columns.MAGIC if kind == columns.HEADER else b""
        try:
            view = memoryview(begin + columns.framed(kind, body))
            while view:
                view = view[self._file.write(view) or 0 :]
        except OSError as problem:
            self.failed = reason_of(problem)
            self._shut()


def _packed(part: msgspec.Struct) -> bytes:
    """``part`` encoded; names of files that are not UTF-8 are escaped."""
    try:
        return msgspec.msgpack.encode(part)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(all_encodable(part))
