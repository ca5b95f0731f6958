"""The plan: findings -> the numbered changes that would make the step reproducible.

The fewest changes that remove the most come first: one line of settings, then seeding, then the ops that
deterministic mode refuses, then what it does not fix, then what stays unknown and how to find out. Every
finding is closed by exactly one change, so the plan's numbers add up to the findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum

from tracer.findings import Change, Finding, Judgement, Target
from tracer.names import SEVERITY, Cause, DeterministicMode, UnknownReason, Verdict


class Step(IntEnum):
    """Which kind of change closes a finding, in the order in which the plan names them."""

    MODE = 1
    WORKSPACE = 2
    AUTOTUNE = 3
    SEED = 4
    RAISES = 5
    NOT_FIXED = 6
    UNKNOWN = 7


#: How each kind of not knowing is ended: what the plan says to do.
HOW_TO_FIND_OUT = {
    UnknownReason.NO_TABLE: "Judge for a backend that has a table, or add one",
    UnknownReason.TABLE_NOT_REVIEWED: "Judge for a version of torch that the table was reviewed for",
    UnknownReason.FACT_NOT_RECORDED: "Record the step again with this release, which takes the missing facts",
    UnknownReason.UNLISTED: "Ask the vendor, or run the step twice and compare bits, then add a rule",
    UnknownReason.OPAQUE: "Read the op's kernel, or run the step twice and compare bits, then add a rule",
    UnknownReason.NO_EVIDENCE: "Run the step twice from the same seed and compare bits",
}

#: The values of cuBLAS's variable that torch takes. Some rules, cuDNN's recurrent layers, take the second alone.
_USUAL_WORKSPACE, _SMALL_WORKSPACE = ":4096:8", ":16:8"

_AT_RISK = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)


def make_plan(judgement: Judgement) -> tuple[Change, ...]:
    """The numbered changes for ``judgement``, in the order in which they pay; empty without findings."""
    by_step: dict[Step, list[Finding]] = {}
    for finding in judgement.findings:
        by_step.setdefault(step_of(finding, judgement.target), []).append(finding)
    changes: list[Change] = []
    for step in sorted(by_step):
        for draft in _WRITERS[step](by_step[step], judgement.target):
            changes.append(draft(len(changes) + 1))
    return tuple(changes)


def step_of(finding: Finding, target: Target) -> Step:
    """The one kind of change that closes ``finding``."""
    now, under_mode = finding.verdict, finding.deterministic_mode
    conditions = target.conditions
    if finding.cause is Cause.WORKSPACE and conditions.get("cublas_workspace") != "set":
        return Step.WORKSPACE
    if Verdict.RAISES in (now, under_mode):
        return Step.RAISES
    if now is Verdict.SEEDED:
        return Step.SEED
    if under_mode is Verdict.DETERMINISTIC and now is not Verdict.DETERMINISTIC:
        return Step.MODE
    if finding.cause is Cause.AUTOTUNE and conditions.get("cudnn_benchmark") is True:
        return Step.AUTOTUNE
    if now in _AT_RISK or under_mode in _AT_RISK:
        return Step.NOT_FIXED
    if Verdict.UNKNOWN in (now, under_mode):
        return Step.UNKNOWN
    return Step.SEED


def is_mode_on(target: Target) -> bool:
    """Does ``target`` have ``torch.use_deterministic_algorithms(True)`` switched on already?"""
    return target.conditions.get("deterministic_mode") == DeterministicMode.ON.value


def name_of(op: str) -> str:
    """``op`` as people write it: without the ``.default`` that torch prints behind a sole overload."""
    return op.removesuffix(".default")


def place_of(finding: Finding) -> str:
    """Where ``finding`` is, as precisely as the trace knows."""
    if finding.location:
        led_here = f" (called from {finding.called_from})" if finding.called_from else ""
        return f"{finding.location}{led_here}"
    if finding.called_from:
        return f"called from {finding.called_from}"
    return f"in module {finding.module}" if finding.module else "place not recorded"


_Draft = Callable[[int], Change]


def _change(findings: Iterable[Finding], title: str, *, code: str = "", where: str) -> _Draft:
    """A change that still lacks its number."""
    closed = tuple(findings)

    def numbered(number: int) -> Change:
        return Change(
            number=number,
            title=title,
            code=code,
            where=where,
            closes=len(closed),
            calls=sum(finding.count for finding in closed),
            rules=tuple(dict.fromkeys(finding.rule for finding in closed)),
        )

    return numbered


def _switch_mode_on(findings: list[Finding], target: Target) -> Iterator[_Draft]:
    warns = target.conditions.get("deterministic_mode") == DeterministicMode.WARN.value
    yield _change(
        findings,
        "Turn deterministic mode on" + (" without warn_only" if warns else ""),
        code="torch.use_deterministic_algorithms(True)",
        where="at the top of the script, before the model is built and any op runs",
    )


def _set_workspace(findings: list[Finding], _: Target) -> Iterator[_Draft]:
    needs_small = any(_SMALL_WORKSPACE in one.remedy and _USUAL_WORKSPACE not in one.remedy for one in findings)
    value = _SMALL_WORKSPACE if needs_small else _USUAL_WORKSPACE
    yield _change(
        findings,
        "Give cuBLAS a fixed workspace",
        code=f'os.environ["CUBLAS_WORKSPACE_CONFIG"] = "{value}"',
        where="before torch is imported, or in the shell that starts the script",
    )


def _stop_autotuning(findings: list[Finding], _: Target) -> Iterator[_Draft]:
    yield _change(
        findings,
        "Stop cuDNN from choosing algorithms by a stopwatch",
        code="torch.backends.cudnn.benchmark = False",
        where="at the top of the script, before the model runs",
    )


def _seed(findings: list[Finding], _: Target) -> Iterator[_Draft]:
    yield _change(
        findings,
        "Seed torch's generators",
        code="torch.manual_seed(0)",
        where="at the top of the script, before the model is built and data is shuffled",
    )


def _replace_what_raises(findings: list[Finding], _: Target) -> Iterator[_Draft]:
    for group in _by_site(findings):
        first = group[0]
        when = "raises now" if first.verdict is Verdict.RAISES else "raises under deterministic mode"
        yield _change(
            group,
            _sentence(f"Replace {name_of(first.op)}, which {when}", first.remedy),
            where=place_of(first),
        )


def _change_what_stays(findings: list[Finding], _: Target) -> Iterator[_Draft]:
    for group in _by_site(findings):
        first = group[0]
        yield _change(
            group,
            _sentence(f"Change {name_of(first.op)}, which deterministic mode does not fix", first.remedy),
            where=place_of(first),
        )


def _find_out(findings: list[Finding], _: Target) -> Iterator[_Draft]:
    groups: dict[UnknownReason | None, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.reason, []).append(finding)
    for reason, group in sorted(groups.items(), key=lambda item: -_calls(item[1])):
        how = HOW_TO_FIND_OUT.get(reason or UnknownReason.NO_EVIDENCE, "")
        about = tuple(dict.fromkeys(name_of(finding.op) for finding in group))
        remedies = tuple(dict.fromkeys(finding.remedy for finding in group if finding.remedy))
        yield _change(
            group,
            _sentence(f"{how} ({reason or 'no reason given'})", remedies[0] if len(remedies) == 1 else ""),
            where=_some(about),
        )


#: The functions that write each step's changes.
_WRITERS: dict[Step, Callable[[list[Finding], Target], Iterator[_Draft]]] = {
    Step.MODE: _switch_mode_on,
    Step.WORKSPACE: _set_workspace,
    Step.AUTOTUNE: _stop_autotuning,
    Step.SEED: _seed,
    Step.RAISES: _replace_what_raises,
    Step.NOT_FIXED: _change_what_stays,
    Step.UNKNOWN: _find_out,
}


def _by_site(findings: list[Finding]) -> list[list[Finding]]:
    """``findings`` in groups that one edit closes: one rule at one place; worst first, then most calls."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, place_of(finding)), []).append(finding)
    return sorted(groups.values(), key=lambda group: (SEVERITY.index(group[0].verdict), -_calls(group)))


def _calls(findings: list[Finding]) -> int:
    return sum(finding.count for finding in findings)


def _sentence(what: str, remedy: str) -> str:
    """``what``, followed by the rule's own remedy where it has one."""
    return f"{what}: {remedy}" if remedy else what


def _some(names: tuple[str, ...], limit: int = 3) -> str:
    """The first few of ``names`` and how many more there are."""
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")
