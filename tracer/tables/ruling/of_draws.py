"""What becomes of a ruling on a draw: where the generator's state came from decides what ``seeded`` is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracer.names import REPEATABLE, Cause, GeneratorKind, SeedOrigin, Verdict
from tracer.tables.ruling.binding import RuleOutcome
from tracer.trace.records import ORIGIN, FactValue, kind_drawn_from

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
