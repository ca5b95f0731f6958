"""Findings that no op shows: judges a trace by the table of settings, once for each combination of settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

import msgspec

from tracer.findings import Finding, Note
from tracer.judging.bound_rows import BoundRows, Dependents, TraceUnderSettings
from tracer.judging.observations import observed_findings
from tracer.judging.setting_findings import changed_findings, late_findings, setting_findings
from tracer.names import SEVERITY
from tracer.tables.rules import Ruling
from tracer.tables.settings.rows import EnvironmentTable
from tracer.tables.versions import judged_as, placed, reviewed_releases
from tracer.trace.records import CallGroup, FactValue


class Observed(NamedTuple):
    """The table of settings' findings and notes on a trace."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()


class ProcessUnderTarget:
    """The table of settings for one trace and target."""

    def __init__(
        self,
        settings: TraceUnderSettings,
        rows: EnvironmentTable | None,
        judged: Iterable[tuple[CallGroup, Ruling]],
        *,
        strict: bool,
    ) -> None:
        """``rows`` ``None``: no findings about the process. ``strict``: see ``BoundTable``."""
        self._settings = settings
        self._target = target = settings.target
        self._rows = rows
        self._place = "reviewed" if rows is None else placed(rows.reviewed, target.torch)
        self._speaks = self._place == "reviewed" or (self._place == "newer" and not strict)
        self._dependents = None if rows is None else Dependents(rows, judged, settings.trace)
        self._observed: dict[frozenset[tuple[str, FactValue]], Observed] = {}

    def observe(self, sets: Mapping[str, FactValue]) -> Observed:
        """Findings and notes with ``sets`` on top of the target's own settings; computed once for each."""
        key = frozenset(sets.items())
        if key not in self._observed:
            self._observed[key] = self._observe(sets)
        return self._observed[key]

    def _observe(self, sets: Mapping[str, FactValue]) -> Observed:
        rows = self._rows
        if rows is None or self._dependents is None or not self._speaks:
            return Observed()
        extrapolated = self._place == "newer"
        version = judged_as(rows.reviewed, self._target.torch, extrapolated=extrapolated)
        scene = self._settings.under(sets)
        bound = BoundRows(rows.row, version, scene, self._dependents, extrapolated)
        findings: dict[tuple[object, ...], Finding] = {}
        notes: list[Note] = []
        for read in (setting_findings, late_findings, changed_findings, observed_findings):
            for statement in read(bound):
                if isinstance(statement, Note):
                    notes.append(statement)
                    continue
                key = key_of(statement)
                findings[key] = _together(findings[key], statement) if key in findings else statement
        return Observed(tuple(findings.values()), tuple(notes))

    def banners(self) -> Iterator[str]:
        """Banners about the table itself."""
        if self._rows is None or self._place == "reviewed":
            return
        reviewed, version = self._rows.reviewed, self._target.torch
        if self._speaks:
            yield extrapolated_banner("The table of settings", reviewed, version)
        else:
            yield (
                f"The table of settings was reviewed for torch {reviewed}, not for {version}: settings, seeds, memory"
                " and data loading were not judged."
            )


def extrapolated_banner(table: str, reviewed: str, version: str) -> str:
    """The banner of a ``table`` whose verdicts are those of an older release."""
    newest = reviewed_releases(reviewed)[-1]
    says = f"for torch {version} its verdicts are those of {newest}, extrapolated"
    return f"{table} was reviewed up to torch {newest}; {says}."


#: The key by which findings about the process are merged.
key_of: Callable[[Finding], tuple[object, ...]] = attrgetter(
    "rule", "subject", "op", "phase", "module", "location", "function", "called_from", "backend"
)


def _together(finding: Finding, other: Finding) -> Finding:
    """Merges two records of the same thing at the same place: the worse verdict counts."""
    worse = min(finding, other, key=lambda either: SEVERITY.index(either.verdict))
    ops = Counter(finding.ops) + Counter(other.ops)
    return msgspec.structs.replace(worse, count=finding.count + other.count, ops=dict(ops))
