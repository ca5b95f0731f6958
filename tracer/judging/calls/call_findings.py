"""Findings about calls: groups that one rule judges alike at one place, and the tally of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tracer.findings import Deciding, Evidence, Finding, Tally
from tracer.judging.calls.generated import Generated, GeneratedCode
from tracer.judging.calls.own_remedy import in_ones_own_hands
from tracer.judging.calls.trials import shown_by, shown_of
from tracer.judging.deciding import deciding_of
from tracer.judging.minimal_settings import Both
from tracer.names import Backend, EvidenceKind, Phase, Verdict
from tracer.tables.model import strongest
from tracer.tables.ruling.bound_table import RuleOutcome
from tracer.tables.settings.switches import Switches
from tracer.trace.records import ORIGIN, CallGroup, FactValue


class JudgedCall(NamedTuple):
    """A group of calls and the ruling on it."""

    group: CallGroup
    """As it was recorded; seeded where the target asks for that."""
    ruling: RuleOutcome


class Unsafe(NamedTuple):
    """A group of calls that is not deterministic both ways, and what the planned settings make of it."""

    group: CallGroup
    ruling: RuleOutcome
    sets: dict[str, FactValue]
    planned: Both


Counted = Mapping[tuple[int, Phase, str], int]
"""Calls by the identity of the ruling on them, phase and module."""


def by_ruling(counted: Counted) -> dict[int, int]:
    """Calls by the identity of the ruling on them."""
    found: dict[int, int] = {}
    for (name, _, _), count in counted.items():
        found[name] = found.get(name, 0) + count
    return found


def tally_of(counted: Counted, calls: Mapping[int, int], rulings: Mapping[int, RuleOutcome]) -> Tally:
    """Calls by verdict, as things stand and in deterministic mode, and by phase and module; ``calls``: by ruling."""
    as_is: Counter[Verdict] = Counter()
    in_mode: Counter[Verdict] = Counter()
    for name, count in calls.items():
        as_is[rulings[name].verdict] += count
        in_mode[rulings[name].verdict_in_deterministic_mode] += count
    by_phase: dict[Phase, dict[Verdict, int]] = {}
    by_module: dict[str, dict[Verdict, int]] = {}
    for (name, phase, module), count in counted.items():
        verdict = rulings[name].verdict
        of_phase = by_phase.setdefault(phase, {})
        of_phase[verdict] = of_phase.get(verdict, 0) + count
        of_module = by_module.setdefault(module, {})
        of_module[verdict] = of_module.get(verdict, 0) + count
    return Tally(as_is=dict(as_is), deterministic_mode=dict(in_mode), by_phase=by_phase, by_module=by_module)


def weakly_grounded(counted: Mapping[int, int], rulings: Mapping[int, RuleOutcome]) -> dict[Backend, tuple[int, int]]:
    """By backend, the calls that are deterministic by a vendor's list of kernels alone, and all deterministic ones;
    a backend without the former is left out. ``counted``: calls by ruling."""
    weak: Counter[Backend] = Counter()
    every: Counter[Backend] = Counter()
    for name, count in counted.items():
        ruling = rulings[name]
        if ruling.verdict is Verdict.DETERMINISTIC and not ruling.observed:
            every[ruling.backend] += count
            if ruling.rule is not None and strongest(ruling.rule.evidence) is EvidenceKind.VENDOR_KERNEL_LIST:
                weak[ruling.backend] += count
    return {backend: (count, every[backend]) for backend, count in weak.items() if count}


def unnamed_calls(counted: Mapping[int, int], rulings: Mapping[int, RuleOutcome]) -> dict[EvidenceKind, int]:
    """Deterministic calls of ops that no rule names, by the evidence: what builds launch, or documents alone.
    ``counted``: calls by ruling."""
    found: Counter[EvidenceKind] = Counter()
    for name, count in counted.items():
        ruling = rulings[name]
        if ruling.rule is None and ruling.verdict is Verdict.DETERMINISTIC:
            found[EvidenceKind.DISPATCHED if ruling.vouched_by else EvidenceKind.DOCUMENTED] += count
    return dict(found)


def call_findings(
    unsafe: Iterable[Unsafe],
    code: GeneratedCode,
    switches: Switches | None = None,
    lines: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """One finding for all groups that the same ruling judges at the same place and that the plan treats alike."""
    gathered: dict[tuple[object, ...], list[Unsafe]] = {}
    sayings: dict[tuple[object, ...], int] = {}
    said: dict[int, int] = {}
    for call in unsafe:
        name = id(call.ruling)
        if name not in said:
            said[name] = sayings.setdefault(call.ruling.says, len(said))
        gathered.setdefault(_identity(call, said[name]), []).append(call)
    evidence: dict[int, tuple[Evidence, ...]] = {}
    deciding: dict[tuple[int, ...], Deciding] = {}
    for alike in gathered.values():
        ruling = alike[0].ruling
        if id(ruling) not in evidence:
            evidence[id(ruling)] = tuple(Evidence(kind=row.kind, ref=row.ref) for row in ruling.evidence)
        rulings = (id(ruling),) if len(alike) == 1 else tuple(dict.fromkeys(id(call.ruling) for call in alike))
        if rulings not in deciding:
            deciding[rulings] = deciding_of(call.ruling.decided for call in alike)
        generated = code.behind((call.group for call in alike), ruling.shown, ruling.backend)
        found = _finding(alike, evidence[id(ruling)], deciding[rulings], generated)
        how = ruling.rule.rewriting if ruling.rule is not None else None
        yield found if switches is None else in_ones_own_hands(found, how, switches, lines or {})


_OF_GRADIENT_CALL = "The line is the one that asked for the gradient; the line of the forward is not known."


def _identity(one: Unsafe, saying: int) -> tuple[object, ...]:
    """What makes two groups one finding: rulings that say the same of one op at one place, settled alike."""
    group = one.group
    return (
        saying,
        group.op,
        group.phase.value,
        group.module,
        group.location,
        group.function,
        group.called_from,
        group.forward_unknown,
        group.host,
        group.region is None,
        group.facts.get("device"),
        group.facts.get(ORIGIN),
        *one.sets,
        "",
        *(verdict.value for verdict in one.planned),
    )


def _runs_elsewhere(group: CallGroup, ruling: RuleOutcome) -> str:
    """What the rule itself says that the op becomes, for a call that was recorded on another device than judged for."""
    if ruling.rule is None or group.facts.get("device") == ruling.backend.device:
        return ""
    return ruling.rule.runs_as


def _finding(alike: list[Unsafe], evidence: tuple[Evidence, ...], deciding: Deciding, generated: Generated) -> Finding:
    """One finding for groups that differ in nothing that it says; it keeps the facts on which they agree."""
    first, ruling = alike[0].group, alike[0].ruling
    facts = dict(first.facts)
    for call in alike[1:]:
        facts = {key: value for key, value in facts.items() if call.group.facts.get(key) == value}
    planned = alike[0].planned
    tried, data = shown_of(call.group for call in alike)
    return Finding(
        rule=ruling.rule_id,
        op=first.op,
        runs_as=ruling.runs_as or _runs_elsewhere(first, ruling),
        phase=first.phase,
        module=first.module,
        location=first.location,
        function=first.function,
        called_from=first.called_from,
        count=first.count if len(alike) == 1 else sum(call.group.count for call in alike),
        verdict=ruling.verdict,
        deterministic_mode=ruling.verdict_in_deterministic_mode,
        route=ruling.route,
        cause=ruling.cause,
        why=" ".join(filter(None, (generated.says, ruling.why, _OF_GRADIENT_CALL if first.forward_unknown else ""))),
        remedy=ruling.remedy,
        needs=ruling.needs,
        evidence=(*shown_by(tried, data), *generated.evidence, *evidence),
        facts=facts,
        host=first.host,
        regions=generated.regions,
        kernels=generated.kernels,
        shown=ruling.shown if generated.says else None,
        node=first.node if len(alike) == 1 or all(call.group.node == first.node for call in alike) else "",
        decided=deciding,
        reason=ruling.reason,
        reason_detail=ruling.detail if ruling.reason is not None else "",
        extrapolated=ruling.extrapolated,
        backend=ruling.backend,
        sets=alike[0].sets,
        tried=tried,
        refuted=ruling.refuted,
        data=data,
        planned=None if planned == (ruling.verdict, ruling.verdict_in_deterministic_mode) else planned,
    )
