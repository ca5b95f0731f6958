"""Two runs, line by line: the lines whose values differ although all that they read agrees, and what they reach.

Frames are paired by the line that called them, rows by line and occurrence within their frame. A variable that differs
has as origins those of what its line reads; if nothing of that differs, the line itself is a root. A line that one run
alone executes has the branch before it as origin; a draw from a generator whose states differ, what seeded it. What is
not seen whole may carry the origins of all that its line reads: a path that is not refuted is a way.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tracer.names import Word
from tracer.tables.sources import Source, source_by_id, source_of
from tracer.trace.lines import (
    ARGUMENTS,
    ENVIRONMENT,
    GENERATOR,
    GLOBAL,
    HOLDS,
    NO_DIGEST,
    OWN,
    RESULT,
    RETURNED,
    SAMPLED_FROM,
    STATIC,
    Continued,
    Entered,
    LineCode,
    LineMark,
    LineNote,
    LineRecord,
    LineRow,
    LineText,
    Text,
    files_of_lines,
    is_named,
    is_plain,
    lines_path,
    read_lines,
    was_seeded,
    whole_statement,
)

#: Lines of the way from a root to a call that are kept.
_LONGEST_PATH = 12
#: Callers of a line in which what it returns may be held.
_MOST_CALLERS = 3
#: Functions that draw from a global generator, and of torch those that may.
_DRAWING = {"python": re.compile("random[.][a-z]"), "numpy": re.compile("numpy[.]random[.](?!default_rng)[a-z]")}
_MAY_DRAW = re.compile("torch[.]")
#: Digests of so many letters are met for other values too: small numbers, booleans.
_SHORT = 5
#: The row of the clock in the table of sources.
CLOCK = "clock"
#: The rows of what makes a generator, and of what draws from one that was made.
_MAKES, _DRAWS = "own-generator", "own-generator-draw"
#: The rows of what asks how far others are, of what waits for so long and no longer, and of ports.
_POLL, _TIMEOUT, _PORT = "done-by-then", "timeout", "port"
#: Those of what takes results as they come.
OF_ORDER = _AS_DONE, _QUEUE = "completion-order", "queue"
#: Calls and marks of statements to which an order says nothing.
_ORDERLESS = {LineMark.KEYED, "builtins.sorted", "builtins.set", "builtins.frozenset", "builtins.len", "builtins.dict"}
#: Packages whose functions give what follows from what they are given, but for the rows of the table of sources.
FOLLOWS = re.compile(
    "_?(builtins|torch|numpy|math|operator|itertools|functools|collections|re|json|struct|hashlib|zlib|copy|statistics|"
    "bisect|heapq|contextlib|typing|dataclasses|string)[.]"
)
#: Microseconds by which the time of a file may be early.
_TICK = 10_000
#: The ends of names of functions that put a generator into a state of their own.
_RESTORING = ("seed", "set_state", "setstate", "set_rng_state", "set_rng_state_all")


class LineKind(Word):
    """How a line comes to differ."""

    LINE = "line"
    """It gives other values."""
    BRANCH = "branch"
    """It decides otherwise which line comes next."""
    DRAW = "draw"
    """It draws from a generator that nothing seeded."""
    STATE = "state"
    """A run that resumed holds something else where it goes on: ``LineRoot.name``."""


class LineRoot(msgspec.Struct, frozen=True, kw_only=True):
    """A line whose values differ although all that it reads agrees."""

    kind: LineKind
    file: str
    line: int
    generator: str = ""
    """For a draw: ``python``, ``numpy``, ``torch`` or ``cuda:0``."""
    name: str = ""
    """For a state: what holds it."""

    @property
    def location(self) -> str:
        """As traces spell it."""
        return f"{self.file}:{self.line}"


class LineSource(msgspec.Struct, frozen=True, kw_only=True):
    """A root line, as it is shown."""

    location: str
    function: str = ""
    called_from: str = ""
    """The program's line whose call into a library led there."""
    kind: LineKind = LineKind.LINE
    source: str = ""
    """The id of a row of ``sources.toml``; empty for none."""
    generator: str = ""
    names: tuple[str, ...] = ()
    """What differs there."""
    first: str = ""
    """The first of these, in the first run, if it is a number or a boolean."""
    second: str = ""
    reaches: bool = False
    """Whether a call that differs reads what comes of it, or may."""
    is_followed: bool = True
    """Whether values were seen to differ all the way to that call."""
    path: tuple[str, ...] = ()
    """The lines from it to that call."""
    closed: tuple[str, ...] = ()
    """The first of these, as long as nothing else can enter there but what other roots give."""
    comes_of: tuple[str, ...] = ()
    """Of a line that is proven where others cannot be held: those that lead to it, with what may enter behind them."""
    calls: int = 0
    """How often it was executed with other values."""
    may_call: tuple[str, ...] = ()
    """The qualified names of what it may call."""
    is_blind: bool = False
    """Whether it reads something that is not seen whole."""
    opaque: str = ""
    """What it reads of which no value shows, and the line that gave it: ```tok` (train.py:10)``."""
    is_threads: bool = False
    """Whether another thread than the first executes it: to give values there may mix those of several."""
    held_at: str = ""
    """The line whose variables take what it gives: the next on the way, for a result; empty if none does."""
    takers: tuple[str, ...] = ()
    """The lines that read what it put where no value shows: they are held with it."""

    @property
    def is_time_limit(self) -> bool:
        """Whether it reads the clock and makes nothing but a decision of it."""
        is_decision = self.kind is LineKind.BRANCH or {self.first, self.second} == {"True", "False"}
        return self.source == CLOCK and is_decision


