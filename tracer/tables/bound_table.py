"""The ruling on a call: by a table bound to one target, as the op that it becomes there, and by the run itself.

Of several ops that a call may run as, the worst ruling stands. An unseeded draw never repeats; data of every call may
exclude a risk; a call that varied in a trial varies, and a table that denies it is wrong for this device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from tracer.facts import Value
from tracer.findings import Deciding, Evidence
from tracer.names import (
    REPEATABLE,
    SAFE,
    SETTLING_DATA,
    SEVERITY,
    TORCH_NAMESPACES,
    VARYING,
    Backend,
    Cause,
    DataShown,
    EvidenceKind,
    GeneratorKind,
    Phase,
    SeedOrigin,
    UnknownReason,
    Verdict,
)
from tracer.tables.conditions import (
    BothWays,
    in_deterministic_mode,
    may_hold,
    wanted_values,
    with_derived,
    with_forward,
)
from tracer.tables.loading import load_classes
from tracer.tables.rules import SETTINGS, UNNOTED, Rule, RuleTable, Ruling, evidence_of, in_domain
from tracer.tables.translation import STAYS, TargetNote, TargetOp, Translation, Translations
from tracer.tables.versions import judged_as, placed, release, release_or_text, speaks_of
from tracer.trace.records import GENERATOR, META, NO_DEVICE, ORIGIN, CallGroup, Environment, FactValue, kind_drawn_from

_CAUSE_UNKNOWN = {UnknownReason.UNLISTED: Cause.VENDOR_UNLISTED, UnknownReason.OPAQUE: Cause.OPAQUE}
_REMEDY_UNKNOWN = "Run the op twice on the target with the same input and compare the bits; then add a rule for it."


def safe_ruling(backend: Backend, **fields: Any) -> Ruling:
    """Deterministic, without a rule, unless ``fields`` say otherwise."""
    safe: dict[str, Any] = {"rule": "", "verdict": Verdict.DETERMINISTIC, "deterministic_mode": Verdict.DETERMINISTIC}
    return Ruling(**{**safe, "backend": backend, **fields})


def device_backend(device: str, *, is_rocm: bool) -> Backend:
    """The backend of a device type; ``recorded`` if there is none."""
    if device == "cuda" and is_rocm:
        return Backend.ROCM
    return Backend(device) if device in Backend._value2member_map_ else Backend.RECORDED


def is_here(backend: Backend, torch: str, devices: Collection[object], environment: Environment) -> bool:
    """Return whether what ran on ``devices`` in ``environment`` ran on ``backend``'s device, under its ``torch``."""
    is_its_maker = backend is not (Backend.CUDA if environment.hip is not None else Backend.ROCM)
    is_device = backend is Backend.RECORDED or (is_its_maker and backend.device in devices)
    return is_device and release_or_text(environment.torch) == torch


def unknown_ruling(
    backend: Backend, name: str, reason: UnknownReason, detail: str, why: str = "", remedy: str = _REMEDY_UNKNOWN
) -> Ruling:
    """Unknown with and without deterministic mode, without a rule; ``name`` completes its id."""
    return Ruling(
        rule=f"{backend}-{name}",
        verdict=Verdict.UNKNOWN,
        deterministic_mode=Verdict.UNKNOWN,
        cause=_CAUSE_UNKNOWN.get(reason),
        why=why or reason.says,
        remedy=remedy,
        reason=reason,
        reason_detail=detail,
        backend=backend,
    )


