"""The ruling on a call: by the table of a target's backend, as the op that it becomes there, and by the run itself.

Of several ops that a call may run as, the worst ruling stands. An unseeded draw never repeats; data of every call may
exclude a risk; a call that varied in a trial varies, and a table that denies it is wrong for this device.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache, cached_property
from typing import Any

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
    DeterministicMode,
    EvidenceKind,
    GeneratorKind,
    HostCode,
    Phase,
    SeedOrigin,
    UnknownReason,
    Verdict,
)
from tracer.ops import Touch, bare_name, row_of
from tracer.tables.compiled import CompiledCalls
from tracer.tables.conditions import (
    BothWays,
    in_deterministic_mode,
    may_hold,
    wanted_values,
    with_derived,
    with_forward,
)
from tracer.tables.loading import load_classes
from tracer.tables.rules import (
    BACKWARD_OF,
    FORWARD_FACTS,
    NO_TRANSLATIONS,
    RECORDED_ON,
    REMEDY_UNKNOWN,
    SETTINGS,
    STAYS,
    UNNOTED,
    Rule,
    RuleTable,
    Ruling,
    TargetNote,
    TargetOp,
    Translation,
    Translations,
    evidence_of,
    in_domain,
)
from tracer.tables.settings import MODE
from tracer.tables.versions import judged_as, placed, release, release_or_text, speaks_of
from tracer.trace.records import (
    GENERATOR,
    META,
    NO_DEVICE,
    ORIGIN,
    CallGroup,
    Environment,
    FactValue,
    TensorForm,
    is_set_up,
    kind_drawn_from,
)


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
            self.refusal = Ruling.unknown(table.backend, "not-reviewed", UnknownReason.TABLE_NOT_REVIEWED, detail)
        self._settings = settings
        self._by_rule: dict[str, BothWays[Rule]] = {}

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
            return Ruling.unknown(table.backend, "opaque", UnknownReason.OPAQUE, op)
        if not table.deny_list:
            ask = table.ask.format(op=op.removesuffix(".default")) or REMEDY_UNKNOWN
            return Ruling.unknown(table.backend, "unlisted", UnknownReason.UNLISTED, op, table.unlisted, ask)
        dispatched, version = table.dispatched, _number(self.version)
        entries, device = (dispatched.vouched, dispatched.device) if dispatched is not None else ((), "")
        for entry in entries:
            if op in entry.ops and _number(entry.first) <= version <= _number(entry.last):
                ref = (
                    f"CUDA builds of torch {entry.first} to {entry.last} run without a device, as {device}:"
                    " each recorded call launched kernels that add nothing atomically and called into no library"
                )
                vouched = (Evidence(kind=EvidenceKind.DISPATCHED, ref=ref),)
                return Ruling.safe(table.backend, extrapolated=self.extrapolated, evidence=vouched)
        return Ruling.safe(table.backend, extrapolated=self.extrapolated)


@cache
def _number(version: str) -> tuple[int, ...]:
    major, minor = release(version).split(".")[:2]
    return int(major), int(minor)


_RANK = {verdict: rank for rank, verdict in enumerate(SEVERITY)}
_WORST = "Which one runs is not known here, so the worst verdict is reported."
_RECORD_THERE = "Record the step on the target itself: then its own ops are judged."


class BoundTranslation:
    """One row for one recorded overload, one version and one set of settings."""

    def __init__(self, row: Translation, op: str, version: str, settings: Mapping[str, Value]) -> None:
        self.row = row
        self._op = op
        candidates = [replace(each, op=op) if each.op == STAYS else each for each in row.becomes]
        candidates = [each for each in candidates if speaks_of(each.torch, version)]
        self._keys = dict.fromkeys(key for each in candidates for key in each.when if key not in SETTINGS)
        both = (with_forward(settings), with_forward(in_deterministic_mode(settings)))
        self._both = tuple([(each, held) for each in candidates if may_hold(each, held)] for held in both)
        """The candidates that are left under the settings, and in deterministic mode, with those settings."""

    def outcome(self, bound: BoundTable, device: str, facts: Mapping[str, Value], node: str | None) -> Ruling:
        """The ruling of ``bound`` on a call with ``facts`` on ``device``: the worst of all candidates, except for a
        refusal that not every hardware would meet."""
        known = with_derived(facts, node, self._keys)
        as_is, in_mode = ([pair for pair in pairs if _is_open(pair[0], known)] for pairs in self._both)
        here = [self._judged(candidate, bound, device, facts, node) for candidate, _ in as_is]
        there = [self._judged(candidate, bound, device, facts, node) for candidate, _ in in_mode]
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
        names = tuple(dict.fromkeys(candidate.op for candidate, _ in as_is if candidate.op))
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
        return replace(Ruling.unknown(*asked), rule=self.row.id, evidence=evidence, translated=True)


def _is_open(candidate: TargetOp, facts: Mapping[str, Value]) -> bool:
    """Return whether it is compatible with the known facts. A value outside the vocabulary counts as unrecorded."""
    for key in candidate.when:
        value = None if key in SETTINGS else facts.get(key, UNNOTED.get(key))
        if value is not None and value not in wanted_values(candidate, key) and in_domain(key, value):
            return False
    return True


def _hangs_on_target(choices: list[tuple[TargetOp, dict[str, Value]]], verdicts: list[Verdict]) -> bool:
    """Return whether only some hardware refuses the call and the target's is not known, or the program may choose."""
    refused = [choice for choice, verdict in zip(choices, verdicts, strict=True) if verdict is Verdict.RAISES]
    hanging = (
        candidate.perhaps or any(key in SETTINGS and key not in settings for key in candidate.when)
        for candidate, settings in refused
    )
    return 0 < len(refused) < len(verdicts) and all(hanging)


