"""The lines of two runs from the place on at which one of them resumes, so that they are compared as whole runs are.

Going back from the update that both make first, a function's lines are the same in both as long as the loop that they
are in is: where they part, both runs are cut. What ran already then begins with what its names hold there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from tracer.trace.lines import (
    GENERATOR,
    GLOBAL,
    NO_DIGEST,
    Continued,
    Entered,
    LineCode,
    LineRecord,
    LineRow,
    LineText,
    Text,
    is_plain,
)

#: More than any line is executed: where numbers of rows begin anew, they jump further.
_JUMP = 1 << 39
#: A generator that is not loaded yet.
_NO_GENERATOR = "-"

Key = tuple[str, str, int]
"""The file, name and first line of a function."""


def last(path: str) -> str:
    """The attribute that a path ends with, or the name that it is."""
    return path.removeprefix(GLOBAL).rpartition(".")[2]


def object_of(path: str) -> str:
    """The object that a path leads into: a name, or an attribute of ``self``."""
    parts = path.removeprefix(GLOBAL).split(".")
    return ".".join(parts[: 1 + (parts[0] == "self")])


def attribute_of(key: Key, name: str) -> tuple[str, str, str]:
    """What tells an attribute of ``self`` from others, whichever method has it."""
    return key[0], key[1].rpartition(".")[0], name


class Change(NamedTuple):
    """What a line changed."""

    location: str
    key: Key
    frame: int
    line: int
    text: LineText
    call: int
    changed: dict[str, str]


class _Frame:
    def __init__(self, entered: Entered, code: LineCode, at: int) -> None:
        self.entered, self.at = entered, at
        self.key: Key = code.file, code.function, code.first
        self.events: list[tuple[int, object]] = []
        """Its rows, by their lines, and the calls that it made, by their functions, with their places in the file."""

    def before(self, end: int) -> list[tuple[int, object]]:
        return [event for event in self.events if event[0] < end]


class RunLines:
    """The lines of one process, in their order."""

    def __init__(self, records: Iterable[LineRecord]) -> None:
        self.records = list(records)
        self.texts: dict[str, LineText] = {}
        """By location, what its statement does."""
        self.frames: dict[int, _Frame] = {}
        self.cut = len(self.records)
        """The place of the first record that is compared."""
        self._changes: dict[int, list[Change]] = {}
        self.update = self.cut
        """The place of the first record after the first common update."""
        codes: dict[int, LineCode] = {}
        statements: dict[tuple[str, int], list[LineText]] = {}
        at_line: dict[str, tuple[str, int]] = {}
        for at, record in enumerate(self.records):
            if isinstance(record, LineCode):
                codes[record.number] = record
            elif isinstance(record, Text):
                file = codes[record.code].file
                at_line[f"{file}:{record.line}"] = file, record.text.first or record.line
                statements.setdefault(at_line[f"{file}:{record.line}"], []).append(record.text)
            elif isinstance(record, Entered) and record.frame not in self.frames:
                frame = self.frames[record.frame] = _Frame(record, codes[record.code], at)
                if record.parent in self.frames:
                    self.frames[record.parent].events.append((at, frame.key))
            elif isinstance(record, LineRow) and record.frame in self.frames:
                self.frames[record.frame].events.append((at, record.line))
        for location, statement in at_line.items():  # that of a lambda in it too
            parts = statements[statement]
            reads, stores, calls = (
                [path for part in parts for path in getattr(part, name)] for name in ("reads", "stores", "calls")
            )
            self.texts[location] = LineText((*reads,), (*stores,), (*calls,), parts[0].first, parts[-1].loop)

    def changes(self, until: int | None = None) -> list[Change]:
        """What lines changed, up to the cut, or up to another place."""
        until = self.cut if until is None else until
        if until not in self._changes:
            rows = (row for row in self.records[:until] if isinstance(row, LineRow) and row.frame in self.frames)
            places = ((row, self.frames[row.frame].key) for row in rows)
            located = ((row, key, f"{key[0]}:{row.line}") for row, key in places)
            self._changes[until] = [
                Change(at, key, row.frame, row.line, self.texts.get(at, LineText()), row.call, row.changed)
                for row, key, at in located
            ]
        return self._changes[until]

    def seen(self) -> Iterator[tuple[Key, dict[str, str]]]:
        """Yield what calls were given, and lines changed, up to the cut."""
        for record in self.records[: self.cut]:
            if isinstance(record, (Entered, LineRow)) and record.frame in self.frames:
                yield self.frames[record.frame].key, record.changed

    def gave(self, name: str, digest: str = "", function: str = "") -> str:
        """The line that gave a name, or an attribute called so, what it holds at the cut: of several, the one of
        ``function`` that stores it, then that by which it became so.

        ``digest``: what that is; empty for whatever it is.
        """
        for until in (self.cut, self.update):  # first what was before, then what the same long line did
            found: list[Change] = []
            became: list[Change] = []
            holders = {change.key for change in self.changes(until) if name in change.changed}
            for change in self.changes(until):
                alike = name if change.key in holders else last(name)  # two objects of one function are two
                held = [held for path, held in change.changed.items() if alike in (path, last(path))]
                if held and digest in ("", *held):
                    found.append(change)
                    became.append(change)
                elif held:
                    became.clear()
            own = [change for change in found if change.key[1] == function and name in change.changed]
            made = [change for change in own if name.partition(".")[0] in change.text.stores]
            is_number = not digest or is_plain(digest)
            order = (*reversed(own), *became, *reversed(found)) if is_number else (*made, *became, *found)
            if order:
                return order[0].location
        return ""

    def place_in(self, function: str, location: str) -> str:
        """The line of ``function`` by which a line was executed first; that line itself if none of it was."""
        at = next((change for change in self.changes() if change.location == location), None)
        while at is not None and (frame := self.frames.get(at.frame)) is not None:
            if frame.key[1] == function:
                return f"{frame.key[0]}:{at.line}"
            at = at._replace(frame=frame.entered.parent, line=frame.entered.parent_line)
        return location

    def feeding(self, objects: set[str]) -> set[str]:
        """The objects, and numbers, that the lines which changed ``objects`` read."""
        return {
            object_of(path)
            for change in self.changes()
            if not objects.isdisjoint(map(object_of, (*change.changed, *change.text.stores)))
            for path in change.text.reads
        } - objects

    def loop_of(self, frame: _Frame, line: object) -> int:
        """The first line of the innermost loop that a line of a frame is in; 0 for none."""
        return self.texts.get(f"{frame.key[0]}:{line}", LineText()).loop

    def chain_at(self, call: int) -> tuple[list[_Frame], int, int]:
        """The frames that ran as ``call`` was made, the innermost first, the place of what came next, and the line."""
        end = 0
        for at, record in enumerate(self.records):
            if isinstance(record, (Entered, LineRow)) and record.call > call:
                end = end or at
                frame = self.frames.get(record.frame)
                is_first = frame is not None and not frame.entered.thread  # another thread may end a line meanwhile
                if isinstance(record, LineRow) and frame is not None and is_first and frame.entered.call <= call:
                    chain = [frame]
                    while (parent := self.frames.get(chain[-1].entered.parent)) is not None:
                        chain.append(parent)
                    return chain, end, record.line
        return [], 0, 0

    def state_at_cut(self, frame: _Frame) -> dict[str, str]:
        """What the names of a frame held at the cut."""
        state = dict(frame.entered.changed)
        for at, _ in frame.before(self.cut):
            if isinstance(row := self.records[at], LineRow):
                state.update(row.changed)
        return {name: digest for name, digest in state.items() if not name.startswith(GENERATOR)}

    def generators_at_cut(self) -> tuple[dict[str, str], set[str]]:
        """The states of the global generators at the cut, and those that had other ones before."""
        states: dict[str, str] = {}
        moved = set[str]()
        for record in self.records[: self.cut]:
            if isinstance(record, (Entered, LineRow)):
                now = {name: state for name, state in record.changed.items() if name.startswith(GENERATOR)}
                moved |= states.keys() & now.keys()
                states.update(now)
        return states, moved

    def from_cut(self, states: dict[int, dict[str, str]], innermost: _Frame) -> Iterator[LineRecord]:
        """Yield the records from the cut on; ``states``: what each frame that ran already begins with, the generators
        that wait after ``innermost``."""
        yield from (record for record in self.records[: self.cut] if isinstance(record, (LineCode, Text)))
        calls = [change.call for change in self.changes()]
        numbers: dict[tuple[int, int], tuple[int, int]] = {}

        def number(frame: int, line: int, n: int) -> int:
            first, last = numbers.get((frame, line), (n, n))
            if n - last > _JUMP:
                first += n - last - 1
            numbers[frame, line] = first, n
            return n - first + 1

        followed, runs = set(states), 1
        for frame, state in states.items():
            old = self.frames[frame].entered
            parent, line = (old.parent, old.parent_line) if old.parent in followed else (-1, 0)
            call = calls[-1] if calls else old.call
            yield Continued(old.thread, frame, old.code, old.count, parent, line, runs, call, state)
            runs = 0 if frame == innermost.entered.frame else runs
        for record in self.records[self.cut :]:
            if isinstance(record, Entered):
                if record.parent in followed or record.parent < 0:
                    followed.add(record.frame)
                    n = number(record.parent, record.parent_line, record.parent_n)
                    yield replace(record, parent_n=n)
            elif isinstance(record, LineRow):
                if record.frame in followed:
                    yield replace(record, n=number(record.frame, record.line, record.n))
            else:
                yield record


class CutLines(NamedTuple):
    """Two runs' lines from where one resumes, and what both hold there."""

    records: tuple[list[LineRecord], list[LineRecord]]
    held: dict[str, tuple[str, str]]
    """By name that the whole run had changed: what it holds in both, the innermost function's of a name."""
    kept: dict[tuple[str, str, str], str]
    """By file, class and attribute: what the whole run's objects held as their methods last ran before the cut."""