class BoundTable:
    """One table for one version and one set of settings."""

    def __init__(self, table: RuleTable, version: str, settings: Mapping[str, Value], *, strict: bool = False) -> None:
        """``version`` is a release (``2.9.0``). ``strict`` makes verdicts that are extrapolated to it ``unknown``."""
        self.table = table
        self.place = placed(table.reviewed, version)
        """The version's place among the reviewed ones; see ``versions.placed``."""
        self.extrapolated = self.place == "newer" and not strict
        self.version = judged_as(table.reviewed, version, extrapolated=self.extrapolated)
        """The release whose verdicts are used: the target's, or the newest reviewed one."""
        self.refusal: Ruling | None = None
        """The ruling on every call if the table does not cover the version."""
        if self.place != "reviewed" and not self.extrapolated:
            detail = f"torch {version}, reviewed for {table.reviewed}"
            self.refusal = unknown_ruling(table.backend, "not-reviewed", UnknownReason.TABLE_NOT_REVIEWED, detail)
        self._settings = settings
        self._by_rule: dict[str, BothWays[Rule]] = {}

    def asks(self, op: str) -> tuple[str, ...]:
        """The facts that the ruling on ``op`` depends on."""
        bound = self._bound(op)
        return () if isinstance(bound, Ruling) else bound.facts

    def outcome(self, op: str, facts: Mapping[str, Value], node: str | None = None) -> Ruling:
        """The ruling on a call of ``op``, an overload as torch prints it, with ``facts``. ``node`` is the
        autograd node of a backward call, empty if it is not known, and ``None`` outside the backward pass."""
        bound = self._bound(op)
        return bound if isinstance(bound, Ruling) else bound.decide(with_derived(facts, node, bound.facts))

    def _bound(self, op: str) -> BothWays[Rule] | Ruling:
        if self.refusal is not None:
            return self.refusal
        rule = self.table.find(op)
        if rule is None:
            return self._without_rule(op)
        if rule.id not in self._by_rule:
            how: dict[str, Any] = {"backend": self.table.backend, "extrapolated": self.extrapolated}
            self._by_rule[rule.id] = BothWays(rule, self.version, self._settings, **how)
        return self._by_rule[rule.id]

    def _without_rule(self, op: str) -> Ruling:
        """An op that a deny list does not name is deterministic; one that an allow list does not name is unknown."""
        table = self.table
        if op.partition(".")[0] not in TORCH_NAMESPACES:
            return unknown_ruling(table.backend, "opaque", UnknownReason.OPAQUE, op)
        if not table.deny_list:
            ask = table.ask.format(op=op.removesuffix(".default")) or _REMEDY_UNKNOWN
            return unknown_ruling(table.backend, "unlisted", UnknownReason.UNLISTED, op, table.unlisted, ask)
        dispatched, version = table.dispatched, _number(self.version)
        entries, device = (dispatched.vouched, dispatched.device) if dispatched is not None else ((), "")
        for entry in entries:
            if op in entry.ops and _number(entry.first) <= version <= _number(entry.last):
                ref = (
                    f"CUDA builds of torch {entry.first} to {entry.last} run without a device, as {device}:"
                    " each recorded call launched kernels that add nothing atomically and called into no library"
                )
                vouched = (Evidence(kind=EvidenceKind.DISPATCHED, ref=ref),)
                return safe_ruling(table.backend, extrapolated=self.extrapolated, evidence=vouched)
        return safe_ruling(table.backend, extrapolated=self.extrapolated)


@cache
def _number(version: str) -> tuple[int, ...]:
    major, minor = release(version).split(".")[:2]
    return int(major), int(minor)


_RANK = {verdict: rank for rank, verdict in enumerate(SEVERITY)}
_WORST = "Which one runs is not known here, so the worst verdict is reported."
_RECORD_THERE = "Record the step on the target itself: then its own ops are judged."


class _Choice(NamedTuple):
    """A candidate after version and settings were checked: the conditions on facts that are left."""

    candidate: TargetOp
    asks: tuple[tuple[str, frozenset[Value]], ...]
    hangs_on_target: bool
    """Whether it depends on a setting that the target lacks, such as the hardware, or on a choice of the program."""

    def is_open(self, facts: Mapping[str, Value]) -> bool:
        """Return whether it is compatible with the known facts. A value outside the vocabulary counts as unrecorded."""
        for key, wanted in self.asks:
            value = facts.get(key, UNNOTED.get(key))
            if value is not None and value not in wanted and in_domain(key, value):
                return False
        return True


