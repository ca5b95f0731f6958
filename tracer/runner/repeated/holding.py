"""Finds the circumstance that decides whether runs agree, in at most four further runs.

Two circumstances that the roots suggest are held, one at a time, in two runs each: if two such runs agree, it decides.
Where the roots suggest none, all that differ by chance are held together, and then single ones, compared with those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.families import children_of, compare_families, siblings
from tracer.divergence.model import Divergence, Family, Root
from tracer.divergence.repeated import Held
from tracer.findings import Finding
from tracer.names import Backend
from tracer.runner.repeated.declared import Circumstance, in_order
from tracer.trace.values import Values

#: The most further runs.
MOST_RUNS = 4

Holds = frozenset[Circumstance]


class HeldRun(NamedTuple):
    """A run with some circumstances held."""

    held: Holds
    recording: Family | None
    """By process; ``None`` if nothing was recorded."""
    problem: str = ""
    """The reason why it proves nothing, even if it agrees."""


class ComparedRuns(NamedTuple):
    """The comparison of two runs."""

    agrees: bool
    first: Root | None = None
    """The first root, if any."""


class HoldingRuns(Protocol):
    """Makes runs and compares them."""

    def run(self, held: Holds) -> HeldRun | None:
        """Make a run with ``held`` held; ``None`` if a signal asked this process to end."""

    def compare(self, first: Family, second: Family) -> ComparedRuns:
        """Return whether the two agree wherever the runs with nothing held diverge."""


def find_circumstance(
    laboratory: HoldingRuns,
    candidates: Sequence[Circumstance],
    suspected: Sequence[Circumstance],
    *,
    are_named: bool = False,
) -> tuple[Held, ...]:
    """Hold ``suspected`` circumstances, or else all ``candidates``; the result says what each showed.

    ``are_named``: the user named the candidates, so all of them are held together first.
    """
    if suspected and not are_named:
        shown: list[Held] = []
        for circumstance in suspected[: MOST_RUNS // 2]:
            entry, _ = _held_twice(laboratory, _with_required([circumstance]))
            shown += entry
            if not entry or entry[0].is_cause:
                break
        return tuple(shown)
    together = [circumstance for circumstance in candidates if are_named or circumstance.is_chance]
    if not together:
        return ()
    shown, reference = _held_twice(laboratory, _with_required(together), is_all=True)
    if len(together) == 1 or not shown or not shown[0].agrees or reference is None:
        return tuple(shown)
    whole, of_all = _with_required(together), shown[0]
    shown = [replace(of_all, is_cause=False)]  # one of them may decide
    for circumstance in sorted(together, key=lambda circumstance: circumstance not in suspected)[: MOST_RUNS - 2]:
        if (held := _with_required([circumstance])) == whole:
            continue  # two runs have held them
        run = laboratory.run(held)
        if run is None:
            break
        compared = _compared(laboratory, reference, run)
        shown.append(_fact(held, [reference, run], compared, runs=3 if compared.agrees else 1))
        if shown[-1].is_cause:
            break
    else:
        shown[0] = of_all
    return tuple(shown)


def _held_twice(laboratory: HoldingRuns, held: Holds, *, is_all: bool = False) -> tuple[list[Held], HeldRun | None]:
    """Make two runs with ``held`` held; one is enough if it proves nothing."""
    runs = []
    for _ in range(2):
        run = laboratory.run(held)
        if run is None:
            return [], None
        runs.append(run)
        if run.problem:
            break
    shown = _compared(laboratory, runs[0], runs[-1]) if len(runs) > 1 else ComparedRuns(agrees=False)
    return [_fact(held, runs, shown, runs=len(runs), is_all=is_all)], runs[0]


def _compared(laboratory: HoldingRuns, first: HeldRun, second: HeldRun) -> ComparedRuns:
    if first.recording is None or second.recording is None:
        return ComparedRuns(agrees=False)
    return laboratory.compare(first.recording, second.recording)


def _with_required(circumstances: Iterable[Circumstance]) -> Holds:
    """Addresses depend on the order of hashes, so the hash seed is held with them."""
    held = frozenset(circumstances)
    return held | {Circumstance.HASH_SEED} if Circumstance.ADDRESSES in held else held


def _fact(held: Holds, tried: Sequence[HeldRun], shown: ComparedRuns, *, runs: int, is_all: bool = False) -> Held:
    """What the runs showed, as the report's record."""
    circumstances = in_order(held)
    implied = Circumstance.HASH_SEED if Circumstance.ADDRESSES in circumstances else None
    chosen = [circumstance for circumstance in circumstances if circumstance is not implied]
    no_proof = next((run.problem for run in tried if run.problem), "")
    alone = chosen[0] if len(chosen) == 1 else None
    return Held(
        circumstances=tuple(circumstance.value for circumstance in circumstances),
        is_all=is_all,
        agrees=shown.agrees,
        runs=runs,
        is_cause=shown.agrees and not no_proof and alone is not None,
        clause=" and ".join(circumstance.held_clause for circumstance in chosen),
        shows="" if alone is None else alone.shows,
        remedy="" if alone is None else alone.remedy,
        cannot="" if alone is None or alone.held is None else alone.held.cannot,
        no_proof=no_proof,
        first=shown.first,
    )


