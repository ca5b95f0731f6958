"""What the recorded run itself shows of a call, against what the tables say: draws, data, calls made again.

A table speaks of what can happen. A draw from a generator that nobody seeded repeats in no other run. Where the data of
every call rule a risk out, the call is deterministic for these data, which is never the table's own word. Where a call
that was made again gave another result, it varies, whatever a table says; where that said it could not, the table is
wrong for this device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracer.names import REPEATABLE, SETTLING_DATA, Cause, DataShown, GeneratorKind, SeedOrigin, Verdict
from tracer.tables.ruling.bound_table import RuleOutcome
from tracer.trace.records import ORIGIN, CallGroup, FactValue, kind_drawn_from

#: As facts spell them.
_REPEATABLE = frozenset(origin.value for origin in REPEATABLE)


class RulingsOnDraws:
    """Rulings on draws, each made once: rulings are told by identity."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, Callable[[RuleOutcome], RuleOutcome]], tuple[RuleOutcome, RuleOutcome]] = {}
        """Identity of a ruling, and what makes another of it -> the ruling, and the one in its stead."""

    def instead_of(self, ruling: RuleOutcome, facts: Mapping[str, FactValue]) -> RuleOutcome:
        """The ruling for a call with ``facts``, where the tables say ``ruling``.

        What draws from a generator that nobody seeded repeats in no other run.
        """
        origin = facts.get(ORIGIN)
        if origin is None or Verdict.SEEDED not in (ruling.verdict, ruling.verdict_in_deterministic_mode):
            return ruling
        if origin == SeedOrigin.MACHINE:
            was_passed = kind_drawn_from(facts) is GeneratorKind.PASSED
            return self._once(ruling, _passed_unseeded if was_passed else _default_unseeded)
        if origin in _REPEATABLE and ruling.verdict is ruling.verdict_in_deterministic_mode:
            return self._once(ruling, _kept)
        return ruling

    def _once(self, ruling: RuleOutcome, make: Callable[[RuleOutcome], RuleOutcome]) -> RuleOutcome:
        key = (id(ruling), make)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = (ruling, make(ruling))
        return found[1]


def _kept(ruling: RuleOutcome) -> RuleOutcome:
    """``ruling`` for draws from a generator whose state repeats already."""
    return ruling._replace(
        remedy="The generator starts from the same state in every run: keep it so, and save and restore generator"
        " states when training is resumed.",
        needs=(),
    )


def _passed_unseeded(ruling: RuleOutcome) -> RuleOutcome:
    return _unseeded(ruling, "The generator that the call was given", "Call `manual_seed(0)` on it where it is made")


def _default_unseeded(ruling: RuleOutcome) -> RuleOutcome:
    return _unseeded(ruling, "Torch's default generator", "Call `torch.manual_seed(0)` before the first draw")


def _unseeded(ruling: RuleOutcome, whose: str, remedy: str) -> RuleOutcome:
    """``ruling`` for calls whose generator was left to the machine: what was seeded differs from run to run."""
    why = f"{whose} was left to the machine, which seeds it anew in every process: each run draws other numbers."
    return ruling._replace(
        verdict=_differs(ruling.verdict),
        verdict_in_deterministic_mode=_differs(ruling.verdict_in_deterministic_mode),
        cause=Cause.RNG,
        why=f"{why} {ruling.why}".rstrip(),
        remedy=f"{remedy}, and call `seed()` on no generator.",
        needs=(),
        decided=(None, None),
    )


def _differs(verdict: Verdict) -> Verdict:
    return Verdict.NONDETERMINISTIC if verdict is Verdict.SEEDED else verdict


_ACCUSED = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)
#: Verdicts that what varied refutes.
CLEARED = (Verdict.DETERMINISTIC, Verdict.SEEDED)
#: What each fact of the data rules out.
_RULED_OUT = {
    DataShown.DISTINCT: (Cause.ATOMIC_ACCUMULATION, Cause.WRITE_RACE),
    DataShown.TWICE_ONTO_ZEROS: (Cause.ATOMIC_ACCUMULATION,),
    DataShown.EXACT: (Cause.ATOMIC_ACCUMULATION,),
    DataShown.NO_TIES: (Cause.TIE_ORDER,),
}
_FOR_THESE_DATA = (
    "The data of this run leave no two ways: it is deterministic for these data, and for others it may not be."
)
_REFUTED = (
    "Made again in this run with the same inputs, the call gave other results, and the table holds it for"
    " {verdict}: the table is wrong for this device."
)
_MEND = "It varies on this device: mend its kernel, or keep the call out of what must repeat."
_VARIED = "Made again in this run with the same inputs, the call gave other results."
_REPORT = (
    "Please report it: the report begins with the text to paste. Until it is known why, keep the call out of what must"
    " repeat."
)


def settled_by_data(group: CallGroup, ruling: RuleOutcome) -> RuleOutcome:
    """``ruling`` where the data of every one of the calls rule out what the table holds against them."""
    both = (ruling.verdict, ruling.verdict_in_deterministic_mode)
    if not any(verdict in _ACCUSED for verdict in both):
        return ruling
    if not group.data.keys() <= SETTLING_DATA or sum(group.data.values()) != group.count:
        return ruling
    if not all(ruling.cause in _RULED_OUT[shown] for shown in group.data):
        return ruling
    as_is, in_mode = (Verdict.DETERMINISTIC if verdict in _ACCUSED else verdict for verdict in both)
    return ruling._replace(
        verdict=as_is, verdict_in_deterministic_mode=in_mode, why=f"{ruling.why} {_FOR_THESE_DATA}", observed=True
    )


def refuted_by_trials(
    ruling: RuleOutcome, as_recorded: RuleOutcome, *, in_mode: bool, is_recorded: bool
) -> RuleOutcome:
    """``ruling`` on calls that varied when they were made again.

    ``as_recorded`` is the tables' word under the settings that they were tried with; ``is_recorded``: is ``ruling`` on
    those settings? ``in_mode``: were they tried in deterministic mode?
    """
    varies = Verdict.NONDETERMINISTIC
    as_is, mode = ruling.verdict, ruling.verdict_in_deterministic_mode
    if as_recorded.verdict in CLEARED:  # nothing that is known makes it vary, so nothing that is known mends it
        return ruling._replace(
            rule_id=ruling.rule_id or f"{ruling.backend}-tried",
            verdict=varies if as_is in CLEARED else as_is,
            verdict_in_deterministic_mode=varies if mode in CLEARED else mode,
            why=f"{_REFUTED.format(verdict=as_recorded.verdict)} {ruling.why}".rstrip(),
            remedy=_REPORT,
            needs=(),
            refuted=as_recorded.verdict,
        )
    if is_recorded:
        as_is = varies
        if in_mode or mode is Verdict.CONDITIONAL:
            mode = varies
    if (as_is, mode) == (ruling.verdict, ruling.verdict_in_deterministic_mode):
        return ruling
    return ruling._replace(
        verdict=as_is,
        verdict_in_deterministic_mode=mode,
        why=f"{_VARIED} {ruling.why}".rstrip(),
        remedy=_MEND if ruling.rule is None else ruling.remedy,
    )