class BoundTranslation:
    """One row for one recorded overload, one version and one set of settings."""

    def __init__(self, row: Translation, op: str, version: str, settings: Mapping[str, Value]) -> None:
        self.row = row
        self._op = op
        self._asks: tuple[str, ...] | None = None
        self._as_is = tuple(_choices(row, op, version, settings))
        self._in_mode = tuple(_choices(row, op, version, in_deterministic_mode(settings)))

    def _open(self, facts: Mapping[str, Value]) -> tuple[tuple[_Choice, ...], tuple[_Choice, ...]]:
        as_is = tuple(choice for choice in self._as_is if choice.is_open(facts))
        return as_is, tuple(choice for choice in self._in_mode if choice.is_open(facts))

    def asks(self, bound: BoundTable) -> tuple[str, ...]:
        """The facts that the ruling on the op depends on, if ``bound`` judges what it becomes."""
        if self._asks is None:
            choices = (*self._as_is, *self._in_mode)
            own = (key for choice in choices for key, _ in choice.asks)
            ops = dict.fromkeys(choice.candidate.op for choice in choices if choice.candidate.op)
            every = dict.fromkeys((*own, *(key for op in ops for key in bound.asks(op))))
            self._asks = tuple(key for key in every if key != "device")
        return self._asks

    def outcome(self, bound: BoundTable, device: str, facts: Mapping[str, Value], node: str | None) -> Ruling:
        """The ruling of ``bound`` on a call with ``facts`` on ``device``: the worst of all candidates, except for a
        refusal that not every hardware would meet."""
        as_is, in_mode = self._open(with_derived(facts, node, self.asks(bound)))
        here = [self._judged(choice.candidate, bound, device, facts, node) for choice in as_is]
        there = [self._judged(choice.candidate, bound, device, facts, node) for choice in in_mode]
        worst = min(here, key=lambda ruling: (_RANK[ruling.verdict], _RANK[ruling.deterministic_mode]))
        worst_on = min(there, key=lambda ruling: _RANK[ruling.deterministic_mode])
        verdict, verdict_on = worst.verdict, worst_on.deterministic_mode
        if _hangs_on_target(in_mode, [ruling.deterministic_mode for ruling in there]):
            verdict_on = Verdict.CONDITIONAL
        if _hangs_on_target(as_is, [ruling.verdict for ruling in here]):
            verdict = Verdict.CONDITIONAL
        spoken = replace(
            worst_on if verdict is Verdict.DETERMINISTIC else worst,
            verdict=verdict,
            deterministic_mode=verdict_on,
            route=worst_on.route,
            decided=Deciding(as_is=worst.decided.as_is, deterministic_mode=worst_on.decided.deterministic_mode),
        )
        names = tuple(dict.fromkeys(choice.candidate.op for choice in as_is if choice.candidate.op))
        if names in ((), (self._op,)):
            return spoken
        both = ((worst, worst.verdict), (worst_on, worst_on.deterministic_mode))
        unknown = next((ruling for ruling, verdict in both if verdict is Verdict.UNKNOWN), None)
        return replace(
            spoken,
            reason=unknown.reason if unknown is not None else None,
            reason_detail=unknown.reason_detail if unknown is not None else "",
            why=" ".join(filter(None, (spoken.why, self.row.why, _WORST if len({r.both for r in here}) > 1 else ""))),
            runs_as=" or ".join(name.removesuffix(".default") for name in names),
            evidence=spoken.evidence if spoken.translated else (*spoken.evidence, *evidence_of(self.row.evidence)),
            translated=True,
        )

    def _judged(
        self, candidate: TargetOp, bound: BoundTable, device: str, facts: Mapping[str, Value], node: str | None
    ) -> Ruling:
        if candidate.op:
            return bound.outcome(candidate.op, {**facts, "device": device, **candidate.facts}, node)
        asked = (bound.table.backend, "", UnknownReason.NO_EVIDENCE, self._op, candidate.why, _RECORD_THERE)
        evidence = evidence_of(self.row.evidence)
        return replace(unknown_ruling(*asked), rule=self.row.id, evidence=evidence, translated=True)


