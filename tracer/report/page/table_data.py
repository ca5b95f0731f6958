"""The findings as the page's table reads them: every string once, rows as numbers.

A row is two numbers: what was recorded (a place) and what was ruled on it. Both repeat, within one target and between
targets that the page can switch to; written once each, ten thousand findings stay small, and nothing becomes a table
row before it is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tracer.findings import Evidence, Finding, Judgement
from tracer.names import SEVERITY, Phase
from tracer.plan import name_of, place_of
from tracer.report.files.columns import backend_of
from tracer.report.page.model_map import Block, worst_inside
from tracer.report.page.reproduce import command
from tracer.report.wording.acceptance import accepted_in_words
from tracer.report.wording.deciding import deciding_words
from tracer.report.wording.naming import is_call, ops_behind, phase_of, subject_of
from tracer.report.wording.plain import visible
from tracer.report.wording.portability import MOST_ROWS_ELSEWHERE, targets_shown
from tracer.report.wording.words import ABOUT, EVIDENCE_STRENGTH, HOST_CODE, UNKNOWN_REASONS, VERDICTS
from tracer.trace.model import FactValue

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: What was recorded; all but ``count`` are indexes into ``strings``. The page's script reads the same names.
PLACE_FIELDS = (
    "op",
    "phase",
    "module",
    "place",
    "called_from",
    "facts",
    "node",
    "function",
    "about",
    "subject",
    "ops",
    "count",
)
#: What was ruled on it; indexes into ``strings``.
RULING_FIELDS = (
    "verdict",
    "mode",
    "cause",
    "rule",
    "backend",
    "why",
    "remedy",
    "evidence",
    "runs_as",
    "reason",
    "note",
    "code",
    "where",
    "planned",
    "decided",
    "host",
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


class _Rows:
    """Rows of one page, whatever the target: places and rulings, each once."""

    def __init__(self) -> None:
        self.strings = _Strings()
        self.places: dict[tuple[int, ...], int] = {}
        self.rulings: dict[tuple[int, ...], int] = {}

    def of(self, judgement: Judgement, findings: Sequence[Finding]) -> list[tuple[int, int]]:
        """A row a finding: its place and its ruling."""
        rows = []
        for finding in findings:
            place, ruling = self._place(finding), self._ruling(finding, judgement)
            rows.append(
                (
                    self.places.setdefault(place, len(self.places)),
                    self.rulings.setdefault(ruling, len(self.rulings)),
                )
            )
        return rows

    def _place(self, finding: Finding) -> tuple[int, ...]:
        at = self.strings
        return (
            at(subject_of(finding)),
            at(phase_of(finding)),
            at(finding.module),
            at(finding.location or ("" if is_call(finding) or finding.called_from else place_of(finding))),
            at(finding.called_from),
            at.facts(finding.facts),
            at(finding.node),
            at(finding.function),
            at(ABOUT[finding.about].label),
            at(finding.subject),
            at.ops(ops_behind(finding)),
            finding.count,
        )

    def _ruling(self, finding: Finding, judgement: Judgement) -> tuple[int, ...]:
        at = self.strings
        reason = finding.reason
        return (
            at(finding.verdict.value),
            at(finding.deterministic_mode.value),
            at(finding.cause.value if finding.cause else ""),
            at(finding.rule),
            at(backend_of(finding, judgement).value),
            at(finding.why),
            at(finding.remedy),
            at.evidence(finding.evidence),
            at(name_of(finding.runs_as)),
            at(f"{UNKNOWN_REASONS[reason]} {finding.reason_detail}".strip() if reason else ""),
            at("Extrapolated: the target's torch is newer than the table." if finding.extrapolated else ""),
            at(finding.code),
            at(finding.where),
            at(_planned(finding)),
            at(deciding_words(finding)),
            at(HOST_CODE[finding.host] if finding.host is not None else ""),
        )


def findings_json(report: ReportView, blocks: tuple[Block, ...] = ()) -> str:
    """The JSON that stands in the page: strings, places, rulings, the rows of each target, and the words of verdicts.

    ``blocks`` are those of the model's map, which each target colours. No character in the JSON can end the element
    that it stands in, or a line of JavaScript.
    """
    made = _Rows()
    rows = made.of(report.judgement, report.findings)
    data: dict[str, Any] = {
        "place_fields": PLACE_FIELDS,
        "ruling_fields": RULING_FIELDS,
        "targets": [
            _target(report, one, rows if one is report.judgement else None, made, blocks)
            for one in targets_shown(report)
        ],
        "rows": rows,
        "verdicts": [
            {"name": verdict.value, "sign": VERDICTS[verdict].sign, "label": VERDICTS[verdict].label}
            for verdict in SEVERITY
        ],
        "phases": [phase.value for phase in Phase],
    }
    data |= {"places": list(made.places), "rulings": list(made.rulings)}
    data["accepted"] = [(one.finding, made.strings(accepted_in_words(one))) for one in report.accepted or ()]
    data["strings"] = [visible(text) for text in made.strings.index]
    text = msgspec.json.encode(data).decode("utf-8")
    return _UNSAFE.sub(lambda match: _ESCAPES[match.group()], text)


def _target(
    report: ReportView, judgement: Judgement, rows: list[tuple[int, int]] | None, made: _Rows, blocks: tuple[Block, ...]
) -> dict[str, Any]:
    """One target's name, command, colours and rows; the report's own rows stand beside all others'."""
    target = judgement.target
    tally = judgement.tally
    return {
        "name": visible(f"{target.backend}, torch {target.torch}"),
        "backend": target.backend.value,
        "torch": visible(target.torch),
        "command": visible(command(report, target)),
        "rows": made.of(judgement, judgement.findings[:MOST_ROWS_ELSEWHERE]) if rows is None else [],
        "more": max(0, len(judgement.findings) - MOST_ROWS_ELSEWHERE) if rows is None else 0,
        "map": worst_inside(tally.by_module, blocks),
        "phases": {
            phase.value: next(i for i, verdict in enumerate(SEVERITY) if counts.get(verdict))
            for phase, counts in tally.by_phase.items()
            if any(counts.values())
        },
    }


def _planned(finding: Finding) -> str:
    """What the plan's settings make of it, where they change anything."""
    if finding.planned is None:
        return ""
    as_is, in_mode = (VERDICTS[verdict].label for verdict in finding.planned)
    return as_is if as_is == in_mode else f"{as_is}; {in_mode} in deterministic mode"
