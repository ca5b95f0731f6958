"""Writing a file of values as the run goes, in bounded memory."""

from __future__ import annotations

import os
import struct
import time
import weakref
from array import array
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from tracer.errors import TraceError, reason_of
from tracer.names import ValueKind
from tracer.plain import all_encodable
from tracer.trace.values import framing
from tracer.trace.values.columns import Group, Header, Mark, Name
from tracer.trace.values.digests import text_digest
from tracer.trace.values.places import ROW_TYPE, Form, PlaceName, PlacesBlock

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

_PACK = framing.ROW.pack
_ROW = framing.ROW.size
#: Where ``inputs`` and ``outputs`` lie in a row.
_DIGESTS = struct.Struct("<QQ")
_DIGESTS_AT = 4
_MARKS = struct.Struct("<H")
_MARKS_AT = 28
_UNSETTLED = int(Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED)
_MOST_ORIGINS = 0xFFFF


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
        self._pid = os.getpid()
        self._file: FileIO | None = None
        self._end = 0
        """Offset of the end block, if it was written."""
        self._groups: dict[Group, int] = {}
        self._names: dict[tuple[ValueKind, str], int] = {}
        self._texts: dict[int, None] = {}
        self._entries = 0
        self._step = 0
        self._written = 0
        self._last = time.monotonic()
        self._pending: set[int] = set()
        self._place_names: dict[PlaceName, int] = {}
        self._forms: dict[Form, int] = {}
        self.places = 0
        """Places so far: the index of the next row."""
        self._places_written = 0
        self._sums = 0
        """Sums so far."""
        self._clear()
        self._clear_places()
        begin = framing.MAGIC + framing.framed(framing.HEADER, _packed(header))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._open("wb")
        except (OSError, ValueError) as problem:
            raise TraceError(f"cannot write {path}: {reason_of(problem)}", hint="choose another path") from problem
        self._put(begin)
        if self.failed:
            with suppress(OSError):
                self.path.unlink()

    def group(self, group: Group) -> int:
        """The number of ``group``, by which calls name it."""
        number = self._groups.get(group)
        if number is None:
            number = self._groups[group] = len(self._groups)
            self._new_groups.append(group)
        return number

    def numbers(self, text: str) -> int:
        """The digest of the numbers among a call's arguments, spelt ``alpha=1, 0.001``, which the reader shows.

        The spelling has to tell 1 from 1.0 and True. An empty text is 0: no numbers.
        """
        return self._text(text_digest(text), text) if text else 0

    def entry(self, kind: ValueKind, name: str, digest: int, position: int = -1) -> int:
        """The next call reads something that no recorded call wrote; returns its origin, for ``call``.

        Once per tensor: while its bytes stay the same, later calls pass the same origin.
        """
        self._entry_rows.append((self._name(kind, name), position, digest, self.calls))
        self._entries += 1
        return -self._entries

    def draw(self, generator: str, state: int) -> None:
        """The next call draws from ``generator``, whose state has this digest before the call."""
        self._draw_rows.append((self.calls, self._name(ValueKind.GENERATOR, generator), state))

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
            self._keep_rows.append((index, keeps))
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
        row = -1 - origin - (self._entries - len(self._entry_rows))
        if row >= 0:
            name, position, _, call = self._entry_rows[row]
            self._entry_rows[row] = (name, position, digest, call)

    def moment(self, kind: ValueKind, name: str, digest: int, position: int = -1, text: str = "") -> None:
        """A state as it is now; ``text``: what it is in words, where that is short (``0.001``)."""
        self._moment_rows.append((self._name(kind, name), position, digest, self.calls, self._step))
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
        number, form_number = self._place_names.get(name), self._forms.get(form)
        if number is None:
            number = self._place_names[name] = len(self._place_names)
            self._new_place_names.append(name)
        if form_number is None:
            form_number = self._forms[form] = len(self._forms)
            self._new_forms.append(form)
        count = len(sums) // 8
        self._place_rows.append(
            (number, form_number, occurrence, self._step, same, self._sums, count, offset, *magnitudes)
        )
        self._sums_data += sums
        self._sums += count
        self.places += 1
        if len(self._sums_data) > MOST_SUMS or (
            not self.places & 63 and time.monotonic() - self._last_places > BLOCK_SECONDS
        ):
            self.flush_places()
        return self.places - 1

    def flush_places(self) -> None:
        """Write all places up to now."""
        self._last_places = time.monotonic()
        if os.getpid() != self._pid or not self._place_rows:
            return
        if self._sums_data:
            self._put(framing.framed(framing.SUMS, bytes(self._sums_data)))
        block = PlacesBlock(
            first=self._places_written,
            names=self._new_place_names,
            forms=self._new_forms,
            rows=np.array(self._place_rows, ROW_TYPE).tobytes(),
        )
        self._put(framing.framed(framing.PLACES, _packed(block)))
        self._places_written = self.places
        self._clear_places()

    def _clear_places(self) -> None:
        self._place_rows: list[tuple[float, ...]] = []
        self._sums_data = bytearray()
        self._new_place_names: list[PlaceName] = []
        self._new_forms: list[Form] = []
        self._last_places = time.monotonic()

    def step(self, number: int) -> None:
        """From the next call on it is step ``number``; steps count from 1."""
        self._step = number
        self._step_rows.append((self.calls, number))
        if time.monotonic() - self._last > BLOCK_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all calls up to now, unless some are pending still."""
        if os.getpid() != self._pid:
            return
        if self._pending:
            if self.calls - self._written < MOST_KEPT_BACK and self._file is not None:
                return
            self._give_up_pending()
        self._last = time.monotonic()
        block = self._block() if self._file is not None else None
        if block is not None:
            self._put(framing.framed(framing.CALLS, _packed(block)))
        self._written = self.calls
        self._clear()

    def close(self, partial: str = "") -> None:
        """Write the rest and the end block; ``partial`` says why recording ended early."""
        if self._file is None or os.getpid() != self._pid:
            return
        self._give_up_pending()
        self.flush()
        self.flush_places()
        if self._file is not None:
            self._end = self._file.tell()
        self._put(framing.framed(framing.END, _packed(framing.End(calls=self.calls, partial=partial))))
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

    def _name(self, kind: ValueKind, name: str) -> int:
        number = self._names.get((kind, name))
        if number is None:
            number = self._names[kind, name] = len(self._names)
            self._new_names.append(Name(kind, name))
        return number

    def _give_up_pending(self) -> None:
        """Mark calls that nobody settled as not digested."""
        for call in self._pending:
            self._add_mark_bits(call, _UNSETTLED)
        self._pending.clear()

    def _text(self, digest: int, text: str) -> int:
        if digest not in self._texts and len(self._texts) < MOST_TEXTS:
            self._texts[digest] = None
            self._new_texts.append((digest, text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."))
        return digest

    def _clear(self) -> None:
        self._rows = bytearray()
        self._origins = array("i")
        self._keep_rows: list[tuple[int, int]] = []
        self._entry_rows: list[tuple[int, int, int, int]] = []
        self._draw_rows: list[tuple[int, int, int]] = []
        self._moment_rows: list[tuple[int, int, int, int, int]] = []
        self._step_rows: list[tuple[int, int]] = []
        self._new_groups: list[Group] = []
        self._new_names: list[Name] = []
        self._new_texts: list[tuple[int, str]] = []

    def _block(self) -> framing.CallsBlock | None:
        """Return the collected calls; ``None`` if there are none."""
        rows = np.frombuffer(bytes(self._rows), dtype=framing.ROW_TYPE)
        columns = {name: np.ascontiguousarray(rows[name]) for name in framing.ROW_TYPE.names or ()}
        columns["origin"] = np.array(self._origins, dtype="<i4")
        for table, of in framing.TABLES.items():
            table_rows: list[tuple[int, ...]] = getattr(self, f"_{table}_rows")
            for (name, dtype), column in zip(of.items(), zip(*table_rows, strict=True), strict=False):
                columns[f"{table}.{name}"] = np.array(column, dtype=dtype)
        self.raw_bytes += sum(column.nbytes for column in columns.values())
        packed = {
            name: framing.packed(column, squeeze=column.dtype != np.uint64 or name == "numbers")
            for name, column in columns.items()
            if len(column)
        }
        if not (packed or self._new_groups or self._new_names or self._new_texts):
            return None
        return framing.CallsBlock(
            first=self._written, groups=self._new_groups, names=self._new_names, texts=self._new_texts, columns=packed
        )

    def _put(self, data: bytes) -> None:
        """Write ``data``; after a failure, write nothing more."""
        if self._file is None:
            return
        try:
            view = memoryview(data)
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
