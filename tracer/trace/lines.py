"""The file of lines: which line of the program changed which value, one row a line, as the run goes.

It stands beside the trace, one for each process, and is read without torch. Each row is a line of JSON, written at
once: what a killed run wrote is there.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tracer.errors import TraceError, of_another_schema, reason_of
from tracer.trace.file import values_path

#: The version of the format.
SCHEMA = 1
#: Stands for a value of which no digest is taken.
NO_DIGEST = "?"
#: Names in ``changed`` that are no variable: what a function returned, and the states of global generators.
RETURNED, GENERATOR = "%return", "%generator "
#: Behind the first line of a function: what a call of it is given, as a place where lines are held.
ARGUMENTS = "()"
#: Begins the digest of a generator that is not global; and, in that of what holds some, that of the rest.
OWN, HOLDS = "g", "~"
#: How what a function returns is named.
RESULT = "its result"
#: Leads the digest of a value that a module or class of the program's holds, and no object by itself.
STATIC = "="
#: Leads the names of environment variables that the program sets.
ENVIRONMENT = "environ"
#: Leads names of the module that a function reads or stores.
GLOBAL = "%global "
#: The note of a recording that ended before the program did.
TIME_IS_UP = "they were followed for a while only"
#: Rows of one line, and recorded calls of one function, before only every 2**k-th is written.
SAMPLED_FROM = 400
#: Digests of what may be shown as it is: numbers, booleans and None.
_FORKED = re.compile(r"(\.\d+)*")
_PLAIN = re.compile(r"-?\d|-?inf|nan|True|False|None|\(")


class LinesHeader(msgspec.Struct, frozen=True, array_like=True, tag="lines"):
    """The first row of a file."""

    schema: int = SCHEMA
    tracer_version: str = ""


class LineMark:
    """What stands among the calls of a line that iterates, and of a statement that imports, returns or catches."""

    ITERATES, IMPORTS, RETURNS, CATCHES = "iterates", "imports", "returns", "catches"
    #: It calls nothing, and declares a class or hands on what it reads.
    IDLE = "idle"
    #: End what is called with a ``timeout``, and with what may be one by its place.
    TIMEOUT, MAYBE = " timeout", " timeout?"
    #: It, or a part of it, has a condition, makes a text of values, or stores by keys alone what a loop is given.
    DECIDES, FORMATS, KEYED = "decides", "formats", "keyed"


class LineText(msgspec.Struct, frozen=True, array_like=True):
    """What a line does, by its bytecode: paths are dotted names, from a variable over attributes."""

    reads: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    """What it may call, by qualified names: ``numpy.random.default_rng``; and what kind of statement it is part of."""
    first: int = 0
    """The first line of the statement that it is part of, if that has several."""
    loop: int = 0
    """The first line of the innermost loop that it is in; 0 for none."""


def whole_statement(texts: Sequence[LineText]) -> LineText:
    """What all lines of a statement do together."""
    return LineText(
        tuple(path for each in texts for path in each.reads),
        tuple(path for each in texts for path in each.stores),
        tuple(call for each in texts for call in each.calls),
        texts[0].first,
        texts[-1].loop,
    )


def is_named(name: str, text: LineText) -> bool:
    """Return whether a line reads or stores a name, something in it, or something that it is in."""
    name = name.removeprefix(GLOBAL)
    paths = (*text.reads, *text.stores)
    return name == RETURNED or any(f"{path}.".startswith(f"{name}.") or name.startswith(f"{path}.") for path in paths)


class LineCode(msgspec.Struct, frozen=True, array_like=True, tag="code"):
    """A function or a module's body."""

    number: int
    file: str
    """As locations spell it."""
    function: str
    first: int
    """Its first line."""
    is_library: bool = False
    """Whether it is an installed package's, followed from a line of the program's."""
    is_handler: bool = False
    """Whether a signal was to call it when this was written."""


class Text(msgspec.Struct, frozen=True, array_like=True, tag="text"):
    """A line of a code, when it was met first."""

    code: int
    line: int
    text: LineText


