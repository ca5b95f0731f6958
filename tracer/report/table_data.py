"""The findings as the page's table reads them: every string once, rows as numbers.

Findings repeat their remedies, modules and files; written once each, ten thousand findings stay small, and
nothing becomes a table row before it is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from tracer.findings import Evidence, Finding
from tracer.names import SEVERITY, Phase
from tracer.plan import name_of, place_of
from tracer.report.columns import backend_of
from tracer.report.naming import is_call, ops_behind, phase_of, subject_of
from tracer.report.plain import visible
from tracer.report.words import ABOUT, EVIDENCE_STRENGTH, UNKNOWN_REASONS, VERDICTS
from tracer.trace.model import FactValue

if TYPE_CHECKING:
    from tracer.report.report import Report

#: What a row holds; all but ``count`` are indexes into ``strings``. The page's script reads the same names.
FIELDS = (
    "verdict",
    "mode",
    "op",
    "phase",
    "module",
    "place",
    "called_from",
    "count",
    "cause",
    "rule",
    "backend",
    "why",
    "remedy",
    "evidence",
    "facts",
    "node",
    "function",
    "runs_as",
    "reason",
    "note",
    "about",
    "subject",
    "ops",
    "code",
    "where",
    "planned",
)

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_UNSAFE = re.compile("[<>&\u2028\u2029]")


class _Strings:
    """A table of strings, each held once."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self._facts: dict[tuple[tuple[str, FactValue], ...], int] = {}
        self._evidence: dict[tuple[Evidence, ...], int] = {}

    def __call__(self, text: str) -> int:
        known = self.index.get(text)
        return self.index.setdefault(text, len(self.index)) if known is None else known

    def facts(self, facts: dict[str, FactValue]) -> int:
        """The index of ``facts`` in one line; few distinct ones stand behind many findings."""
        key = tuple(facts.items())
        if key not in self._facts:
            self._facts[key] = self(", ".join(f"{name}={value}" for name, value in sorted(key)))
        return self._facts[key]

    def ops(self, ops: Mapping[str, int]) -> int:
        """The index of ``ops``, a line each, most calls first."""
        ordered = sorted(ops.items(), key=lambda item: (-item[1], item[0]))
        return self("\n".join(f"{' '.join(name_of(op).split())}: {calls:,}" for op, calls in ordered))

    def evidence(self, evidence: tuple[Evidence, ...]) -> int:
        """The index of ``evidence``, a line each; the strings hold no other newline."""
        if evidence not in self._evidence:
            lines = (f"{EVIDENCE_STRENGTH[one.kind]}: {' '.join(one.ref.split())}" for one in evidence)
            self._evidence[evidence] = self("\n".join(lines))
        return self._evidence[evidence]


def findings_json(report: Report) -> str:
    """The JSON that stands in the page: ``fields``, ``strings``, ``rows``, and the words of verdicts.

    No character in it can end the element that it stands in, or a line of JavaScript.
    """
    strings = _Strings()
    rows = [_row(finding, report, strings) for finding in report.findings]
    data = {
        "fields": FIELDS,
        "strings": [visible(text) for text in strings.index],
        "rows": rows,
        "verdicts": [
            {"name": verdict.value, "sign": VERDICTS[verdict].sign, "label": VERDICTS[verdict].label}
            for verdict in SEVERITY
        ],
        "phases": [phase.value for phase in Phase],
    }
    text = msgspec.json.encode(data).decode("utf-8")
    return _UNSAFE.sub(lambda match: _ESCAPES[match.group()], text)


def _row(finding: Finding, report: Report, at: _Strings) -> list[int]:
    reason = finding.reason
    said = f"{UNKNOWN_REASONS[reason]} {finding.reason_detail}".strip() if reason else ""
    return [
        at(finding.verdict.value),
        at(finding.deterministic_mode.value),
        at(subject_of(finding)),
        at(phase_of(finding)),
        at(finding.module),
        at(finding.location or ("" if is_call(finding) or finding.called_from else place_of(finding))),
        at(finding.called_from),
        finding.count,
        at(finding.cause.value if finding.cause else ""),
        at(finding.rule),
        at(backend_of(finding, report.judgement).value),
        at(finding.why),
        at(finding.remedy),
        at.evidence(finding.evidence),
        at.facts(finding.facts),
        at(finding.node),
        at(finding.function),
        at(name_of(finding.runs_as)),
        at(said),
        at("Extrapolated: the target's torch is newer than the table." if finding.extrapolated else ""),
        at(ABOUT[finding.about].label),
        at(finding.subject),
        at.ops(ops_behind(finding)),
        at(finding.code),
        at(finding.where),
        at(_planned(finding)),
    ]


def _planned(finding: Finding) -> str:
    """What the plan's settings make of it, where they change anything."""
    if finding.planned is None:
        return ""
    as_is, mode_on = (VERDICTS[verdict].label for verdict in finding.planned)
    return as_is if as_is == mode_on else f"{as_is}; {mode_on} in deterministic mode"
