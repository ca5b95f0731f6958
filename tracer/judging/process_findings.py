"""What is judged of the process, not of a call: settings, generators, memory, loaders, compilation.

The table of settings bound to one target, a trace under its settings, and the calls that each row affects. For regions
whose calls were not seen: kernels that add atomically.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec.structs import replace

from tracer.facts import Value
from tracer.findings import Evidence, FillCost, Finding, Note, Target
from tracer.names import (
    HOST_GENERATORS,
    REPEATABLE,
    SEVERITY,
    VARYING,
    About,
    Backend,
    BlindSpotKind,
    Cause,
    DeterministicMode,
    Differs,
    Direction,
    EventKind,
    EvidenceKind,
    GeneratorKind,
    KernelLanguage,
    Overlap,
    Phase,
    RegionInside,
    RegionOrigin,
    SeedOrigin,
    Settings,
    Shown,
    Subsystem,
    UnknownReason,
    Verdict,
)
from tracer.ops import bare_name, row_of, spoken
from tracer.tables.conditions import BothWays, BoundRule, wanted_values
from tracer.tables.rules import (
    ALIGNED,
    OWN_DEPTHWISE,
    PADDABLE,
    SINGLE,
    UNNOTED,
    UNROLLED,
    Conditioned,
    EnvironmentTable,
    Ruling,
    SettingRow,
    evidence_of,
)
from tracer.tables.settings import (
    FILL,
    FORWARD,
    INDUCTOR_FLAG,
    MODE,
    SEEDS,
    declared,
    effective_environment,
    held,
    settings_of,
    variable_line,
)
from tracer.tables.target_tables import device_backend, is_here
from tracer.tables.versions import judged_as, placed, reviewed_releases, speaks_of
from tracer.trace.file import Trace
from tracer.trace.records import (
    NO_DEVICE,
    SEEDED_AT,
    CallGroup,
    Draw,
    Environment,
    Event,
    FactValue,
    Kernel,
    Loader,
    OverlapWrite,
    Placed,
    Region,
    UnwrittenRead,
)

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


def trace_under(trace: Trace, target: Target, sets: Mapping[str, FactValue]) -> TraceUnderTarget:
    """``trace`` for ``target`` with ``sets`` on top of its own settings."""
    asked = (trace.environment, target.settings, {**target.sets, **sets})
    return TraceUnderTarget(trace, target, asked[2], effective_environment(*asked), settings_of(*asked))


#: Calls of ops (of any op if empty) whose facts satisfy conditions: the name, the ops, the values by fact.
_Group = tuple[str, frozenset[str], dict[str, frozenset[FactValue]]]


class Dependents:
    """Calls by what a row may need, each counted once whatever it matches."""

    def __init__(self, table: EnvironmentTable, judged: Iterable[tuple[CallGroup, Ruling]], trace: Trace) -> None:
        self._groups: list[_Group] = []
        for group in table.group:
            conditions = {key: wanted_values(Conditioned(when=group.when), key) for key in group.when}
            self._groups.append((group.name, frozenset(group.ops), conditions))
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
        for call, ruling in judged:
            op = spoken(call.op, ruling.runs_as)
            if (draw := call.draw) is not None:
                self.draws.append(draw)
                self.drawing[ruling.backend][op] += call.count
            if call.facts.get("device") in NO_DEVICE:
                continue
            self.backends.add(ruling.backend)
            if matched := frozenset(self._matched(call, ruling)):
                place = (matched, ruling.backend, call.region or "", frozenset(call.settings.items()))
                self._calls[place][op] += call.count

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
            name
            for name, _, asks in self._groups_of(group.op, ruling.runs_as)
            if all(group.facts.get(key, UNNOTED.get(key)) in wanted for key, wanted in asks.items())
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
            self._matching[key] = tuple(group for group in self._groups if not group[1] or group[1] & spelt)
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
        backend = self.scene.target.backend
        self._rows = tuple(
            row
            for row in self.rows
            if speaks_of(row.torch, self.version)
            # Any backend's row applies if each call keeps its own device.
            and (not row.backends or backend is Backend.RECORDED or backend in row.backends)
        )
        self._bound: dict[str, BothWays[SettingRow]] = {}

    def about(self, about: About) -> Iterator[SettingRow]:
        """The rows about ``about`` that apply to the target."""
        return (row for row in self._rows if row.about is about)

    def named(self, row_id: str) -> Iterator[SettingRow]:
        """The row of that id, if it holds for this version and applies to the target."""
        return (row for row in self._rows if row.id == row_id)

    def ops_for(self, row: SettingRow, regions: Container[str] | None = None) -> dict[str, int] | None:
        """The calls that ``row`` affects; ``None`` if it needs some and none was recorded.

        ``regions``: those of compiled code whose calls count; ``None`` for all calls.
        """
        if row.needs:
            return self.dependents.of(row, regions=regions) or None
        is_there = not row.backends or self.dependents.backends.intersection(row.backends)
        return {} if is_there else None

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
        detail = fields.pop("reason_detail", "")
        if detail and ruling.reason is not None:
            ruling = replace(ruling, reason=UnknownReason.FACT_NOT_RECORDED, reason_detail=detail)
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
        by_settings: list[tuple[dict[str, FactValue], dict[str, int]]] = []
        """The calls that it affects, by the settings that they ran under."""
        for ran_under in rows.dependents.held if ops else ():
            own = {key: value for key, value in ran_under if key.removeprefix(FORWARD) not in rows.scene.sets}
            if calls := rows.dependents.of(row, held=ran_under):
                settings = settings_of(rows.scene.environment, Settings.RECORDED, own) if own else {}
                by_settings.append((settings, calls))
        for settings, calls in by_settings if ops else [({}, ops)]:
            yield from rows.finding(
                row,
                {"value": read.word},
                # Deterministic mode changes the value of a row about the mode itself.
                facts_in_mode={"value": _word(row, DeterministicMode.ON.value) if row.field == MODE else read.word},
                settings=settings,
                subject=subject,
                name=row.name,
                ops=calls,
                at=_made_at(row, rows.scene),
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


def _made_at(row: SettingRow, scene: TraceUnderTarget) -> Event | None:
    """The line that gave the setting its value when recording began, if recorded."""
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
        if row.variable == variable and (not needed or _matters_unset(row, rows)):
            readers.update(dict.fromkeys(reader for reader in row.read_by if needed or reader in _SHARED))
    return tuple(readers)


def _matters_unset(row: SettingRow, rows: BoundRows) -> bool:
    """Return whether two runs of this step can differ while the row's variable is not set, as far as calls show."""
    if row.differs is Differs.MACHINES or ("unseen" not in row.needs and rows.ops_for(row) is None):
        return False
    environment = rows.scene.environment
    others = {name: value for name, value in environment.variables.items() if name != row.variable}
    conditions = settings_of(replace(environment, variables=others), Settings.RECORDED)
    return BoundRule(row, rows.version, conditions).decide({"value": "unset"}).verdict is not Verdict.DETERMINISTIC


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