class Translator:
    """The translations for one target, by recorded op."""

    def __init__(self, table: Translations, backend: Backend, version: str, settings: Mapping[str, Value]) -> None:
        self._version = version
        self._settings = settings
        self._rows = {op: row for row in table.translation if backend in row.to for op in row.ops}
        self._notes = {op: note for note in table.note if backend in note.to for op in note.seen}
        self.notes: dict[str, TargetNote] = {}
        """Notes whose ops were recorded, by id."""

    def row_of(self, op: str) -> BoundTranslation | None:
        """The row for a recorded overload: one that names it, else one that names its packet. Call it once per op."""
        packet = op.rpartition(".")[0]
        note = self._notes.get(op) or self._notes.get(packet)
        if note is not None:
            self.notes[note.id] = note
        row = self._rows.get(op) or self._rows.get(packet)
        return None if row is None else BoundTranslation(row, op, self._version, self._settings)


def _choices(row: Translation, op: str, version: str, settings: Mapping[str, Value]) -> Iterator[_Choice]:
    settings = with_forward(settings)
    for named in row.becomes:
        candidate = replace(named, op=op) if named.op == STAYS else named
        if speaks_of(candidate.torch, version) and may_hold(candidate, settings):
            asks = tuple((key, wanted_values(candidate, key)) for key in candidate.when if key not in SETTINGS)
            is_untold = any(key in SETTINGS and key not in settings for key in candidate.when)
            yield _Choice(candidate, asks, candidate.perhaps or is_untold)


def _hangs_on_target(choices: tuple[_Choice, ...], verdicts: list[Verdict]) -> bool:
    """Return whether the call is refused only on some hardware, while the target's is not known."""
    refused = [
        choice.hangs_on_target for choice, verdict in zip(choices, verdicts, strict=True) if verdict is Verdict.RAISES
    ]
    return 0 < len(refused) < len(verdicts) and all(refused)


#: Not the optimizer: it counts its steps on the CPU, whatever device its parameters are on.
_PASSES = (Phase.FORWARD, Phase.RECOMPUTE, Phase.BACKWARD)
#: Classes of ops that allocate, view, fill or copy.
_MOVES = frozenset({"class-views", "class-copies", "class-bookkeeping"})
#: Part of the names of ops that only allocate.
_ALLOCATES = "empty"
_COMPUTE = (
    "Record the step on real tensors, or under torch's `FakeTensorMode`: fake tensors claim a device, and take the path"
    " of real ones on it."
)
#: As facts spell them.
_REPEATABLE = frozenset(origin.value for origin in REPEATABLE)
_KEEP = (
    "The generator starts from the same state in every run. Keep it so, and save and restore generator states when"
    " training is resumed."
)


def drawn(ruling: Ruling, facts: Mapping[str, FactValue]) -> Ruling:
    """``ruling`` for a call with ``facts``: the origin of the generator's state decides whether ``seeded`` repeats."""
    origin = facts.get(ORIGIN)
    if origin is None or Verdict.SEEDED not in ruling.both:
        return ruling
    if origin == SeedOrigin.MACHINE:
        whose, remedy = "Torch's default generator", "Call `torch.manual_seed(0)` before the first draw"
        if not str(facts.get(GENERATOR)).startswith("cpu"):
            whose += " of the device, which no seed of the CPU's alone reaches,"
        if kind_drawn_from(facts) is GeneratorKind.PASSED:
            whose, remedy = "The generator that the call was given", "Call `manual_seed(0)` on it where it is made"
        return _unseeded(ruling, whose, remedy)
    if origin == SeedOrigin.MOVED_ON:
        as_is, in_mode = (Verdict.CONDITIONAL if v is Verdict.SEEDED else v for v in ruling.both)
        return replace(ruling, verdict=as_is, deterministic_mode=in_mode, why=_RECOMPUTED, remedy=_PRESERVE, needs=())
    if origin == SeedOrigin.DEVICE:
        return _unseeded(ruling, _EITHER, _SEED_ALL, Verdict.CONDITIONAL)
    if origin in _REPEATABLE and ruling.verdict is ruling.deterministic_mode:
        return replace(ruling, remedy=_KEEP, needs=())
    return ruling


