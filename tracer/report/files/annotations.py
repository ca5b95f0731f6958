"""Lines that GitHub Actions reads from a log and shows at the code: ``::warning file=train.py,line=10::...``.

GitHub shows ten errors and ten warnings of a step and silently drops the others: no more are printed, the rest counted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tracer.findings import Finding
from tracer.names import Verdict
from tracer.plain import one_line
from tracer.report.words import counted, phase_of, statement_of
from tracer.trace.records import split_place

#: Annotations of one kind that GitHub shows for a step.
LIMIT = 10
_LONGEST = 1_000
_ERRORS = (Verdict.RAISES, Verdict.NONDETERMINISTIC)


def annotated(findings: Iterable[Finding], root: str = "") -> Iterator[str]:
    """A line a finding, the first ``LIMIT`` of each kind, then how many were left out.

    ``root`` is the working directory below the repository's, which GitHub's paths begin at.
    """
    met: Counter[str] = Counter()
    for finding in findings:
        kind = "error" if finding.verdict in _ERRORS else "warning"
        met[kind] += 1
        if met[kind] <= LIMIT:
            yield _annotation(kind, finding, root)
    if left_out := sum(max(0, count - LIMIT) for count in met.values()):
        yield f"tracer: {left_out:,} more; GitHub shows {LIMIT} annotations of a kind for a step"


def folder_below(repository: str | None) -> str:
    """The working directory as seen from the ``repository``'s folder; empty where it is that one, or elsewhere."""
    if not repository:
        return ""
    try:
        below = Path.cwd().resolve().relative_to(Path(repository).resolve())
    except (OSError, ValueError):
        return ""
    return "" if below == Path() else below.as_posix()


def inert(line: str) -> str:
    """``line`` such that GitHub Actions takes nothing in it for a command, in either of its notations."""
    text = line.replace("##[", "## [")
    return f"| {text}" if text.lstrip().startswith("::") else text


def _annotation(kind: str, finding: Finding, root: str) -> str:
    path, line = split_place(finding.called_from or finding.location)
    properties = {"file": os.path.join(root, path), "line": "" if line is None else str(line)} if path else {}
    properties["title"] = finding.rule
    spelled = ",".join(
        f"{name}={_data(one_line(value, _LONGEST)).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
        if value or name != "line"
    )
    parts = (counted(finding), phase_of(finding), f"under deterministic mode: {finding.deterministic_mode}")
    message = f"{statement_of(finding)} ({', '.join(filter(None, parts))}). {finding.remedy}".rstrip()
    return f"::{kind} {spelled}::{_data(one_line(message, _LONGEST))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