_OF_GENERATOR = {
    GeneratorKind.TORCH: "environment-torch-generator",
    GeneratorKind.PASSED: "environment-passed-generator",
    GeneratorKind.PYTHON: "environment-python-generator",
    GeneratorKind.NUMPY: "environment-numpy-generator",
    GeneratorKind.NUMPY_OBJECTS: "environment-numpy-generator-objects",
    GeneratorKind.PYTHON_OBJECTS: "environment-python-generator-objects",
}
_WORKERS = "environment-loader-workers"
#: Settings by which fresh memory is filled.
_FILL = frozenset({MODE, FILL})
_MEMORY, _OVERLAP = "environment-unwritten-memory", "environment-overlapping-write"

_WATCH = "record the whole script with `tracer run`, which sees what seeds it"


def observed_findings(rows: BoundRows) -> Iterator[Finding | Note]:
    """All findings about what was observed of the process, besides its settings."""
    yield from (*_torch_generators(rows), *_host_generators(rows), *_own_generators(rows))
    yield from (
        *_unwritten_reads(rows),
        *_overlaps(rows),
        *_loaders(rows),
        *_compiled(rows),
        *_atomic_kernels(rows.scene),
    )


def _torch_generators(rows: BoundRows) -> Iterator[Finding | Note]:
    """Generators of torch with a random seed that were drawn from, and devices whose models draw otherwise."""
    for row in rows.about(About.GENERATOR):
        ops = sum((rows.dependents.drawing[backend] for backend in row.backends), Counter[str]())
        if ops and row.differs is Differs.MACHINES:
            yield rows.note(row, subject=row.name, ops=dict(ops.most_common()))
    drawn: dict[str, tuple[Draw, Counter[str]]] = {}
    scene = rows.scene
    for draw in rows.dependents.draws:
        is_passed = draw.kind is GeneratorKind.PASSED
        origin = draw.origin if is_passed else scene.origin(draw.origin, "seed.torch", draw.seeded_at)
        if origin is SeedOrigin.MACHINE:
            drawn.setdefault(draw.generator, (draw, Counter()))[1][draw.op] += draw.count
    for generator, (first, ops) in drawn.items():
        at = first
        if first.seeded_at:  # the line that seeded it at random, not that of the first draw
            at = replace(first, location=first.seeded_at, function="", called_from="")
        is_drawn = _is_drawn(scene.trace, first.seeded_at)
        state = "seeded by the machine" if first.seeded_at else "never seeded"
        kind = first.kind if first.kind in _OF_GENERATOR else GeneratorKind.TORCH
        fields: dict[str, Any] = {"ops": ops, "at": at, "phase": first.phase}
        yield from _unseeded(rows, kind, f"generator {generator}", state, is_drawn, {}, **fields)


