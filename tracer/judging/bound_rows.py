"""The table of settings bound to one target: a trace under its settings, the calls of each row, and its findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tracer.facts import Value
from tracer.findings import Finding, Note, Target
from tracer.names import (
    REPEATABLE,
    VARYING,
    About,
    Backend,
    BlindSpotKind,
    Cause,
    DeterministicMode,
    Differs,
    EventKind,
    Phase,
    SeedOrigin,
    Settings,
    Subsystem,
    UnknownReason,
    Verdict,
)
from tracer.ops import bare_name, row_of, spoken
from tracer.tables.conditions import BothWays, BoundRule, wanted_values
from tracer.tables.rules import UNNOTED, Conditioned, Ruling, evidence_of
from tracer.tables.setting_rows import ALIGNED, OWN_DEPTHWISE, PADDABLE, SINGLE, UNROLLED, EnvironmentTable, SettingRow
from tracer.tables.settings import FORWARD, MODE, SEEDS, effective_environment, held, settings_of, variable_line
from tracer.tables.versions import speaks_of
from tracer.trace.file import Trace
from tracer.trace.records import NO_DEVICE, CallGroup, Draw, Environment, Event, FactValue, Placed

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
                row_of(bare_name(group.op)).reduces
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


#: The heading of rows that affect only compiled code.
_COMPILED = "torch.compile"


class ReadSetting(NamedTuple):
    """A setting's value, as a row reads it."""

    value: Value | None
    """``None`` if not set."""
    word: str
    """``unset``, ``safe`` or ``other``."""


def setting_findings(rows: BoundRows) -> Iterator[Finding | Note]:
    """Findings about settings that affect a recorded call, and notes on those that make machines differ."""
    compiled = compiles_by_inductor(rows.scene.trace)
    for row in rows.about(About.SETTING):
        if row.category == _COMPILED and not compiled:
            continue
        ops = rows.ops_for(row)
        read = read_setting(row, rows.scene.environment)
        if ops is None or read is None:
            continue
        subject = subject_of(row, read)
        if row.differs is Differs.MACHINES:
            if is_worth_a_note(row, read):
                yield rows.note(row, subject=subject, ops=ops)
            continue
        for settings, calls in rows.ops_by_settings(row) if ops else [({}, ops)]:
            yield from rows.finding(
                row,
                {"value": read.word},
                # Deterministic mode changes the value of a row about the mode itself.
                facts_in_mode={"value": _word(row, DeterministicMode.ON.value) if row.field == MODE else read.word},
                settings=settings,
                subject=subject,
                name=row.name,
                ops=calls,
                at=_made_at(row, rows),
            )


def compiles_by_inductor(trace: Trace) -> bool:
    """Return whether Inductor compiled here, or would have without an active dispatch mode."""
    kinds = {spot.kind for spot in trace.blind_spots}
    first_uses = {event.name for event in trace.events if event.kind is EventKind.FIRST_USE}
    # Code compiled before recording may be Inductor's; if recording began with the process, it is another backend's.
    compilers = {region.backend or "inductor" for region in trace.regions}
    is_others = bool(compilers) and "inductor" not in compilers
    may_be = BlindSpotKind.COMPILED in kinds and not trace.watched_from_start and not is_others
    return Subsystem.INDUCTOR.value in first_uses or may_be or BlindSpotKind.COMPILE_FELL_BACK in kinds


def read_setting(row: SettingRow, environment: Environment) -> ReadSetting | None:
    """The value that ``row`` reads; ``None`` if a process cannot read it or did not."""
    value: Value | None = None
    if row.field:
        field = getattr(environment, row.field, None)
        plain = ",".join(field) if isinstance(field, tuple) else field
        value = plain if plain is None or isinstance(plain, (bool, int)) else str(plain)
    elif row.variable:
        value = environment.variables.get(row.variable)
        if value is None:
            return ReadSetting(None, "unset")
    elif row.read:
        value = environment.settings.get(row.read, environment.settings.get(row.read.removesuffix("()")))
    if value is None:
        return None
    word = _word(row, value)
    return ReadSetting(None if word == "unset" else value, word)


def _word(row: SettingRow, value: Value) -> str:
    if _same(value, row.default):
        return "unset"
    return "safe" if any(_same(value, safe) for safe in row.safe) else "other"


def is_worth_a_note(row: SettingRow, read: ReadSetting) -> bool:
    """Return whether the value is neither unset nor safe, or unset with a default that is not safe."""
    if read.word == "unset":
        return row.default is not None and not any(_same(row.default, safe) for safe in row.safe)
    return read.word == "other"


def subject_of(row: SettingRow, read: ReadSetting) -> str:
    """The setting and its value."""
    if read.value is not None:
        return f"{row.name} = {read.value}"
    return f"{row.name} = {row.default}" if row.default is not None else f"{row.name} is not set"


def _same(value: Value, other: Value | None) -> bool:
    return value == other and type(value) is type(other)


def _made_at(row: SettingRow, rows: BoundRows) -> Event | None:
    """The line that gave the setting its value when recording began, if recorded."""
    scene = rows.scene
    names = {row.name, row.variable, row.read, row.read.removesuffix("()"), *row.events} - {""}
    names |= {name.removesuffix("()") for name in names}
    if not scene.is_recorded or (names | {row.field}) & scene.sets.keys():
        return None
    kinds = (EventKind.SETTING, EventKind.VARIABLE)
    before = (event for event in scene.trace.events if event.kind in kinds and not event.while_recording)
    return max((event for event in before if event.name in names), key=lambda event: event.last, default=None)


