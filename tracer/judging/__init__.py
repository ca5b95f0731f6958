"""Judges a trace by determinism tables for one target: pure, without clock, device or torch."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import translate
from operator import attrgetter
from typing import TypeVar

from msgspec.structs import replace

from tracer.errors import TargetError
from tracer.facts.every_fact import FACTS
from tracer.findings import Finding, Judgement, SizeBound, Target
from tracer.judging.call_findings import (
    JudgedCall,
    Unsafe,
    bearing_trials,
    findings_of_calls,
    observed_banners,
    tally_of,
    unnamed_calls,
)
from tracer.judging.minimal_settings import SEED, MinimalSettings, Sets, seeded_in_its_place, with_plan
from tracer.judging.process_findings import ProcessUnderTarget, extrapolated_banner, fill_cost, trace_under
from tracer.names import (
    SAFE,
    SEVERITY,
    Backend,
    BlindSpotKind,
    Direction,
    EvidenceKind,
    HostCode,
    Phase,
    SeedOrigin,
    Settings,
    Training,
    UnknownReason,
    Verdict,
)
from tracer.ops import spoken
from tracer.tables.compiled import Compilation, CompiledCalls, CompilerTable, compilation_of
from tracer.tables.loading import checked_sets
from tracer.tables.rules import NO_TRANSLATIONS, EnvironmentTable, RuleTable, Ruling, Switches, Translations, strongest
from tracer.tables.settings import FORWARD, MODE, SEEDS, settings_of
from tracer.tables.target_tables import ForwardCalls, TargetTables, has_computed_step, meta_calls
from tracer.tables.versions import named_release
from tracer.trace.file import Trace
from tracer.trace.records import NO_DEVICE, ORIGIN, CallGroup, Environment, FactValue, is_set_up

_HANG_ON_SIZES = frozenset(key for key, fact in FACTS.items() if fact.hangs_on_sizes)


def judge_calls(
    trace: Trace,
    tables: Mapping[Backend, RuleTable],
    target: Target,
    *,
    strict: bool = False,
    translations: Translations = NO_TRANSLATIONS,
    rows: EnvironmentTable | None = None,
    switches: Switches | None = None,
    compilers: Mapping[str, CompilerTable] | None = None,
) -> tuple[Judgement, tuple[JudgedCall, ...]]:
    """Judges every call of ``trace`` under ``target``'s settings and in deterministic mode, and what no call shows.

    Returns findings and a tally, and every group in the trace's order with its ruling. ``translations``: what calls
    recorded on a CPU run as elsewhere (default: as recorded). ``rows`` judge settings, seeds, memory and data loading.
    ``switches``: what a library's users can turn. ``compilers`` judge compiled calls, which are unknown without.
    ``strict``: verdicts extrapolated to a newer torch are ``unknown``. The order of findings is total.
    """
    compiled = compilation_of(trace, compilers or {})
    by_settings = _TablesBySettings(trace, target, tables, translations, compiled, strict)
    target_tables = by_settings.under({})
    groups, trial_banner = bearing_trials(with_hosts(trace, target), trace.environment, target)
    if target.backend not in (Backend.RECORDED, Backend.CPU):
        is_fake = any(source.fake_as for source in trace.sources)
        groups = [group.drawn_on(target.backend.device, is_fake=is_fake) for group in groups]
    if target.sets:
        groups = [seeded_in_its_place(group, target.sets) for group in groups]
    groups = [with_own_settings(group, target) if group.settings else group for group in groups]
    judged = _once([JudgedCall(group, by_settings.under(group.settings).rule_on(group)) for group in groups])
    judged = _with_open_attention(judged, trace, target.backend)
    as_ran: list[tuple[CallGroup, Ruling]] = list(judged)
    mode = str(trace.environment.deterministic_mode or "")
    if MODE in target.sets and mode:  # a line that changes the mode counts by what depends on the mode
        as_ran = [(group, by_settings.under({**group.settings, MODE: mode}).rule_on(group)) for group in groups]
    process = ProcessUnderTarget(trace, target, rows, as_ran, strict=strict)
    observed = process.observe({})
    unsafe = [call for call in judged if not call.ruling.is_safe]
    of_this_run = [call for call in judged if call.ruling.observed or call.ruling.refuted is not None]
    settled = MinimalSettings(unsafe, by_settings.under, process, target.conditions, target.sets).settle(observed)
    calls = (Unsafe(*call, *after) for call, after in zip(unsafe, settled.calls, strict=True))
    by_data = [Unsafe(group, ruling, {}, ruling.both) for group, ruling in of_this_run if ruling.observed]
    findings = [*findings_of_calls(calls, compiled, switches), *with_plan(observed.findings, settled)]
    dropping = active_dropout(trace)
    places = set(map(_place, dropping))
    is_for_device = target.backend not in (Backend.RECORDED, Backend.CPU)
    set_up = [call.group for call in unsafe if is_for_device and _may_be_host(call, target_tables)]
    set_up_places = set(map(_place, set_up))
    findings = [
        replace(one, drops_in_inference=True, sets={}, remedy=_EVALUATE)
        if _place(one) in places
        else replace(one, may_be_host=True)
        if _place(one) in set_up_places
        else one
        for one in findings
    ]
    if not any(SEED in finding.sets for finding in findings):
        settled.planned.pop(SEED, None)  # dropout alone asked for it
    on_meta = meta_calls(groups)
    judgement = Judgement(
        trace=trace,
        target=target,
        findings=tuple(sorted(findings, key=order_of)),
        tally=tally_of(judged),
        banners=(
            *observed_banners(of_this_run, trial_banner),
            *banners_of(trace, target, target_tables, strict, on_meta),
            *weak_banners(judged),
            *host_banners(groups, set_up),
            *process.banners(),
            *(process_banners(trace) if rows is not None else ()),
            *dropout_banners(dropping),
        ),
        tables={str(bound.table.backend): bound.table.reviewed for bound in target_tables.used()},
        notes=tuple(sorted(observed.notes, key=lambda note: (-sum(note.ops.values()), note.rule, note.subject))),
        draws=trace.draws,
        fill=fill_cost(trace_under(trace, target, {})),
        planned=settled.planned,
        training=trace.training,
        observed=tuple(sorted(findings_of_calls(by_data, compiled, switches), key=order_of)),
        meta_calls=on_meta,
        nothing_computed=on_meta > 0 and not has_computed_step(groups),
        at_this_size=at_this_size(judged, lambda group: by_settings.under(group.settings).rule_on(group)),
        unnamed=unnamed_calls(judged),
        watched_from_start=trace.watched_from_start,
    )
    return judgement, tuple(judged)


def at_this_size(judged: Iterable[JudgedCall], rule_on: Callable[[CallGroup], Ruling]) -> tuple[SizeBound, ...]:
    """Calls that are deterministic, and would not be known to be without what is known of their sizes."""
    places: dict[tuple[str, str, bool], Counter[str]] = {}
    for group, ruling in judged:
        if ruling.verdict in SAFE and not _HANG_ON_SIZES.isdisjoint(group.facts):
            facts = {name: value for name, value in group.facts.items() if name not in _HANG_ON_SIZES}
            without = rule_on(replace(group, facts=facts))
            if without.verdict not in SAFE:
                op = spoken(group.op, ruling.runs_as).removesuffix(".default")
                key = op, without.why, without.deterministic_mode in SAFE
                places.setdefault(key, Counter())[group.called_from or group.location] += group.count
    bounds = [
        SizeBound(op=op, why=why, is_settled_by_mode=is_settled, calls=dict(at.most_common()))
        for (op, why, is_settled), at in places.items()
    ]
    return tuple(sorted(bounds, key=lambda bound: -sum(bound.calls.values())))


@dataclass(eq=False)
class _TablesBySettings:
    """The tables bound to the target, once for each set of settings that is tried."""

    trace: Trace
    target: Target
    tables: Mapping[Backend, RuleTable]
    translations: Translations
    compilation: Compilation
    strict: bool

    def __post_init__(self) -> None:
        self._forward = ForwardCalls(self.trace.calls, self.translations, self.target.backend)
        self._by_sets: dict[tuple[tuple[str, FactValue], ...], TargetTables] = {}

    def under(self, sets: Sets) -> TargetTables:
        """The tables with ``sets`` on top of the target's own settings."""
        tried = tuple(sorted((name, value) for name, value in sets.items() if name not in SEEDS)) if sets else ()
        if tried not in self._by_sets:
            self._by_sets[tried] = self._under(dict(tried))
        return self._by_sets[tried]

    def _under(self, sets: Sets) -> TargetTables:
        trace, target = self.trace, self.target
        conditions = trace_under(trace, target, sets).conditions if sets else target.conditions
        replaced = () if target.settings is Settings.RECORDED else (MODE,)
        changed = frozenset({*target.sets, *sets, *replaced})
        target_tables = TargetTables(
            self.tables,
            target.backend,
            target.torch,
            conditions,
            is_rocm=trace.environment.hip is not None,
            strict=self.strict,
            translations=self.translations,
            compiled=CompiledCalls(self.compilation, target.torch, conditions, changed=changed, strict=self.strict),
            recorded=settings_of(trace.environment, Settings.RECORDED),
        )
        target_tables.look_ahead(self._forward)
        return target_tables