def _unseeded(
    rows: BoundRows,
    kind: GeneratorKind,
    name: str,
    state: str,
    is_drawn: bool,
    facts: Mapping[str, Value],
    **fields: Any,
) -> Iterator[Finding]:
    """The finding about a generator in this ``state``; ``is_drawn``: its seed is another number in every run."""
    given = {"origin": SeedOrigin.MACHINE.value, "seed.number": "drawn" if is_drawn else "none", **facts}
    subject = f"{name}, {'seeded with another number in every run' if is_drawn else state}"
    for row in rows.named(_OF_GENERATOR[kind]):
        yield from rows.finding(row, given, subject=subject, name=name, **fields)


def _host_generators(rows: BoundRows) -> Iterator[Finding]:
    """Python's and NumPy's global generators that were drawn from without a fixed seed."""
    for generator in rows.scene.trace.generators:
        if not generator.drew or generator.kind not in HOST_GENERATORS:
            continue
        origin = rows.scene.origin(generator.origin, f"seed.{generator.name}", generator.seeded_at)
        if origin not in (SeedOrigin.MACHINE, SeedOrigin.UNSEEN):
            continue
        is_known = origin is SeedOrigin.MACHINE
        is_drawn = is_known and _is_drawn(rows.scene.trace, generator.seeded_at)
        at = Draw(generator=generator.name, op="", location=generator.seeded_at if is_drawn else "")
        fields: dict[str, Any] = {"at": at, "reason_detail": "" if is_known else _WATCH}
        state = "never seeded" if is_known else "seeded or not: not recorded"
        name, facts = f"generator {generator.name}", {"origin": origin.value}
        yield from _unseeded(rows, generator.kind, name, state, is_drawn, facts, **fields)


def _is_drawn(trace: Trace, seeded_at: str) -> bool:
    """Return whether the line ``seeded_at`` takes its seed from what differs in every process."""
    seeds = (event for event in trace.events if seeded_at and event.kind is EventKind.SEED and event.is_drawn)
    return any(event.location == seeded_at for event in seeds)


_KINDS = {
    GeneratorKind.PYTHON_OBJECTS: "a random.Random",
    GeneratorKind.NUMPY_OBJECTS: "a generator of NumPy's",
}