class Entered(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    """A call of a function of the program's."""

    thread: int
    """In the order in which threads met lines; 0 for the first."""
    frame: int
    """Numbers the calls of this process."""
    code: int
    count: int
    """How often this thread has called this code, this call included."""
    parent: int
    """The innermost recorded frame; -1 without one."""
    parent_line: int
    parent_n: int
    call: int
    """Index of the next call in the file of values; -1 where there is none."""
    changed: dict[str, str]
    """The digests of its parameters, and of generators that changed since the last row."""
    answers_signal: bool = False
    """Whether it is the handler of a signal, which comes at any line."""


class Continued(Entered, frozen=True, array_like=True, tag="continued"):
    """A call that ran already where a run's lines were cut: ``changed`` is what its names, and generators, hold there.

    In no file: `tracer resume` makes it, with ``parent_n`` 1, and 0 for a generator that waits.
    """


class LineRow(msgspec.Struct, frozen=True, array_like=True, tag="row"):
    """A line that was executed."""

    frame: int
    line: int
    n: int
    """How often this frame has executed it."""
    call: int
    changed: dict[str, str]
    """The digests of what it changed."""
    returns: bool = False
    """Whether the function ends with it."""
    is_sampled: bool = False
    """Whether rows of this line, or of lines executed since the frame's last row, were left out."""
    ended: int = 0
    """When, in microseconds of the system's clock."""
    files: tuple[tuple[int, int], ...] = ()
    """Of each file that was opened to be read and that this run wrote: when it was opened for that (0: not seen), and
    when it was written."""


class LineNote(msgspec.Struct, frozen=True, array_like=True, tag="note"):
    """What the reader must know: why lines are missing."""

    text: str


LineRecord = LinesHeader | LineCode | Text | Entered | LineRow | LineNote
_decoder: msgspec.json.Decoder[LineRecord] = msgspec.json.Decoder(LineRecord)
encode = msgspec.json.Encoder().encode


def is_plain(digest: str) -> bool:
    """Return whether the digest is the value itself: a number, a boolean, None."""
    return _PLAIN.match(digest) is not None


def was_seeded(before: str, now: str) -> bool:
    """Return whether a generator was seeded between two of its states, and did not only draw.

    The first part of a state, up to the dot, is what it was seeded with; empty where the state does not tell.
    """
    seed = now.partition(".")[0]
    return bool(seed) and seed != before.partition(".")[0]


def lines_path(trace: str | os.PathLike[str]) -> Path:
    """The file of lines of a run's first process: ``run.lines`` for ``run.json``."""
    return values_path(trace).with_suffix(".lines")


def files_of_lines(trace: str | os.PathLike[str]) -> Iterator[Path]:
    """The files of lines of a process and of those that it forked."""
    yield from files_beside(lines_path(trace))


def files_beside(first: Path) -> Iterator[Path]:
    """``run.lines``, then those of forked processes, ``run.lines.1`` and ``run.lines.1.2``, as far as they exist."""
    for path in sorted(first.parent.glob(f"{glob.escape(first.name)}*"), key=lambda path: (len(path.name), path.name)):
        if _FORKED.fullmatch(path.name.removeprefix(first.name)) and path.is_file():
            yield path


def follows_to_the_end(trace: str | os.PathLike[str]) -> bool:
    """Return whether a run's lines were followed until it ended, in all of its processes."""
    note = encode(LineNote(TIME_IS_UP))
    files = list(files_of_lines(trace))
    return bool(files) and not any(note in path.read_bytes()[-4096:] for path in files)


def read_lines(path: str | os.PathLike[str]) -> list[LineRecord]:
    """The rows of a file, up to where it was cut off. Raises ``TraceError`` in one line for what is no such file."""
    rows: list[LineRecord] = []
    try:
        with open(path, "rb") as stream:
            for line in stream:
                try:
                    rows.append(_decoder.decode(line))
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    break
    except OSError as problem:
        raise TraceError(
            f"cannot read {path}: {reason_of(problem)}", hint="record with `tracer run --lines`"
        ) from problem
    if not rows or not isinstance(rows[0], LinesHeader):
        raise TraceError(f"{path} is not a file of lines", hint="record one with `tracer run --lines`")
    if rows[0].schema != SCHEMA:
        raise of_another_schema(f"{path} is a file of lines", rows[0].schema, SCHEMA)
    return rows
