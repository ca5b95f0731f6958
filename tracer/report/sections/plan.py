"""What to change, numbered: what each change is worth, and what it needs."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.findings import Need, PlannedChange
from tracer.names import Prerequisite
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, first
from tracer.report.view import ReportView
from tracer.report.words import consecutive, joined, plural

_NOTHING = "Nothing that was recorded asks for a change"
_AFTER_RUNS = "First what runs were seen to differ by, root for root; then what else can make them differ."
_SEEN_ONLY = "What the runs differ by stands above; the tables know of no change for it."
_FEWEST = "The fewest changes that remove the most, in the order in which to make them."


def plan(report: ReportView, reader: Reader) -> Section | None:
    """The numbered changes; where there are none, a page says so."""
    if not report.plan and not reader.is_whole:
        return None
    shown, left_out = first(report.plan, reader.changes)
    lead = f"{_NOTHING}; what follows is a suggestion."
    if report.diverged:
        lead = _AFTER_RUNS
    elif any(change.closes for change in report.plan):
        lead = _FEWEST
    nothing = _SEEN_ONLY if report.diverged else f"{_NOTHING}."
    blocks: tuple[said.Block, ...] = (said.lead(lead if shown else nothing),) if reader.is_whole else ()
    if shown:
        blocks += (said.Steps(tuple(map(step_of_plan, shown)), left_out),)
    return Section(anchor="plan", title="What to change", label="Plan", blocks=blocks)


def step_of_plan(change: PlannedChange) -> said.Step:
    """A change, with what it needs and is worth in words."""
    return said.Step(
        number=change.number,
        title=change.title,
        remedy=change.remedy,
        code=change.code,
        where=change.where,
        needs=tuple(map(_in_words, change.needs)),
        worth=worth(change),
    )


def is_suggestion(change: PlannedChange) -> bool:
    """Return whether ``change`` closes nothing, and helps no other to. It only saves time."""
    return not change.closes and not change.sets and not change.roots


def worth(change: PlannedChange) -> str:
    """Return the worth of ``change``: ``closes 2 findings, 24 calls``."""
    if not change.closes and change.roots:
        return f"for {_numbered('root', change.roots)}"
    if not change.closes:
        return "a suggestion: it closes no finding" if is_suggestion(change) else "needed with the others"
    calls = f", {plural(change.calls, 'call')}" if change.calls else ""
    varied = f", {change.seen:,} of them seen to differ" if change.seen else ""
    roots = f"; for {_numbered('root', change.roots)}" if change.roots else ""
    return f"closes {plural(change.closes, 'finding')}{varied}{calls}{roots}"


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    """``change 3``, ``roots 1 to 3 and 5``."""
    runs = consecutive(numbers)
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else " and ".join(map(str, run)) for run in runs]
    return f"{noun}{'s' * (len(numbers) > 1)} {joined(parts)}"


def _in_words(need: Need) -> str:
    if need.kind is Prerequisite.BEFORE_COMPILING:
        return "Make it before anything is compiled: what was compiled without it must be compiled anew"
    changes = _numbered("change", need.changes)
    if need.kind is Prerequisite.NOTHING_RAISES:
        if need.setting:
            return f"Make {changes} with it: without {need.setting} calls raise"
        what = "it replaces" if len(need.changes) == 1 else "they replace"
        return f"Make {changes} first: what {what} raises under deterministic mode"
    alone = "Works with deterministic mode on alone"
    if need.changes:
        return f"{alone}: make {changes} with it"
    return f"{alone}: leave it on" if need.holds else f"{alone}: switch it on with this change"