def _own_generators(rows: BoundRows) -> Iterator[Finding]:
    """Generators of the program's own without a fixed seed. What was drawn from them is not recorded."""
    for made in rows.scene.trace.own_generators:
        facts: dict[str, Value] = {
            "by.library": made.by_library,
            "made.often": made.count > 1 or made.function.rpartition(".")[2] in _FOR_A_SAMPLE,
            "made.drew": made.drew,
        }
        name = _KINDS.get(made.kind, f"generator {made.kind}")
        fields: dict[str, Any] = {"at": made, "phase": made.phase, "count": made.count}
        yield from _unseeded(rows, made.kind, name, "made without a seed", made.is_seeded, facts, **fields)


#: Methods by which a data set returns a sample.
_FOR_A_SAMPLE = ("__getitem__", "__getitems__", "__next__", "__iter__")


def _unwritten_reads(rows: BoundRows) -> Iterator[Finding]:
    """Reads of memory that was not filled when it was allocated, whatever mode the process ended in."""
    scene = rows.scene
    unfilled = {MODE: "off"} if scene.is_recorded and not _FILL.intersection(scene.sets) else None
    for row in rows.named(_MEMORY):
        for read in scene.trace.unwritten_reads:
            allocation = read.allocated_by.removesuffix(".default") or "an allocation"
            place = f" at {read.allocated_at}" if read.allocated_at else ""
            led = f" (called from {read.allocated_from})" if read.allocated_from else ""
            subject = f"memory that {allocation} gave{place}{led}, read before it was wholly written"
            yield from rows.finding(row, {}, settings=unfilled, subject=subject, **_of_call(read))


#: Known to have kernels that work on all entries of a list at once.
_WHOLE_LISTS = (Backend.CUDA, Backend.ROCM)
_IN_FLIGHT = "environment-copy-in-flight"
_COPIES = (Overlap.COPIED_FROM, Overlap.COPIED_INTO)


def _overlaps(rows: BoundRows) -> Iterator[Finding]:
    scene = rows.scene
    is_rocm = scene.trace.environment.hip is not None
    for write in scene.trace.overlaps:
        for row in rows.named(_IN_FLIGHT if write.kind in _COPIES else _OVERLAP):
            own = device_backend(write.device, is_rocm=is_rocm)
            backend = own if scene.target.backend is Backend.RECORDED else scene.target.backend
            kind: str = write.kind.value
            if write.kind in _COPIES and backend is Backend.CPU:
                continue  # the host copies itself
            if write.kind is Overlap.ENTRIES:
                if backend is Backend.CPU:
                    continue  # one entry after another
                kind = kind if backend in _WHOLE_LISTS else "entries_perhaps"
            facts: dict[str, Value] = {"overlap": kind}
            yield from rows.finding(row, facts, subject=write.kind.says, backend=backend, **_of_call(write))


def _of_call(call: UnwrittenRead | OverlapWrite) -> dict[str, Any]:
    """The fields of a finding about the calls that it affects."""
    ops = {call.op: call.count}
    return {"ops": ops, "at": call, "op": call.op, "phase": call.phase, "module": call.module}


def loader_facts(loader: Loader, scene: TraceUnderTarget, *, of_workers: bool = False) -> dict[str, Value]:
    """Facts of a ``DataLoader`` for conditions; the origin is that of its order, or of the seeds ``of_workers``."""
    origin, is_given, seeded_at = loader.origin, loader.has_generator, loader.seeded_at
    if of_workers and loader.workers_origin is not None:
        origin, is_given, seeded_at = loader.workers_origin, loader.workers_have_generator, ""
    origin = origin if is_given else scene.origin(origin, "seed.torch", seeded_at)
    return {
        "loader.workers": loader.workers > 0,
        "loader.shuffles": loader.shuffles,
        "loader.in_order": loader.in_order or loader.workers < 2,  # one worker keeps the order
        "origin": origin.value,
        SEEDED_AT: seeded_at if origin is SeedOrigin.MACHINE else "",
    }


