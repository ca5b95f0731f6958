"""The table of settings bound to one target: a trace under its settings, the calls of each row, and its findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tracer.facts.fact import Value
from tracer.findings import Finding, Note, Target
from tracer.names import (
    REPEATABLE,
    VARYING,
    About,
    Backend,
    BlindSpotKind,
    Cause,
    Differs,
    Phase,
    SeedOrigin,
    Settings,
    UnknownReason,
    Verdict,
)
from tracer.ops.rows import packet_of, row_of, spoken
from tracer.tables.conditions import BothWays, BoundRule, wanted_values
from tracer.tables.rules import Conditioned, Ruling, evidence_of
from tracer.tables.settings.declared import FORWARD, SEEDS, held
from tracer.tables.settings.rows import (
    ALIGNED,
    OWN_DEPTHWISE,
    PADDABLE,
    SINGLE,
    UNROLLED,
    EnvironmentTable,
    SettingRow,
)
from tracer.tables.settings.target_settings import effective_environment, settings_of
from tracer.tables.versions import speaks_of
from tracer.tables.vocabulary import UNNOTED
from tracer.trace.file import Trace
from tracer.trace.records import NO_DEVICE, CallGroup, Draw, Environment, FactValue, Placed

#: Groups for which Inductor may choose a kernel by timing, and its own kernels for them.
_PRODUCTS = "matrix-products"
_TEMPLATES = {_PRODUCTS, "convolutions", "attention"}
#: Groups that a convolution leaves for which CUDA has a kernel of torch's own.
_OF_CUDNN = {"convolutions", "float8-convolutions"}
#: Dtypes whose sums do not depend on the order of the addends.
_EXACT = ("int", "uint", "boolean")
_COMPILED_ATTENTION = "higher_order.flex_attention"


_Held = frozenset[tuple[str, FactValue]]


class TraceUnderTarget(NamedTuple):
    """A trace as one target has it."""

    trace: Trace
    target: Target
    sets: Mapping[str, FactValue]
    """Settings that replace the target's own."""
    environment: Environment
    """The recorded environment with the target's settings."""
    conditions: Mapping[str, FactValue]

    @property
    def is_recorded(self) -> bool:
        """Whether the program's own settings are judged, so that the time at which it set them matters."""
        return self.target.settings is Settings.RECORDED

    def origin(self, recorded: SeedOrigin, seed: str, seeded_at: str = "") -> SeedOrigin:
        """The origin of a generator's state, unless the target sets ``seed``.

        ``seeded_at``: the program's line that seeded it at random, which overrides an earlier seed.
        """
        is_undone = recorded is SeedOrigin.MACHINE and bool(seeded_at)
        return SeedOrigin.PROGRAM if seed in self.sets and recorded not in REPEATABLE and not is_undone else recorded

    def has(self, name: str, value: FactValue) -> bool:
        """Return whether the setting ``name``, as ``judge(..., settings=...)`` takes it, has ``value`` already."""
        return name in self.sets if name in SEEDS else held(name, self.environment) == value

    def bears_on(self, backends: Iterable[Backend]) -> bool:
        """Return whether one of ``backends`` applies to this target. Any does if each call keeps its own device."""
        named = tuple(backends)
        return not named or self.target.backend is Backend.RECORDED or self.target.backend in named


def trace_under(trace: Trace, target: Target, sets: Mapping[str, FactValue]) -> TraceUnderTarget:
    """``trace`` for ``target`` with ``sets`` on top of its own settings."""
    asked = (trace.environment, target.settings, {**target.sets, **sets})
    return TraceUnderTarget(trace, target, asked[2], effective_environment(*asked), settings_of(*asked))


class _Group(NamedTuple):
    """Calls of ``ops`` (of any op if empty) whose facts satisfy the conditions."""

    name: str
    ops: frozenset[str]
    asks: tuple[tuple[str, frozenset[FactValue]], ...]