def cut(whole: RunLines, resumed: RunLines, calls: tuple[int, int]) -> CutLines | None:
    """Cut both runs where their lines part, going back from ``calls``, their first common update.

    What the whole run set once and for all is no state that a checkpoint lacks: arguments, where a loop begins. It
    counts as not seen, and so does what an inner function may have changed since. ``None`` where no line is common.
    """
    runs = whole, resumed
    (ours, our_end, line), (theirs, their_end, _) = (run.chain_at(call) for run, call in zip(runs, calls, strict=True))
    whole.update, resumed.update = our_end, their_end
    pairs: list[tuple[_Frame, _Frame]] = []
    for pair in zip(ours, theirs, strict=False):
        if pair[0].key != pair[1].key:
            break
        pairs.append(pair)
    if not pairs:
        return None
    lines = [line, *(frame.entered.parent_line for frame, _ in pairs)]
    # What is called anew in each round of a loop is compared whole.
    looping = next((n for n, (frame, _) in enumerate(pairs) if whole.loop_of(frame, lines[n])), 0)
    for inner, (frame, other) in enumerate(pairs):
        ends = our_end, their_end
        our_end, their_end = frame.at, other.at
        if inner >= looping:
            events = frame.before(ends[0]), other.before(ends[1])
            same = _common_end(*events, lines[inner], partial(whole.loop_of, frame))
            if same != (len(events[0]), len(events[1])):
                break
    # A line that ends after the cut says what it changed; one that does not may have changed whatever is no number.
    is_fresh_there = any(type(event) is int for _, event in events[0][len(events[0]) - same[0] :]) or all(
        len(each) <= n or type(each[-n - 1][1]) is int for each, n in zip(events, same, strict=True)
    )
    for run, each, n, frame, end in zip(runs, events, same, pairs[inner], ends, strict=True):
        before, event = each[-n - 1] if n < len(each) else (frame.at, 0)
        after = each[-n][0] if n else end
        if type(event) is not int:  # a call before it is whole, if it is no generator's that goes on
            rows = run.frames[run.records[before].frame].events  # type: ignore[union-attr]
            before = rows[-1][0] if rows and rows[-1][0] < after else before
        run.cut = before + 1
    met = {id(each) for pair in pairs for each in pair}
    running: list[tuple[_Frame, _Frame | None]] = [*reversed(pairs[inner:]), *_suspended(whole, resumed, met)]
    held: dict[str, tuple[str, str]] = {}
    states: tuple[dict[int, dict[str, str]], dict[int, dict[str, str]]] = {}, {}
    varied = _varied(whole)
    shared = {name for pair in pairs[inner:] for name in whole.state_at_cut(pair[0]) if name.startswith(GLOBAL)}
    for mine, twin in running:
        is_fresh = is_fresh_there and mine is pairs[inner][0]
        state, its = whole.state_at_cut(mine), {} if twin is None else resumed.state_at_cut(twin)
        for name in {*state, *its}:
            digests = state.get(name, ""), its.get(name, "")
            is_seen = is_fresh or ("." not in name and GLOBAL + name not in shared and all(map(_is_immutable, digests)))
            if is_seen and (mine.key, name) in varied and digests[1]:
                held[name] = digests
            else:
                state[name] = its[name] = NO_DIGEST
        states[0][mine.entered.frame] = state
        if twin is not None:
            states[1][twin.entered.frame] = its
    (drawn, moved), (drawn_there, _) = whole.generators_at_cut(), resumed.generators_at_cut()
    for outermost, generators in zip((next(iter(each.values())) for each in states), (drawn, drawn_there), strict=True):
        outermost.update({name: generators.get(name, _NO_GENERATOR) for name in moved})
    records = list(whole.from_cut(states[0], pairs[inner][0])), list(resumed.from_cut(states[1], pairs[inner][1]))
    kept: dict[tuple[str, str, str], str] = {}
    for key, changed in whole.seen():
        kept.update((attribute_of(key, name), digest) for name, digest in changed.items() if name.startswith("self."))
    return CutLines(records, held, kept)