#: Rows that never make two runs differ: the property of a loader that each is about; ``None`` if it lacks it.
_BETWEEN_MACHINES: Mapping[str, Callable[[Loader], str]] = {
    "environment-loader-persistent": lambda loader: "persistent workers" if loader.persistent_workers else "",
    "environment-loader-start-method": lambda loader: (
        f"workers started by {loader.start_method}" if loader.start_method in ("spawn", "forkserver") else ""
    ),
    "environment-loader-epoch": lambda loader: "set_epoch was never called" if loader.epoch_set is False else "",
    "environment-loader-worker-count": lambda loader: "the number of workers" if loader.workers else "",
}


def _loaders(rows: BoundRows) -> Iterator[Finding | Note]:
    for row in rows.about(About.LOADER):
        for loader in rows.scene.trace.loaders:
            if row.differs is Differs.MACHINES:
                if row.id in _BETWEEN_MACHINES and (said := _BETWEEN_MACHINES[row.id](loader)):
                    place = f" at {loader.location}" if loader.location else ""
                    yield rows.note(row, subject=f"{_spelt(loader)}{place}: {said}", ops={})
                continue
            yield from rows.finding(
                row,
                loader_facts(loader, rows.scene, of_workers=row.id == _WORKERS),
                subject=_spelt(loader),
                name="DataLoader",
                at=loader,
                count=loader.iterations,
                reason_detail=_WATCH if loader.origin is SeedOrigin.UNSEEN else "",
            )


def _spelt(loader: Loader) -> str:
    """The ``DataLoader`` as its constructor call, reduced to the relevant arguments."""
    said: list[tuple[bool, str]] = [
        (bool(loader.workers), f"num_workers={loader.workers}"),
        (loader.shuffles, f"sampler={loader.sampler}" if _is_own(loader.sampler) else "shuffle=True"),
        (loader.has_worker_init, "worker_init_fn=..."),
        (loader.has_generator, "generator=..."),
        (loader.persistent_workers, "persistent_workers=True"),
        (not loader.in_order, "in_order=False"),
        (not loader.shuffles and _is_own(loader.sampler), f"sampler={loader.sampler}"),
    ]
    return f"DataLoader({', '.join(text for holds, text in said if holds)})"


def _is_own(sampler: str) -> bool:
    """Return whether it is another sampler than the two that ``shuffle`` picks."""
    return sampler not in ("", "RandomSampler", "SequentialSampler", "BatchSampler")


#: Regions that were compiled under the same value of a row's setting and the same state of deterministic mode: the
#: value, ``None`` for a row without a setting; the settings then, if not the target's; ``None`` for all compiled code.
_CompiledUnder = tuple[ReadSetting | None, dict[str, Value], frozenset[str] | None]


def _compiled(rows: BoundRows) -> Iterator[Finding | Note]:
    scene = rows.scene
    ran = [region for region in scene.trace.regions if region.backend in _INDUCTORS and region.executions]
    hides_calls = not scene.trace.regions or any(region.inside in _WITHOUT_OPS for region in ran)
    for row in rows.about(About.COMPILED) if compiles_by_inductor(scene.trace) else ():
        for read, settings, regions in _compiled_under(row, scene):
            facts: dict[str, Value] = {}
            subject, ops = row.name, rows.ops_for(row, regions)
            there = rows.dependents.backends
            is_anywhere = scene.target.backend is not Backend.RECORDED or not there or not row.backends
            if ops is None and hides_calls and (is_anywhere or not there.isdisjoint(row.backends)):
                ops = {}  # calls that were not recorded may run there, as others do
            if read is not None:
                facts["value"], subject = read.word, subject_of(row, read)
                if row.differs is Differs.MACHINES and ops is not None and is_worth_a_note(row, read):
                    yield rows.note(row, subject=subject, ops=ops)
            if ops is not None and row.differs is Differs.RUNS:
                yield from rows.finding(row, facts, subject=subject, name=row.name, ops=ops, settings=settings)


