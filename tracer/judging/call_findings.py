"""Findings about calls with what trials and data say of them, and the tally of all calls.

A finding groups calls at one place with the same ruling.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from tracer.findings import Deciding, Evidence, Finding, Tally, Target
from tracer.judging.minimal_settings import Both
from tracer.names import (
    AT_RISK,
    CALLED_KERNELS,
    SAFE,
    Backend,
    Cause,
    DataShown,
    EvidenceKind,
    Phase,
    Shown,
    Verdict,
)
from tracer.tables.compiled import Compilation
from tracer.tables.rules import Ruling, Switches
from tracer.tables.settings import FORWARD, declared
from tracer.tables.target_tables import is_here
from tracer.trace.merging import joined_trials, summed
from tracer.trace.records import ORIGIN, CallGroup, Environment, FactValue, Kernel, Tried, is_set_up


def bearing_trials(calls: Iterable[CallGroup], environment: Environment, target: Target) -> tuple[list[CallGroup], str]:
    """``calls`` with the results of their trials, if those ran on the target's device and torch: elsewhere they are no
    evidence. And the banner about all trials; empty without any."""
    groups: list[CallGroup] = []
    recorded: Tried | None = None
    varied, is_evidence = 0, False
    for group in calls:
        if group.tried is not None:
            recorded = joined_trials(recorded, group.tried)
            varied += bool(group.tried.varied)
            backend = Backend.CPU if group.host is not None else target.backend
            bears = is_here(backend, target.torch, (group.facts.get("device"),), environment)
            is_evidence |= bears
            group = group if bears else replace(group, tried=None)
        groups.append(group)
    if recorded is None:
        return groups, ""
    elsewhere = "" if is_evidence else " They ran on another device or torch than this target's."
    return groups, f"{summary_of(recorded, varied)}{elsewhere}"


def observed_banners(judged: Sequence[JudgedCall], of_trials: str) -> Iterator[str]:
    """Banners about trials and data; ``judged``: the calls on which they decided."""
    settled = sum(group.count for group, ruling in judged if ruling.observed)
    if refuted := ", ".join(dict.fromkeys(group.op for group, ruling in judged if ruling.refuted is not None)):
        yield f"The table is wrong for this device: {refuted} varied when replayed. Please report it."
    if of_trials:
        yield of_trials
    if settled:
        yield (
            f"{_calls(settled)} {'is' if settled == 1 else 'are'} deterministic only for the data of this run,"
            " which were checked: other data may make runs differ."
        )


def summary_of(tried: Tried, varied: int) -> str:
    """All trials of a recording in a sentence or two, and how many groups of calls varied."""
    said = f"{_calls(tried.calls)} {'was' if tried.calls == 1 else 'were'} replayed, {tried.trials:,} times in all"
    groups = f"{varied:,} group{'' if varied == 1 else 's'} of calls varied"
    outcome = groups if varied else "all agreed, which proves nothing"
    untried = ", ".join(f"{count:,} {why.says}" for why, count in sorted(tried.untried.items()) if count)
    return f"Trials: {said}: {outcome}.{f' Not tried: {untried}.' if untried else ''}"


def shown_of(groups: Iterable[CallGroup]) -> tuple[Tried | None, dict[DataShown, int]]:
    """The results of trials and data facts of the groups of one finding."""
    tried: Tried | None = None
    data: Mapping[DataShown, int] = {}
    for group in groups:
        tried = joined_trials(tried, group.tried)
        data = summed(data, group.data)
    return tried, dict(data)


def shown_by(tried: Tried | None, data: dict[DataShown, int]) -> Iterator[Evidence]:
    """The results as evidence."""
    if tried is not None and tried.trials:
        yield Evidence(kind=EvidenceKind.TRIED, ref=words_of(tried))
    if data:
        shares = ", ".join(f"{shown.says} in {count:,}" for shown, count in sorted(data.items()))
        yield Evidence(kind=EvidenceKind.OBSERVED, ref=f"{_calls(sum(data.values()))} checked: {shares}")


def words_of(tried: Tried) -> str:
    """``varied in 3 of 5 trials of 1 call``, or that it agreed."""
    of = f"{tried.trials:,} trial{'' if tried.trials == 1 else 's'} of {_calls(tried.calls)}"
    if not tried.varied:
        return f"agreed in {of}"
    distance = f", up to {tried.relative:.1g} apart (relative)" if tried.relative else ""
    rarely = ", rarely" if tried.is_rare else ""
    return f"varied in {tried.varied:,} of {of}{rarely}: {tried.distinct:,} results of one call{distance}"


def _calls(count: int) -> str:
    return f"{count:,} call{'' if count == 1 else 's'}"


class JudgedCall(NamedTuple):
    """A group of calls and the ruling on it."""

    group: CallGroup
    """As recorded, or seeded if the target says so."""
    ruling: Ruling


class Unsafe(NamedTuple):
    """A group of calls that is not deterministic in both modes, and its verdicts under the planned settings."""

    group: CallGroup
    ruling: Ruling
    sets: dict[str, FactValue]
    planned: Both


def tally_of(judged: Iterable[JudgedCall]) -> Tally:
    """Calls by verdict, with and without deterministic mode, and by phase and module."""
    alike: Counter[tuple[int, Phase, str]] = Counter()
    rulings: dict[int, Ruling] = {}
    for group, ruling in judged:
        rulings[id(ruling)] = ruling
        alike[id(ruling), group.phase, group.module] += group.count
    as_is, in_mode = Counter[Verdict](), Counter[Verdict]()
    by_phase: defaultdict[Phase, Counter[Verdict]] = defaultdict(Counter)
    by_module: defaultdict[str, Counter[Verdict]] = defaultdict(Counter)
    for (name, phase, module), count in alike.items():
        in_mode[rulings[name].deterministic_mode] += count
        for calls in (as_is, by_phase[phase], by_module[module]):
            calls[rulings[name].verdict] += count
    return Tally(
        as_is=dict(as_is),
        deterministic_mode=dict(in_mode),
        by_phase={phase: dict(calls) for phase, calls in by_phase.items()},
        by_module={module: dict(calls) for module, calls in by_module.items()},
    )


def unnamed_calls(judged: Iterable[JudgedCall]) -> dict[EvidenceKind, int]:
    """Deterministic calls of ops without a rule, by evidence: dispatched, or documented."""
    unnamed: Counter[EvidenceKind] = Counter()
    for group, ruling in judged:
        if ruling.source is None and ruling.verdict is Verdict.DETERMINISTIC:
            unnamed[EvidenceKind.DISPATCHED if ruling.evidence else EvidenceKind.DOCUMENTED] += group.count
    return dict(unnamed)


def findings_of_calls(
    unsafe: Iterable[Unsafe],
    compilation: Compilation,
    switches: Switches | None = None,
) -> Iterator[Finding]:
    """One finding for all groups with the same ruling at the same place that the plan treats alike."""
    gathered: defaultdict[tuple[object, ...], list[Unsafe]] = defaultdict(list)
    numbers: dict[tuple[object, ...], int] = {}
    says: dict[int, int] = {}
    for call in unsafe:
        name = id(call.ruling)
        if name not in says:
            says[name] = numbers.setdefault(call.ruling.says, len(says))
        group, facts = call.group, call.group.facts
        where = (group.region is None, facts.get("device"), facts.get(ORIGIN))
        settled = (tuple(call.sets), call.planned, tuple(_own_settings(call).items()))
        key = (says[name], *_SITE(group), *where, *settled)
        gathered[key].append(call)
    deciding: dict[tuple[int, ...], Deciding] = {}
    for alike in gathered.values():
        ruling = alike[0].ruling
        rulings = (id(ruling),) if len(alike) == 1 else tuple(dict.fromkeys(id(call.ruling) for call in alike))
        if rulings not in deciding:
            deciding[rulings] = Deciding.joined(call.ruling.decided for call in alike)
        generated = _generated(compilation, (call.group for call in alike), ruling.shown, ruling.backend)
        finding = _finding(alike, deciding[rulings], generated)
        yield finding if switches is None else with_own_remedy(finding, switches)


_OF_GRADIENT_CALL = "The line is the one that asked for the gradient; the line of the forward is not known."


def _own_settings(call: Unsafe) -> dict[str, FactValue]:
    """The settings of a block that the verdict may hang on."""
    return call.group.settings if call.ruling.verdict not in SAFE else {}


def _ran_under(setting: tuple[str, FactValue]) -> str:
    key, value = setting
    known = declared(key)
    when = "as their forward ran" if key.startswith(FORWARD) else "for these calls"
    return f"The program had set {known.name if known is not None else key} to {value} {when}."


_SITE = attrgetter("op", "phase", "module", "location", "function", "called_from", "forward_unknown", "host")


def _finding(alike: list[Unsafe], deciding: Deciding, generated: _Generated) -> Finding:
    """One finding for groups with the same key, with the facts that they share."""
    first, ruling = alike[0].group, alike[0].ruling
    facts = dict(first.facts)
    for call in alike[1:]:
        facts = {key: value for key, value in facts.items() if call.group.facts.get(key) == value}
    planned = alike[0].planned
    regions, kernels, said, shown = generated
    tried, data = shown_of(call.group for call in alike)
    rule = ruling.source
    shell = rule.shell if rule is not None and ruling.remedy == rule.remedy else ()
    own_settings = _own_settings(alike[0])
    gradient = _OF_GRADIENT_CALL if first.forward_unknown else ""
    is_elsewhere = facts.get("device") != ruling.backend.device  # recorded on another device than judged for
    return Finding.of(
        ruling,
        op=first.op,
        runs_as=ruling.runs_as or (rule.runs_as if rule is not None and is_elsewhere else ""),
        phase=first.phase,
        module=first.module,
        **first.place._asdict(),
        count=sum(call.group.count for call in alike),
        why=" ".join(filter(None, (said, ruling.why, gradient, *map(_ran_under, own_settings.items())))),
        evidence=(*shown_by(tried, data), *shown, *ruling.evidence),
        facts=facts,
        settings=own_settings,
        host=first.host,
        regions=regions,
        kernels=kernels,
        shown=ruling.shown if said else None,
        node=first.node if all(call.group.node == first.node for call in alike) else "",
        decided=deciding,
        code="\n".join(f"export {variable}" for variable in shell),
        where="in the shell that starts the script" if shell else "",
        sets=alike[0].sets,
        tried=tried,
        data=data,
        planned=None if planned == ruling.both else planned,
    )


#: Regions and kernels of a finding's calls (those that show it, or all), and, if they decided, a sentence and evidence.
_Generated = tuple[tuple[str, ...], tuple[str, ...], str, tuple[Evidence, ...]]


def _generated(
    compilation: Compilation, groups: Iterable[CallGroup], shown: Shown | None, backend: Backend
) -> _Generated:
    """What ``groups``, which are one finding, were compiled to for ``backend``'s device; ``shown`` is what decided."""
    compiled = [group for group in groups if group.region is not None or group.kernels]
    regions = tuple(dict.fromkeys(group.region for group in compiled if group.region is not None))
    # By the id of the region that it was generated for, empty for one that the program launched.
    every: dict[tuple[str, Kernel], None] = {}
    for region, kernels in map(compilation.kernels_of, compiled):
        if region is None:
            kernels = [kernel.launched_on(backend.device) for kernel in kernels]
        every |= dict.fromkeys(("" if region is None else region.id, kernel) for kernel in kernels)
    named = [(where, kernel) for where, kernel in every if kernel.device in ("", backend.device)]
    showing = [(where, kernel) for where, kernel in named if shown is not None and _SHOWING[shown](kernel)]
    names = tuple(dict.fromkeys(kernel.name for _, kernel in showing or named))
    if shown is None or not showing:
        return regions, names, "", ()
    evidence = (Evidence(kind=EvidenceKind.GENERATED, ref=_ref(compilation, showing, shown)),)
    return regions, names, _sentence(names, shown), evidence


