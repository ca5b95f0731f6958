"""The baseline: accepted findings in a lock file that people review, and how a judgement compares with it.

A line accepts a rule at one op, phase, module, file and function, up to a verdict: no line numbers or counts.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tracer.errors import BaselineError, reason_of
from tracer.files import read_text, write_whole
from tracer.findings import Finding
from tracer.names import SEVERITY, Verdict
from tracer.trace.records import split_place

#: The lock file's first line; the number is its format's.
HEADER = "# determinism.lock 1: findings that were looked at and accepted, one a line, sorted."
COLUMNS = ("rule", "op", "phase", "module", "file", "function", "verdict", "until", "reason")
LEGEND = f"# {' | '.join(COLUMNS)}"
#: What `--update-baseline` writes for a finding that nobody has spoken about yet.
NO_REASON = "not reviewed"


class Risk(NamedTuple):
    """An accepted or present risk, without anything that changes when code moves."""

    rule: str
    op: str
    phase: str
    module: str
    file: str
    """Path of the file that the op was called in, relative as in the trace; empty where no line is known."""
    function: str

    @property
    def fingerprint(self) -> str:
        """Thirty-two hexadecimal digits that stay while the risk does."""
        return hashlib.sha256("\0".join(self).encode("utf-8")).hexdigest()[:32]


class Accepted(NamedTuple):
    risk: Risk
    verdict: Verdict
    """The worst verdict that is accepted."""
    until: datetime.date | None = None
    """The day from which it is accepted no longer."""
    reason: str = NO_REASON
    line: int = 0
    """Its line in the file, from 1."""


class BaselineComparison(NamedTuple):
    """A judgement's findings against a baseline: each finding is in one of the first four."""

    accepted: tuple[Finding, ...]
    """Accepted, and no worse than was accepted."""
    new: tuple[Finding, ...]
    worsened: tuple[Finding, ...]
    """Accepted with a better verdict than they have now."""
    expired: tuple[Finding, ...]
    """Accepted until a day that has come."""
    fixed: tuple[Accepted, ...]
    """Accepted, and found no longer: stale lines."""


def risk_of(finding: Finding) -> Risk:
    """Return the risk of ``finding``, whatever its line and count."""
    what, file = finding.op or finding.name or finding.subject, file_of(finding.location)
    cells = (finding.rule, what, finding.phase.value, finding.module, file, finding.function)
    # A file's name may hold what no text file can: it becomes a question mark here as in the lock file.
    return Risk(*(cell.encode("utf-8", "replace").decode("utf-8") for cell in cells))


def file_of(location: str) -> str:
    """``train.py:10`` without its line."""
    return split_place(location)[0]


def compare(findings: Iterable[Finding], accepted: Iterable[Accepted], today: datetime.date) -> BaselineComparison:
    """Hold ``findings`` against what was ``accepted``, as of ``today``."""
    lines = {line.risk: line for line in accepted}
    still_accepted, new, worsened, expired = [], [], [], []
    met = set()
    for finding in findings:
        risk = risk_of(finding)
        line = lines.get(risk)
        met.add(risk)
        if line is None:
            new.append(finding)
        elif line.until is not None and line.until <= today:
            expired.append(finding)
        elif SEVERITY.index(finding.verdict) < SEVERITY.index(line.verdict):
            worsened.append(finding)
        else:
            still_accepted.append(finding)
    fixed = tuple(line for risk, line in lines.items() if risk not in met)
    return BaselineComparison(tuple(still_accepted), tuple(new), tuple(worsened), tuple(expired), fixed)


def updated(findings: Iterable[Finding], accepted: Iterable[Accepted]) -> tuple[Accepted, ...]:
    """The baseline that accepts every one of ``findings``: reasons and days of the lines that stay are kept."""
    lines = {line.risk: line for line in accepted}
    worst: dict[Risk, Verdict] = {}
    for finding in findings:
        risk = risk_of(finding)
        worst[risk] = min(worst.get(risk, finding.verdict), finding.verdict, key=SEVERITY.index)
    return tuple(lines.get(risk, Accepted(risk, worst[risk]))._replace(verdict=worst[risk]) for risk in sorted(worst))