def _compiled_under(row: SettingRow, scene: TraceUnderTarget) -> Iterator[_CompiledUnder]:
    """Findings about how code was compiled: by region for a row that needs calls, unless the target replaces it."""
    replaced = {MODE, INDUCTOR_FLAG, row.read} & scene.sets.keys()
    regions = [region for region in scene.trace.regions if region.options]
    has_regions = bool(regions)
    if "compiled-templates" in row.needs:
        regions = [region for region in regions if not _chose_without_timing(region, scene)]
    is_by_region = scene.is_recorded and not replaced and has_regions and row.needs
    environment, is_read = scene.environment, bool(row.field or row.variable or row.read)
    if not is_by_region:
        read = read_setting(row, environment)
        if read is not None or not is_read:
            yield read, {}, None
        return
    alike: dict[tuple[ReadSetting | None, tuple[tuple[str, Value], ...]], set[str]] = {}
    for region in regions:
        settings = {**environment.settings, **region.options}
        read = read_setting(row, replace(environment, settings=settings))
        if read is None and is_read:
            continue
        held: dict[str, Value] = {"inductor_deterministic": bool(settings.get(INDUCTOR_FLAG))}
        if region.deterministic_mode is not None:
            held[MODE] = region.deterministic_mode.value
        alike.setdefault((read, tuple(held.items())), set()).add(region.id)
    yield from ((read, dict(held), frozenset(names)) for (read, held), names in alike.items())


def _chose_without_timing(region: Region, scene: TraceUnderTarget) -> bool:
    """Return whether the target runs this very code, and none of its kernels was chosen by timing candidates."""
    backend = scene.target.backend
    is_same = backend is Backend.RECORDED or (scene.trace.environment.hip is None and backend.device == region.device)
    is_seen = region.origin is RegionOrigin.COMPILED and bool(region.kernels)
    return is_same and is_seen and not any(kernel.by_stopwatch for kernel in region.kernels)


_INDUCTORS = ("inductor", "")
_WITHOUT_OPS = (RegionInside.KERNELS, RegionInside.UNSEEN)


def fill_cost(scene: TraceUnderTarget) -> FillCost | None:
    """The cost of filling fresh memory, and whether anything read it before it was written."""
    trace = scene.trace
    if not trace.allocations:
        return None
    is_on = scene.conditions.get(MODE) in ("on", "warn") and scene.conditions.get(FILL, True)
    return FillCost(
        calls=sum(allocation.count for allocation in trace.allocations),
        bytes=sum(allocation.bytes for allocation in trace.allocations),
        reads=sum(read.count for read in trace.unwritten_reads),
        unfollowed=sum(allocation.unfollowed for allocation in trace.allocations),
        is_on=bool(is_on),
    )


_WHY = (
    "`{kernel}` adds floating-point numbers atomically, in an order that varies; the ops that were fused into it were"
    " not recorded."
)
_REMEDY = (
    "Turn deterministic mode on before anything is compiled: Inductor then calls eager kernels that add in a fixed"
    " order. Record from the start of the process to see the lines."
)
_REMEDY_OWN = "Let the kernel add in a fixed order, or write its partial results and add those afterwards."
_SOURCE = Evidence(
    kind=EvidenceKind.SOURCE,
    ref="torch/_inductor/lowering.py, index_put_impl_ and scatter_reduce_, 2.4.1, 2.9.1, 2.13.0 and 2.15.0",
)


def _atomic_kernels(scene: TraceUnderTarget) -> Iterator[Finding]:
    """One finding for each such kernel of a region that has no calls, if this very code runs on the target."""
    target = scene.target
    is_on = scene.conditions.get(MODE) in (DeterministicMode.WARN.value, DeterministicMode.ON.value)
    for region in scene.trace.regions:
        was_on = region.deterministic_mode not in (None, DeterministicMode.OFF)
        is_hidden = region.inside is RegionInside.KERNELS and region.executions and was_on is is_on
        if is_hidden and is_here(target.backend, target.torch, region.device.split(","), scene.trace.environment):
            yield from (_finding(kernel, region, target) for kernel in region.kernels if kernel.adds_in_any_order)