def with_own_settings(group: CallGroup, target: Target) -> CallGroup:
    """``group`` with those of its settings alone that ``target`` has otherwise: those of a block of the program.

    None of them holds where the target's settings are not the recorded ones.
    """
    own = group.settings if target.settings is Settings.RECORDED else {}
    open_to_it = {key: value for key, value in own.items() if key.removeprefix(FORWARD) not in target.sets}
    held = {key: value for key, value in open_to_it.items() if target.conditions.get(key) != value}
    return replace(group, settings=held)


def banners_of(
    trace: Trace, target: Target, target_tables: TargetTables, strict: bool, meta_calls: int
) -> Iterator[str]:
    """Banners about the trace and the backends' tables; ``meta_calls``: calls that computed nothing."""
    if partial := trace.partial:
        yield f"The trace is partial ({partial}): calls after that point are missing."
    if any(source.eager for source in trace.sources):
        yield (
            "Recorded with compilation disabled (--eager): what torch.compile would have compiled ran op by op, and its"
            " kernels are not judged."
        )
    if fake := sum(source.fake_calls for source in trace.sources):
        yield (
            f"Calls on fake tensors: {fake:,} of {trace.call_count:,}. They are judged as if they had run on the device"
            " that the tensors claim. Ops, shapes, modules, lines and settings are real; values, memory, and which"
            " kernel a heuristic picks by data are not: no data, digests or trials stand behind them. Nothing was"
            " compiled: what torch.compile would have compiled ran op by op."
        )
    if meta_calls:
        yield (
            f"Calls on `meta` tensors that computed nothing: {meta_calls:,}. What they would run on a device is not"
            " known: record the step on real tensors, or under torch's `FakeTensorMode`."
        )
    if seeds := [str(source.shaken) for source in trace.sources if source.shaken is not None]:
        yield (
            f"The run was shaken (--shake {', '.join(seeds)}): results that depend on parameters were changed by up to"
            " half a unit in the last place. It is a yardstick for other runs, not a run of the unchanged program."
        )
    if any(source.values for source in trace.sources):
        yield (
            "Digests of what every call read and wrote were saved beside the trace: `tracer diff` compares them with"
            " another run's."
        )
    for name in target_tables.missing():
        yield f"There is no table for {name}: its calls are unknown."
    for bound in target_tables.used():
        name, reviewed = bound.table.backend, bound.table.reviewed
        if bound.extrapolated:
            yield extrapolated_banner(f"The {name} table", reviewed, target.torch)
        elif bound.place != "reviewed":
            relation = "not among them" if bound.place == "between" else f"{bound.place} than those"
            refused = " and strict judging does not extrapolate" if bound.place == "newer" and strict else ""
            yield (
                f"The {name} table was reviewed for torch {reviewed}; torch {target.torch} is {relation}"
                f"{refused}: its calls are unknown."
            )
    elsewhere = sorted(target_tables.devices.difference(NO_DEVICE))
    if target.backend is not Backend.RECORDED and elsewhere and target.backend.device not in elsewhere:
        yield f"Recorded on {' and '.join(elsewhere)}, judged for {target.backend}{target_tables.translated()}"
    counts = Counter[BlindSpotKind]()
    for spot in trace.blind_spots:
        counts[spot.kind] += spot.count
    yield from (f"{kind.banner}: {counts[kind]}." for kind in BlindSpotKind if kind.banner and counts[kind])
    names = ", ".join(name for name in trace.differing_settings if name not in _SEED_FIELDS)
    if names and target.settings is Settings.RECORDED:
        yield f"The merged recordings differ in {names}; the first recording's settings were judged."


