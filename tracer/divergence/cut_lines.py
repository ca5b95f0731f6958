"""The lines of two runs from the place on at which one of them resumes, so that they are compared as whole runs are.

Going back from the update that both make first, a function's lines are the same in both as long as the loop that they
are in is: where they part, both runs are cut. What ran already then begins with what its names hold there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from tracer.divergence.lines import LineFrame, LineIndex, outwards, values_of
from tracer.trace.lines import (
    GENERATOR,
    GLOBAL,
    NO_DIGEST,
    Continued,
    Entered,
    LineRecord,
    LineRow,
    LineText,
    is_plain,
    whole_statement,
)

#: More than any line is executed: where numbers of rows begin anew, they jump further.
_JUMP = 1 << 39
#: A generator that is not loaded yet.
_NO_GENERATOR = "-"


def last(path: str) -> str:
    """The attribute that a path ends with, or the name that it is."""
    return path.removeprefix(GLOBAL).rpartition(".")[2]


def object_of(path: str) -> str:
    """The object that a path leads into: a name, or an attribute of ``self``."""
    parts = path.removeprefix(GLOBAL).split(".")
    return ".".join(parts[: 1 + (parts[0] == "self")])


#: Rows, by their lines, and calls, by their functions, with their places.
_Events = list[tuple[int, object]]


class Change(NamedTuple):
    """What a line changed."""

    at: int
    location: str
    frame: LineFrame
    line: int
    text: LineText
    call: int
    changed: dict[str, str]


class RunLines(LineIndex):
    """The lines of one process, in their order; places are those of ``events``."""

    def __init__(self, records: Iterable[LineRecord]) -> None:
        self.records = list(records)
        super().__init__({"": self.records})
        self.begins: dict[LineFrame, int] = {}
        """The place of each call."""
        self.within: dict[LineFrame, _Events] = defaultdict(list)
        """By call: what happened in it."""
        self.statements: dict[str, LineText] = {}
        """By location, what its statement does."""
        self.cut = self.update = len(self.events)
        """The places of what is compared first, and of what follows the first common update."""
        self._changes: list[Change] = []
        parts: dict[tuple[str, int], list[LineText]] = defaultdict(list)
        for (file, *_, line), text in self.texts.items():  # that of a lambda in it too
            parts[file, text.first or line].append(text)
        for (file, *_, line), text in self.texts.items():
            self.statements[f"{file}:{line}"] = whole_statement(parts[file, text.first or line])
        for at, (frame, record) in enumerate(self.events):
            if isinstance(record, LineRow):
                place, line = f"{frame.code.file}:{record.line}", record.line
                self.within[frame].append((at, line))
                text = self.statements.get(place, LineText())
                self._changes.append(Change(at, place, frame, line, text, record.call, record.changed))
                continue
            self.begins[frame] = at
            if frame.parent is not None:
                self.within[frame.parent].append((at, frame.key))

    def changes(self, until: int | None = None) -> list[Change]:
        """What lines changed, up to the cut, or up to another place."""
        until = self.cut if until is None else until
        return self._changes[: bisect_left(self._changes, until, key=lambda change: change.at)]

    def gave(self, name: str, digest: str = "", function: str = "") -> str:
        """The line that gave a name, or an attribute called so, what it holds at the cut: of several, the one of
        ``function`` that stores it, then that by which it became so.

        ``digest``: what that is; empty for whatever it is.
        """
        for until in (self.cut, self.update):  # first what was before, then what the same long line did
            found: list[Change] = []
            became: list[Change] = []
            holders = {change.frame.key for change in self.changes(until) if name in change.changed}
            for change in self.changes(until):
                alike = name if change.frame.key in holders else last(name)  # two objects of one function are two
                held = [held for path, held in change.changed.items() if alike in (path, last(path))]
                if held and digest in ("", *held):
                    found.append(change)
                    became.append(change)
                elif held:
                    became.clear()
            own = [change for change in found if change.frame.code.function == function and name in change.changed]
            made = [change for change in own if name.partition(".")[0] in change.text.stores]
            is_number = not digest or is_plain(digest)
            order = (*reversed(own), *became, *reversed(found)) if is_number else (*made, *became, *found)
            if order:
                return order[0].location
        return ""

    def place_in(self, function: str, location: str) -> str:
        """The line of ``function`` by which a line was executed first; that line itself if none of it was."""
        first = next((change for change in self.changes() if change.location == location), None)
        frame, line = (None, 0) if first is None else (first.frame, first.line)
        while frame is not None:
            if frame.code.function == function:
                return f"{frame.code.file}:{line}"
            line, frame = frame.entered.parent_line, frame.parent
        return location

    def feeding(self, objects: set[str]) -> set[str]:
        """The objects, and numbers, that the lines which changed ``objects`` read."""
        return {
            object_of(path)
            for change in self.changes()
            if not objects.isdisjoint(map(object_of, (*change.changed, *change.text.stores)))
            for path in change.text.reads
        } - objects

    def loop_of(self, frame: LineFrame, line: object) -> int:
        """The first line of the innermost loop that a line of a frame is in; 0 for none."""
        return self.statements.get(f"{frame.code.file}:{line}", LineText()).loop

    def chain_at(self, call: int) -> tuple[list[LineFrame], int, int]:
        """The frames that ran as ``call`` was made, the innermost first, the place of what came next, and the line."""
        end = 0
        for at, (frame, record) in enumerate(self.events):
            if record.call > call:
                end = end or at
                is_first = not frame.entered.thread  # another thread may end a line meanwhile
                if isinstance(record, LineRow) and is_first and frame.entered.call <= call:
                    return [*outwards(frame)], end, record.line
        return [], 0, 0

    def before(self, frame: LineFrame, end: int) -> _Events:
        """What is ``within`` a call, up to a place."""
        return [event for event in self.within[frame] if event[0] < end]

    def state_at_cut(self, frame: LineFrame) -> dict[str, str]:
        """What the names of a frame held at the cut."""
        state = dict(frame.entered.changed)
        for at, _ in self.before(frame, self.cut):
            if isinstance(row := self.events[at][1], LineRow):
                state.update(row.changed)
        return values_of(state)

    def generators_at_cut(self) -> tuple[dict[str, str], set[str]]:
        """The states of the global generators at the cut, and those that had other ones before."""
        states: dict[str, str] = {}
        moved = set[str]()
        for _, record in self.events[: self.cut]:
            now = {name: state for name, state in record.changed.items() if name.startswith(GENERATOR)}
            moved |= states.keys() & now.keys()
            states.update(now)
        return states, moved

    def from_cut(self, states: dict[LineFrame, dict[str, str]], innermost: LineFrame) -> Iterator[LineRecord]:
        """Yield the records from the cut on; ``states``: what each frame that ran already begins with, the generators
        that wait after ``innermost``."""
        yield from (record for record in self.records if not isinstance(record, (Entered, LineRow)))
        calls = [change.call for change in self.changes()]
        numbers: dict[tuple[int, int], tuple[int, int]] = {}

        def number(frame: int, line: int, n: int) -> int:
            first, last = numbers.get((frame, line), (n, n))
            if n - last > _JUMP:
                first += n - last - 1
            numbers[frame, line] = first, n
            return n - first + 1

        followed, runs = {frame.entered.frame for frame in states}, 1
        for frame, state in states.items():
            old = frame.entered
            parent, line = (old.parent, old.parent_line) if frame.parent in states else (-1, 0)
            call = calls[-1] if calls else old.call
            yield Continued(old.thread, old.frame, old.code, old.count, parent, line, runs, call, state)
            runs = 0 if frame is innermost else runs
        for _, record in self.events[self.cut :]:
            if isinstance(record, LineRow):
                if record.frame in followed:
                    yield replace(record, n=number(record.frame, record.line, record.n))
            elif record.parent in followed or record.parent < 0:
                followed.add(record.frame)
                n = number(record.parent, record.parent_line, record.parent_n)
                yield replace(record, parent_n=n)


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
    pairs: list[tuple[LineFrame, LineFrame]] = []
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
        our_end, their_end = whole.begins[frame], resumed.begins[other]
        if inner >= looping:
            events = whole.before(frame, ends[0]), resumed.before(other, ends[1])
            same = _common_end(*events, lines[inner], partial(whole.loop_of, frame))
            if same != (len(events[0]), len(events[1])):
                break
    # A line that ends after the cut says what it changed; one that does not may have changed whatever is no number.
    is_fresh_there = any(type(event) is int for _, event in events[0][len(events[0]) - same[0] :]) or all(
        len(each) <= n or type(each[-n - 1][1]) is int for each, n in zip(events, same, strict=True)
    )
    for run, each, n, frame, end in zip(runs, events, same, pairs[inner], ends, strict=True):
        before, event = each[-n - 1] if n < len(each) else (run.begins[frame], 0)
        after = each[-n][0] if n else end
        if type(event) is not int:  # a call before it is whole, if it is no generator's that goes on
            rows = run.within[run.events[before][0]]
            before = rows[-1][0] if rows and rows[-1][0] < after else before
        run.cut = before + 1
    met = {each for pair in pairs for each in pair}
    held: dict[str, tuple[str, str]] = {}
    states: tuple[dict[LineFrame, dict[str, str]], dict[LineFrame, dict[str, str]]] = {}, {}
    digests_of = defaultdict[tuple[object, str], set[str]](set)
    kept: dict[tuple[str, str, str], str] = {}
    for frame, record in whole.events[: whole.cut]:
        for name, digest in record.changed.items():
            digests_of[frame.key, name].add(digest)
            if name.startswith("self."):
                kept[frame.code.file, frame.code.function.rpartition(".")[0], name] = digest
    shared = {name for pair in pairs[inner:] for name in whole.state_at_cut(pair[0]) if name.startswith(GLOBAL)}
    for mine, twin in (*reversed(pairs[inner:]), *_suspended(whole, resumed, met)):
        is_fresh = is_fresh_there and mine is pairs[inner][0]
        state, its = whole.state_at_cut(mine), {} if twin is None else resumed.state_at_cut(twin)
        for name in {*state, *its}:
            digests = state.get(name, ""), its.get(name, "")
            is_seen = is_fresh or ("." not in name and GLOBAL + name not in shared and all(map(_is_immutable, digests)))
            if is_seen and len(digests_of[mine.key, name]) > 1 and digests[1]:
                held[name] = digests
            else:
                state[name] = its[name] = NO_DIGEST
        states[0][mine] = state
        if twin is not None:
            states[1][twin] = its
    (drawn, moved), (drawn_there, _) = whole.generators_at_cut(), resumed.generators_at_cut()
    for outermost, generators in zip((next(iter(each.values())) for each in states), (drawn, drawn_there), strict=True):
        outermost.update({name: generators.get(name, _NO_GENERATOR) for name in moved})
    records = list(whole.from_cut(states[0], pairs[inner][0])), list(resumed.from_cut(states[1], pairs[inner][1]))
    return CutLines(records, held, kept)


def _common_end(ours: _Events, theirs: _Events, line: object, loop_of: Callable[[object], int]) -> tuple[int, int]:
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


def _suspended(
    whole: RunLines, resumed: RunLines, running: set[LineFrame]
) -> Iterator[tuple[LineFrame, LineFrame | None]]:
    """Yield the calls of generators that the whole run goes on with after the cut, and the same of the resumed one."""

    def going_on(run: RunLines) -> list[LineFrame]:
        begun = (frame for frame in run.frames if frame not in running and run.begins[frame] < run.cut)
        return [frame for frame in begun if any(at >= run.cut for at, _ in run.within[frame])]

    theirs = going_on(resumed)
    for frame in going_on(whole):
        pair = next((other for other in theirs if other.key == frame.key), None)
        yield frame, pair
        theirs = [other for other in theirs if other is not pair]


def _is_immutable(digest: str) -> bool:
    return not digest or is_plain(digest) or digest.startswith("s")