def read_baseline(path: str | os.PathLike[str]) -> tuple[Accepted, ...]:
    """Read a lock file; ``BaselineError`` in one line, with the line's number, for what is none."""
    try:
        text = read_text(path)
    except FileNotFoundError as problem:
        hint = "write it with --update-baseline"
        raise BaselineError(f"there is no baseline {os.fspath(path)}", hint=hint) from problem
    except (OSError, ValueError) as problem:
        raise BaselineError(f"cannot read {os.fspath(path)}: {reason_of(problem)}", hint="check the file") from problem
    return parse_baseline(text, os.fspath(path))


def parse_baseline(text: str, source: str) -> tuple[Accepted, ...]:
    """The lines of a lock file's ``text``; ``source`` names it in errors."""
    lines = text.split("\n")
    if lines[0].strip() != HEADER:
        hint = "write it with --update-baseline; a newer release may have written this one"
        raise BaselineError(f"{source} is no baseline of this release: its first line is not its header", hint=hint)
    accepted: dict[Risk, Accepted] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            entry = _parse_line(line, f"{source}:{number}", number)
            if (earlier := accepted.setdefault(entry.risk, entry)) is not entry:
                raise BaselineError(f"{source}:{number} accepts what line {earlier.line} accepts", hint="drop one")
    return tuple(accepted.values())


def _parse_line(line: str, where: str, number: int) -> Accepted:
    cells = _split(line)
    if len(cells) != len(COLUMNS):
        raise BaselineError(f"{where} has {len(cells)} columns in place of {len(COLUMNS)}", hint=LEGEND[2:])
    *risk, verdict, until, reason = cells
    try:
        worst = Verdict(verdict)
    except ValueError as problem:
        hint = f"choose one of {', '.join(SEVERITY)}"
        raise BaselineError(f"{where}: there is no verdict {verdict!r}", hint=hint) from problem
    try:
        day = datetime.date.fromisoformat(until) if until else None
    except ValueError as problem:
        hint = "write it as 2027-01-31, or leave it empty"
        raise BaselineError(f"{where}: {until!r} is no day", hint=hint) from problem
    return Accepted(Risk(*risk), worst, day, reason, number)


def format_baseline(accepted: Iterable[Accepted]) -> str:
    """The lock file's text, sorted; the same findings give the same bytes."""
    lines = [HEADER, LEGEND]
    for entry in sorted(accepted, key=lambda line: line.risk):
        until = entry.until.isoformat() if entry.until else ""
        lines.append(" | ".join(map(_escape, (*entry.risk, entry.verdict.value, until, entry.reason))))
    return "\n".join(lines) + "\n"


def write_baseline(path: str | os.PathLike[str], accepted: Iterable[Accepted]) -> None:
    write_whole(path, format_baseline(accepted).encode("utf-8"), error=BaselineError)


_ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|", "\n": "\\n", "\r": "\\r"})
_TOKEN = re.compile(r"\\.?|[^\\]", re.DOTALL)
_ESCAPED = re.compile(r"\\(.?)", re.DOTALL)
_MEANINGS: Mapping[str, str] = {"n": "\n", "r": "\r", "s": " "}


def _escape(cell: str) -> str:
    """``cell`` on one line, bars escaped; spaces at its ends are spelt out, for those around a bar do not count."""
    end = len(cell) - len(cell.rstrip(" "))
    inner = cell.strip(" ")
    start = len(cell) - end - len(inner)
    return "\\s" * start + inner.translate(_ESCAPES) + "\\s" * end


def _split(line: str) -> list[str]:
    """Cells between bars; a backslash takes the next character for itself."""
    cells = [""]
    for token in _TOKEN.findall(line):
        if token == "|":
            cells.append("")
        else:
            cells[-1] += token
    return [_ESCAPED.sub(lambda match: _MEANINGS.get(match[1], match[1]), cell.strip(" ")) for cell in cells]