class Dependents:
    """Calls by what a row may need, each counted once whatever it matches."""

    def __init__(self, table: EnvironmentTable, judged: Iterable[tuple[CallGroup, Ruling]], trace: Trace) -> None:
        self._groups = [
            _Group(
                group.name,
                frozenset(group.ops),
                tuple((key, wanted_values(Conditioned(when=group.when), key)) for key in group.when),
            )
            for group in table.group
        ]
        self._matching: dict[str, tuple[_Group, ...]] = {}
        self._calls: defaultdict[tuple[frozenset[str], Backend, str, _Held], Counter[str]] = defaultdict(Counter)
        """Their calls, by what they match, backend, region and settings of their own."""
        self._compiles_all = any(spot.kind is BlindSpotKind.COMPILE_FELL_BACK for spot in trace.blind_spots)
        self.backends: set[Backend] = set()
        """Backends that calls were judged for, except those that compute nothing."""
        self._reads = Counter[str]()
        for read in trace.unwritten_reads:
            self._reads[read.op] += read.count
        self.draws: list[Draw] = []
        """What they draw from on the target."""
        self.drawing: defaultdict[Backend, Counter[str]] = defaultdict(Counter)
        """Those that draw, by backend."""
        for group, ruling in judged:
            if (draw := group.draw) is not None:
                self.draws.append(draw)
                self.drawing[ruling.backend][spoken(group.op, ruling.runs_as)] += group.count
            if group.facts.get("device") in NO_DEVICE:
                continue
            self.backends.add(ruling.backend)
            matched = frozenset(self._matched(group, ruling))
            if matched:
                held = frozenset(group.settings.items())
                place = (matched, ruling.backend, group.region or "", held)
                self._calls[place][spoken(group.op, ruling.runs_as)] += group.count

    @property
    def held(self) -> tuple[_Held, ...]:
        """The settings that calls ran under and that the target has otherwise, empty ones first."""
        return tuple(dict.fromkeys((frozenset(), *(held for *_, held in self._calls))))

    def of(
        self, row: SettingRow, *, without: str = "", regions: Container[str] | None = None, held: _Held | None = None
    ) -> dict[str, int]:
        """Op to calls for what ``row`` needs on its backends, most first; ``without``: a need left out.

        ``regions``: those whose calls count; ``held``: whose settings. ``None`` for all calls.
        """
        needs = frozenset(row.needs) - {without}
        calls: Counter[str] = Counter()
        for (matched, backend, region, own), ops in self._calls.items():
            if held is not None and own != held:
                continue
            is_there = (not row.backends or backend in row.backends) and (regions is None or region in regions)
            if is_there and matched & needs:
                calls.update(ops)
        if "unwritten-reads" in needs and not held:
            calls.update(self._reads)
        return dict(sorted(calls.items(), key=lambda item: (-item[1], item[0])))

    def _matched(self, group: CallGroup, ruling: Ruling) -> Iterable[str]:
        names = {
            named.name
            for named in self._groups_of(group.op, ruling.runs_as)
            if all(group.facts.get(key, UNNOTED.get(key)) in wanted for key, wanted in named.asks)
        }
        is_own_depthwise = OWN_DEPTHWISE in names and ruling.backend is Backend.CUDA
        yield from names - _OF_CUDNN if is_own_depthwise else names
        if group.region or self._compiles_all:
            if names & _TEMPLATES or group.op.startswith(_COMPILED_ATTENTION):
                yield "compiled-templates"
            elif (
                row_of(packet_of(group.op)).reduces
                and UNROLLED not in names
                and not str(group.facts.get("dtype")).startswith(_EXACT)
            ):
                yield "compiled-reductions"
                if SINGLE not in names:
                    yield "timed-reductions"
            if _PRODUCTS in names:
                yield "compiled-products"
                if PADDABLE in names and ALIGNED not in names:
                    yield "padded-products"
        is_filled = ruling.cause is Cause.UNINITIALIZED_MEMORY  # with NaN: runs would agree on a wrong result
        if (
            ruling.verdict in (*VARYING, Verdict.UNKNOWN)
            and ruling.deterministic_mode is Verdict.DETERMINISTIC
            and not is_filled
        ):
            yield "fixed-by-mode"
        if ruling.deterministic_mode is Verdict.RAISES:
            yield "raised-by-mode"

    def _groups_of(self, op: str, runs_as: str) -> tuple[_Group, ...]:
        key = f"{op} {runs_as}"
        if key not in self._matching:
            spelt = {op, op.rpartition(".")[0], f"{op.partition('.')[0]}.*"}
            for name in runs_as.split(" or ") if runs_as else ():
                spelt |= {name, f"{name}.default", name.rpartition(".")[0]}
            self._matching[key] = tuple(group for group in self._groups if not group.ops or group.ops & spelt)
        return self._matching[key]


