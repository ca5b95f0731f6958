"""What no op shows: the table of settings held against a trace, as often as settings are tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from tracer.findings import Finding, Note
from tracer.judging.bound_rows import BoundRows, Dependents, TraceUnderSettings
from tracer.judging.observations import observed_findings
from tracer.judging.setting_findings import changed_findings, late_findings, setting_findings
from tracer.names import SEVERITY
from tracer.tables.ruling.bound_table import RuleOutcome
from tracer.tables.settings.rows import EnvironmentTable
from tracer.tables.versions import judged_as, placed, reviewed_releases
from tracer.trace.records import CallGroup, FactValue


class Observed(NamedTuple):
    """What the table of settings says of a trace."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()


class Process:
    """The table of settings for one trace and target."""

    def __init__(
        self,
        settings: TraceUnderSettings,
        rows: EnvironmentTable | None,
        judged: Iterable[tuple[CallGroup, RuleOutcome]],
        *,
        strict: bool,
    ) -> None:
        """``rows`` ``None``: nothing is said of the process. ``strict``: see ``tables.binding.BoundTable``."""
        self._settings = settings
        self._target = target = settings.target
        self._rows = rows
        self._place = "reviewed" if rows is None else placed(rows.reviewed, target.torch)
        self._is_strict = strict
        self._dependents = None if rows is None else Dependents(rows, judged, settings.trace)
        self._kept: dict[frozenset[tuple[str, FactValue]], Observed] = {}

    def observe(self, sets: Mapping[str, FactValue]) -> Observed:
        """Findings and notes with ``sets`` on top of the target's own settings; worked out once for each."""
        key = frozenset(sets.items())
        if key not in self._kept:
            self._kept[key] = self._observe(sets)
        return self._kept[key]

    def _observe(self, sets: Mapping[str, FactValue]) -> Observed:
        rows = self._rows
        if rows is None or self._dependents is None or not self._speaks:
            return Observed()
        extrapolated = self._place == "newer"
        version = judged_as(rows.reviewed, self._target.torch, extrapolated=extrapolated)
        scene = self._settings.under(sets)
        bound = BoundRows(rows.row, version, scene, self._dependents, extrapolated=extrapolated)
        findings: dict[tuple[object, ...], Finding] = {}
        notes: list[Note] = []
        told: list[Finding | Note] = [*setting_findings(bound)]
        told += (*late_findings(bound), *changed_findings(bound), *observed_findings(bound))
        for statement in told:
            if isinstance(statement, Note):
                notes.append(statement)
                continue
            known = findings.get(key_of(statement))
            findings[key_of(statement)] = statement if known is None else _together(known, statement)
        return Observed(tuple(findings.values()), tuple(notes))

    def banners(self) -> Iterator[str]:
        """What must be said of the table itself."""
        if self._rows is None or self._place == "reviewed":
            return
        reviewed, version = self._rows.reviewed, self._target.torch
        if self._speaks:
            newest = reviewed_releases(reviewed)[-1]
            yield (
                f"The table of settings was reviewed up to torch {newest}; for torch {version} its verdicts are"
                f" those of {newest}, extrapolated."
            )
        else:
            yield (
                f"The table of settings was reviewed for torch {reviewed}, not for {version}: settings, seeds, memory"
                " and data loading were not judged."
            )

    @property
    def _speaks(self) -> bool:
        return self._place == "reviewed" or (self._place == "newer" and not self._is_strict)


def key_of(finding: Finding) -> tuple[object, ...]:
    """What makes two findings about the process one."""
    return (
        finding.rule,
        finding.subject,
        finding.op,
        finding.phase.value,
        finding.module,
        finding.location,
        finding.function,
        finding.called_from,
        finding.backend.value,
    )


def _together(one: Finding, other: Finding) -> Finding:
    """Two records of the same thing at the same place: the worse verdict stands."""
    if SEVERITY.index(other.verdict) < SEVERITY.index(one.verdict):
        one, other = other, one
    ops = dict(one.ops)
    for op, count in other.ops.items():
        ops[op] = ops.get(op, 0) + count
    return msgspec.structs.replace(one, count=one.count + other.count, ops=ops)