def _finding(kernel: Kernel, region: Region, target: Target) -> Finding:
    # The compiler would generate it differently under deterministic mode.
    is_generated = kernel.language in (KernelLanguage.CPP, KernelLanguage.TRITON)
    device = kernel.device or region.device
    mode = declared(MODE)
    claim = f"{kernel.name} in region {region.id}, compiled for {device}, seen in this run: it adds atomically"
    shown = Evidence(kind=EvidenceKind.GENERATED, ref=claim)
    is_own = target.backend is Backend.RECORDED
    backend = device_backend(device, is_rocm=False) if is_own else target.backend
    return Finding(
        rule=f"{region.backend or 'generated'}-{backend}-adds-atomically",
        op="",
        phase=Phase.BACKWARD if region.direction is Direction.BACKWARD else Phase.FORWARD,
        **region.place._asdict(),
        regions=(region.id,),
        backend=backend,
        about=About.COMPILED,
        count=region.executions * kernel.calls,
        verdict=kernel.verdict_of_additions,
        deterministic_mode=Verdict.DETERMINISTIC if is_generated else Verdict.NONDETERMINISTIC,
        cause=Cause.ATOMIC_ACCUMULATION,
        why=_WHY.format(kernel=kernel.name),
        remedy=_REMEDY if is_generated else _REMEDY_OWN,
        evidence=(shown, _SOURCE) if is_generated else (shown,),
        kernels=(kernel.name,),
        shown=Shown.ADDS_ATOMICALLY,
        subject=f"{kernel.name} in region {region.id}",
        name=kernel.name,
        code=mode.line("on") if is_generated and mode is not None else "",
        where="before anything is compiled" if is_generated else "",
        sets={MODE: "on"} if is_generated else {},
    )


class Observed(NamedTuple):
    """The table of settings' findings and notes on a trace."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()


class ProcessUnderTarget:
    """The table of settings for one trace and target."""

    def __init__(
        self,
        trace: Trace,
        target: Target,
        rows: EnvironmentTable | None,
        judged: Iterable[tuple[CallGroup, Ruling]],
        *,
        strict: bool,
    ) -> None:
        """``rows`` ``None``: no findings about the process. ``strict``: see ``BoundTable``."""
        self._trace, self._target = trace, target
        self._rows = rows
        self._place = "reviewed" if rows is None else placed(rows.reviewed, target.torch)
        self._speaks = self._place == "reviewed" or (self._place == "newer" and not strict)
        self._dependents = None if rows is None else Dependents(rows, judged, trace)
        self._observed: dict[frozenset[tuple[str, FactValue]], Observed] = {}

    def observe(self, sets: Mapping[str, FactValue]) -> Observed:
        """Findings and notes with ``sets`` on top of the target's own settings; computed once for each."""
        rows, asked = self._rows, frozenset(sets.items())
        if rows is None or self._dependents is None or not self._speaks:
            return Observed()
        if asked in self._observed:
            return self._observed[asked]
        extrapolated = self._place == "newer"
        version = judged_as(rows.reviewed, self._target.torch, extrapolated=extrapolated)
        scene = trace_under(self._trace, self._target, sets)
        bound = BoundRows(rows.row, version, scene, self._dependents, extrapolated)
        findings: dict[tuple[object, ...], Finding] = {}
        notes: list[Note] = []
        for read in (setting_findings, late_findings, changed_findings, observed_findings):
            for statement in read(bound):
                if isinstance(statement, Note):
                    notes.append(statement)
                    continue
                key = key_of(statement)
                if (other := findings.get(key)) is not None:  # the worse verdict counts
                    worse = min(other, statement, key=lambda either: SEVERITY.index(either.verdict))
                    count, ops = other.count + statement.count, Counter(other.ops) + Counter(statement.ops)
                    statement = replace(worse, count=count, ops=dict(ops))
                findings[key] = statement
        self._observed[asked] = Observed(tuple(findings.values()), tuple(notes))
        return self._observed[asked]

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