def _common_end(
    ours: Sequence[tuple[int, object]],
    theirs: Sequence[tuple[int, object]],
    line: object,
    loop_of: Callable[[object], int],
) -> tuple[int, int]:
    """How many events at the ends of both are of the same lines, or of the same round of the loop that ``line`` is in,
    of which each run may have passed other lines."""
    first, second = ([event for _, event in reversed(events)] for events in (ours, theirs))
    one = other = 0
    while True:
        while one < len(first) and other < len(second) and first[one] == second[other]:
            line = first[one] if type(first[one]) is int else line
            one, other = one + 1, other + 1
        header = loop_of(line)
        rests = first[one:], second[other:]
        if not header or any(header not in rest or line in rest[: rest.index(header)] for rest in rests):
            return one, other
        one, other = (at + rest.index(header) + 1 for at, rest in zip((one, other), rests, strict=True))
        line = header


def _suspended(whole: RunLines, resumed: RunLines, running: set[int]) -> Iterator[tuple[_Frame, _Frame | None]]:
    """Yield the calls of generators that the whole run goes on with after the cut, and the same of the resumed one."""
    going_on = [
        [
            frame
            for frame in run.frames.values()
            if id(frame) not in running and frame.at < run.cut and any(at >= run.cut for at, _ in frame.events)
        ]
        for run in (whole, resumed)
    ]
    for frame in going_on[0]:
        pair = next((other for other in going_on[1] if other.key == frame.key), None)
        yield frame, pair
        going_on[1] = [other for other in going_on[1] if other is not pair]


def _is_immutable(digest: str) -> bool:
    return not digest or is_plain(digest) or digest.startswith("s")


def _varied(whole: RunLines) -> set[tuple[Key, str]]:
    """The names that the whole run changed from what they were, up to the cut."""
    values: dict[tuple[Key, str], set[str]] = {}
    for key, changed in whole.seen():
        for name, digest in changed.items():
            values.setdefault((key, name), set()).add(digest)
    return {name for name, digests in values.items() if len(digests) > 1}