#: Readers that read their settings when CUDA starts or soon after, and whose first use may not be recorded.
_BEHIND_CUDA = (Subsystem.CUBLAS, Subsystem.CUDNN)

#: Readers that code outside torch uses too.
_SHARED = frozenset({Subsystem.CUBLAS, Subsystem.NCCL, Subsystem.HCCL})


class _Late(NamedTuple):
    """The certainty that a setting came too late, and for which reader."""

    word: str
    reader: Subsystem
    first_use: Event | None


def late_findings(rows: BoundRows) -> Iterator[Finding | Note]:
    """Recorded settings that changed after their reader had read them; notes on those that no recorded call needs."""
    scene = rows.scene
    if not scene.is_recorded:
        return
    uses = {event.name: event for event in scene.trace.events if event.kind is EventKind.FIRST_USE}
    for row in rows.about(About.LATE):
        of_variables = row.watches is not EventKind.SETTING
        for event in scene.trace.events:
            if event.kind is not (EventKind.VARIABLE if of_variables else EventKind.SETTING) or not _took_effect(event):
                continue
            readers = _readers_of(event.name, rows) if of_variables else row.read_by
            if not of_variables and (event.name not in row.events or rows.ops_for(row) is None):
                continue
            late = _how_late(event, readers, uses)
            if late is None and of_variables:
                late = _how_late(event, _readers_of(event.name, rows, needed=False), uses)
                late = late and late._replace(word="spare")
            if late is None or (of_variables and event.name in scene.sets):
                continue
            used = late.first_use
            place = f" at {used.location}" if used is not None and used.location else ""
            is_sure = late.reader is Subsystem.PYTHON or (used is not None and late.word != "possible")
            verb = "had read it" if is_sure else "may have read it"
            what = f"{event.name} = {event.value}" if event.value else f"{event.name} removed"
            subject = f"{what}, after {late.reader.says} {verb}{place}"
            if late.word == "spare":
                yield rows.note(row, subject=subject, ops={}, facts={"late": late.word})
                continue
            fields: dict[str, Any] = {}
            if of_variables:
                fields["sets"] = {event.name: event.value} if event.value else {}
                fields["code"] = variable_line(event.name, event.value) if event.value else row.code
            yield from rows.finding(
                row,
                {"late": late.word},
                subject=subject,
                name=event.name,
                at=event,
                phase=event.phase,
                count=event.count,
                **fields,
            )


def changed_findings(rows: BoundRows) -> Iterator[Finding]:
    """Settings that changed after calls of the recording had run."""
    scene = rows.scene
    if not scene.is_recorded:
        return
    changed = list(rows.about(About.CHANGED))
    own = {name for row in changed for name in row.events}
    for row in changed:
        ops = rows.ops_for(row)
        for event in scene.trace.events if ops is not None else ():
            if event.kind is not (row.watches or EventKind.SETTING):
                continue
            if not (event.while_recording and event.after_calls and event.is_followed):
                continue
            if event.name not in row.events if row.events else event.name in own:
                continue
            if event.kind is EventKind.SETTING and not _took_effect(event):
                continue
            after = f"{event.value} and others" if event.values_differ else event.value
            subject = f"{event.name}: {event.before} to {after}" if event.before else f"{event.name} = {after}"
            facts: dict[str, Value] = {"change": "between-phases" if event.parts_phases else "within"}
            fields: dict[str, Any] = {"phase": event.phase} if ops else {"phase": event.phase, "count": event.count}
            yield from rows.finding(row, facts, subject=subject, name=event.name, ops=ops, at=event, **fields)


def _took_effect(event: Event) -> bool:
    return event.values_differ or event.before != event.value


def _readers_of(variable: str, rows: BoundRows, *, needed: bool = True) -> tuple[Subsystem, ...]:
    """Readers of ``variable``: those that a recorded call depends on, or, without ``needed``, libraries that no
    recorder sees (others call cuBLAS and NCCL too)."""
    readers: dict[Subsystem, None] = {}
    for row in (row for about in (About.SETTING, About.LATE, About.COMPILED) for row in rows.about(about)):
        if row.variable == variable and (not needed or rows.matters_unset(row)):
            readers.update(dict.fromkeys(reader for reader in row.read_by if needed or reader in _SHARED))
    return tuple(readers)


def _how_late(event: Event, readers: Iterable[Subsystem], uses: dict[str, Event]) -> _Late | None:
    """The first reader that read it, or may have, before ``event``; ``None`` if ``event`` came in time."""
    possible: _Late | None = None
    started = uses.get(Subsystem.CUDA.value)
    for reader in readers:
        used = uses.get(reader.value)
        if reader is Subsystem.PYTHON or (used is not None and used.first < event.first):
            return _Late("certain", reader, used if reader is not Subsystem.PYTHON else None)
        may_have = used is None and reader in _BEHIND_CUDA and started is not None and started.first < event.first
        if may_have and possible is None:
            possible = _Late("possible", reader, started)
    return possible