#: Each process has its own, by right.
_SEED_FIELDS = ("torch_seed", "cuda_seed")
#: Parts of the names of ops that draw for dropout alone.
_DROPS = ("dropout", "attention", "_rnn")
_EVALUATE = "Call `model.eval()` if this is inference: no seed makes two calls in one run agree."
#: What dropout does with what it drew, in the same function: it scales what is left.
_SCALES = ("aten.div_.Scalar", "aten.div_.Tensor", "aten.add.Scalar")


def active_dropout(trace: Trace) -> Sequence[CallGroup]:
    """The calls that drop activations in an inference, as where ``eval()`` was forgotten."""
    if trace.training is not Training.INFERENCE:
        return ()
    scaling = {(group.module, group.function) for group in trace.calls if group.op in _SCALES}
    return [
        group
        for group in trace.calls
        if group.draw
        and (
            any(part in group.op for part in _DROPS)
            or (group.op == "aten.bernoulli_.float" and (group.module, group.function) in scaling)
        )
    ]


def _once(judged: list[JudgedCall]) -> list[JudgedCall]:
    """``judged``; of an op that torch makes of others, and a call inside with the same rule, the call alone counts."""
    inside = {
        (group.phase, group.module, group.place, ruling.rule)
        for group, ruling in judged
        if "body_recorded" not in group.facts and not ruling.is_safe
    }
    return [
        JudgedCall(group, Ruling.safe(ruling.backend))
        if group.facts.get("body_recorded") is True and (group.phase, group.module, group.place, ruling.rule) in inside
        else JudgedCall(group, ruling)
        for group, ruling in judged
    ]