class ComparedLines(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of two runs, compared."""

    sources: tuple[LineSource, ...] = ()
    """Root lines, those that reach a call first."""
    timed: tuple[LineSource, ...] = ()
    """Where runs agree: lines that decide by the clock, by a timeout or by who is faster, and give the same in both."""
    notes: tuple[str, ...] = ()
    """Why lines are missing."""
    first: frozenset[str] = frozenset()
    """The locations of those that reach the call that differs first: no other line explains that."""
    seeding: frozenset[str] = frozenset()
    """Lines that seed global generators otherwise."""


Origins = frozenset[LineRoot]
_NOTHING: Origins = frozenset()


class LineFrame:
    """One call of a function of the program's, and its rows."""

    def __init__(self, process: str, entered: Entered, code: LineCode) -> None:
        self.process, self.entered, self.code = process, entered, code
        self.rows: list[LineRow] = []
        self.is_thinned = False
        """Whether rows were left out."""
        self.keys: list[tuple[object, ...]] = []
        """What rows are paired by: their lines, and their places in the rounds of the loops around them."""
        self.places: dict[tuple[object, ...], int] = {}
        self.latest: dict[int, tuple[object, ...]] = {}
        self.ordinals: Counter[tuple[object, ...]] = Counter()
        self.parent: LineFrame | None = None
        self.pair: LineFrame | None = None
        self.state: dict[str, str] = {}
        self.differing: dict[str, Origins] = {}
        self.unseen: dict[str, Origins] = {}
        """By name of which not all is seen: the origins of what it may hold."""
        self.made: dict[str, str] = {}
        """By name of which not all is seen: the line that stored it."""
        self.filled: dict[str, Origins] = {}
        """By name of which nothing is seen: the roots at lines that asked it for something."""
        self.returned: Origins = _NOTHING
        """The origins of what callees returned since the last row."""
        self.inside: Origins = _NOTHING
        """The origins of whatever differs in callees since the last row."""
        self.built: dict[str, Origins] = {}
        """By attribute of an object that a callee has initialized since the last row: the origins of what differs."""
        self.beside: Origins = _NOTHING
        """The origins of whatever callees may have met since a line last stored something."""
        self.decides: tuple[Origins, Origins] = _NOTHING, _NOTHING
        """The origins of the last row that both runs have, seen and not seen."""
        self.iterated: dict[int, Origins] = {}
        """By line: the origins of what a loop there iterates."""
        self.files: dict[str, tuple[tuple[int, int], ...]] = {}
        """By name: the files that the line which stored it opened, as rows have them."""
        self.open: set[str] = set()
        """Parameters that a library may have made."""
        self.given: Origins = _NOTHING
        """Why this frame is in one run alone."""
        self.leaving: tuple[int, Origins, Origins] | None = None
        """The last ``return``, after which other lines may come, and the origins of what it reads, seen and not."""
        self.at = self.next = 0
        """The place of its next row, and of the next one of its pair."""
        self.call = entered.call
        self.depth = self.last = 0
        self.is_suspended = self.is_body = False
        """Whether it runs the body of a module or a class."""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.code.file, self.code.function, self.code.first


_Place = tuple[LineFrame, int]
_Changed = Mapping[str, str]


class _Done(NamedTuple):
    """A row that was compared."""

    at: int
    """When it ended."""
    calls: range
    frame: LineFrame
    line: int
    text: LineText
    origins: Origins
    """Of what it read."""
    unseen: Origins
    """Of what it may have read."""


class _Met(NamedTuple):
    """A row as it is met, and what its line reads."""

    frame: LineFrame
    row: LineRow
    line: int
    """Its own, or that of the ``return`` by which the function was left."""
    text: LineText
    before: Origins
    """Of what it reads and was seen to differ before it."""
    unseen: Origins
    is_over: bool
    """Whether its statement does not go on."""

    @property
    def location(self) -> str:
        return f"{self.frame.code.file}:{self.line}"


class LineIndex:
    """The rows of a run, its processes one after another."""

    def __init__(self, processes: Mapping[str, Sequence[LineRecord]]) -> None:
        self.frames: list[LineFrame] = []
        self.events: list[tuple[LineFrame, Entered | LineRow]] = []
        self.texts: dict[tuple[str, str, int, int], LineText] = {}
        self.lines: dict[tuple[object, ...], list[int]] = {}
        """Those of each statement that has several, by its first."""
        self.unfinished: set[int] = set()
        """Identities of rows after which the statement goes on, on another line of it."""
        self.interrupted: dict[tuple[int, int, int], LineFrame] = {}
        """Handlers of signals, by what these interrupt: the frame's identity, its line, and which execution of it."""
        self.handlers: set[tuple[str, str, int]] = set()
        """The code of these: file, function and first line."""
        self.notes: list[str] = []
        rows: Counter[tuple[object, ...]] = Counter()
        numbered: dict[tuple[str, int], LineFrame] = {}
        for process, records in processes.items():
            codes: dict[int, LineCode] = {}
            for record in records:
                if isinstance(record, LineCode):
                    codes[record.number] = record
                    self.handlers |= {(record.file, record.function, record.first)} if record.is_handler else set()
                elif isinstance(record, Text):
                    code = codes[record.code]
                    key, text = (code.file, code.function, code.first), record.text
                    if self.texts.setdefault((*key, record.line), text) is text and text.first:
                        self.lines.setdefault((*key, text.first), []).append(record.line)
                elif isinstance(record, LineNote):
                    self.notes.append(record.text)
                elif isinstance(record, Entered) and (process, record.frame) not in numbered:
                    frame = LineFrame(process, record, codes[record.code])
                    above = (numbered.get((role, record.parent)) for role in _with_parents(process))
                    frame.parent = next(filter(None, above), None)
                    frame.depth = 0 if frame.parent is None else frame.parent.depth + 1
                    numbered[process, record.frame] = frame
                    if record.answers_signal and frame.parent is not None:
                        self.interrupted[id(frame.parent), record.parent_line, record.parent_n] = frame
                    self.frames.append(frame)
                    self.events.append((frame, record))
                elif isinstance(record, LineRow) and (process, record.frame) in numbered:
                    frame = numbered[process, record.frame]
                    self._add(frame, record)
                    self.events.append((frame, record))
                    rows[process, frame.entered.thread, frame.key, record.line] += 1
        self.full = {(process, *of) for (process, _, *of), count in rows.items() if count >= SAMPLED_FROM}
        """By process, code and line: those of which a thread has no further rows, in whatever frame."""

    def _add(self, frame: LineFrame, row: LineRow) -> None:
        text, before = self.text(frame, row.line), frame.rows[-1] if frame.rows else row
        is_same = text.first and text.first == self.text(frame, before.line).first
        if is_same and before.line != row.line and not before.returns:
            self.unfinished.add(id(before))
        frame.is_thinned |= row.is_sampled
        key: tuple[object, ...] = row.line, row.n
        frame.places[key] = len(frame.rows)
        if not frame.is_thinned:  # by its place in the round of its loop: one run may have passed it in other rounds
            key = row.line, frame.latest.get(text.loop)
            frame.ordinals[key] += 1
            key = *key, frame.ordinals[key]
            frame.latest[text.first or row.line] = key
            frame.places[key] = len(frame.rows)
        frame.keys.append(key)
        frame.rows.append(row)

    def text(self, frame: LineFrame, line: int) -> LineText:
        """What a line of a frame's code reads."""
        return self.texts.get((*frame.key, line), LineText())

    def statement(self, frame: LineFrame, line: int) -> LineText:
        """What all lines of a statement read, to which ``line`` belongs."""
        own = self.text(frame, line)
        lines = self.lines.get((*frame.key, own.first), ())
        return whole_statement([self.text(frame, each) for each in lines]) if len(lines) > 1 else own


def _with_parents(process: str) -> Iterator[str]:
    """The role of a process, and those of the processes that it was forked from."""
    while process:
        yield process
        process = process.rpartition(".")[0]
    yield ""


def read_run(trace: str | os.PathLike[str]) -> dict[str, list[LineRecord]]:
    """The rows of a run by process, the first one's first; empty where it has none."""
    first = lines_path(trace)
    return {path.name.removeprefix(first.name): read_lines(path) for path in files_of_lines(trace)}


def compared_lines(
    first: Mapping[str, Sequence[LineRecord]], second: Mapping[str, Sequence[LineRecord]], calls: Iterable[int] = ()
) -> ComparedLines:
    """Hold two runs' lines against each other; ``calls``: the calls of the first run that differ, as roots do."""
    if not first or not second:
        return ComparedLines()
    calls = tuple(calls)
    return _Comparison(LineIndex(first), LineIndex(second), calls).result(calls)


class ReadOtherwise(NamedTuple):
    """Something that a run which resumed holds otherwise, and that the line of a call reads, or what came of it."""

    root: LineRoot
    function: str
    names: tuple[str, ...]
    """What holds it: for a state, its name."""
    first: str
    second: str
    path: tuple[str, ...]
    """The lines from it on."""
    is_used: bool
    """Whether a line that makes calls reads it, or what came of it."""
    is_seen: bool = True
    """Whether it was seen to reach the call, and not only where something is that is not seen whole."""


Kept = Mapping[tuple[str, str, str], str]
"""By file, class and name: what attributes of ``self`` held before, in the first run."""


def read_otherwise(
    records: tuple[Sequence[LineRecord], Sequence[LineRecord]], calls: Iterable[int], kept: Kept | None = None
) -> tuple[dict[int, tuple[ReadOtherwise, ...]], tuple[ReadOtherwise, ...]]:
    """By call of the first run, what its line reads that began otherwise; and all that did, whatever it reaches.

    ``records``: those of both runs from where one resumes.
    """
    calls = tuple(calls)
    compared = _Comparison(LineIndex({"": records[0]}), LineIndex({"": records[1]}), calls, kept)
    used = _NOTHING.union(*(row.origins for row in compared.reads))

    def told(root: LineRoot) -> ReadOtherwise:
        names, first, second = compared.shown.get(root, ((), "", ""))
        function, path = compared.functions[root][0], tuple(compared.trail[root])
        return ReadOtherwise(root, function, names, first, second, path, root in used)

    def of_call(call: int) -> tuple[ReadOtherwise, ...]:
        if (row := compared._row_of_call(call)) is None:
            return ()
        found = row.origins | row.unseen
        order = sorted(found, key=lambda root: (root not in row.origins, compared.roots.get(root, 0)))
        return tuple(told(root)._replace(is_seen=root in row.origins) for root in order)

    return {call: of_call(call) for call in calls}, tuple(map(told, compared.roots))


class _Comparison:
    """Walks the first run's rows in their order, with the second's beside them."""

    def __init__(self, one: LineIndex, two: LineIndex, calls: Sequence[int], kept: Kept | None = None) -> None:
        self.one, self.two, self.calls, self.kept = one, two, calls, kept or {}
        self.modules: dict[tuple[str, str], LineFrame] = {}
        self.states: dict[tuple[str, str], tuple[str, str]] = {}
        """The states of global generators in both runs, by process and name."""
        self.unseeded: dict[tuple[str, str], Origins] = {}
        self.roots: dict[LineRoot, int] = {}
        self.counts: Counter[LineRoot] = Counter()
        self.shown: dict[LineRoot, tuple[tuple[str, ...], str, str]] = {}
        self.functions: dict[LineRoot, tuple[str, str]] = {}
        self.callers: dict[LineRoot, tuple[LineFrame, int]] = {}
        self.follows: dict[LineRoot, Origins] = {}
        """What a root may come from after all, since the line reads what is not seen whole."""
        self.hidden: Origins = _NOTHING
        """Roots of which something may have gone where it is not seen."""
        self.values: dict[tuple[str, str], Origins] = {}
        """The origins of values that were seen to differ, by their digests in both runs."""
        self.named: dict[str, Origins] = {}
        """The origins of what a name, whoever holds it, was last seen to differ in."""
        self.trail: dict[LineRoot, dict[str, None]] = defaultdict(dict)
        self.imports: Origins = _NOTHING
        """Roots that import what draws."""
        self.imported: dict[str, LineRoot] = {}
        """These by the names that they bind."""
        self.makers: Origins = _NOTHING
        """Lines of a known kind that made something of which nothing is seen."""
        self.arguments: dict[LineRoot, str] = {}
        """Where a root's own call begins, which takes what it gives as an argument."""
        self.raising: Origins = _NOTHING
        """Roots that raise in one run alone."""
        self.given_at: dict[str, str] = {}
        """The last line of a root's statement, which stores what it gives."""
        self.seeds: set[LineRoot] = set()
        """Roots that seed a global generator."""
        self.seeding: set[str] = set()
        """All lines that do, roots or not."""
        self.stored: dict[str, Origins] = {}
        """The origins of names that bodies of modules and classes store, of which attributes may be read elsewhere."""
        self.threaded = {frame.process for run in (one, two) for frame in run.frames if frame.entered.thread}
        """Processes in which threads of the program's own run."""
        self.latest: Counter[tuple[str, int]] = Counter()
        """The next call after the last row of each process and thread."""
        self.done: dict[str, list[_Done]] = defaultdict(list)
        """All rows by process, as they ended."""
        self.reads: list[_Done] = []
        """Those that made calls."""
        self.elsewhere: dict[LineRoot, set[str]] = {}
        """Roots in other threads and processes, and the lines at which these were forked."""
        self.opaque: dict[LineRoot, str] = {}
        """What a root reads of which no value shows, and the line that gave it."""
        self.takers_of: dict[LineRoot, dict[str, None]] = defaultdict(dict)
        """By root that filled something of which no value shows: the lines that read it."""
        self.frames: dict[LineRoot, LineFrame] = {}
        """Where each root was met first."""
        self.choosers: Origins = _NOTHING
        """Lines that choose by a hash or an address."""
        self.blind: set[LineRoot] = set()
        """Roots that read something that is not seen whole."""
        self.in_threads: set[LineRoot] = set()
        """Those that another thread than the first executes."""
        self.generators: dict[LineRoot, str] = {}
        """Those that give a generator which was not there before, and their rows in the table of sources."""
        self.timed: dict[LineRoot, str] = {}
        """Lines that decide by the clock, and their rows in the table of sources."""
        self.takers: set[LineRoot] = set()
        """Roots that may merely take what others give: these come first."""
        self.answers: dict[LineRoot, None] = {}
        """Those of what tasks of theirs return."""
        self.handed: set[LineRoot] = set()
        """Those of which threads take, and make, the same in both runs, whichever does."""
        self.orders: set[LineRoot] = set()
        """Those that change what threads share: its order hangs on who is faster."""
        self.races: Origins = _NOTHING
        """Of these, those that write a tensor or a module which other threads read."""
        self.open: set[str] = set()
        """Lines at which more may enter than they read, unless they are roots."""
        self.own = {"__main__", *(Path(frame.code.file).stem for frame in one.frames)}
        """The names of the program's own modules."""
        self.alike, self.drawers, self.givers = _of_threads(one, two)
        self.writers = {process: _writer(one, process) for process in self.threaded}
        self.common = _states(one, self.threaded) & _states(two, self.threaded)
        """Processes in which threads run, names and states of global generators that both runs have."""
        _pair(one, two, self.alike)
        for frame, record in one.events:
            if isinstance(record, Continued):
                self._continue(frame, record)
            elif isinstance(record, Entered):
                self._enter(frame, record)
            else:
                self._row(frame, record)
        for frame in one.frames:
            self._only_second(frame, len(frame.pair.rows) if frame.pair is not None else 0)

    # --- the walk ---

    def _enter(self, frame: LineFrame, entered: Entered) -> None:
        if frame.code.function == "<module>":
            self.modules.setdefault((frame.process, frame.code.file), frame)
        parent, pair = frame.parent, frame.pair
        frame.last = frame.code.first
        own = self.one.text(frame, frame.code.first)
        frame.is_body = frame.code.function == "<module>" or "__qualname__" in own.stores
        text = LineText() if parent is None else self.one.statement(parent, entered.parent_line)
        frame.state.update(values_of(entered.changed))
        if pair is None:
            if parent is not None and entered.count <= SAMPLED_FROM:
                line, n = entered.parent_line, entered.parent_n
                found = parent.given or (self._signals(parent, line, n) if entered.answers_signal else _NOTHING)
                if not found and not self._is_alike(frame, 0, ""):
                    found = self._inside(parent, entered.parent_line) or self._branch(parent, own)
                self._generators(frame, entered.changed, {}, text, (parent, entered.parent_line), found)
                frame.given = found
                frame.differing = dict.fromkeys(frame.state, found)
            return
        other = pair.entered
        pair.state.update(values_of(other.changed))
        at = (frame, frame.code.first) if parent is None else (parent, entered.parent_line)
        drawn = self._generators(frame, entered.changed, other.changed, text, at)
        for name in sorted({*frame.state, *pair.state}):
            digests = frame.state.get(name), pair.state.get(name)
            if digests[0] == digests[1] or NO_DIGEST in digests:
                continue
            found, is_new = self._static(frame, name), False
            if not found and name.startswith(f"{ENVIRONMENT}.") and not (found := self._known(frame, name)):
                continue  # set where no line is followed: the line that reads it is named
            if not found:
                known = self._known(frame, name)
                key = frame.code.file, frame.code.function.rpartition(".")[0], name
                is_kept = self.kept.get(key) == digests[0]
                found = known | (_NOTHING if parent is None else self._given(parent, text, name, is_kept=is_kept))
                if not is_kept:
                    found |= drawn
                    is_new = not known and self._brings_in(text, frame)
                elif not found:  # it is as an object held it, of whose methods none runs where the runs are cut
                    found = self._root(LineKind.STATE, frame, frame.code.first, frame, name, of=name)
            if not found and entered.answers_signal:
                found, is_new = self._timer(frame), False
            if not found and self._may_share(frame, name):
                frame.differing[name] = self._of_others(frame, name)
                continue
            if parent is not None and (is_new or not found):
                unseen = self._unseen(parent, text) | parent.beside
                line = self._line_in(parent, entered.parent_line, text)
                new = self._root(LineKind.LINE, parent, line, frame, name, unseen=unseen)
                # A comprehension that gives a call its variable goes on by its own.
                is_part = parent.code.function.endswith(">") and not {*text.stores}.isdisjoint(text.reads)
                for root in new if parent.is_body or not is_part else ():
                    self.arguments.setdefault(root, f"{frame.code.file}:{frame.code.first}{ARGUMENTS}")
                found |= new
            elif self._may_bring_in(text, frame, [name]):
                frame.open.add(name.partition(".")[0])
            frame.differing[name] = found or self._root(LineKind.LINE, frame, frame.code.first, frame, name)
            self._note(frame, name, frame.differing[name])
        if parent is not None and ".0" in frame.state and (read := self._reads(parent, text) | parent.returned):
            frame.differing[".0"] = read  # a comprehension iterates what its line reads
        if parent is not None and (unseen := drawn | parent.beside | self._unseen(parent, text)):
            frame.unseen = {name: unseen for name, digest in frame.state.items() if digest.endswith(NO_DIGEST)}
        if parent is not None and (filled := self._filled(parent, text)):
            frame.filled = {name: filled for name, digest in frame.state.items() if digest == NO_DIGEST}

    def _signals(self, frame: LineFrame, line: int, n: int) -> Origins:
        """The origins of a signal that interrupts an execution of a line: the line that sets when it comes, or else its
        handler."""
        ours = self.one.interrupted.get((id(frame), line, n))
        others = None if frame.pair is None else self.two.interrupted.get((id(frame.pair), line, n))
        if (handler := ours or others) is None:
            return _NOTHING
        return self._timer(frame) or self._root(LineKind.LINE, handler, handler.code.first, handler)

    def _timer(self, frame: LineFrame) -> Origins:
        """The last line that set when a signal comes."""
        done = reversed(self.done[frame.process])
        timers = (row for row in done if (source := _source_of(row.text)) is not None and source.id == _TIMEOUT)
        timer = next((row for row in timers if any(call.startswith("signal.") for call in row.text.calls)), None)
        return _NOTHING if timer is None else self._root(LineKind.LINE, timer.frame, timer.line, timer.frame)

    @cached_property
    def _handled(self) -> set[str]:
        """What handlers of signals store, wherever they come: names and attributes, or what a method may change."""
        texts = [text for key, text in self.one.texts.items() if key[:-1] in self.one.handlers]
        stored = {path.rpartition(".")[2] for text in texts for path in text.stores}
        if stored:
            return stored
        owners = (path.rpartition(".")[0] for text in texts for path in text.reads)
        return {owner.rpartition(".")[2] for owner in owners} - {"", "self"}

    def _may_bring_in(self, text: LineText, frame: LineFrame, names: Iterable[str]) -> bool:
        """Return whether more may enter at a line than it reads: a library may make what it gives, new as that is."""
        is_asked = self._asks_library(text.calls) or _source_of(text) is not None
        return is_asked and not all(digests_of(frame, name) in self.values for name in names)

    def _asks_library(self, calls: Iterable[str]) -> bool:
        """Return whether one of ``calls`` is of neither the program's own nor of what merely follows."""
        others = (call for call in calls if "." in call and call[0] != "?" and not FOLLOWS.match(call))
        return any(self.own.isdisjoint(call.removesuffix(" object").split(".")) for call in others)

    def _brings_in(self, text: LineText, frame: LineFrame) -> bool:
        """Return whether a line that makes a call, or a library that it asks for one, gives it something of its own."""
        row, names = _source_of(text), frame.code.function.split(".")
        is_asked = any(call.rpartition(".")[2] in names for call in text.calls)
        return row is not None and (row.varies or not (row.waits or is_asked))

    def _continue(self, frame: LineFrame, continued: Continued) -> None:
        """A call that ran already where both runs were cut: whatever differs in it is a state that differs."""
        pair = frame.pair
        frame.is_body = frame.code.function == "<module>"
        if frame.is_body:
            self.modules.setdefault((frame.process, frame.code.file), frame)
        frame.last = frame.code.first
        if not continued.parent_n:  # a generator that waits
            at = (frame, frame.code.first) if frame.parent is None else (frame.parent, continued.parent_line)
            frame.given = self._root(LineKind.STATE, *at, frame, of=f"{frame.code.function}{ARGUMENTS}")
        if pair is None:
            return
        for name in sorted({*continued.changed, *pair.entered.changed}):
            digests = continued.changed.get(name, ""), pair.entered.changed.get(name, "")
            differs = digests[0] != digests[1] and NO_DIGEST not in digests
            if name.startswith(GENERATOR):
                key, self.states[frame.process, name] = (frame.process, name), digests
                if differs:
                    self.unseeded[key] = self._root(LineKind.STATE, frame, frame.code.first, frame, of=name)
                continue
            frame.state[name], pair.state[name] = digests
            if differs:
                state = self._root(LineKind.STATE, frame, frame.code.first, frame, name, of=name)
                frame.differing[name] = state
                self._note(frame, name, state)

    def _of_others(self, frame: LineFrame, name: str) -> Origins:
        """The origins of what another thread has changed: of all that differs there, or the line that gave it."""
        digest, of = frame.state.get(name, ""), (frame.process, name.rpartition(".")[2])
        given = self.givers.get(of, {})
        if len(given) == 1:
            ((giving, _),) = given.values()
            differing = giving.differing.items()  # nothing where it is the same, and the reader asks when that was
            return _NOTHING.union(*(found for path, found in differing if path.rpartition(".")[2] == of[1]))
        giver = (writer := self._writer_of(frame, name)) or given.get(digest)
        is_own = giver is None or len(digest) <= _SHORT or giver[0].entered.thread == frame.entered.thread
        if giver is None or (writer is None and (is_own or self.elsewhere)):
            return frozenset(self.orders.union(self.elsewhere))
        self.orders |= (found := self._root(LineKind.LINE, *giver, giver[0]))
        self.races |= _NOTHING if writer is None else found
        return found

    def _writer_of(self, frame: LineFrame, name: str) -> _Place | None:
        """The line at which threads write a tensor or a module that ``name`` holds, as others do."""
        return self.writers.get(frame.process) if frame.state.get(name, "").startswith(("t", "m")) else None

    def _may_share(self, frame: LineFrame, name: str) -> bool:
        """Return whether another thread may have changed what a call is given: in an object, or a closure's."""
        if frame.process not in self.threaded or "." in name or self._writer_of(frame, name):
            return frame.process in self.threaded
        around = frame.code.function.rpartition(".<locals>.")[0]
        return any(name in each.state for each in self.one.frames if each.code.function == around)

    def _given(self, parent: LineFrame, text: LineText, name: str, *, is_kept: bool = False) -> Origins:
        """The origins of a parameter: of what the caller's line reads, that of the same attribute if it is one.

        ``is_kept``: an object has it that held it before, so that no call has given it since.
        """
        attribute = name.partition(".")[2]
        origins: dict[str, Origins] = {}
        for path in (*text.reads, *(stored.rpartition(".")[0] for stored in text.stores)):  # a setter's object
            origins |= self._differing(parent, path)
        if attribute and (same := [found for path, found in origins.items() if path.endswith(f".{attribute}")]):
            return _NOTHING.union(*same)
        return _NOTHING.union(*origins.values(), () if is_kept else parent.returned)

    def _row(self, frame: LineFrame, row: LineRow) -> None:
        frame.at += 1
        if is_resumed := frame.is_suspended:  # what was called meanwhile is of others
            frame.call = max(frame.call, self.latest[frame.process, frame.entered.thread])
        pair = frame.pair
        other = None if pair is None else self._partner(frame, pair, row)
        met = self._met(frame, row)
        if pair is None or other is None:
            self._in_one_run(met)
            return
        text, line = met.text, met.line
        drawn = self._generators(frame, row.changed, other.changed, text, (frame, line))
        if LineMark.IMPORTS in text.calls:
            own = (root for root in self.imports if root.location == met.location)
            self.imported |= {name: root for root in own for name in text.stores}
        begins = tuple(f"{path}." for path in (RETURNED, *text.stores))
        made = {
            name: name in frame.state or f"{name.removeprefix(GLOBAL)}.".startswith(begins)
            for name, digest in row.changed.items()
            if _beside_generators(digest) not in ("", _beside_generators(frame.state.get(name, "")))
        }
        changed = values_of(row.changed), values_of(other.changed)
        sides = (changed[0], frame.state), (changed[1], pair.state)
        in_both = frame.differing.keys() & changed[0].keys() & changed[1].keys()
        moved = {name for name in in_both if all(_only_draws(name, *side) for side in sides)}
        frame.state.update(changed[0])
        pair.state.update(changed[1])
        frame.last = line
        names = {name for side in changed for name in side}
        states = {name: (frame.state.get(name), pair.state.get(name)) for name in names}
        unequal = sorted(name for name, (one, two) in states.items() if one != two and NO_DIGEST not in (one, two))
        for name in names:
            frame.unseen.pop(name, None)
            if name not in unequal:
                frame.differing.pop(name, None)
        unequal = [name for name in unequal if name not in moved]  # it differs by what it did before
        for path in text.stores if row.files else ():
            frame.files[path.partition(".")[0]] = row.files
        if is_resumed or frame.process in self.threaded:  # what the line does not name, others may have changed
            self._leave_to_others(met, drawn, unequal, is_resumed=is_resumed)
        found = self._origins_of_names(met, drawn, unequal, made) if unequal else _NOTHING
        returns = row.returns and RETURNED in unequal
        fills = (found | frame.inside) - met.before - drawn
        if not unequal:  # temporary names of files that this run made, which no value shows
            listed = (file for file in row.files if file[1] <= 0)
            hidden = (self._writers(frame.process, *file, is_hidden=True) for file in listed)
            met = met._replace(unseen=met.unseen.union(*hidden))
        maker = self._maker(met, is_seen=bool(unequal))
        met = met._replace(unseen=met.unseen | maker)
        if met.is_over and not self.calls and not unequal:
            self._absorbs(met)
        self._ends(met, met.before | drawn | found, found, returns=returns)
        fills |= _NOTHING if unequal else maker
        for path in text.reads if fills else ():
            scope, related = self._found(frame, path)
            for name in related:
                if scope.state.get(name) == NO_DIGEST and f"{path}.".startswith(f"{name}."):
                    scope.filled[name] = scope.filled.get(name, _NOTHING) | fills

    def _met(self, frame: LineFrame, row: LineRow) -> _Met:
        """A row with what its line reads; where a function is left without a ``return``, with that of the last one."""
        is_over, line = id(row) not in self.one.unfinished, row.line
        text = self.one.statement(frame, line) if is_over else self.one.text(frame, line)
        before = self._reads(frame, text) | self._signals(frame, line, row.n)
        unseen = self._unseen(frame, text) | frame.beside
        if LineMark.CATCHES in text.calls:
            frame.leaving = None
        elif row.returns and frame.leaving is not None and LineMark.RETURNS not in text.calls:
            line, seen, hidden = frame.leaving
            text, before, unseen = self.one.statement(frame, line), before | seen, unseen | hidden
        if LineMark.ITERATES in text.calls:  # in later rounds too
            before = frame.iterated[line] = before | frame.returned | frame.iterated.get(line, _NOTHING)
        return _Met(frame, row, line, text, before, unseen, is_over)

    def _in_one_run(self, met: _Met) -> None:
        """A row that the second run has not."""
        frame, row, pair, changed = met.frame, met.row, met.frame.pair, values_of(met.row.changed)
        frame.state.update(changed)
        if self._is_alike(frame, row.line, ""):  # another thread did it in the other run
            found = self._shares(met, changed, met.before)
            differ = met.before | found
        elif pair is not None and not row.is_sampled and not self._is_left_out(frame, pair, row.line):
            differ = found = met.before | self._branch(frame, met.text)
        else:
            differ = found = frame.given
        frame.differing.update(dict.fromkeys(changed, differ) if differ else {})
        self._makes(met, changed, differ)
        self._generators(frame, row.changed, {}, met.text, (frame, met.line), found)
        self._ends(met, met.before | found, found)

    def _leave_to_others(self, met: _Met, drawn: Origins, unequal: list[str], *, is_resumed: bool) -> None:
        """Take from ``unequal`` the names that another thread, or what ran meanwhile, has changed."""
        frame, text = met.frame, met.text
        bound, is_explained = {*text.stores, RETURNED}, bool(met.before or drawn)
        given = [name for name in text.reads if is_plain(frame.state.get(name, ""))]
        given += [] if is_explained else [name for name in unequal if self._writer_of(frame, name)]
        for name in list(unequal) if not frame.inside else ():
            by_name = self.named.get(name.rpartition(".")[2], _NOTHING) if is_resumed else _NOTHING
            is_bound = name.removeprefix(GLOBAL) in bound
            is_others = not is_named(name, text) or (by_name and not (is_explained or is_bound))
            if is_others or (name in given and not is_bound and self._of_others(frame, name)):
                self._differ(frame, [name], self._known(frame, name) or by_name or self._of_others(frame, name))
                unequal.remove(name)

    def _origins_of_names(self, met: _Met, drawn: Origins, unequal: Sequence[str], made: Mapping[str, bool]) -> Origins:
        """The origins of names that differ after a row. ``made``: those that hold a generator of another kind than
        before, and whether the line stores it."""
        frame, row, text, before = met.frame, met.row, met.text, met.before
        bound = {path.partition(".")[0] for path in text.stores}
        static: dict[str, Origins] = {}
        for name in unequal:
            holder, _, attribute = name.partition(".")
            built = frame.built.get(attribute, _NOTHING) if holder in bound else _NOTHING
            if origins := self._static(frame, name) or built:
                static[name] = origins
        rest = [name for name in unequal if name not in static]
        is_alike = all(self._is_alike(frame, row.line, name) for name in rest)  # who is given it differs, at most
        found = before | drawn | frame.returned or frame.inside or self._of_calls(frame, row, rest)
        if not found and all(any(path.startswith(f"{name}.") for path in text.stores) for name in rest):
            found = _NOTHING.union(*(frame.differing.get(name, _NOTHING) for name in rest))  # as it did before
        if not found and not _hashes(_source_of(text)):
            found = _NOTHING.union(*(self._known(frame, name) for name in rest))
        if not found and self.one.handlers and self._is_handled(frame, text, rest):
            found = self._timer(frame)
        if not found and row.is_sampled:
            found = self._passed_over(frame, rest)
        if not found and rest and not is_alike:
            found = self._wrote(frame, row, text) or self._of_names(frame, text)
            found = found or self._takes(met) or self._raced(met)
        found |= self._shares(met, rest, found)
        takes = not frame.open.isdisjoint(path.partition(".")[0] for path in text.reads)
        if takes or self._may_bring_in(text, frame, rest):
            self.open.add(met.location)
        if rest and (not found or (not drawn and self._varies(text))):
            found |= self._new_root(met, rest, made, is_alike=is_alike)
        self._makes(met, rest, found)
        self._differ(frame, rest, found)
        self.named |= dict.fromkeys((name.rpartition(".")[2] for name in rest), found)
        if not frame.inside <= found:  # what a callee changed, it may have changed by what differs there alone
            inside = [name for name in rest if name.partition(".")[0] not in bound]
            self._differ(frame, inside, found | frame.inside)
        for name, origins in static.items():
            self._differ(frame, [name], origins)
        found = found.union(*static.values())
        for name in rest:
            self._note(frame, name, found)
        return found

    def _is_handled(self, frame: LineFrame, text: LineText, names: Iterable[str]) -> bool:
        """Return whether names differ by when a signal came: in its handler, or as this stores them."""
        is_inside = any(each.entered.answers_signal for each in outwards(frame))
        return is_inside or any(name.rpartition(".")[2] in self._handled and not is_named(name, text) for name in names)

    def _passed_over(self, frame: LineFrame, names: Sequence[str]) -> Origins:
        """The origins of what lines read that name what differs, and of which rows may have been left out: also of what
        a loop around them took in those rounds."""
        roots = {name.removeprefix(GLOBAL).partition(".")[0] for name in names}
        own = (text for key, text in self.one.texts.items() if key[:-1] == frame.key)
        named = [text for text in own if any(path.partition(".")[0] in roots for path in (*text.reads, *text.stores))]
        loops = {f"{frame.code.file}:{text.loop}" for text in named if text.loop}
        taken = frozenset(root for root in self.roots if root.location in loops)
        return taken.union(*(self._reads(frame, text) for text in named))

    def _new_root(self, met: _Met, names: Sequence[str], made: Mapping[str, bool], *, is_alike: bool) -> Origins:
        """A line as a root, of which ``names`` differ, and of what kind it is: by the generators that it makes, or as
        it meets what others give. ``is_alike``: threads were given the same in both runs."""
        frame, text, pair = met.frame, met.text, met.frame.pair
        at = self._storing(frame, met.row, names) if met.row.is_sampled else self._line_in(frame, met.line, text)
        named = [name for name in names if is_named(name, text)] or names  # others hold the same object
        root = self._root(LineKind.LINE, frame, at, frame, *named, unseen=met.unseen)
        sides = frame.state, {} if pair is None else pair.state
        same = (name for name in names if len({_beside_generators(side.get(name, "")) for side in sides}) == 1)
        if are_stored := [made[name] for name in same if name in made]:
            self.generators |= dict.fromkeys(root, _MAKES if any(are_stored) else _DRAWS)
        meets = not met.before and any(True for path in text.reads for _ in self._differing(frame, path))
        shared = [name for name in names if name not in text.stores and name != RETURNED]
        others = (((frame.process, name.rpartition(".")[2]), digests_of(frame, name)) for name in shared)
        # A thread draws from a generator that comes into the same states in both runs.
        is_drawn = any(both[1] in self.givers.get(of, {}) and both[1].startswith(OWN) for of, both in others if both)
        if is_drawn or (meets and shared == names and _source_of(text) is None):
            self.orders |= root
        elif meets:
            self.generators |= dict.fromkeys(root, _POLL)
        self.handed |= root - self.orders if is_alike else _NOTHING
        self.given_at.setdefault(f"{frame.code.file}:{at}", met.location)
        return root

    def _maker(self, met: _Met, *, is_seen: bool) -> Origins:
        """A line of a known kind that made something of which nothing is seen, or of which no difference ``is_seen``;
        none for others."""
        frame, text = met.frame, met.text
        source = _source_of(text) if met.is_over else None
        stored = (frame.state.get(prefix + path) for path in text.stores for prefix in ("", GLOBAL))
        given = [*filter(None, (*stored, met.row.changed.get(RETURNED)))]
        is_opaque = source is not None and NO_DIGEST in given
        chooses = _hashes(source) and not all(is_plain(digest) or digest[:1] == "s" for digest in given)
        if not (is_opaque or (source is not None and (source.varies or chooses) and not is_seen)):
            return _NOTHING
        made_at = self._line_in(frame, met.line, text)
        maker = frozenset({self._named(LineKind.LINE, frame, made_at)})
        related = (self._found(frame, path) for path in text.stores)
        kept = (scope.state.get(name, "") for scope, names in related for name in names)
        if self._varies(text) and any(digest.endswith(NO_DIGEST) and digest[:1] != "s" for digest in kept):
            self.given_at.setdefault(f"{frame.code.file}:{made_at}", met.location)
        self.makers |= maker if is_opaque else _NOTHING
        self.choosers |= maker if chooses else _NOTHING
        return maker

    def _makes(self, met: _Met, names: Iterable[str], found: Origins) -> None:
        """Note that a thread makes something else of what differs by ``found`` than all threads did together."""
        own = (name for name in names if name in met.text.stores or name == RETURNED)
        if met.frame.entered.thread and not all(self._is_alike(met.frame, met.row.line, name) for name in own):
            self.handed -= found

    def _is_alike(self, frame: LineFrame, line: int, name: str) -> bool:
        """Return whether threads were given the same there in both runs, whichever of them was."""
        return bool(frame.entered.thread) and (frame.process, frame.key, line, name) in self.alike

    def _shares(self, met: _Met, names: Iterable[str], found: Origins) -> Origins:
        """A line of a thread as a root, if it changes what others change too, and adds what is the same in both runs.

        It stores no name, but asks an object for something that is Python's own.
        """
        frame, line, text = met.frame, met.line, met.text
        shared = [name for name in names if name not in text.stores and name != RETURNED and is_named(name, text)]
        shared = [name for name in shared if not self._is_alike(frame, line, name)]
        is_pythons = all(call.startswith("builtins.") for call in text.calls if "." in call)
        if (
            not frame.entered.thread
            or not shared
            or not is_pythons
            or not found <= self.handed | self.orders - self.races
        ):
            return _NOTHING
        root = self._root(LineKind.LINE, frame, line, frame, *shared, unseen=met.unseen)
        self.orders |= root
        return root

    def _absorbs(self, met: _Met) -> None:
        """Note a line that makes the same of two readings of the clock, waits no longer than a timeout, asks how far
        others are, or takes what they give as it comes: a faster or slower run may get another value, or raise."""
        frame, text = met.frame, met.text
        if "builtins.print" in text.calls and not text.stores and all(map(_is_telling, text.calls)):
            return
        own, decides = _source_of(text), LineMark.DECIDES in text.calls
        kind = _TIMEOUT if any(map(self._limits, text.calls)) else "" if own is None else own.id
        if kind in OF_ORDER:
            is_order = (kind == _AS_DONE or _is_of_queue(text, "get")) and _ORDERLESS.isdisjoint(text.calls)
            kind = kind if is_order else ""
        elif kind not in (_TIMEOUT, _POLL):
            roots = met.before | frame.returned if decides or not self._is_told(frame, text, kind) else _NOTHING
            rows = [own if decides else None, *map(self._row_of_table, roots)]
            kind = CLOCK if any(row is not None and row.id == CLOCK for row in rows) else ""
        is_at_once = any(call.endswith("_nowait") for call in text.calls)
        answers = decides or text.stores or LineMark.RETURNS in text.calls or is_at_once
        if kind and (answers or kind in (_TIMEOUT, _AS_DONE)):
            self.timed.setdefault(self._named(LineKind.LINE, frame, met.line), kind)

    def _is_timed(self, root: LineRoot, kind: str) -> bool:
        """Return whether a line that was noted may give another value after all: not an order that was another one in
        these runs, or that of a queue with one who puts."""
        if kind not in OF_ORDER or root in self.roots:
            return kind not in OF_ORDER
        rows = ((frame, row.line) for frame in self.one.frames for row in frame.rows)
        puts = (frame for frame, line in rows if _is_of_queue(self.one.text(frame, line), "put", "put_nowait"))
        return kind == _AS_DONE or len({(frame.process, frame.entered.thread) for frame in puts}) > 1

    def _timed(self, root: LineRoot, kind: str) -> LineSource:
        """A line that was noted, and where what it gives can be held: there or, for what it returns, in its callers;
        for a signal, where what its handler leaves is read."""
        calls, places, above = self._calls_of(root), [root.location], self.callers.get(root)
        while above is not None and LineMark.RETURNS in calls and len(places) <= _MOST_CALLERS:
            frame, line = above
            calls = self.one.statement(frame, line).calls
            places.append(f"{frame.code.file}:{line}")
            above = None if frame.parent is None else (frame.parent, frame.entered.parent_line)
        source = self._source(root, root, None)
        places = [source.held_at] if source.held_at in self._answered(root) else places
        decides = LineMark.DECIDES in self._calls_of(root) or kind == _TIMEOUT
        return replace(
            source,
            kind=LineKind.BRANCH if decides and places[0] == root.location else LineKind.LINE,
            source=kind,
            held_at=places[0] if LineMark.RETURNS not in self._calls_of(root) else places[-1],
            path=tuple(places),
        )

    def _answered(self, root: LineRoot) -> list[str]:
        """Of a line that sets a signal: the lines that read what handlers store, those that decide by it first."""
        handlers, stored = self.one.handlers, self._handled
        if not stored or not any(call.startswith("signal.") for call in self._calls_of(root)):
            return []
        readers = {
            f"{key[0]}:{key[-1]}": LineMark.DECIDES in text.calls
            for key, text in self.one.texts.items()
            if key[:-1] not in handlers
            and not stored.isdisjoint(part for path in text.reads for part in path.split("."))
        }
        return sorted(readers, key=lambda at: not readers[at])

    def _limits(self, call: str) -> bool:
        """Return whether it is the mark of a call that waits for a timeout and no longer.

        One of the program's own hands it on, and one that makes an object keeps it.
        """
        if call.endswith(LineMark.MAYBE):
            row = source_of((call.removesuffix(LineMark.MAYBE),))
            return row is not None and row.waits and not row.is_order  # which takes what it waits for by its place
        path = call.removesuffix(LineMark.TIMEOUT).split(".")
        is_kept = path[0] == "builtins" or path[-1][:1].isupper() or not self.own.isdisjoint(path)
        return call.endswith(LineMark.TIMEOUT) and not is_kept

    def _is_told(self, frame: LineFrame, text: LineText, kind: str) -> bool:
        """Return whether a line stores nothing but a text of what it reads, or what such a text opens: no decision."""
        read = (frame.state.get(name, "") for path in text.reads for name in self._differing(frame, path))
        is_of_text = LineMark.FORMATS in text.calls or kind == "file" or all(digest.startswith("s") for digest in read)
        stored = (frame.state.get(path) or frame.state.get(GLOBAL + path, NO_DIGEST) for path in text.stores)
        return all(digest.startswith("s") or (is_of_text and digest.endswith(NO_DIGEST)) for digest in stored)

    def _line_in(self, frame: LineFrame, line: int, text: LineText) -> int:
        """The line of a statement that makes a call of a known kind, the first where several do; else ``line``."""
        source, lines = _source_of(text), self.one.lines.get((*frame.key, text.first), ())
        rows = (_source_of(self.one.text(frame, each)) for each in lines)
        if text.first in lines and len({row.id for row in rows if row is not None and row.varies}) > 1:
            return text.first
        is_made_at = (each for each in lines if source and _source_of(self.one.text(frame, each)) == source)
        return next(is_made_at, line)

    def _of_names(self, frame: LineFrame, text: LineText) -> Origins:
        """The lines that made temporary names of which texts that a line reads are made: equal but for these."""
        related = (self._found(frame, path) for path in text.reads)
        spelt = ((scope, name) for scope, names in related for name in names if scope.state.get(name, "")[:1] == "s")
        found = _NOTHING.union(*(scope.unseen.get(name, _NOTHING) for scope, name in spelt))
        made = frozenset(root for root in found if (row := self._row_of_table(root)) is not None and row.varies)
        return self._as_roots(made)

    def _filled(self, frame: LineFrame, text: LineText) -> Origins:
        """The roots that asked something of which nothing is seen and which a line reads."""
        found = (self._found(frame, path) for path in text.reads)
        return _NOTHING.union(*(scope.filled.get(name, _NOTHING) for scope, names in found for name in names))

    def _takes(self, met: _Met) -> Origins:
        """The roots that filled what a line reads and is not seen, unless it takes what others give as it comes."""
        row = _source_of(met.text)
        if row is not None and (row.waits or row.is_order or row.varies):
            return _NOTHING
        filled = self._as_roots(self._filled(met.frame, met.text))
        for root in filled:
            self.takers_of[root].setdefault(met.location)
        self.open |= {met.location} if filled else set()
        return filled

    def _raced(self, met: _Met) -> Origins:
        """The line at which another thread writes at the time what a line reads, which need not show after it."""
        related = (self._found(met.frame, path) for path in met.text.reads)
        writers = (self._writer_of(scope, name) for scope, names in related for name in names)
        writer = next(filter(None, writers), None)
        if writer is None or writer[0].entered.thread == met.frame.entered.thread or _source_of(met.text) is not None:
            return _NOTHING
        times = [each.ended for each in writer[0].rows if each.line == writer[1]]
        if not min(times) - _TICK <= met.row.ended <= max(times) + _TICK:
            return _NOTHING
        self.orders |= (found := self._root(LineKind.LINE, *writer, writer[0]))
        self.races |= found
        return found

    def _as_roots(self, named: Origins) -> Origins:
        """``named`` as roots, where they were but met so far."""
        every = ((self.frames[root], root) for root in named)
        return _NOTHING.union(
            *(self._root(root.kind, at, root.line, at, generator=root.generator) for at, root in every)
        )

    def _wrote(self, frame: LineFrame, row: LineRow, text: LineText) -> Origins:
        """The origins of files that a line reads, or one that called it, and that this run wrote; none for others."""
        files, above, line = list(row.files), frame, row.line
        while not files and not self._varies(text):
            text = self.one.text(above, line)
            names = {path.partition(".")[0] for path in (*text.reads, *text.stores)}
            read = (file for name in sorted(names) for file in above.files.get(name, ()))
            files = [file for file in read if file[1] > 0 or above is frame]  # names that callers listed differ there
            if above.parent is None:
                break
            above, line = above.parent, above.entered.parent_line
        return _NOTHING.union(*(self._writers(frame.process, *file) for file in files))

    def _writers(self, process: str, opened: int, written: int, *, is_hidden: bool = False) -> Origins:
        """The origins of what was written into a file in the meantime; the line that wrote it, where none is seen.
        ``is_hidden``: the names that a listing shows agree, so that a temporary one alone can be another."""
        rows = self.done[process]
        first = bisect_left(rows, opened or written, key=lambda row: row.at)
        last = bisect_left(rows, max(opened, written) + _TICK, key=lambda row: row.at)
        found = rows[first : last + 1]
        if written <= 0 and found:  # it is only listed
            near = found if written else found[:1]  # by the file's own time, it was made at one of these
            for made in near if not any(each.origins for each in near) else ():
                source = _source_of(made.text)
                if source is not None and (source.id == "temporary-name" if is_hidden else source.varies):
                    return self._root(LineKind.LINE, made.frame, made.line, made.frame)
            return _NOTHING if is_hidden else _NOTHING.union(*(each.origins for each in near))
        if opened and found:  # by lines that read what was opened
            opener = found[0]
            handles = {path.partition(".")[0] for path in opener.text.stores}
            using = [row for row in found if handles.intersection(path.partition(".")[0] for path in row.text.reads)]
            found = [row for row in using if (row.frame, row.line) != (opener.frame, opener.line)] or [opener]
            if (of := _source_of(opener.text)) is not None and of.id == "temporary-name":
                found = [opener, *found]
        origins = _NOTHING.union(*(row.origins for row in found))
        if origins or not found:
            return origins
        known = [row for row in found if (of := _source_of(row.text)) is not None and of.id != "file"]
        row = (known or found)[0]
        return self._root(LineKind.LINE, row.frame, row.line, row.frame, RETURNED, unseen=row.unseen)

    def _of_calls(self, frame: LineFrame, row: LineRow, names: Iterable[str]) -> Origins:
        """The origins of tensors that a line's calls changed, where those merely follow from earlier ones."""
        made = range(max(frame.call, 0), row.call)
        changed = [name for name in names if name != RETURNED] or names  # what it returns follows from the rest
        is_of_tensors = all(frame.state.get(name, "t")[0] in "tmh[{" for name in changed)
        if not made or frame.process or not is_of_tensors or any(call in made for call in self.calls):
            return _NOTHING
        return _NOTHING.union(*(self._origins_of(call) for call in self.calls if call < made.start))

    def _ends(self, met: _Met, read: Origins, found: Origins, *, returns: bool = False) -> None:
        """A row was compared: ``read`` are the origins of what it read, ``found`` those of what it changed."""
        frame, row, line, text, _, unseen, is_over = met
        read |= frame.returned
        frame.decides = read | found or frame.inside, unseen
        every = read | found | frame.inside | unseen
        if LineMark.RETURNS in text.calls and is_over:
            frame.leaving = line, read, unseen
        done = _Done(row.ended, range(frame.call, row.call), frame, line, text, read, unseen)
        self.done[frame.process].append(done)
        if row.call > frame.call >= 0 and not frame.process:
            self.reads.append(done)
        carried = self._carry(frame, text, every, met.location)
        if carried or not text.stores:
            self.hidden |= every
        for root in found | carried:
            self.trail[root].setdefault(met.location)
            if (frame.process or frame.entered.thread) and root in found:
                task = next(filter(_is_task, outwards(frame)), frame)
                started = "" if task.parent is None else f"{task.parent.code.file}:{task.entered.parent_line}"
                self.elsewhere.setdefault(root, set()).add(started)
                if returns and _is_task(frame):
                    self.answers.setdefault(root)
        self.latest[frame.process, frame.entered.thread] = row.call
        if frame.code.function.endswith(">") and not frame.is_body:  # a comprehension gathers what it calls gives
            frame.returned |= read | found | frame.inside
        else:
            frame.returned = _NOTHING if is_over else frame.returned | read | found
        frame.call, frame.inside, frame.built, frame.is_suspended = row.call, _NOTHING, {}, row.returns
        if text.stores and is_over:
            frame.beside = _NOTHING
        if frame.parent is not None:
            frame.parent.inside |= found
            frame.parent.beside |= every
            if returns:
                frame.parent.returned |= found
            if row.returns and frame.code.function.endswith(".__init__"):
                own = ((name.partition("."), origins) for name, origins in frame.differing.items())
                frame.parent.built = {path[2]: origins for path, origins in own if path[0] == "self"}

    def _carry(self, frame: LineFrame, text: LineText, every: Origins, location: str) -> Origins:
        """Note what names of which not all is seen may hold after a line; return what they take."""
        taken = _NOTHING
        for path in text.stores:
            scope, names = self._found(frame, path)
            if path not in names and not names:  # a function, a class: none of it is seen
                names = [path]
            for name in names:
                if name in scope.differing or (name in scope.state and not scope.state[name].endswith(NO_DIGEST)):
                    continue
                scope.unseen.pop(name, None)
                scope.filled.pop(name, None)
                scope.made[name] = location
                if every:
                    scope.unseen[name] = taken = every
        for path in text.reads if every else ():
            scope, names = self._found(frame, path)
            for name in names:
                if name not in scope.differing and scope.state.get(name, "").endswith(NO_DIGEST):
                    scope.unseen[name] = scope.unseen.get(name, _NOTHING) | every
                    taken = every
        return taken

    def _differ(self, frame: LineFrame, names: Iterable[str], found: Origins) -> None:
        for name in names:
            if name == RETURNED:
                continue
            module = self.modules.get((frame.process, frame.code.file)) if name.startswith(GLOBAL) else None
            if module is not None:
                module.differing[name.removeprefix(GLOBAL)] = found
            frame.differing[name] = found
            if frame.is_body:
                self.stored[name] = found

    def _static(self, frame: LineFrame, name: str) -> Origins:
        """The origins of an attribute that a module or a class holds: those of the name that its body stored."""
        is_static = frame.state.get(name, "").startswith(STATIC)
        return self.stored.get(name.rpartition(".")[2], _NOTHING) if is_static else _NOTHING

    def _partner(self, frame: LineFrame, pair: LineFrame, row: LineRow) -> LineRow | None:
        """The row of the second run for this one; what only the second run executed before it is taken in."""
        place = pair.places.get(frame.keys[frame.at - 1], -1)
        if place < 0 and (frame.is_thinned or pair.is_thinned):
            place = pair.places.get((row.line, row.n), -1)
        if place < frame.next:
            return None
        self._only_second(frame, place)
        frame.next = place + 1
        return pair.rows[place]

    def _only_second(self, frame: LineFrame, until: int) -> None:
        pair = frame.pair
        if pair is None:
            return
        for row in pair.rows[frame.next : until]:
            pair.state.update(values_of(row.changed))
            if not row.is_sampled and not self._is_left_out(pair, frame, row.line):
                text = self.two.text(pair, row.line)
                self._differ(frame, values_of(row.changed), found := self._branch(frame, text))
                self._generators(frame, {}, row.changed, text, (frame, row.line), found)
        frame.next = max(frame.next, until)

    def _is_left_out(self, frame: LineFrame, pair: LineFrame, line: int) -> bool:
        """Return whether ``pair`` may lack rows because its worker had done other tasks than that of ``frame``."""
        is_elsewhere = bool(frame.process or frame.entered.thread)
        is_full = any((pair.process, pair.key, line) in run.full for run in (self.one, self.two))
        return is_elsewhere and (is_full or not pair.rows or any(row.is_sampled for row in pair.rows))

    def _branch(self, frame: LineFrame, text: LineText) -> Origins:
        """The origins of what only one run executes, ``text`` first, after the last line that both do."""
        seen, unseen = frame.decides
        found, last = frame.given or seen | frame.returned, self.one.statement(frame, frame.last)
        if not found or self._varies(last):
            known = len(self.roots)
            root = self._root(LineKind.BRANCH, frame, self._line_in(frame, frame.last, last), frame, unseen=unseen)
            is_new = len(self.roots) > known
            if is_new and not found and any(True for path in last.reads for _ in self._differing(frame, path)):
                self.generators |= dict.fromkeys(root, _POLL)
            found |= root
        if LineMark.CATCHES in text.calls:
            self.raising |= found
        return found

    def _inside(self, frame: LineFrame, line: int) -> Origins:
        """The origins of a call that only one run makes inside a line which both execute; none where it is not so."""
        place, pair = frame.at, frame.pair
        is_met = pair is not None and place < len(frame.rows) and frame.rows[place].line == line
        if pair is None or not is_met or pair.places.get(frame.keys[place], -1) < frame.next:
            return _NOTHING
        text = self.one.statement(frame, line)
        found = self._reads(frame, text) | frame.returned
        return found or self._root(LineKind.BRANCH, frame, line, frame, unseen=self._unseen(frame, text))

    # --- what a line reads ---

    def _reads(self, frame: LineFrame, text: LineText) -> Origins:
        return _NOTHING.union(*(found for path in text.reads for found in self._differing(frame, path).values()))

    def _differing(self, frame: LineFrame, path: str) -> dict[str, Origins]:
        """What differs of a path."""
        scope, names = self._found(frame, path)
        return {name: scope.differing[name] for name in names if name in scope.differing}

    def _unseen(self, frame: LineFrame, text: LineText) -> Origins:
        """The origins of what a line may read without being seen to."""
        found = (self._found(frame, path) for path in text.reads)
        return _NOTHING.union(*(scope.unseen.get(name, _NOTHING) for scope, names in found for name in names))

    def _found(self, frame: LineFrame, path: str) -> tuple[LineFrame, list[str]]:
        """The names of a path: it, an attribute of it, what it is an attribute of, or all of whose method it is."""
        module = self.modules.get((frame.process, frame.code.file))
        for scope in (frame, *([module] if module is not None and module is not frame else [])):
            inside = path
            while inside:
                names = {**scope.state, **scope.unseen, **scope.differing}
                related = [name for name in names if name == inside or name.startswith(f"{inside}.")]
                if related:
                    return scope, related
                inside = inside.rpartition(".")[0]
        return frame, []

    def _note(self, frame: LineFrame, name: str, found: Origins) -> None:
        """Note the origins of a value that differs, by which it is known wherever it is met again."""
        if (key := digests_of(frame, name)) is not None:
            self.values.setdefault(key, frame.differing.get(name, found))

    def _known(self, frame: LineFrame, name: str) -> Origins:
        """The origins of a value that was seen to differ before, under whatever name."""
        key = digests_of(frame, name)
        return _NOTHING if key is None else self.values.get(key, _NOTHING)

    def _varies(self, text: LineText) -> bool:
        row = _source_of(text)
        return row is not None and row.varies

    def _storing(self, frame: LineFrame, row: LineRow, names: Sequence[str]) -> int:
        """The line that stores one of ``names``, where several were executed since the last row."""
        roots = {name.removeprefix(GLOBAL) for name in names}
        own = ((key[-1], text) for key, text in self.one.texts.items() if key[:-1] == frame.key)
        lines = [line for line, text in own if roots.intersection(text.stores)]
        return row.line if row.line in lines or not lines else lines[-1]

    # --- generators ---

    def _generators(
        self,
        frame: LineFrame,
        ours: _Changed,
        theirs: _Changed,
        text: LineText,
        place: _Place,
        given: Origins = _NOTHING,
    ) -> Origins:
        """Follow the states of global generators; return the origins of what a row draws from those that differ.

        ``given``: why only one run executes it.
        """
        drawn, (at, line) = _NOTHING, place
        for name in sorted({*ours, *theirs}):
            if not name.startswith(GENERATOR):
                continue
            key, generator = (frame.process, name), name.removeprefix(GENERATOR)
            before = self.states.get(key)
            olds = before or ("", "")
            now = self.states[key] = ours.get(name, olds[0]), theirs.get(name, olds[1])
            if key not in self.drawers and self.common.issuperset((*key, state) for state in now):
                continue  # another thread is but the first to see a draw
            if now[0] == now[1]:
                self.unseeded.pop(key, None)
            elif before is None or "" in before:  # as the interpreter, or an import, made it; or it was seeded at once
                is_fresh = all(was_seeded("", state) for state in now if state)
                self.unseeded[key] = self._reads(at, text) if is_fresh else _NOTHING
                others = {one for process, one in self.states if process == frame.process} - {*ours, *theirs}
                if before is not None or not others or LineMark.IMPORTS in text.calls:
                    continue
                if not is_fresh:  # its first draw loads it
                    drawn |= self._root(LineKind.DRAW, at, line, frame, generator=generator)
                elif not self.unseeded[key] and any(call.endswith(".seed") for call in text.calls):
                    self.unseeded[key] = self._root(LineKind.LINE, at, line, frame, name)
            elif before[0] == before[1] or _is_seeding(before, now, text):
                found = self._reads(at, text) | at.returned | given
                if not found and key in self.drawers and not _is_seeding(before, now, text):
                    drawer = self.drawers[key]
                    self.orders |= (found := self._root(LineKind.LINE, *drawer, drawer[0], generator=generator))
                self.unseeded[key] = found or self._root(LineKind.LINE, at, line, frame, name)
                self.seeding.add(f"{at.code.file}:{line}")
                for root in found:
                    self.trail[root].setdefault(f"{at.code.file}:{line}")
            elif LineMark.IMPORTS in text.calls and not self.unseeded.get(key):  # it reaches the library's readers
                self.imports |= self._root(LineKind.DRAW, at, line, frame, generator=generator)
            else:
                found = self.unseeded.get(key) or self._root(LineKind.DRAW, at, line, frame, generator=generator)
                for root in (each for each in found if each.kind is LineKind.STATE):
                    self.trail[root].setdefault(f"{at.code.file}:{line}")
                drawn |= found
        return drawn

    # --- roots ---

    def _named(self, kind: LineKind, frame: LineFrame, line: int, generator: str = "", of: str = "") -> LineRoot:
        """The root at a line, which may come to nothing."""
        root = LineRoot(kind=kind, file=frame.code.file, line=line, generator=generator, name=of)
        caller, above = "", frame
        while above.parent is not None and above.code.is_library:
            caller, above = f"{above.parent.code.file}:{above.entered.parent_line}", above.parent
        self.functions.setdefault(root, (frame.code.function, caller))
        self.frames.setdefault(root, frame)
        if frame.entered.thread:
            self.in_threads.add(root)
        if frame.parent is not None:
            self.callers.setdefault(root, (frame.parent, frame.entered.parent_line))
        return root

    def _root(
        self,
        kind: LineKind,
        frame: LineFrame,
        line: int,
        shown: LineFrame,
        *names: str,
        generator: str = "",
        unseen: Origins = _NOTHING,
        of: str = "",
    ) -> Origins:
        root = self._named(kind, frame, line, generator, of)
        if root not in self.roots:
            roots = {path.partition(".")[0] for path in self.one.statement(frame, line).reads}
            self.follows[root] = unseen.union(self.imported[name] for name in roots & {*self.imported}) - {root}
            read = (self._found(frame, path) for path in self.one.statement(frame, line).reads)
            states = [(name, scope.state.get(name, ""), scope.made) for scope, names in read for name in names]
            made = (f"`{name}` ({at[name]})" for name, digest, at in states if digest == NO_DIGEST and name in at)
            self.opaque[root] = next(made, "")
            if self.follows[root] & self.choosers or any(digest.endswith(NO_DIGEST) for _, digest, _ in states):
                self.blind.add(root)
            for earlier in self.follows[root]:
                self.trail[earlier].setdefault(root.location)
        self.roots.setdefault(root, len(self.roots))
        self.counts[root] += 1
        if any(name.startswith(GENERATOR) for name in names):
            self.seeds.add(root)
        if root not in self.shown and (names or not generator):
            pair = shown.pair
            sides = (shown.state, {} if pair is None else pair.state)
            values = [tuple(side.get(name, "").removeprefix(STATIC) for side in sides) for name in names]
            first, second = next(((one, two) for one, two in values if is_plain(one) and is_plain(two)), ("", ""))
            spoken = tuple(
                RESULT if name == RETURNED else name.removeprefix(GLOBAL)
                for name in names
                if not name.startswith(GENERATOR)
            )
            self.shown[root] = (spoken, first, second)
        return frozenset({root})

    # --- the result ---

    def result(self, calls: Sequence[int]) -> ComparedLines:
        """Root lines, those that reach one of ``calls`` first."""
        reached: dict[LineRoot, str] = {}
        followed: set[LineRoot] = set()
        first = frozenset[LineRoot]()
        for call in calls:
            origins = self._origins_of(call)
            seen = sorted(origins, key=lambda root: (root in self.takers, root in self.handed, self.roots[root]))
            row = self._row_of_call(call)
            at = "" if row is None else f"{row.frame.code.file}:{row.line}"
            followed.update(seen)
            for root in seen:
                for each in self._with_earlier(root):
                    reached.setdefault(each, at)
            first = first or frozenset(reached)
        if race := min(self.races & first, key=self.roots.__getitem__, default=None):
            self.roots = {root: place for root, place in self.roots.items() if not self._is_of_race(root, race)}
            reached = {root: at for root, at in reached.items() if root in self.roots}
            first &= reached.keys()
        for root, at in list(reached.items()):  # a root on the way of another may reach the call too
            on_way = set(self._way(root, at))
            ways = {each: at for each in self.roots if each not in reached and each.location in on_way}
            reached |= ways
            first = first.union(ways) if root in first else first
        self.open -= {root.location for root in self.roots}
        found: dict[str, LineSource] = {}
        for root in (*reached, *(root for root in self.roots if root not in reached and root not in self.imports)):
            maker = self._maker_of(root)
            source = self._source(root, root if maker.location in found else maker, reached.get(root))
            found.setdefault(source.location, replace(source, is_followed=root in followed))
        notes = tuple(dict.fromkeys((*self.one.notes, *self.two.notes)))
        rows = {of: row for of, row in self.timed.items() if self._is_timed(of, row)}
        timed = [self._timed(of, row) for of, row in rows.items()]
        timed.sort(key=lambda each: not (each.is_time_limit and source_of(each.may_call) == source_by_id(CLOCK)))
        at_first = frozenset(each.location for root in first for each in (root, self._maker_of(root)))
        limits = any(each.is_time_limit and each.reaches for each in found.values())
        read = {at for at, each in found.items() if limits and each.source in ("", CLOCK) and not each.is_time_limit}
        # Last is a mere number; what is read of the clock, or follows from it, comes after what it decides.
        order = sorted(found.values(), key=lambda each: (not each.reaches, each.source == _PORT, each.location in read))
        return ComparedLines(
            sources=tuple(order), timed=tuple(timed), notes=notes, first=at_first, seeding=frozenset(self.seeding)
        )

    def _is_of_race(self, root: LineRoot, race: LineRoot) -> bool:
        """Return whether a line merely reads what threads write in turns, or what came of it: it gives nothing itself.

        A list that they share and generators are raced for by themselves.
        """
        row, calls, names = self._row_of_table(root), self._calls_of(root), self.shown.get(root, ((), "", ""))[0]
        is_own = names or root.generator or root in self.races
        is_later = (
            root in self.in_threads or self.roots[root] > self.roots[race] or not any("." in call for call in calls)
        )
        is_guessed = row is None or row.id == _POLL or (root in self.orders and not is_own)
        return is_guessed and is_later and not self._asks_library(calls)

    def _with_earlier(self, root: LineRoot, visited: Origins = _NOTHING) -> list[LineRoot]:
        """A root with those that it may follow from: before it, unless it is of a kind that differs by itself."""
        earlier = self.follows.get(root, _NOTHING) - visited - self.handed
        if self._maker_of(root) != root:
            earlier -= self.makers
        is_explained = self._is_explained(root)
        if not self.follows.get(root) and not is_explained:
            before = (each for each, place in self.roots.items() if place < self.roots[root])
            known = [each for each in before if each in self.hidden - self.handed and self._is_explained(each)]
            earlier = frozenset(known) - visited
            is_explained = len(known) != 1
        visited |= {root, *earlier}
        order = sorted(earlier - self.imports, key=lambda each: self.roots.get(each, len(self.roots)))
        found = [every for each in order for every in self._with_earlier(each, visited)]
        seldom = () if is_explained else earlier & self.imports
        return [root, *found] if is_explained else [*found, root, *seldom]

    def _is_explained(self, root: LineRoot) -> bool:
        row = self._row_of_table(root)
        return root.kind is LineKind.DRAW or (row is not None and (row.varies or row.is_order or not row.waits))

    def _maker_of(self, root: LineRoot) -> LineRoot:
        """The line of a known kind that last made what a root reads and is not seen: a query, an iterator, a handle."""
        row = self._row_of_table(root)
        if root.kind is not LineKind.LINE or (row is not None and (row.varies or row.is_order)):
            return root
        makers = self.makers & self.follows.get(root, _NOTHING)
        if row is not None:  # it takes the rows of a query, say, unless it makes one itself
            own = {call for call in self._calls_of(root) if "." in call}
            alike = (each for each in makers if (of := self._row_of_table(each)) is not None and of.id == row.id)
            makers = frozenset(each for each in alike if own.isdisjoint(self._calls_of(each)))
        return max(makers, key=[*self.functions].index, default=root)

    def _row_of_call(self, call: int) -> _Done | None:
        """The row that made a call: the innermost that read something that differs, or else the innermost."""
        made = (row for row in self.reads if call in row.calls)
        rows = sorted(made, key=lambda row: (-row.frame.depth, len(row.calls)))
        return next((row for row in rows if row.origins), rows[0] if rows else None)

    def _origins_of(self, call: int) -> Origins:
        """The origins of what the line of a call read; the line itself, where nothing of it is seen to differ."""
        row = self._row_of_call(call)
        if row is None:
            return _NOTHING
        found = row.origins or self._root(LineKind.LINE, row.frame, row.line, row.frame, unseen=row.unseen)
        waited: dict[LineRoot, Origins] = {}
        for root in found:
            source = self._row_of_table(maker := self._maker_of(root))
            if source is None:  # what forks processes takes what they give
                givers = frozenset(each for each, parents in self.elsewhere.items() if maker.location in parents)
            elif source.waits:  # none where but their order differs
                givers = frozenset(self.answers if source.is_order else {*self.elsewhere} - self.handed)
            else:
                givers = _NOTHING
            if givers:
                waited[root] = givers
        for root, givers in waited.items():
            for each in givers:
                self.trail[each].setdefault(root.location)
        self.takers.update(waited)
        known = (root for root in waited if self._row_of_table(self._maker_of(root)) and root not in self.elsewhere)
        return found.union(*waited.values()).difference(known)

    def _row_of_table(self, root: LineRoot) -> Source | None:
        calls = self._calls_of(root)
        raised = root in self.raising and any(map(self._limits, calls))
        calls = (LineMark.TIMEOUT if raised else "", *(call for call in calls if not _is_mark(call)))
        row = source_of(calls, root.generator)
        if root in self.orders:
            return source_by_id("shared-by-threads")
        return source_by_id(self.generators.get(root, "")) if row is None else row

    def _calls_of(self, root: LineRoot) -> tuple[str, ...]:
        """What the statement of a root may call."""
        texts = {key: text for key, text in self.one.texts.items() if (key[0], key[-1]) == (root.file, root.line)}
        lines = {
            (*key[:-1], line)
            for key, text in texts.items()
            for line in self.one.lines.get((*key[:-1], text.first), (key[-1],))
        }
        return tuple(call for key in sorted(lines) for call in self.one.texts[key].calls)

    def _source(self, root: LineRoot, maker: LineRoot, reached: str | None) -> LineSource:
        function, caller = self.functions[maker]
        names, first, second = self.shown.get(root, ((), "", ""))
        row = self._row_of_table(maker)
        path = [] if reached is None else self._way(root, reached)
        if maker != root:
            path = [root.location, *path]
        held_at = self._held_at(root, names, path[maker != root :])
        if answered := self._answered(root):
            held_at, path = answered[0], [answered[0], *(line for line in path if line != answered[0])]
        return LineSource(
            location=maker.location,
            function=function,
            called_from=caller,
            kind=root.kind,
            source="" if row is None else row.id,
            generator=root.generator,
            names=names,
            first=first,
            second=second,
            reaches=reached is not None,
            path=tuple(path),
            closed=tuple(takewhile(lambda line: line not in self.open, path)),
            calls=self.counts[root] if maker == root else 1,
            may_call=self._calls_of(maker),
            is_blind=root in self.blind,
            opaque="" if row is not None else self.opaque.get(root, ""),
            is_threads=root in self.in_threads,
            held_at=held_at,
            takers=tuple(self.takers_of[root]),
        )

    def _way(self, root: LineRoot, reached: str) -> list[str]:
        """The lines from a root to the line of a call."""
        own = root.location, self.given_at.get(root.location)
        path = [line for line in self.trail[root] if line not in own]
        path = path[: path.index(reached)] if reached in path else path
        path = [*path[: _LONGEST_PATH - 1], *path[_LONGEST_PATH - 1 :][-1:]]
        return [*path, *([reached] if reached != root.location else [])]

    def _held_at(self, root: LineRoot, names: Sequence[str], path: Sequence[str]) -> str:
        if root in self.arguments:
            return self.arguments[root]
        decides = root.kind is LineKind.BRANCH and LineMark.DECIDES in self._calls_of(root)
        if decides or root.kind is LineKind.DRAW:  # the state before it
            return root.location
        if root in self.callers and (tuple(names) == (RESULT,) or root in self.raising):
            caller, line = self.callers[root]
            at = f"{caller.code.file}:{line}"
            is_last = at not in path and not self.one.text(caller, line).stores
            if is_last or root in self.raising:  # no exception can be given, but what its function returns
                return at
        if not names and root.kind is LineKind.LINE and root not in self.seeds:
            return self.given_at.get(root.location) or next(iter(path), "")
        return self.given_at.get(root.location, root.location)


def _of_threads(
    one: LineIndex, two: LineIndex
) -> tuple[set[tuple[object, ...]], dict[tuple[str, str], _Place], dict[tuple[str, str], dict[str, _Place]]]:
    """What threads other than the first do in both runs, whichever does: process, code, line, name (empty: the line);
    and what tasks of threads and processes are given alike, at line 0.

    And their lines that draw from global generators from which others draw too; and those that gave an attribute, or a
    name, its value in the first run.
    """
    counts: dict[tuple[object, ...], tuple[Counter[str], Counter[str]]] = defaultdict(lambda: (Counter(), Counter()))
    drawn: dict[tuple[str, str], Counter[_Place]] = defaultdict(Counter)
    givers = defaultdict[tuple[str, str], dict[str, _Place]](dict)
    for side, run in enumerate((one, two)):
        for frame in run.frames:
            if frame.entered.thread:
                counts[frame.process, frame.key, 0, ""][side][""] += 1
            for name, digest in values_of(frame.entered.changed).items() if _is_task(frame) else ():
                counts["", frame.key, 0, name][side][digest] += 1
            for row in frame.rows:
                for name, digest in (("", ""), *row.changed.items()):
                    if name.startswith(GENERATOR) and not side:
                        drawn[frame.process, name][frame, row.line] += 1
                    elif frame.entered.thread:
                        counts[frame.process, frame.key, row.line, name][side][digest] += 1
                        if not side and is_named(name, one.text(frame, row.line)):  # and is not merely there
                            givers[frame.process, name.rpartition(".")[2]][digest] = frame, row.line
    drawers = {}
    for key, lines in drawn.items():
        of = _DRAWING.get(key[1].removeprefix(GENERATOR), _MAY_DRAW)  # a thread may only be the first to see a draw
        drawing = [at for at, _ in lines.most_common() if any(map(of.match, one.text(*at).calls))]
        others = [at for at in drawing if at[0].entered.thread]
        if of is _MAY_DRAW:
            others = [at for at in others if 2 * lines[at] > sum(row.line == at[1] for row in at[0].rows)]
        if others and len({frame.entered.thread for frame, _ in drawing}) > 1:
            drawers[key] = others[0]
    return {key for key, (ours, theirs) in counts.items() if ours == theirs}, drawers, givers


def _writer(run: LineIndex, process: str) -> _Place | None:
    """The line at which threads most often write a tensor or a module that others hold too; ``None`` without one."""
    holders: dict[str, set[int]] = defaultdict(set)
    written: dict[tuple[object, ...], list[tuple[_Place, set[str]]]] = defaultdict(list)
    for frame in (frame for frame in run.frames if frame.process == process):
        for row in (row for row in frame.rows if not row.is_sampled):
            text = run.text(frame, row.line)
            changed = {name: digest for name, digest in row.changed.items() if digest.startswith(("t", "m"))}
            for digest in changed.values():
                holders[digest].add(frame.entered.thread)
            own = {changed[name] for name in changed.keys() - {RETURNED, *text.stores}}
            can = frame.entered.thread and LineMark.IDLE not in text.calls
            written[frame.key, row.line].append(((frame, row.line), own if can else set()))
    often = (rows for rows in written.values() if 2 * sum(bool(own) for _, own in rows) > len(rows))
    shared = (rows for rows in often if any(len(holders[digest]) > 1 for _, own in rows for digest in own))
    return max(shared, key=len, default=[(None, set())])[0][0]


def _states(run: LineIndex, processes: Collection[str]) -> set[tuple[str, str, str]]:
    """The states of global generators in some processes, with their names."""
    changed = ((frame.process, record.changed) for frame, record in run.events if frame.process in processes)
    return {
        (process, name, state)
        for process, changes in changed
        for name, state in changes.items()
        if name.startswith(GENERATOR)
    }


def _pair(one: LineIndex, two: LineIndex, alike: Collection[tuple[object, ...]]) -> None:
    """Give each frame of the first run its own of the second; ``alike``: that of ``_of_threads``."""
    by_caller: dict[tuple[object, ...], LineFrame] = {}
    tasks: dict[tuple[object, ...], list[LineFrame]] = defaultdict(list)

    def task(frame: LineFrame) -> tuple[object, ...]:
        """A function, and of what it is given that which all its tasks together are given in both runs."""
        ours = sorted(values_of(frame.entered.changed).items())
        return frame.key, *(part for part in ours if ("", frame.key, 0, part[0]) in alike)

    for frame, key in _keys(two, lambda frame: frame):
        by_caller[key] = frame
        if _is_task(frame):
            tasks[task(frame)].append(frame)
    taken: set[int] = set()
    for frame, key in _keys(one, lambda frame: frame.pair):
        pair = by_caller.get(key)
        if _is_task(frame) and (same := [other for other in tasks[task(frame)] if id(other) not in taken]):
            equal = (each for each in same if values_of(each.entered.changed) == values_of(frame.entered.changed))
            pair = next(equal, pair if pair in same else same[0])
        if pair is not None and id(pair) not in taken:
            taken.add(id(pair))
            frame.pair = pair


def _keys(run: LineIndex, paired: object) -> Iterator[tuple[LineFrame, tuple[object, ...]]]:
    """Each frame with what it is found by: its caller's row and its place among the calls of that, or its count."""
    ordinals: Counter[tuple[object, ...]] = Counter()
    for frame in run.frames:
        entered, parent = frame.entered, frame.parent
        other = None if parent is None else paired(parent)  # type: ignore[operator]
        if entered.count > SAMPLED_FROM or (parent is not None and other is None):
            key: tuple[object, ...] = (frame.process, entered.thread, frame.key, entered.count, -1)
            if entered.count <= SAMPLED_FROM:
                continue
        else:
            thread = parent is None and entered.thread
            key = frame.process, id(other), thread, entered.parent_line, entered.parent_n, frame.key
        ordinals[key] += 1
        yield frame, (*key, ordinals[key])


def outwards(frame: LineFrame | None) -> Iterator[LineFrame]:
    while frame is not None:
        yield frame
        frame = frame.parent


def _is_task(frame: LineFrame) -> bool:
    """Return whether it is the outermost call of a thread or process that the program's first thread started."""
    parent = frame.parent
    is_other = bool(frame.process or frame.entered.thread)
    return is_other and (parent is None or parent.process != frame.process or not parent.rows)


def _is_seeding(before: tuple[str, str], now: tuple[str, str], text: LineText) -> bool:
    """Return whether a generator is seeded or restored in one of two runs, and does not only draw."""
    is_seeded = any(was_seeded(old, new) for old, new in zip(before, now, strict=True))
    return is_seeded or any(call.rpartition(".")[2] in _RESTORING for call in text.calls)


def _source_of(text: LineText) -> Source | None:
    """What a statement is, as long as it does not raise."""
    return source_of(call for call in text.calls if not _is_mark(call))


def _is_of_queue(text: LineText, *methods: str) -> bool:
    return any("queue" in call.lower() and call.rpartition(".")[2] in methods for call in text.calls)


def _beside_generators(digest: str) -> str:
    """What a value holds but for generators that are not global; empty where it holds none of these."""
    return OWN if digest.startswith(OWN) else digest.partition(HOLDS)[2]


def _only_draws(name: str, changed: _Changed, before: Mapping[str, str]) -> bool:
    """Return whether of a value that holds a generator nothing changed but that one's state."""
    beside = changed.get(name, "").partition(HOLDS)[2]
    return bool(beside) and beside == before.get(name, "").partition(HOLDS)[2]


def _is_mark(call: str) -> bool:
    return call.endswith((LineMark.TIMEOUT, LineMark.MAYBE))


def _hashes(source: Source | None) -> bool:
    """Return whether a call gives by a hash or an address, which no value before it tells."""
    return source is not None and not {"hash-seed", "addresses"}.isdisjoint(source.circumstances)


def _is_telling(call: str) -> bool:
    """Return whether a line that prints may call it and decide nothing; marks have no dot."""
    return "." not in call or call.startswith(("builtins.", "?.")) or getattr(source_of((call,)), "id", "") == CLOCK


def values_of(changed: _Changed) -> dict[str, str]:
    return {name: digest for name, digest in changed.items() if not name.startswith(GENERATOR)}


def digests_of(frame: LineFrame, name: str) -> tuple[str, str] | None:
    """What tells a value that differs from all others, its digests in both runs; ``None`` for one that is soon met."""
    states = (frame.state, {} if frame.pair is None else frame.pair.state)
    ours, theirs = (state.get(name, "").removeprefix(STATIC) for state in states)
    return (ours, theirs) if ours != theirs and min(len(ours), len(theirs)) > _SHORT else None