@dataclass(eq=False)
class BoundRows:
    """The rows that hold for one version of torch, under one scene's settings."""

    rows: tuple[SettingRow, ...]
    version: str
    """A release that they were reviewed for."""
    scene: TraceUnderTarget
    dependents: Dependents
    extrapolated: bool

    def __post_init__(self) -> None:
        held = (row for row in self.rows if speaks_of(row.torch, self.version))
        self._rows = tuple(row for row in held if self.scene.bears_on(row.backends))
        self._bound: dict[str, BothWays[SettingRow]] = {}

    def about(self, about: About) -> Iterator[SettingRow]:
        """The rows about ``about`` that apply to the target."""
        return (row for row in self._rows if row.about is about)

    def named(self, row_id: str) -> Iterator[SettingRow]:
        """The row of that id, if it holds for this version and applies to the target."""
        return (row for row in self._rows if row.id == row_id)

    def may_run_on(self, backends: Collection[Backend]) -> bool:
        """Return whether calls that were not recorded may run on one of ``backends`` (any if empty), as others do."""
        there = self.dependents.backends
        is_anywhere = self.scene.target.backend is not Backend.RECORDED or not there or not backends
        return is_anywhere or not there.isdisjoint(backends)

    def ops_for(self, row: SettingRow, regions: Container[str] | None = None) -> dict[str, int] | None:
        """The calls that ``row`` affects; ``None`` if it needs some and none was recorded.

        ``regions``: those of compiled code whose calls count; ``None`` for all calls.
        """
        if row.needs:
            return self.dependents.of(row, regions=regions) or None
        is_there = not row.backends or self.dependents.backends.intersection(row.backends)
        return {} if is_there else None

    def ops_by_settings(self, row: SettingRow) -> Iterator[tuple[dict[str, FactValue], dict[str, int]]]:
        """The calls that ``row`` affects, by the settings that they ran under, as ``finding`` takes those."""
        changed = self.scene.sets
        for ran_under in self.dependents.held if row.needs else ():
            own = {key: value for key, value in ran_under if key.removeprefix(FORWARD) not in changed}
            if ops := self.dependents.of(row, held=ran_under):
                yield settings_of(self.scene.environment, Settings.RECORDED, own) if own else {}, ops

    def matters_unset(self, row: SettingRow) -> bool:
        """Return whether two runs of this step can differ while the row's variable is not set, as far as calls show."""
        if row.differs is Differs.MACHINES or ("unseen" not in row.needs and self.ops_for(row) is None):
            return False
        held = self.scene.environment
        others = {name: value for name, value in held.variables.items() if name != row.variable}
        conditions = settings_of(msgspec.structs.replace(held, variables=others), Settings.RECORDED)
        outcome = BoundRule(row, self.version, conditions).decide({"value": "unset"})
        return outcome.verdict is not Verdict.DETERMINISTIC

    def finding(
        self,
        row: SettingRow,
        facts: Mapping[str, Value],
        *,
        subject: str,
        facts_in_mode: Mapping[str, Value] | None = None,
        settings: Mapping[str, Value] | None = None,
        ops: Mapping[str, int] | None = None,
        at: Placed | None = None,
        **fields: Any,
    ) -> Iterator[Finding]:
        """The finding of ``row`` for ``facts``, unless it is deterministic in both modes. ``facts_in_mode``: those in
        deterministic mode, if others. ``settings``: what held at the time, if not the target's. ``at``: the place."""
        ruling = self._bind(row, settings or {}).decide(facts, facts_in_mode)
        if ruling.is_safe:
            return
        if at is not None:
            fields = {**at.place._asdict(), **fields}
        detail = fields.pop("reason_detail", "") if ruling.reason is not None else ""
        if detail:
            ruling = msgspec.structs.replace(ruling, reason=UnknownReason.FACT_NOT_RECORDED, reason_detail=detail)
        fields.pop("reason_detail", None)
        counted = dict(ops or {})
        given: dict[str, Any] = {
            "op": "",
            "phase": Phase.OTHER,
            "count": max(1, sum(counted.values())),
            "facts": dict(facts),
            "about": row.about,
            "subject": subject,
            "ops": counted,
            # A case's own remedy needs nothing added.
            "code": row.code if ruling.remedy == row.remedy else "",
            "where": row.where,
            "sets": {name: value for name, value in row.sets.items() if not self.scene.has(name, value)},
        }
        yield Finding.of(ruling, **given | fields)

    def _bind(self, row: SettingRow, settings: Mapping[str, Value]) -> BothWays[SettingRow]:
        if settings or row.id not in self._bound:
            how: dict[str, Any] = {"backend": self._backend_of(row), "extrapolated": self.extrapolated}
            bound = BothWays(row, self.version, {**self.scene.conditions, **settings}, **how)
            if settings:
                return bound
            self._bound[row.id] = bound
        return self._bound[row.id]

    def _backend_of(self, row: SettingRow) -> Backend:
        """The backend of a finding of ``row``; ``recorded`` if there may be several."""
        if self.scene.target.backend is not Backend.RECORDED:
            return self.scene.target.backend
        here = [backend for backend in self.dependents.backends if not row.backends or backend in row.backends]
        return here[0] if len(here) == 1 else Backend.RECORDED

    def note(
        self, row: SettingRow, *, subject: str, ops: Mapping[str, int], facts: Mapping[str, Value] | None = None
    ) -> Note:
        """Return the note of ``row`` on runs on different machines or versions; ``facts``: if a case says why."""
        said = row if facts is None else self._bind(row, {}).decide(facts)
        return Note(
            rule=row.id,
            subject=subject,
            why=said.why,
            remedy=row.remedy,
            differs=row.differs,
            ops=dict(ops),
            evidence=evidence_of(row),
            backend=self._backend_of(row),
        )


def device_backend(device: str, *, is_rocm: bool) -> Backend:
    """The backend of a device type; ``recorded`` if there is none."""
    if device == "cuda" and is_rocm:
        return Backend.ROCM
    return Backend(device) if device in Backend._value2member_map_ else Backend.RECORDED