#: What torch's attention becomes where Inductor takes it apart; by hand nobody looks for rows without a key.
_ATTENTION = frozenset(("aten.bmm.default", "aten.amax.default", "aten.exp.default", "aten.any.dim"))


def _with_open_attention(judged: list[JudgedCall], trace: Trace, backend: Backend) -> list[JudgedCall]:
    """``judged``; attention in a training that was compiled for the CPU is unknown for another ``backend``."""
    forward = {region.id for region in trace.regions if region.direction is Direction.FORWARD}
    ops: defaultdict[tuple[str | None, str], set[str]] = defaultdict(set)
    if backend not in (Backend.RECORDED, Backend.CPU):
        for group, _ in judged:
            if group.region in forward and group.facts.get("device") == _CPU:
                ops[group.region, group.location].add(group.op)
    apart = {place for place, there in ops.items() if there >= _ATTENTION}
    why = f"The CPU's compiler took scaled_dot_product_attention apart, for which {backend} has fused kernels."
    how = "Record with `tracer run --eager`, under which attention is one op."
    unknown = Ruling.unknown(backend, "attention-taken-apart", UnknownReason.NO_EVIDENCE, "", why, how)
    unknown = replace(unknown, runs_as="scaled_dot_product_attention")
    return [
        JudgedCall(call.group, unknown)
        if call.group.op == "aten.any.dim" and (call.group.region, call.group.location) in apart
        else call
        for call in judged
    ]


def _place(call: CallGroup | Finding) -> tuple[str, ...]:
    return call.op, call.phase.value, call.module, call.location, call.called_from