#: Not the optimizer: it counts its steps on the CPU, whatever device its parameters are on.
_PASSES = (Phase.FORWARD, Phase.RECOMPUTE, Phase.BACKWARD)
#: Classes of ops that allocate, view, fill or copy.
_MOVES = frozenset({"class-views", "class-copies", "class-bookkeeping"})
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
        return ruling.turned({Verdict.SEEDED: Verdict.CONDITIONAL}, why=_RECOMPUTED, remedy=_PRESERVE, needs=())
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
    return ruling.turned(
        {Verdict.SEEDED: verdict},
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
    settled = dict.fromkeys(VARYING, Verdict.DETERMINISTIC)
    return ruling.turned(settled, why=f"{ruling.why} {_FOR_THESE_DATA}", observed=True)


def refuted_by_trials(ruling: Ruling, as_recorded: Ruling, *, in_mode: bool, is_recorded: bool) -> Ruling:
    """``ruling`` on calls that varied in trials. ``as_recorded`` is the tables' ruling under the settings of the
    trials; ``is_recorded``: whether ``ruling`` is on those. ``in_mode``: whether deterministic mode was on there."""
    varies = Verdict.NONDETERMINISTIC
    if as_recorded.verdict in SAFE:  # no known mechanism makes it vary, so there is no known remedy
        return ruling.turned(
            dict.fromkeys(SAFE, varies),
            rule=ruling.rule or f"{ruling.backend}-tried",
            why=f"{_REFUTED.format(verdict=as_recorded.verdict)} {ruling.why}".rstrip(),
            remedy=_REPORT,
            needs=(),
            refuted=as_recorded.verdict,
        )
    as_is, mode = ruling.both
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


_SET_UP = (
    "A library's constructor makes the call, outside every module and without a gradient: most such code runs on the"
    " host, where the call is deterministic. On the device:"
)


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
    return "empty" in packet or any(packet in rule.ops for rule in load_classes().rule if rule.id in _MOVES)


#: The matrix products of attention's math path.
_PRODUCT = "aten.bmm.default"
#: If only some calls have this fact. If all do, it is the recording's setting, and the target has its own.
_WITHOUT_CUDNN = "conv.without_cudnn"
_BACKWARD = Phase.BACKWARD
_UNSEEN = "The op calls code that was not recorded: what ran inside it is not known."
_NO_DEVICE = "The trace does not say on which device the call ran."
#: Prefix of facts about the head size.
_HEAD = "sdp.head_"

#: The softmax that only attention calls.
SOFTMAX = "aten._safe_softmax"
#: The ops of attention's math path that a fused kernel replaces.
_FUSABLE = (_PRODUCT, f"{SOFTMAX}.default", "aten._softmax_backward_data.default")
#: On a CPU half precision is converted to float32 first. Then queries are scaled, and keys are copied, with an extra
#: dimension in between; then scores are masked.
_WIDENS, _HALF = "aten._to_copy.default", ("float16", "bfloat16")
_SCALES, _REPEATS, _DIMENSIONS = "aten.mul.Scalar", "aten.clone.default", 4
_MASKS, _MAKES_CAUSAL = ("aten.add.", "aten.add_."), "aten.tril.default"
#: Ops that count only floats on a CPU, and the dtypes that code converts for them.
_COUNTS, _WHOLE = "aten.histc", ("int64", "int32", "int16", "int8", "uint8")
#: Packet, module, location.
OpPlace = tuple[str, str, str]
_TOLD = frozenset(FORWARD_FACTS.values())


class ForwardCalls:
    """The forward calls of one trace, for one backend. Independent of settings."""

    def __init__(self, calls: Iterable[CallGroup], translations: Translations, backend: Backend) -> None:
        calls = tuple(calls)
        self.has_computed_step, self.has_trained = has_computed_step(calls), has_trained(calls)
        packets: defaultdict[str, list[CallGroup]] = defaultdict(list)
        for group in calls:
            packets[group.op.rpartition(".")[0]].append(group)
        self.backward_facts = dict(_backward_facts(packets))
        """Facts that calls at a place give their backward calls; see ``rules.FORWARD_FACTS``."""
        self.told_packets = frozenset(packet for packet, _, _ in self.backward_facts)
        is_for_device = backend not in (Backend.RECORDED, Backend(RECORDED_ON))
        asked = {row.forward for row in translations.translation if is_for_device and row.forward and backend in row.to}
        self.facts = dict(_agreed({packet: packets[packet] for packet in asked & packets.keys()}))
        """Facts of the calls at a place, for translations with conditions on the forward call."""
        is_attention = SOFTMAX in asked and SOFTMAX in packets
        self.attention = dict(_attention_facts(calls, self.facts)) if is_attention else {}
        """Facts of the ops of attention's math path, and of its products alone, by place."""
        has_counts = is_for_device and _COUNTS in packets
        self.widening = _places_that_widen_counts(calls) if has_counts else frozenset[OpPlace]()
        """Lines of libraries that convert integers and count them: module, location, called from."""


def _backward_facts(packets: Mapping[str, list[CallGroup]]) -> Iterable[tuple[OpPlace, dict[str, FactValue]]]:
    """Facts that forward calls give their backward calls. If calls at one place disagree, the worse value counts."""
    for packet, groups in packets.items():
        # The gradient of a gradient runs a forward op too, which the program did not call.
        forward = [group for group in groups if group.phase is not _BACKWARD]
        if all(_TOLD.isdisjoint(group.facts) for group in forward):
            continue
        places: defaultdict[OpPlace, list[CallGroup]] = defaultdict(list)
        for group in forward:
            places[packet, group.module, group.location].append(group)
        for place, there in places.items():
            holds = {key: [key in group.facts for group in there] for key in FORWARD_FACTS.values()}
            # A direct call makes its backward a risk.
            yield place, {key: True for key, each in holds.items() if (any if key == "call.direct" else all)(each)}


def _agreed(packets: Mapping[str, list[CallGroup]]) -> Iterable[tuple[OpPlace, dict[str, FactValue]]]:
    """The facts that all calls at a place share: the backward call may belong to any of them."""
    places: dict[OpPlace, dict[str, FactValue]] = {}
    for packet, groups in packets.items():
        for group in groups:
            agreed = places.setdefault((packet, group.module, group.location), dict(group.facts))
            for key in [key for key, value in agreed.items() if group.facts.get(key) != value]:
                del agreed[key]
    return places.items()


def _attention_facts(
    calls: Iterable[CallGroup], forward: Mapping[OpPlace, Mapping[str, FactValue]]
) -> Iterator[tuple[tuple[str, str], tuple[dict[str, FactValue], dict[str, FactValue]]]]:
    """What attention's math path shows only as a whole, by module and location: facts of its ops, further ones of its
    products. Order: queries converted to float32, then scaled; keys repeated; scores masked."""
    copied: dict[tuple[str, str], FactValue] = {}
    scaled, widened, repeated, broadcast, masked, causal, softened = (set[tuple[str, str]]() for _ in range(7))
    for group in calls:
        place, ndim, dtype = (group.module, group.location), group.facts.get("ndim"), group.facts.get("dtype")
        if group.phase is _BACKWARD:
            continue
        if group.op == _SCALES and ndim == _DIMENSIONS:
            scaled.add(place)
            if place in copied and dtype == "float32":
                widened.add(place)
        elif group.op == _WIDENS and ndim == _DIMENSIONS and dtype in _HALF and place not in scaled:
            copied[place] = dtype
        elif group.op == _REPEATS and ndim == _DIMENSIONS + 1 and place in scaled:
            repeated.add(place)
        elif group.op == _REPEATS and place in scaled:
            keys = group.given.get("self")  # one tensor, expanded along the batch or the heads
            if isinstance(keys, TensorForm) and len(keys.shape) == _DIMENSIONS and keys.stride is not None:
                sizes = zip(keys.shape[:2], keys.stride[:2], strict=True)
                broadcast.update([place] if any(size != 1 and step == 0 for size, step in sizes) else ())
        elif group.op.startswith(_MASKS) and ndim == _DIMENSIONS and place in scaled - softened:
            masked.add(place)
        elif group.op == _MAKES_CAUSAL:
            causal.add(place)
        elif group.op.startswith(SOFTMAX):
            softened.add(place)
    for place in softened:
        softmax, facts = forward.get((SOFTMAX, *place), {}), dict[str, FactValue]()
        if place in masked - causal:  # the user's mask, not one that attention itself builds (``is_causal=True``)
            facts["attention.has_mask"] = True
        if place in repeated:  # heads of queries share keys (``enable_gqa=True``); a user's own ``repeat`` comes first
            facts["sdp.shares_heads"] = True
        if place in broadcast:  # to the batch or heads of queries, which no fused kernel does
            facts["sdp.fused"] = False
        if place in widened:
            facts["dtype"] = copied[place]
        dtype = facts.get("dtype") or softmax.get("dtype")
        may_fuse = (
            softmax.get("sdp.fused") is True
            and softmax.get("ndim") == _DIMENSIONS
            and place not in broadcast
            and (dtype in _HALF or (dtype == "float32" and place not in repeated))
        )
        heads = {key: value for key, value in softmax.items() if key.startswith(_HEAD)}
        yield place, (facts, {"attention.may_fuse": True, **heads} if may_fuse else {})


def _places_that_widen_counts(calls: Iterable[CallGroup]) -> frozenset[OpPlace]:
    """Places in libraries that convert integers to floats and then compute a histogram."""
    widened: set[OpPlace] = set()
    counted: list[CallGroup] = []
    for group in calls:
        if not group.called_from or group.facts.get("device") != RECORDED_ON:
            continue
        if group.op == _WIDENS and group.facts.get("dtype") in _WHOLE:
            widened.add((group.module, group.function, group.called_from))
        elif group.op.startswith(_COUNTS):
            counted.append(group)
    return frozenset(
        (group.module, group.location, group.called_from)
        for group in counted
        if (group.module, group.function, group.called_from) in widened
    )


@dataclass(eq=False)
class TargetTables:
    """The tables bound to one target."""

    tables: Mapping[Backend, RuleTable]
    backend: Backend
    version: str
    settings: Mapping[str, Value]
    _: KW_ONLY
    is_rocm: bool = False
    """Whether the recording's ``cuda`` devices were AMD GPUs."""
    strict: bool = False
    """See ``BoundTable``."""
    translations: Translations = NO_TRANSLATIONS
    """For calls recorded on a CPU and judged for another device."""
    compiled: CompiledCalls | None = None
    """For calls of a region; ``None``: judged as eager."""
    recorded: Mapping[str, Value] | None = None
    """The settings of the trials, if other than ``settings``."""

    def __post_init__(self) -> None:
        self._recorded = self.settings if self.recorded is None else self.recorded
        self._forward = ForwardCalls((), NO_TRANSLATIONS, Backend.RECORDED)
        self._is_for_device = self.backend not in (Backend.RECORDED, Backend(RECORDED_ON))
        self._bound: dict[Backend, BoundTable | Ruling] = {}
        self._rows = {op: row for row in self.translations.translation if self.backend in row.to for op in row.ops}
        self._translated: dict[str, BoundTranslation | None] = {}
        self._notes: dict[str, TargetNote] = {}
        """Notes on recorded ops, by id."""
        self._rulings: dict[tuple[object, ...], Ruling] = {}
        """By everything that they may depend on."""
        self.devices: set[str] = set()
        """Devices that calls were recorded on."""

    def look_ahead(self, forward: ForwardCalls) -> None:
        """Read the forward calls of a trace. Call this before asking for a ruling on any of its calls."""
        self._forward = forward
        self._rulings.clear()

    def rule_on(self, group: CallGroup) -> Ruling:
        """The ruling for one group of calls, by the tables, what the run itself showed, and where it may run."""
        ruling = self._by_run(group)
        at_risk = not ruling.is_safe and self._is_for_device and group.host is None
        if at_risk and is_set_up(group.phase, group.module, group.place, group.facts.get("device")):
            there = self._by_run(replace(group, host=HostCode.NAMED))
            if set(there.both) <= set(SAFE):  # it runs there unless a library keeps it on the device
                open_to_place = dict.fromkeys({*Verdict} - {*SAFE, Verdict.UNKNOWN}, Verdict.CONDITIONAL)
                return ruling.turned(open_to_place, why=f"{_SET_UP} {ruling.why}".rstrip(), refuted=None)
        return ruling

    def _by_run(self, group: CallGroup) -> Ruling:
        """The tables' ruling, unless trials or data of the run show otherwise."""
        ruling = self._by_tables(group)
        if group.tried is None or not group.tried.varied:
            return settled_by_data(group, ruling) if group.data else ruling
        is_recorded = self.settings == self._recorded
        as_recorded = ruling if is_recorded else self._under_recorded._by_tables(group)
        in_mode = self._recorded.get(MODE) == DeterministicMode.ON.value
        return refuted_by_trials(ruling, as_recorded, in_mode=in_mode, is_recorded=is_recorded)

    def _by_tables(self, group: CallGroup) -> Ruling:
        """The tables' ruling, computed once for calls that agree in everything that it may depend on."""
        at = group.op, group.phase is _BACKWARD, group.host, group.node, frozenset(group.facts.items())
        where = (*_place(group), group.called_from, group.phase, group.region, group.kernels)
        key = (*at, where) if self._hangs_on_place(group) else at
        if key not in self._rulings:
            self._rulings[key] = self._judged(group)
        return self._rulings[key]

    def _hangs_on_place(self, group: CallGroup) -> bool:
        """Return whether its ruling may depend on compiled code, or on other calls of its module or line."""
        op, device = group.op, group.facts.get("device")
        if group.region is not None or group.kernels or device == META or _place(group) in self._forward.attention:
            return True
        if group.phase is _BACKWARD and _forward_of(op) in self._forward.told_packets:
            return True
        if not self._is_for_device or device != RECORDED_ON:
            return False
        row = self._rows.get(op) or self._rows.get(op.rpartition(".")[0])
        return op == _PRODUCT or op.startswith(_COUNTS) or (row is not None and bool(row.forward))

    def _judged(self, group: CallGroup) -> Ruling:
        """Return the ruling on a call: its backend, whether it runs a kernel there, and as which op."""
        device = group.facts.get("device")
        if device is not None:
            self.devices.add(str(device))
        if self.backend is Backend.RECORDED:
            if device is None:
                return Ruling.unknown(self.backend, "no-device", UnknownReason.FACT_NOT_RECORDED, "device", _NO_DEVICE)
            backend = self._backend_of(str(device))
        else:
            backend = self.backend if group.host is None else Backend.CPU
        if group.host is HostCode.IMPORT or (device == META and self.backend is Backend.RECORDED):
            ruling = Ruling.safe(backend)  # it computes nothing
        elif device == META:
            ruling = self._on_meta(group, backend)
        elif self.compiled is not None and (group.region is not None or group.kernels):

            def eager(op: str, facts: Mapping[str, FactValue]) -> Ruling:
                return self._eager(backend, replace(group, op=op, facts=dict(facts)))

            ruling = self.compiled.outcome(group, backend, eager, group.node if group.phase is _BACKWARD else None)
        else:
            ruling = self._eager(backend, group)
        return _named_elsewhere(group, drawn(ruling, group.facts))

    def _on_meta(self, group: CallGroup, backend: Backend) -> Ruling:
        """The ruling on a call on ``meta`` tensors, which computed nothing.

        Models are often built on ``meta`` and materialized later (deferred initialization): allocating, viewing,
        filling and drawing there is not held against a recording in which some step was computed. Nor is anything
        there, such as a pass that counts operations, against one whose optimizers stepped tensors with data: none of it
        reaches those.
        """
        there = replace(group, facts={**group.facts, "device": backend.device})
        if ORIGIN in group.facts or GENERATOR in group.facts:  # its result is on another device
            return self._eager(backend, there)
        if self._forward.has_trained or moves_only(group.op):
            return Ruling.safe(backend)
        if group.phase is Phase.OTHER:
            both = self._eager(backend, there).both
            if set(both) <= set(SAFE) and (Verdict.SEEDED in both or self._forward.has_computed_step):
                return Ruling.safe(backend)
        return Ruling.unknown(backend, "not-computed", UnknownReason.NOT_COMPUTED, META, remedy=_COMPUTE)

    def _eager(self, backend: Backend, group: CallGroup) -> Ruling:
        """The ruling on a call as recorded, or as the op that it becomes on the target."""
        op, facts = group.op, group.facts
        if "subclass" in facts or op.startswith("higher_order."):  # its inner calls are judged on their own
            is_seen = facts.get("subclass_inner" if "subclass" in facts else "body_recorded") is True
            if is_seen or row_of(bare_name(op)).touches is Touch.METADATA:
                return Ruling.safe(backend)
            return Ruling.unknown(backend, "opaque", UnknownReason.OPAQUE, op, _UNSEEN)
        if _WITHOUT_CUDNN in facts and self._recorded.get("cudnn_enabled") is False:
            facts = {key: value for key, value in facts.items() if key != _WITHOUT_CUDNN}
        if backend not in self._bound:
            if (table := self.tables.get(backend)) is not None:
                self._bound[backend] = BoundTable(table, self.version, self.settings, strict=self.strict)
            else:
                name = str(facts.get("device") if backend is Backend.RECORDED else backend)
                self._bound[backend] = Ruling.unknown(backend, "no-table", UnknownReason.NO_TABLE, name)
        bound = self._bound[backend]
        if isinstance(bound, Ruling):
            return bound
        place, node = (group.module, group.location), group.node if group.phase is _BACKWARD else None
        if node is not None and self._forward.backward_facts:
            facts = {**facts, **self._forward.backward_facts.get((_forward_of(op), *place), {})}
        translation = None
        if facts.get("device") == RECORDED_ON and self._is_for_device and group.host is None:
            if op not in self._translated:
                self._translated[op] = self._translation(op, bound) if bound.refusal is None else None
            translation = self._translated[op]
            if translation is not None and translation.row.forward:
                facts = {**facts, **self._forward.facts.get((translation.row.forward, *place), {})}
            if self._forward.widening and (*place, group.called_from) in self._forward.widening:
                facts = {**facts, "library.widens_counts": True}
            if op in _FUSABLE and place in self._forward.attention:
                of_all, of_products = self._forward.attention[place]
                facts = {**facts, **of_all, **(of_products if op == _PRODUCT else {})}
        if translation is None:
            return bound.outcome(op, facts, node)
        return translation.outcome(bound, self.backend.device, facts, node)

    def _translation(self, op: str, bound: BoundTable) -> BoundTranslation | None:
        """The row for a recorded overload: one that names it, else one that names its packet."""
        names = op, op.rpartition(".")[0]
        for note in self.translations.note:
            if self.backend in note.to and not set(names).isdisjoint(note.seen):
                self._notes[note.id] = note
        row = self._rows.get(names[0]) or self._rows.get(names[1])
        return None if row is None else BoundTranslation(row, op, bound.version, self.settings)

    @cached_property
    def _under_recorded(self) -> TargetTables:
        compiled = None if self.compiled is None else self.compiled.under(self._recorded)
        tables = dataclasses.replace(self, settings=self._recorded, compiled=compiled)
        tables.look_ahead(self._forward)
        return tables

    def translated(self) -> str:
        """How calls of another device were judged, and notes on differences that single ops do not show."""
        is_any = any(row is not None for row in self._translated.values())
        return f"{'' if is_any else ', ops as recorded'}.{''.join(f' {note.says}' for note in self._notes.values())}"

    def used(self) -> Iterator[BoundTable]:
        """The tables that were consulted."""
        return (bound for bound in self._bound.values() if isinstance(bound, BoundTable))

    def missing(self) -> Iterator[str]:
        """Backends that some call needed a table for, but that have none."""
        return (bound.reason_detail for bound in self._bound.values() if isinstance(bound, Ruling))

    def _backend_of(self, device: str) -> Backend:
        """The backend of a recorded device. ROCm names its devices ``cuda``; a call without one runs on the host."""
        return Backend.CPU if device in NO_DEVICE else device_backend(device, is_rocm=self.is_rocm)


def _place(group: CallGroup) -> tuple[str, str]:
    return group.module, group.location


def _named_elsewhere(group: CallGroup, ruling: Ruling) -> Ruling:
    """``ruling`` with a name for the op that holds on its backend, where a CPU recorded an op that it alone has."""
    if ruling.runs_as or ruling.backend is Backend.CPU or group.facts.get("device") != RECORDED_ON:
        return ruling
    name = row_of(bare_name(group.op)).on_cpu_for
    if not name:
        return ruling
    detail = name if ruling.reason_detail == group.op else ruling.reason_detail
    return replace(ruling, runs_as=name, reason_detail=detail)


def _forward_of(op: str) -> str:
    """The packet of the forward op whose backward ``op`` may be."""
    return op.rpartition(".")[0].removesuffix(BACKWARD_OF)