def suspects(roots: Sequence[Root], candidates: Sequence[Circumstance]) -> list[Circumstance]:
    """The ``candidates`` that the first root's cause suggests."""
    return [candidate for candidate in candidates if roots and roots[0].cause in candidate.suggested_by]


def hangs_on_settings_alone(roots: Sequence[Root], findings: Sequence[Finding]) -> bool:
    """Whether the first root is a kernel of a device, by its rule: nothing else of the process reaches that."""
    if not roots or roots[0].cause is not RootCause.KERNEL:
        return False
    return any(finding.rule == roots[0].rule and finding.backend is not Backend.CPU for finding in findings)


class Comparing:
    """Compares runs by what differs between the runs with nothing held; ``findings`` returns the first one's."""

    def __init__(self, unheld: Sequence[Family], findings: Callable[[], Sequence[Finding] | None]) -> None:
        self.unheld = unheld
        self._findings = findings
        self.divergence = compare_runs(unheld[0], unheld[1], findings)

    def compare(self, first: Family, second: Family) -> ComparedRuns:
        """If only what the runs leave behind differs, two runs agree if as much of it is compared and none of its kinds
        differs: what bears a time in its name has another one in every run."""
        before, divergence = self.divergence, compare_runs(first, second, self._findings)
        is_alike = bool(before.roots) or (
            divergence.ends_compared >= min(before.ends_compared, 1)
            and divergence.states_compared >= before.states_compared
            and divergence.outputs.files >= before.outputs.files
            and {end.kind for end in before.ends}.isdisjoint(end.kind for end in divergence.ends)
        )
        return ComparedRuns(divergence.agrees and is_alike, divergence.first)

    def other_calls(self, family: Family) -> str:
        """Says that a run makes other calls than those with nothing held; empty if it does not.

        Processes that come in any order are not held against theirs.
        """
        for key, roles in siblings(family, children_of(family)).items():
            for role in () if key[-1] else roles:
                theirs = [unheld[role].values for unheld in self.unheld if role in unheld]
                if theirs and not makes_calls_of(family[role].values, theirs):
                    return f"child {role} makes other calls then"
        makes_theirs = makes_calls_of(family[""].values, [unheld[""].values for unheld in self.unheld])
        return "" if makes_theirs else "the script makes other calls then"


def compare_runs(first: Family, second: Family, findings: Callable[[], Sequence[Finding] | None]) -> Divergence:
    """Hold two whole runs of one program against each other; ``findings`` returns those of the first."""
    return compare_families(first, second, partial(compare_recordings, may_resume=False, findings=findings))


# --- whether it is still the same program ---

_CallKind = tuple[str, ...]
_LINE = itemgetter(3, 4)


def makes_calls_of(values: Values, others: Sequence[Values]) -> bool:
    """Return whether these are the calls of one of ``others``, or calls of the same kinds.

    How often a loop goes round may be what varies: it is enough that the kinds of calls are theirs, all that they have
    in common and none that none of them has. Where the kinds are what varies, it is enough that calls are made at the
    lines that all of them have.
    """
    ours, theirs = _calls(values), [_calls(other) for other in others]
    if ours in theirs:
        return True
    kinds = [set(other) for other in theirs]
    shared, all_kinds = set.intersection(*kinds), set.union(*kinds)
    if shared == all_kinds:
        return set(ours) == shared
    return set(map(_LINE, shared)) <= set(map(_LINE, ours))


def _calls(values: Values) -> list[_CallKind]:
    kinds = [(group.op, group.phase.value, group.module, group.location, group.function) for group in values.groups]
    return [kinds[number] for number in values.group.tolist()]