def dropout_banners(groups: Sequence[CallGroup]) -> Iterator[str]:
    """The banner of an inference in which dropout is active."""
    if groups:
        calls = sum(group.count for group in groups)
        place = groups[0].called_from or groups[0].location or "an unknown line"
        yield (
            f"Dropout is active in {calls:,} call{'s' if calls > 1 else ''}, first at {place}, and nothing asks for a"
            " gradient. Is this inference? Call `model.eval()` before it: until then the same input gives another"
            " result in each call, seeded or not."
        )


def weak_banners(judged: Iterable[JudgedCall]) -> Iterator[str]:
    """Banners about calls that are deterministic by the weakest evidence only."""
    weak, every = Counter[Backend](), Counter[Backend]()
    is_weak: dict[int, bool] = {}
    for group, ruling in judged:
        if ruling.verdict is Verdict.DETERMINISTIC and not ruling.observed:
            every[ruling.backend] += group.count
            rule = ruling.source
            if rule is not None and id(rule) not in is_weak:
                is_weak[id(rule)] = strongest(rule.evidence) is EvidenceKind.VENDOR_KERNEL_LIST
            if rule is not None and is_weak[id(rule)]:
                weak[ruling.backend] += group.count
    for backend, count in weak.items():
        yield (
            f"Of the {every[backend]:,} calls that are deterministic on {backend}, {count:,} are so by the vendor's"
            " list of kernels only, the weakest evidence: its list of APIs does not name them."
        )


def process_banners(trace: Trace) -> Iterator[str]:
    """Banners about what the trace does not record of the process."""
    origins = {draw.origin for draw in trace.draws} | {each.origin for each in trace.generators if each.drew}
    if not trace.watched_from_start and SeedOrigin.UNSEEN in origins:
        yield (
            "Seeds were not recorded from the start of the process: whether the program seeded a generator before"
            " recording began is not known. `tracer run` records it."
        )


_NAMES = attrgetter("location", "op", "rule", "phase", "module", "function", "called_from", "backend")
_WORDS = attrgetter("reason_detail", "runs_as", "why", "remedy")


def order_of(finding: Finding) -> tuple[object, ...]:
    """Worst first, then most calls; then by place and name, so that no two findings tie."""
    return (
        SEVERITY.index(finding.verdict),
        finding.refuted is None,
        finding.tried is None or not finding.tried.varied,
        SEVERITY.index(finding.deterministic_mode),
        -finding.count,
        *_NAMES(finding),
        *_WORDS(finding),
        str(finding.facts.get("device")),
        finding.subject,
        str(finding.facts.get(ORIGIN)),
        tuple(sorted(finding.sets)),
        finding.planned or (),
    )


WordType = TypeVar("WordType", bound=Enum)


def make_target(
    environment: Environment,
    *,
    backend: Backend | str = Backend.RECORDED,
    torch: str = "recorded",
    settings: Settings | str | Mapping[str, FactValue] = Settings.RECORDED,
    host: Iterable[str] = (),
) -> Target:
    """The target, validated; ``recorded`` parts come from ``environment``.

    ``torch`` is a version (``2.9``, ``2.13.0+cpu``); ``settings`` a word, or values by name that replace the recorded
    ones. Raises ``TargetError`` in one line, listing what exists.
    """
    sets: dict[str, FactValue] = {}
    if isinstance(settings, Mapping):
        under, sets = Settings.RECORDED, checked_sets(settings)
    else:
        under = _word(Settings, settings, "settings")
    version = named_release(environment.torch if torch == "recorded" else str(torch))
    return Target(
        backend=_word(Backend, backend, "backend"),
        torch=version,
        settings=under,
        conditions=settings_of(environment, under, sets),
        sets=sets,
        host=(host,) if isinstance(host, str) else tuple(host),
    )


def _word(words: type[WordType], text: WordType | str, what: str) -> WordType:
    try:
        return words(text)
    except ValueError as problem:
        choices = ", ".join(str(word) for word in words)
        raise TargetError(f"{what} {str(text)!r} does not exist", hint=f"choose one of {choices}") from problem


