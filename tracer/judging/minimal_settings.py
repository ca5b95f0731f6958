"""Finds the fewest settings and seeds that settle the findings, by trying them against the tables.

Settings interact: ``cudnn.benchmark`` undoes deterministic mode, which raises if cuBLAS has no workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import NamedTuple

from msgspec.structs import replace

from tracer.findings import Finding
from tracer.judging.process_findings import Observed, ProcessUnderTarget, key_of
from tracer.names import (
    REPEATABLE,
    About,
    Cause,
    DeterministicMode,
    GeneratorKind,
    Phase,
    Prerequisite,
    SeedOrigin,
    Verdict,
)
from tracer.tables.rules import Ruling
from tracer.tables.settings import CUBLAS_VARIABLE, CUBLAS_WORKSPACES, DECLARED, MODE
from tracer.tables.target_tables import TargetTables
from tracer.trace.records import ORIGIN, SEEDED_AT, CallGroup, FactValue, kind_drawn_from

Sets = Mapping[str, FactValue]
Both = tuple[Verdict, Verdict]

SEED = "seed.torch"
_GONE: Both = (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)
#: Rounds after which calls that still raise under the planned settings are left to an edit.
_ROUNDS = 4


class CandidateSetting(NamedTuple):
    """A setting that a program can change, by its key in conditions and in ``judge(..., settings=...)``."""

    key: str
    wanted: FactValue
    name: str
    value: FactValue


#: Settings to try for a call that varies or raises, the cheapest first.
CANDIDATES = tuple(
    CandidateSetting(setting.condition.key, setting.condition.wanted, setting.key, setting.wanted)
    for setting in DECLARED
    if setting.wanted is not None and setting.condition is not None and setting.condition.wanted is not None
)
_ON = next(candidate for candidate in CANDIDATES if candidate.name == MODE)
_WORKSPACE = next(candidate for candidate in CANDIDATES if candidate.name == CUBLAS_VARIABLE)


class Settled(NamedTuple):
    """The planned settings, and the verdicts under them on each group of calls and each finding about the process.

    Where no setting makes a call good that ran under settings of a block, the verdicts are those without the block.
    """

    planned: dict[str, FactValue]
    calls: list[tuple[dict[str, FactValue], Both]]
    """For each group: the settings that are planned for it, and both verdicts under all planned settings."""
    process: Observed
    """Findings about the process that remain under all planned settings."""


def is_good(verdict: Verdict) -> bool:
    """Return whether there is nothing that a setting could improve."""
    return verdict in (Verdict.DETERMINISTIC, Verdict.SEEDED)


def seeded_in_its_place(group: CallGroup, sets: Sets) -> CallGroup:
    """``group`` as if torch's default generators had been seeded, if ``sets`` says so."""
    facts = group.facts
    if SEED not in sets or facts.get(ORIGIN) is None or not _can_be_seeded(group):
        return group
    facts = {**facts, ORIGIN: SeedOrigin.PROGRAM.value}
    facts.pop(SEEDED_AT, None)
    return replace(group, facts=facts)


def _can_be_seeded(group: CallGroup) -> bool:
    """Return whether the call draws from a default generator whose state is not known to repeat."""
    kind = kind_drawn_from(group.facts)
    origin = group.facts.get(ORIGIN, SeedOrigin.UNUSED.value if kind else None)  # see ``CallGroup.draw``
    repeats = origin in {origin.value for origin in (*REPEATABLE, SeedOrigin.UNUSED, SeedOrigin.MOVED_ON)}
    is_undone = origin == SeedOrigin.MACHINE.value and SEEDED_AT in group.facts  # by a line of the program's own
    return not repeats and kind is not GeneratorKind.PASSED and not is_undone


