"""What several runs of one program showed, in sentences."""

from __future__ import annotations

from typing import NamedTuple

from tracer.divergence.model import Root
from tracer.divergence.repeated import Arm, Outcome, Repeated
from tracer.report.wording.runs.parting import CAUSES, headline, short_call_of
from tracer.report.wording.words import plural

NO_PROOF = "That runs agree is no proof: another run may not."


class ArmRow(NamedTuple):
    """An arm, as a row of a small table."""

    arm: str
    changed: str
    said: str
    agrees: bool
    note: str


def repeated_headline(repeated: Repeated) -> str:
    """All of it in one sentence, without its full stop."""
    before = repeated.as_it_stands
    if before is not None:
        return f"As you have it {_briefly(before)}; under the plan {_briefly(repeated)}"
    unvaried = repeated.arms[Arm.UNVARIED]
    if not unvaried.agrees:
        return headline(repeated.divergence, "run 1", repeated.second).rstrip(".")
    calls = _all_calls(unvaried.calls_compared)
    if repeated.ended_by:
        calls = f"the calls that were compared ({unvaried.calls_compared:,})"
    if repeated.failed:
        calls = f"the calls that both made before they failed ({unvaried.calls_compared:,})"
    agree = f"{_runs(unvaried)} agree in {calls}"
    if not unvaried.calls_compared:
        failed = ": the script failed before it made one" if repeated.failed else ""
        agree = f"{_runs(unvaried)} made no call that could be compared{failed}"
    parted = next(((arm, one) for arm, one in repeated.arms.items() if one.first is not None), None)
    if parted is None:
        arms = plural(len(repeated.arms) - 1, "arm")
        agree = f"{agree}, and so do those of {arms}" if len(repeated.arms) > 1 else agree
        return "; ".join((agree, *reservations(repeated)))
    arm, outcome = parted
    assert outcome.first is not None
    return f"{agree}; under other circumstances ({arm}) they part at {place_of_root(outcome.first)}"


def _briefly(repeated: Repeated) -> str:
    """``the runs part at train.py:41 (index_put, by its kernel)``, or ``they agree in all 12,408 calls``."""
    first = repeated.first
    if first is not None:
        return f"the runs part at {place_of_root(first)}"
    if not repeated.calls_compared:
        return "they make no call that could be compared"
    ended = f", and the script fails with exit code {repeated.failed[0].code}" if repeated.failed else ""
    return "; ".join((f"they agree in {_all_calls(repeated.calls_compared)}{ended}", *reservations(repeated)))


def reservations(repeated: Repeated) -> tuple[str, ...]:
    """What was not compared, so that the runs are not said to agree without it."""
    ended = f"{repeated.ended_by} before all runs were made" if repeated.ended_by else ""
    verb = "was" if repeated.not_followed == 1 else "were"
    processes = f"{plural(repeated.not_followed, 'process', 'processes')} {verb} started and not followed"
    return tuple(clause for clause in (ended, processes if repeated.not_followed else "") if clause)


def place_of_root(root: Root) -> str:
    """``train.py:41 (aten.index_put_, by its kernel)``."""
    place = root.called_from or root.location or root.module or "a place that was not recorded"
    return f"{place} ({short_call_of(root)}, {CAUSES[root.cause]})"


def _runs(outcome: Outcome) -> str:
    return f"{outcome.runs + 1} runs"


def _all_calls(calls: int) -> str:
    return f"all {calls:,} calls" if calls != 1 else "the one call"


def settings_sentence(repeated: Repeated) -> str:
    """What was made before the program's first line; empty where nothing was."""
    if not repeated.sets:
        return "The plan changes no setting." if repeated.as_it_stands is not None else ""
    made = ", ".join(f"{name} = {value}" for name, value in repeated.sets.items())
    return f"Made before the program's first line: {made}."


def arm_rows(repeated: Repeated) -> list[ArmRow]:
    """The arms in their order; none where nothing was varied."""
    if set(repeated.arms) == {Arm.UNVARIED}:
        return []
    return [ArmRow(arm.value, one.changed, _said(one), one.agrees, one.note) for arm, one in repeated.arms.items()]


def _said(outcome: Outcome) -> str:
    if outcome.agrees or outcome.first is None:
        return f"agrees in {_all_calls(outcome.calls_compared)}"
    alone = f"; {plural(outcome.alone, 'root')} in this arm alone" if outcome.alone else ""
    return f"parts at {place_of_root(outcome.first)}{alone}"


def sensitive(root: Root) -> str:
    """What the arms in which ``root`` was seen say of it; empty where nothing was varied."""
    if not root.arms or root.arms == (Arm.UNVARIED.value,):
        return ""
    if Arm.UNVARIED.value in root.arms:
        return "It differs with nothing varied: it is the program itself."
    return f"It differs in {', '.join(root.arms)} alone: it is sensitive to that."