_CPU = "cpu"
#: Most places that a sentence names.
_MOST_PLACES = 3


def with_hosts(trace: Trace, target: Target) -> list[CallGroup]:
    """The calls, each with the reason why it is known to run on the host, if that matters for the target.

    A call on the CPU says so itself if the step ran on the target's device; on real tensors and on fake ones, the step
    is another. Tensors of ``tracer run --fake --as`` lie on the CPU, whatever device the program asked for.
    """
    calls = trace.calls
    is_for_device = target.backend not in (Backend.RECORDED, Backend.CPU)
    claims = is_for_device and not any(source.fake_as for source in trace.sources)
    ran_there = {fake: claims and _ran_on(calls, target, fake=fake) for fake in (False, True)}
    globs = [re.compile(translate(glob)) for glob in target.host]

    def host_of(group: CallGroup) -> HostCode | None:
        if group.host is HostCode.IMPORT:
            return group.host
        if not is_for_device or group.facts.get("device") != _CPU:
            return None
        if group.host is not None or ran_there[group.fake]:
            return group.host or HostCode.DEVICE
        places = [place for place in (group.location, group.called_from) if place]
        texts = (*places, *(place.rpartition(":")[0] for place in places), group.function, group.module)
        return HostCode.NAMED if any(glob.match(text) for glob in globs for text in filter(None, texts)) else None

    hosts = ((group, host_of(group)) for group in calls)
    return [group if host is group.host else replace(group, host=host) for group, host in hosts]


def _ran_on(calls: Iterable[CallGroup], target: Target, *, fake: bool) -> bool:
    """Return whether the step ran on the target's device: most calls of the backward pass did, or of the forward pass
    without one, or of all without either. A call or two elsewhere (a probe, a file that was loaded there) decide
    nothing."""
    counted: Counter[tuple[Phase, object]] = Counter()
    for group in calls:
        if group.fake is fake:
            counted[group.phase, group.facts.get("device")] += group.count
    for phase in (Phase.BACKWARD, Phase.FORWARD, Phase.OTHER):
        there, here = counted[phase, target.backend.device], counted[phase, _CPU]
        if there or here:
            return there > here
    return False


def host_banners(calls: Iterable[CallGroup], set_up: Iterable[CallGroup]) -> Iterator[str]:
    """Yield which ``calls`` were judged for the CPU, not the target, and which others, ``set_up``, may have to be."""
    by_reason: Counter[HostCode] = Counter()
    for group in calls:
        if group.host is not None:
            by_reason[group.host] += group.count
    if by_reason:
        reasons = [f"{count:,} {host.says}" for host, count in sorted(by_reason.items())]
        every = by_reason.total()
        said = "1 call runs on the host and was" if every == 1 else f"{every:,} calls run on the host and were"
        yield f"{said} judged for cpu: {', '.join(reasons) if len(reasons) > 1 else next(iter(by_reason)).says}."
    places = dict.fromkeys(group.called_from or group.location or "an unknown line" for group in set_up)
    if places:
        named = ", ".join(list(places)[:_MOST_PLACES])
        more = f" and {len(places) - _MOST_PLACES:,} more" if len(places) > _MOST_PLACES else ""
        yield (
            f"Calls at {named}{more} touched no module and no gradient, and would not vary on a CPU. If they run there"
            " whatever the device (transforms, a scheduler, graph set-up), write `# tracer: host` on each line, or"
            f" judge with `--host {next(iter(places))}`: then they are no findings."
        )


def _may_be_host(call: JudgedCall, tables: TargetTables) -> bool:
    """Return whether it is a risk on the target only, outside every module, with no differentiable result."""
    group, ruling = call
    device = group.facts.get("device")
    if group.host is not None or group.phase is not Phase.OTHER or group.module or device != _CPU:
        return False
    if is_set_up(group.phase, group.module, group.place, device):
        return False  # the finding says so itself
    if SAFE.issuperset(ruling.both):
        return False
    there = tables.rule_on(replace(group, host=HostCode.NAMED))
    return SAFE.issuperset(there.both)