class MinimalSettings:
    """The search for the fewest settings for the calls that are not safe."""

    def __init__(
        self,
        unsafe: Sequence[tuple[CallGroup, Ruling]],
        tables_under: Callable[[Sets], TargetTables],
        process: ProcessUnderTarget,
        conditions: Mapping[str, FactValue],
        sets: Sets,
    ) -> None:
        """``tables_under`` returns the tables under settings on top of the target's own, which include ``sets``."""
        distinct: dict[object, int] = {}
        self._alike = []
        for group, ruling in unsafe:
            # By all that a ruling hangs on; its place if a forward call may decide.
            place = (group.module, group.location) if ruling.translated else ()
            facts = (group.phase is Phase.BACKWARD, group.node, *place, frozenset(group.facts.items()))
            self._alike.append(distinct.setdefault((id(ruling), group.op, *facts), len(distinct)))
        """For each call that is not safe, its index in ``_unsafe``, which has one of each kind."""
        first = dict(zip(reversed(self._alike), reversed(unsafe), strict=True))
        self._unsafe = [first[place] for place in range(len(distinct))]
        self._tables_under = tables_under
        self._process = process
        self._is_on = conditions.get(MODE) == _ON.wanted
        self._holds = self._is_on or conditions.get(MODE) == DeterministicMode.WARN.value
        self._candidates = tuple(each for each in CANDIDATES if conditions.get(each.key) != each.wanted)
        self._is_seeded = SEED in sets
        self._relevant: dict[int, tuple[CandidateSetting, ...]] = {}

    def settle(self, observed: Observed) -> Settled:
        """The plan's settings for the calls and for ``observed`` findings about the process."""
        on_account = [self._least(group, ruling) for group, ruling in self._unsafe]
        own: dict[tuple[object, ...], Sets] = {}
        process_sets: dict[str, FactValue] = {}
        for _ in range(_ROUNDS):
            planned = self._union(on_account, process_sets)
            added = self._for_process(observed, planned, own)
            if added:
                process_sets.update(added)
                continue
            if not self._mend(on_account, planned):
                break
        planned = self._union(on_account, process_sets)
        for place, (group, ruling) in enumerate(() if self._is_seeded else self._unsafe):
            cases = ruling.source.case if ruling.source is not None else ()
            may_be = ruling.translated or any(case.verdict is Verdict.SEEDED for case in cases)
            if may_be and _can_be_seeded(group) and self._both(group, ruling, planned)[0] is Verdict.SEEDED:
                on_account[place] |= {SEED}  # which under the planned settings only draws random numbers
        planned = self._union(on_account, process_sets)
        verdicts = [self._both(group, ruling, planned) for group, ruling in self._unsafe]
        for place, (group, _) in enumerate(self._unsafe):
            if group.settings and not on_account[place] and not is_good(verdicts[place][0]):
                without = replace(group, settings={})
                verdicts[place] = self._both(without, self._tables_under({}).rule_on(without), planned)
        values: list[dict[str, FactValue]] = [{name: planned[name] for name in names} for names in on_account]
        calls = [(values[place], verdicts[place]) for place in self._alike]
        return Settled(planned, calls, self._process.observe(planned))

    def _least(self, group: CallGroup, ruling: Ruling) -> frozenset[str]:
        """The fewest settings under which the call is good in both modes, else good as is."""
        seed: frozenset[str] = frozenset()
        is_devices = group.facts.get(ORIGIN) == SeedOrigin.DEVICE.value
        is_machines = is_devices or group.facts.get(ORIGIN) == SeedOrigin.MACHINE.value
        is_machines = is_machines and ruling.cause is not Cause.UNINITIALIZED_MEMORY
        if not self._is_seeded and _can_be_seeded(group) and (ruling.verdict is Verdict.SEEDED or is_machines):
            seed = frozenset({SEED})
            if is_machines:
                group = seeded_in_its_place(group, {SEED: True})
                ruling = self._tables_under(group.settings).rule_on(group)
        if all(map(is_good, ruling.both)) or ruling.cause is Cause.UNINITIALIZED_MEMORY:  # see ``is_settled``
            return seed
        tried = _subsets(self._relevant_to(ruling), 0)
        reached = [(chosen, self._both(group, ruling, _sets(chosen))) for chosen in tried]
        both_ways = (chosen for chosen, verdicts in reached if all(map(is_good, verdicts)))
        one_way = (chosen for chosen, verdicts in reached if is_good(verdicts[0]))
        best = next(both_ways, None) or next(one_way, ())
        if not best and is_devices:
            seed = frozenset()  # which alone settles nothing here
        if not best and _is_under_mode(ruling) and not self._holds and not is_good(ruling.verdict):
            best = (_ON,)
        return seed | {candidate.name for candidate in best}

    def _relevant_to(self, ruling: Ruling) -> tuple[CandidateSetting, ...]:
        """The settings that the ruling may depend on and that do not have their value yet."""
        if ruling.translated:
            return self._candidates
        if ruling.source is None:
            return ()
        name = id(ruling.source)
        if name not in self._relevant:
            asked = {key for case in ruling.source.case for key in case.when}
            self._relevant[name] = tuple(candidate for candidate in self._candidates if candidate.key in asked)
        return self._relevant[name]

    def _both(self, group: CallGroup, ruling: Ruling, sets: Sets) -> Both:
        """Both verdicts on ``group`` under ``sets``; ``ruling`` is the ruling without them."""
        is_on = self._is_on or sets.get(MODE) == _ON.value
        others = {name: value for name, value in sets.items() if name != MODE}
        if others and (ruling.source is not None or ruling.translated):
            ruling = self._tables_under({**group.settings, **others}).rule_on(seeded_in_its_place(group, sets))
        return (ruling.deterministic_mode if is_on else ruling.verdict), ruling.deterministic_mode

    def _mend(self, on_account: list[frozenset[str]], planned: Sets) -> bool:
        """Add settings for calls that the plan would make raise, drop useless ones; return whether anything changed."""
        changed = False
        for place, (group, ruling) in enumerate(self._unsafe):
            names = on_account[place]
            if (not names and MODE not in planned) or ruling.cause is Cause.UNINITIALIZED_MEMORY:
                continue
            if _is_under_mode(ruling) or is_good(self._both(group, ruling, planned)[0]):
                continue
            missing = [candidate for candidate in self._relevant_to(ruling) if candidate.name not in planned]
            tried = _subsets(missing, 1)
            mends = (k for k in tried if is_good(self._both(group, ruling, {**planned, **_sets(k)})[0]))
            mending = next(mends, ())
            on_account[place] = names | {each.name for each in mending} if mending else names & {SEED}
            changed |= on_account[place] != names
        return changed

    def _for_process(
        self, observed: Observed, planned: Sets, own: dict[tuple[object, ...], Sets]
    ) -> dict[str, FactValue]:
        """Settings beyond ``planned`` that settle findings about the process, once for each finding."""
        left = {key_of(finding) for finding in self._process.observe(planned).findings if _is_open(finding)}
        asking = [finding for finding in observed.findings if finding.sets and key_of(finding) in left - own.keys()]
        if not asking:
            return {}
        best: tuple[int, dict[str, FactValue]] = (0, {})
        # Rows may need different values of one setting: the value that settles most is used.
        for order in (asking, asking[::-1]):
            trial: dict[str, FactValue] = dict(planned)
            for setting in order:
                own[key_of(setting)] = setting.sets
                trial.update(setting.sets)
            after = {key_of(finding) for finding in self._process.observe(trial).findings if _is_open(finding)}
            added: dict[str, FactValue] = {}
            settles = 0
            for setting in order:
                if key_of(setting) not in after:
                    settles += 1
                    added.update({name: trial[name] for name in setting.sets if planned.get(name) != trial[name]})
            if settles > best[0]:
                best = (settles, added)
        return best[1]

    def _union(self, on_account: Iterable[frozenset[str]], process_sets: Sets) -> dict[str, FactValue]:
        """One value for each planned setting, in the order in which they are to be set."""
        names = frozenset().union(*set(on_account))
        values = {**_sets(candidate for candidate in CANDIDATES if candidate.name in names), **process_sets}
        if SEED in names:
            values[SEED] = True
        if CUBLAS_VARIABLE in names and CUBLAS_VARIABLE not in process_sets:
            rules = [ruling.source for _, ruling in self._unsafe if _WORKSPACE in self._relevant_to(ruling)]
            asked = (rule.workspace for rule in rules if rule is not None and rule.workspace)
            values[CUBLAS_VARIABLE] = next(asked, CUBLAS_WORKSPACES[0])
        return values


