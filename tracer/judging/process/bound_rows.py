"""Rows of the table of settings bound to one target: from what was observed to a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tracer.findings import Evidence, Finding, Note
from tracer.judging.deciding import deciding_of
from tracer.judging.process.trace_under_target import Dependents, TraceUnderTarget
from tracer.names import About, Backend, Differs, Phase, Settings, UnknownReason, Verdict
from tracer.tables.conditions import BothWays, BoundRule
from tracer.tables.settings.rows import Row
from tracer.tables.settings.target_settings import settings_of
from tracer.tables.versions import speaks_of
from tracer.tables.vocabulary import Value
from tracer.trace.records import Placed


class BoundRows:
    """The rows that speak of one version of torch, under one scene's settings."""

    def __init__(
        self,
        rows: tuple[Row, ...],
        version: str,
        scene: TraceUnderTarget,
        dependents: Dependents,
        *,
        extrapolated: bool,
    ) -> None:
        """``version`` is a release that the rows were reviewed for."""
        self.scene = scene
        self.dependents = dependents
        self._rows = tuple(row for row in rows if speaks_of(row.torch, version))
        self._version = version
        self._extrapolated = extrapolated
        self._bound: dict[str, BothWays[Row]] = {}

    def about(self, about: About) -> Iterator[Row]:
        """The rows that speak of ``about`` and bear on the target."""
        return (row for row in self._rows if row.about is about and self.scene.bears_on(row.backends))

    def named(self, row_id: str) -> Iterator[Row]:
        """The row of that id, if it speaks of this version and target."""
        return (row for row in self._rows if row.id == row_id and self.scene.bears_on(row.backends))

    def ops_for(self, row: Row) -> dict[str, int] | None:
        """The calls that make ``row`` matter; ``None`` where it needs some and none was recorded."""
        if not row.needs:
            if row.backends and not self.dependents.backends.intersection(row.backends):
                return None
            return {}
        return self.dependents.of(row) or None

    def matters_unset(self, row: Row) -> bool:
        """Can two runs of this step differ while the row's variable is not set? So far as it shows: see ``unseen``."""
        if row.differs is Differs.MACHINES or ("unseen" not in row.needs and self.ops_for(row) is None):
            return False
        held = self.scene.environment
        others = {name: value for name, value in held.variables.items() if name != row.variable}
        conditions = settings_of(msgspec.structs.replace(held, variables=others), Settings.RECORDED)
        outcome = BoundRule(row, self._version, conditions).decide({"value": "unset"})
        return outcome.verdict is not Verdict.DETERMINISTIC

    def finding(
        self,
        row: Row,
        facts: Mapping[str, Value],
        *,
        subject: str,
        facts_in_mode: Mapping[str, Value] | None = None,
        settings: Mapping[str, Value] | None = None,
        ops: Mapping[str, int] | None = None,
        at: Placed | None = None,
        **fields: Any,
    ) -> Iterator[Finding]:
        """What ``row`` makes of ``facts``: a finding, unless it is deterministic both ways.

        ``facts_in_mode``: the facts in deterministic mode, where those are others. ``settings``: what held when it
        happened, where that is not what the target has. ``at``: the finding's place.
        """
        rule = self._both_ways(row)
        if settings:
            rule = BothWays(row, self._version, {**self.scene.conditions, **settings})
        answer = rule.decide(facts, facts_in_mode)
        if answer.both == (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC):
            return
        if at is not None:
            fields = {**at.place._asdict(), **fields}
        reason = answer.reason
        if reason is not None and fields.get("reason_detail"):
            reason = UnknownReason.FACT_NOT_RECORDED
        elif reason is not None:
            fields["reason_detail"] = answer.missing
        else:
            fields.pop("reason_detail", None)
        counted = dict(ops or {})
        yield Finding(
            **{
                "rule": row.id,
                "op": "",
                "phase": Phase.OTHER,
                "count": max(1, sum(counted.values())),
                "verdict": answer.as_is.verdict,
                "deterministic_mode": answer.in_mode.verdict,
                "cause": answer.cause,
                "why": answer.why,
                "remedy": answer.remedy,
                "evidence": evidence_of(row),
                "facts": dict(facts),
                "decided": deciding_of([answer.decided]),
                "reason": reason,
                "extrapolated": self._extrapolated,
                "backend": self.dependents.backend_of(row, self.scene.target),
                "about": row.about,
                "subject": subject,
                "ops": counted,
                "code": row.code,
                "where": row.where,
                "sets": {name: value for name, value in row.sets.items() if not self.scene.has(name, value)},
                **fields,
            }
        )

    def note(self, row: Row, *, subject: str, ops: Mapping[str, int]) -> Note:
        """What ``row`` says between machines."""
        return Note(
            rule=row.id,
            subject=subject,
            why=row.why,
            remedy=row.remedy,
            differs=row.differs,
            ops=dict(ops),
            evidence=evidence_of(row),
            backend=self.dependents.backend_of(row, self.scene.target),
        )

    def _both_ways(self, row: Row) -> BothWays[Row]:
        if row.id not in self._bound:
            self._bound[row.id] = BothWays(row, self._version, self.scene.conditions)
        return self._bound[row.id]


def evidence_of(row: Row) -> tuple[Evidence, ...]:
    """Why ``row`` is believed."""
    return tuple(Evidence(kind=evidence.kind, ref=evidence.ref) for evidence in row.evidence)


def device_backend(device: str, *, is_rocm: bool) -> Backend:
    """The backend of a device type; ``recorded`` for one that is none."""
    if device == "cuda" and is_rocm:
        return Backend.ROCM
    return Backend(device) if device in Backend._value2member_map_ else Backend.RECORDED
