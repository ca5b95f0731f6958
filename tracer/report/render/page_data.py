"""The findings as the page's table reads them: every string once, rows as numbers.

A row is two numbers: what was recorded (a place) and what was ruled on it. Both repeat, within one target and between
targets that the page can switch to; written once each, ten thousand findings stay small, and nothing becomes a table
row before it is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from tracer.findings import Finding, Judgement
from tracer.names import SEVERITY, Phase
from tracer.plain import visible
from tracer.report.finding_columns import Holds, Judged, Part, details, on_page, rows
from tracer.report.sections.calls import Block, worst_inside
from tracer.report.sections.findings import accepted_in_words, groups_of
from tracer.report.sections.recorded import command
from tracer.report.sections.targets import MOST_ROWS_ELSEWHERE, targets_shown
from tracer.report.words import VERDICTS

if TYPE_CHECKING:
    from tracer.report.view import ReportView

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_UNSAFE = re.compile("[<>&\u2028\u2029]")


class _Strings:
    """A table of strings, each held once."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        known = self.index.get(text)
        return self.index.setdefault(text, len(self.index)) if known is None else known


class _Rows:
    """Rows of one page, whatever the target: places and rulings, each once."""

    def __init__(self) -> None:
        self.strings = _Strings()
        self.columns = {part: on_page(part) for part in Part}
        self.makers = {part: tuple(column.page_cell for column in self.columns[part]) for part in Part}
        self.met: dict[Part, dict[tuple[int, ...], int]] = {part: {} for part in Part}

    def of(self, judgement: Judgement, findings: Sequence[Finding]) -> list[tuple[int, int]]:
        """A row a finding: its place and its ruling."""
        return [(self._half(Part.PLACE, row), self._half(Part.RULING, row)) for row in rows(judgement, findings)]

    def _half(self, part: Part, row: Judged) -> int:
        index = self.strings.index
        numbers: list[int] = []
        for make in self.makers[part]:
            cell = make(row)
            if isinstance(cell, str):
                known = index.get(cell)
                numbers.append(self.strings(cell) if known is None else known)
            else:
                numbers.append(int(cell))
        met = self.met[part]
        return met.setdefault(tuple(numbers), len(met))


def findings_json(report: ReportView, blocks: tuple[Block, ...] = ()) -> str:
    """The JSON that stands in the page: strings, places, rulings, the rows of each target, and the words of verdicts.

    ``blocks`` are those of the model's map, which each target colours. No character in the JSON can end the element
    that it stands in, or a line of JavaScript.
    """
    made = _Rows()
    own = made.of(report.judgement, report.findings)
    data: dict[str, Any] = {
        "place_fields": [column.name for column in made.columns[Part.PLACE]],
        "ruling_fields": [column.name for column in made.columns[Part.RULING]],
        "numbers": [column.name for column in chain(*made.columns.values()) if column.holds is not Holds.TEXT],
        "details": [{"field": name, "label": one.label, "look": one.look.value} for name, one in details()],
        "targets": [
            _target(report, judgement, own if judgement is report.judgement else None, made, blocks)
            for judgement in targets_shown(report)
        ],
        "rows": own,
        "verdicts": [
            {"name": verdict.value, "sign": VERDICTS[verdict].sign, "label": VERDICTS[verdict].label}
            for verdict in SEVERITY
        ],
        "phases": [phase.value for phase in Phase],
    }
    data |= {"places": list(made.met[Part.PLACE]), "rulings": list(made.met[Part.RULING])}
    data["accepted"] = [
        (accepted.finding, made.strings(accepted_in_words(accepted))) for accepted in report.accepted or ()
    ]
    data["strings"] = [visible(text) for text in made.strings.index]
    text = msgspec.json.encode(data).decode("utf-8")
    return _UNSAFE.sub(lambda match: _ESCAPES[match.group()], text)


def _target(
    report: ReportView, judgement: Judgement, own: list[tuple[int, int]] | None, made: _Rows, blocks: tuple[Block, ...]
) -> dict[str, Any]:
    """One target's name, command, colours and rows; the report's own rows stand beside all others'."""
    target = judgement.target
    shown = judgement.findings if own is not None else judgement.findings[:MOST_ROWS_ELSEWHERE]
    # What a gate let pass never stands for what it did not.
    accepted = {one.finding: accepted_in_words(one) for one in report.accepted or ()} if own is not None else {}
    tally = judgement.tally
    return {
        "name": visible(f"{target.backend}, torch {target.torch}"),
        "backend": target.backend.value,
        "torch": visible(target.torch),
        "command": visible(command(report, target)),
        "rows": made.of(judgement, shown) if own is None else [],
        "more": max(0, len(judgement.findings) - MOST_ROWS_ELSEWHERE) if own is None else 0,
        "folds": [group for group in groups_of(shown, accepted) if len(group) > 1],
        "map": worst_inside(tally.by_module, blocks),
        "phases": {
            phase.value: next(i for i, verdict in enumerate(SEVERITY) if counts.get(verdict))
            for phase, counts in tally.by_phase.items()
            if any(counts.values())
        },
    }