def _ref(compilation: Compilation, showing: list[tuple[str, Kernel]], shown: Shown) -> str:
    where, kernel = showing[0]
    region = compilation.regions.get(where)
    more = f" and {len(showing) - 1} more" if len(showing) > 1 else ""
    by = f"torch {compilation.torch}"
    if region is None:
        return f"{kernel.name}{more}, launched in this run under {by}: {shown.says}"
    place = f" at {region.location}" if region.location else ""
    return (
        f"{kernel.name}{more} in region {where} ({region.function or region.backend}{place}), compiled for"
        f" {kernel.device or region.device} by {by} in this run: {shown.says}"
    )


_SHOWING: Mapping[Shown, Callable[[Kernel], bool]] = {
    Shown.ADDS_ATOMICALLY: lambda kernel: kernel.adds_in_any_order is True,
    Shown.NO_ATOMICS: lambda kernel: True,
    Shown.CALLED: lambda kernel: kernel.language in CALLED_KERNELS,
    Shown.TIMED: lambda kernel: kernel.rounds_by_choice,
}


def _sentence(kernels: tuple[str, ...], shown: Shown) -> str:
    more = [f"{len(kernels) - 3} more"] if len(kernels) > 3 else []
    named = [*(f"`{name}`" for name in kernels[:3]), *more]
    who = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    add, do, were = ("add", "do", "were") if len(kernels) > 1 else ("adds", "does", "was")
    return {
        Shown.ADDS_ATOMICALLY: f"{who} {add} atomically.",
        Shown.NO_ATOMICS: f"{who} {do} no additions in an order that varies.",
        Shown.CALLED: f"The compiled code calls {who}.",
        Shown.TIMED: f"{who} {were} chosen by timing.",
    }[shown]