_RECOMPUTED = (
    "Checkpointing runs this forward again in the backward pass and draws other numbers than the first time, so that"
    " the gradient belongs to another result than the loss."
)
_PRESERVE = "Leave `preserve_rng_state` of `torch.utils.checkpoint.checkpoint` at its default, True."
_EITHER = (
    "The recording does not tell whether the call draws from the host's generator or from the device's, and one of the"
    " two"
)
_SEED_ALL = "Call `torch.manual_seed(0)`, which seeds the generators of all devices, before the first draw"


def _unseeded(ruling: Ruling, whose: str, remedy: str, verdict: Verdict = Verdict.NONDETERMINISTIC) -> Ruling:
    """``ruling`` for calls whose generator has a random seed: what is ``seeded`` differs from run to run."""
    why = f"{whose} has another state in every run, which then draws other numbers."
    as_is, in_mode = (verdict if v is Verdict.SEEDED else v for v in ruling.both)
    return replace(
        ruling,
        verdict=as_is,
        deterministic_mode=in_mode,
        cause=Cause.RNG,
        why=f"{why} {ruling.why}".rstrip(),
        remedy=f"{remedy}, and do not call `seed()`, which sets a random seed.",
        needs=(),
        decided=Deciding(),
    )


#: The risks that each fact of the data excludes.
_RULED_OUT = {
    DataShown.DISTINCT: (Cause.ATOMIC_ACCUMULATION, Cause.WRITE_RACE),
    DataShown.TWICE_ONTO_ZEROS: (Cause.ATOMIC_ACCUMULATION,),
    DataShown.EXACT: (Cause.ATOMIC_ACCUMULATION,),
    DataShown.NO_TIES: (Cause.TIE_ORDER,),
}
_FOR_THESE_DATA = (
    "The data of this run exclude the risk: the call is deterministic for these data, but may not be for others."
)
_REFUTED = (
    "Replayed in this run with the same inputs, the call gave other results, although the table calls it {verdict}:"
    " the table is wrong for this device."
)
_MEND = "It varies on this device: fix its kernel, or avoid the call where results must repeat."
_VARIED = "Replayed in this run with the same inputs, the call gave other results."
_REPORT = (
    "Please report it: the report begins with the text to paste. Until the reason is known, avoid the call where"
    " results must repeat."
)


def settled_by_data(group: CallGroup, ruling: Ruling) -> Ruling:
    """``ruling`` if the data of all the calls exclude the table's risk."""
    is_accused = any(verdict in VARYING for verdict in ruling.both)
    is_whole = group.data.keys() <= SETTLING_DATA and sum(group.data.values()) == group.count
    if not is_accused or not is_whole or any(ruling.cause not in _RULED_OUT[shown] for shown in group.data):
        return ruling
    as_is, in_mode = (Verdict.DETERMINISTIC if verdict in VARYING else verdict for verdict in ruling.both)
    return replace(
        ruling, verdict=as_is, deterministic_mode=in_mode, why=f"{ruling.why} {_FOR_THESE_DATA}", observed=True
    )


