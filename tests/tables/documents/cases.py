"""How a statement of a document is written down: what it says, and the checks that hold our tables to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tracer.facts import Value
from tracer.names import Verdict
from tracer.trace import Trace

D, N, C, R, S = (
    Verdict.DETERMINISTIC,
    Verdict.NONDETERMINISTIC,
    Verdict.CONDITIONAL,
    Verdict.RAISES,
    Verdict.SEEDED,
)
UNKNOWN = Verdict.UNKNOWN


class Check(NamedTuple):
    """Calls that a statement is about, and what our table has to answer."""

    rule: str
    """The rule that carries it, or a backend alone where no rule must speak of the calls."""
    ops: tuple[str, ...]
    off: tuple[Verdict, ...]
    """The verdicts that are right with deterministic mode off: one, but for what a vendor leaves open."""
    on: Verdict
    facts: Mapping[str, Value]
    """Facts of the calls and settings of the target, where they are not torch's defaults."""
    versions: tuple[str, ...]
    """Where the check is not for all of the page's versions."""

    @property
    def backend(self) -> str:
        """The table that is asked."""
        return self.rule.partition("-")[0]


class RowCheck(NamedTuple):
    """A row of the table of settings that carries a statement: a process that triggers it, and one that does not.

    A process is a trace, judged whole; or facts alone, held against the row's cases, where no recorder sees such a
    thing and the row is there to be explained.
    """

    row: str
    triggers: Trace | Mapping[str, Value]
    clean: Trace | Mapping[str, Value]
    backend: str
    words: str
    """What the row's words must hold, where the statement is about more than its verdict."""


class Statement(NamedTuple):
    """One entry or sentence of a document, in our words."""

    says: str
    checks: tuple[Check, ...] = ()
    rows: tuple[RowCheck, ...] = ()
    """For what no op shows."""
    marker: str = ""
    """``module:NAME`` for what the program says itself; empty where ``checks`` or ``rows`` carry it."""
    api: str = ""
    """The API as the document names it; ``tracer explain`` must lead from it to each rule of the checks."""
    corrected: str = ""
    """Where the document is wrong: how. The checks then ask for what is true."""


def check(
    rule: str,
    ops: str,
    off: Verdict | tuple[Verdict, ...],
    on: Verdict,
    versions: str = "",
    **facts: Value,
) -> Check:
    """A check in one line; ``ops`` and ``versions`` are words, and ``arg_mode`` stands for the key ``arg.mode``."""
    keys = {
        name.replace("_", ".", 1)
        if name.split("_")[0] in ("arg", "given", "index", "shape", "backward", "conv")
        else name: value
        for name, value in facts.items()
    }
    return Check(rule, tuple(ops.split()), off if isinstance(off, tuple) else (off,), on, keys, tuple(versions.split()))


def entry(says: str, api: str, *checks: Check, corrected: str = "") -> Statement:
    """An entry of a list: an API under a condition."""
    return Statement(f"{api}: {says}", checks, api=api, corrected=corrected)


def fact(says: str, *checks: Check, corrected: str = "") -> Statement:
    """A sentence whose truth a rule bears."""
    return Statement(says, checks, corrected=corrected)


def row(
    name: str,
    triggers: Trace | Mapping[str, Value],
    clean: Trace | Mapping[str, Value],
    *,
    backend: str = "cuda",
    words: str = "",
) -> RowCheck:
    """A check of a row, its id without what leads it."""
    return RowCheck(f"environment-{name}", triggers, clean, backend, words)


def process(says: str, *rows: RowCheck) -> Statement:
    """A sentence about settings, seeds, memory or data loading, which a row of their table bears."""
    return Statement(says, rows=rows)


def program(says: str, place: str) -> Statement:
    """A sentence about reports as a whole, which a text or a column of the program bears."""
    return Statement(says, marker=place)


class Document(NamedTuple):
    """One document: where it comes from, the versions that it speaks of, its statements by heading."""

    name: str
    about: str
    versions: tuple[str, ...]
    parts: Mapping[str, tuple[Statement, ...]]

    def statements(self) -> Iterator[Statement]:
        """All statements, in order."""
        for part in self.parts.values():
            yield from part