def with_own_remedy(finding: Finding, switches: Switches) -> Finding:
    """``finding`` with a remedy that its reader can apply: a library's line, called from theirs, is not theirs to
    edit."""
    library, slash, _ = finding.location.partition("/")
    if not (finding.called_from and slash and library.isidentifier()):
        return finding
    finding = replace(finding, library=library)
    as_is, in_mode = finding.planned or (finding.verdict, finding.deterministic_mode)
    is_left = as_is in AT_RISK or in_mode in AT_RISK
    if not is_left or finding.cause is Cause.RNG:
        return finding
    if (switch := switches.find(library, finding.rule)) is not None:
        return replace(finding, remedy=switch.what, switch=switch.ref, needs=())
    if switches.is_in_hand(finding.rule):
        return finding
    if is_set_up(finding.phase, finding.module, finding.place, finding.facts.get("device")):
        remedy = (
            f"The line belongs to {library}. If it runs on the host whatever the device, as set-up code mostly does,"
            f" say so: `--host {finding.location}`."
        )
        return replace(finding, remedy=remedy, needs=())
    other = f"take another layer or option of {library} in your own code, or accept the finding"
    if finding.deterministic_mode is Verdict.RAISES and finding.verdict is Verdict.DETERMINISTIC:
        remedy = (
            f"The line belongs to {library}, and is deterministic with deterministic mode off: turn the mode off around"
            f" your own call of it, or {other}."
        )
    elif finding.deterministic_mode is Verdict.RAISES:
        remedy = (
            f"The line belongs to {library}: `torch.use_deterministic_algorithms(True, warn_only=True)` lets it run as"
            f" without the mode; to make it deterministic, {other}."
        )
    else:
        remedy = f"The line belongs to {library}, and no option is known that makes it deterministic: {other}."
    return replace(finding, remedy=remedy, needs=())