def refuted_by_trials(ruling: Ruling, as_recorded: Ruling, *, in_mode: bool, is_recorded: bool) -> Ruling:
    """``ruling`` on calls that varied in trials. ``as_recorded`` is the tables' ruling under the settings of the
    trials; ``is_recorded``: whether ``ruling`` is on those. ``in_mode``: whether deterministic mode was on there."""
    varies = Verdict.NONDETERMINISTIC
    as_is, mode = ruling.both
    if as_recorded.verdict in SAFE:  # no known mechanism makes it vary, so there is no known remedy
        return replace(
            ruling,
            rule=ruling.rule or f"{ruling.backend}-tried",
            verdict=varies if as_is in SAFE else as_is,
            deterministic_mode=varies if mode in SAFE else mode,
            why=f"{_REFUTED.format(verdict=as_recorded.verdict)} {ruling.why}".rstrip(),
            remedy=_REPORT,
            needs=(),
            refuted=as_recorded.verdict,
        )
    if is_recorded:
        as_is = varies
        if in_mode or mode is Verdict.CONDITIONAL:
            mode = varies
    if (as_is, mode) == ruling.both:
        return ruling
    return replace(
        ruling,
        verdict=as_is,
        deterministic_mode=mode,
        why=f"{_VARIED} {ruling.why}".rstrip(),
        remedy=_MEND if ruling.source is None else ruling.remedy,
    )


def on_the_device_alone(ruling: Ruling) -> Ruling:
    """``ruling`` for calls that are deterministic on a CPU, and run there unless a library keeps them on the device."""
    as_is, in_mode = (verdict if verdict in _LEFT_OPEN else Verdict.CONDITIONAL for verdict in ruling.both)
    why = f"{_SET_UP} {ruling.why}".rstrip()
    return replace(ruling, verdict=as_is, deterministic_mode=in_mode, why=why, refuted=None)


#: Verdicts that cannot get worse by where the call runs.
_LEFT_OPEN = (*SAFE, Verdict.UNKNOWN)
_SET_UP = (
    "A library's constructor makes the call, outside every module and without a gradient: most such code runs on the"
    " host, where the call is deterministic. On the device:"
)


def on_meta(
    group: CallGroup,
    backend: Backend,
    on_target: Callable[[], Ruling],
    *,
    has_computed_step: bool,
    has_trained: bool,
) -> Ruling:
    """The ruling on a call on ``meta`` tensors, which computed nothing; ``on_target``: as if on tensors of the target.

    Models are often built on ``meta`` and materialized later (deferred initialization): allocating, viewing, filling
    and drawing there is not held against a recording in which some step was computed. Nor is anything there, such as a
    pass that counts operations, against one whose optimizers stepped tensors with data: none of it reaches those.
    """
    if ORIGIN in group.facts or GENERATOR in group.facts:  # its result is on another device
        return on_target()
    if has_trained or moves_only(group.op):
        return safe_ruling(backend)
    if group.phase is Phase.OTHER:
        both = on_target().both
        if set(both) <= set(SAFE) and (Verdict.SEEDED in both or has_computed_step):
            return safe_ruling(backend)
    return unknown_ruling(backend, "not-computed", UnknownReason.NOT_COMPUTED, META, remedy=_COMPUTE)


def has_computed_step(calls: Iterable[CallGroup]) -> bool:
    """Return whether a forward or backward pass called an op on an accelerator, or on fake tensors that claim one."""
    return any(group.phase in _PASSES and group.facts.get("device") not in NO_DEVICE for group in calls)


def has_trained(calls: Iterable[CallGroup]) -> bool:
    """Return whether optimizers stepped tensors with data, and none on ``meta``."""
    stepped = {group.facts.get("device") for group in calls if group.phase is Phase.OPTIMIZER}
    return META not in stepped and not stepped <= {*NO_DEVICE, None}


def meta_calls(calls: Iterable[CallGroup]) -> int:
    """Return the number of ``calls`` that would compute if not on ``meta``, without initialization before a step."""
    calls = tuple(calls)
    if has_trained(calls):
        return 0
    computed = has_computed_step(calls)
    return sum(
        group.count
        for group in calls
        if group.facts.get("device") == META
        and not (computed and group.phase is Phase.OTHER)
        and not moves_only(group.op)
    )


@cache
def moves_only(op: str) -> bool:
    """Return whether ``op`` allocates, views, fills or copies, and computes nothing."""
    packet = op.rpartition(".")[0]
    return _ALLOCATES in packet or any(packet in rule.ops for rule in load_classes().rule if rule.id in _MOVES)
