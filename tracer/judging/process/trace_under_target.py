"""What rows of the table of settings are held against: a trace under one target's settings, with its judged calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tracer.findings import Target
from tracer.names import REPEATABLE, Backend, SeedOrigin, Settings, Verdict
from tracer.tables.conditions import wanted_values
from tracer.tables.model import Case
from tracer.tables.ruling.bound_table import RuleOutcome
from tracer.tables.settings.declared import SEEDS
from tracer.tables.settings.rows import EnvironmentTable, Group, Row
from tracer.tables.settings.target_settings import effective_environment, settings_of
from tracer.trace.file import Trace
from tracer.trace.records import NO_DEVICE, CallGroup, Environment, FactValue

_VARYING = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL, Verdict.UNKNOWN)


class TraceUnderTarget(NamedTuple):
    """A trace as one target has it."""

    trace: Trace
    target: Target
    sets: Mapping[str, FactValue]
    """Settings in place of the target's own."""
    environment: Environment
    """The recorded one with the target's settings."""
    conditions: Mapping[str, FactValue]

    @property
    def is_recorded(self) -> bool:
        """Are the program's own settings judged, so that when it made them matters?"""
        return self.target.settings is Settings.RECORDED

    def origin(self, recorded: SeedOrigin, seed: str) -> SeedOrigin:
        """Where a state came from, if ``seed`` may have been set in this target's stead."""
        return SeedOrigin.PROGRAM if seed in self.sets and recorded not in REPEATABLE else recorded

    def has(self, name: str, value: FactValue) -> bool:
        """Is the setting of that name, as ``judge(..., settings=...)`` takes it, made to ``value`` already?"""
        if name in SEEDS:
            return name in self.sets
        if name in Environment.__struct_fields__:
            held = getattr(self.environment, name)
            return held is not None and (held if isinstance(held, bool) else str(held)) == value
        return (self.environment.settings if "." in name else self.environment.variables).get(name) == value

    def bears_on(self, backends: Iterable[Backend]) -> bool:
        """Does something of ``backends`` bear on this target? Any does, where each call keeps its own device."""
        named = tuple(backends)
        return not named or self.target.backend is Backend.RECORDED or self.target.backend in named


class TraceUnderSettings:
    """One trace for one target, under each set of settings that is tried: every one is worked out once."""

    def __init__(self, trace: Trace, target: Target) -> None:
        self.trace = trace
        self.target = target
        self._kept: dict[frozenset[tuple[str, FactValue]], TraceUnderTarget] = {}

    def under(self, sets: Mapping[str, FactValue]) -> TraceUnderTarget:
        """With ``sets`` on top of what the target sets itself."""
        key = frozenset(sets.items())
        if key not in self._kept:
            every = {**self.target.sets, **sets}
            self._kept[key] = TraceUnderTarget(
                self.trace,
                self.target,
                every,
                effective_environment(self.trace.environment, self.target.settings, every),
                settings_of(self.trace.environment, self.target.settings, every),
            )
        return self._kept[key]


class Dependents:
    """Calls by what a row may need, each counted once whatever it matches."""

    def __init__(self, table: EnvironmentTable, judged: Iterable[tuple[CallGroup, RuleOutcome]], trace: Trace) -> None:
        self._named = [(group, frozenset(group.ops)) for group in table.group]
        self._matching: dict[str, tuple[Group, ...]] = {}
        self._calls: dict[tuple[frozenset[str], Backend], Counter[str]] = {}
        self.backends: set[Backend] = set()
        """Backends that calls were judged for, but those that compute nothing."""
        self._reads = Counter[str]()
        for read in trace.unwritten_reads:
            self._reads[read.op] += read.count
        for group, ruling in judged:
            if group.facts.get("device") in NO_DEVICE:
                continue
            self.backends.add(ruling.backend)
            matched = frozenset(self._matched(group, ruling))
            if matched:
                self._calls.setdefault((matched, ruling.backend), Counter())[group.op] += group.count

    def of(self, row: Row, *, without: str = "") -> dict[str, int]:
        """Op to calls for what ``row`` needs on its backends, most first; ``without``: a need left out."""
        needs = frozenset(row.needs) - {without}
        found: Counter[str] = Counter()
        for (matched, backend), ops in self._calls.items():
            if matched & needs and (not row.backends or backend in row.backends):
                found.update(ops)
        if "unwritten-reads" in needs:
            found.update(self._reads)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def backend_of(self, row: Row, target: Target) -> Backend:
        """The backend that a finding of ``row`` speaks of; ``recorded`` where that may be several."""
        if target.backend is not Backend.RECORDED:
            return target.backend
        here = [backend for backend in self.backends if not row.backends or backend in row.backends]
        return here[0] if len(here) == 1 else Backend.RECORDED

    def _matched(self, group: CallGroup, ruling: RuleOutcome) -> Iterable[str]:
        for named in self._groups_of(group.op, ruling.runs_as):
            if all(group.facts.get(key) in wanted for key, wanted in _wanted(named)):
                yield named.name
        if ruling.verdict in _VARYING and ruling.verdict_in_deterministic_mode is Verdict.DETERMINISTIC:
            yield "fixed-by-mode"
        if ruling.verdict_in_deterministic_mode is Verdict.RAISES:
            yield "raised-by-mode"

    def _groups_of(self, op: str, runs_as: str) -> tuple[Group, ...]:
        key = f"{op} {runs_as}"
        if key not in self._matching:
            spelt = {op, op.rpartition(".")[0], f"{op.partition('.')[0]}.*"}
            for name in runs_as.split(" or ") if runs_as else ():
                spelt |= {name, f"{name}.default", name.rpartition(".")[0]}
            self._matching[key] = tuple(group for group, ops in self._named if not ops or ops & spelt)
        return self._matching[key]


_WANTED: dict[int, tuple[Group, tuple[tuple[str, frozenset[FactValue]], ...]]] = {}


def _wanted(group: Group) -> tuple[tuple[str, frozenset[FactValue]], ...]:
    """What a group asks of a call, worked out once."""
    kept = _WANTED.get(id(group))
    if kept is None or kept[0] is not group:
        asked = Case(verdict=Verdict.UNKNOWN, when=group.when)
        kept = (group, tuple((key, wanted_values(asked, key)) for key in group.when))
        _WANTED[id(group)] = kept
    return kept[1]