def with_plan(findings: Iterable[Finding], settled: Settled) -> list[Finding]:
    """Findings about the process, each with its verdict under the planned settings and the settings that close it."""
    left = {key_of(finding): (finding.verdict, finding.deterministic_mode) for finding in settled.process.findings}
    planned = settled.planned
    closed = []
    for finding in findings:
        after = left.get(key_of(finding), _GONE)
        if after != (finding.verdict, finding.deterministic_mode):
            sets = {name: planned[name] for name in finding.sets if name in planned}
            sets = sets or ({MODE: planned[MODE]} if MODE in planned else planned)
            finding = replace(finding, planned=after, sets=sets)
        elif finding.about is About.LOADER and not any(name in planned for name in finding.sets):
            finding = replace(finding, sets={})  # its own generator is not among them
        closed.append(finding)
    return closed


def _is_under_mode(ruling: Ruling) -> bool:
    """Return whether the remedy works under deterministic mode alone: an edit, or a variable of the shell."""
    rule = ruling.source
    is_of_shell = rule is not None and bool(rule.shell) and ruling.remedy == rule.remedy
    return is_of_shell or Prerequisite.DETERMINISTIC_MODE in ruling.needs


def _is_open(finding: Finding) -> bool:
    """Return whether it is a risk, or depends on a generator state of unknown origin."""
    is_chance = finding.facts.get("origin") in (SeedOrigin.MACHINE.value, SeedOrigin.UNSEEN.value)
    return is_chance or not is_good(finding.verdict)


def _subsets(candidates: Sequence[CandidateSetting], least: int) -> Iterator[tuple[CandidateSetting, ...]]:
    """Subsets of at least ``least`` settings, the smallest first."""
    return chain.from_iterable(combinations(candidates, size) for size in range(least, len(candidates) + 1))


def _sets(candidates: Iterable[CandidateSetting]) -> dict[str, FactValue]:
    return {candidate.name: candidate.value for candidate in candidates}
