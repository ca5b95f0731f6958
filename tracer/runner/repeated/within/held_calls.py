"""A function called again with circumstances held, as far as a running process can hold them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from tracer.divergence import Recording
from tracer.divergence.recordings import Family
from tracer.divergence.repeated import Repeated
from tracer.errors import UsageError
from tracer.findings import Finding
from tracer.runner.repeated.circumstances.declared import Circumstance, Inside, in_order, parse_held, unused_of
from tracer.runner.repeated.circumstances.planned import variables_among
from tracer.runner.repeated.circumstances.replacing import Replacements
from tracer.runner.repeated.holding import Comparing, Holds, Search, Shown, Tried, suspects
from tracer.tables.settings.declared import SEEDS
from tracer.trace.records import FactValue

#: Circumstances that belong to a process, not to a call.
_FIXED = tuple(choice for choice in Circumstance if choice.held is not None and not choice.held.in_one_process)
_NOT_HELD = (
    "within one process the hash seed and addresses cannot be held, nor can the folder, nor names that were imported"
    " from their modules before (from time import time); `tracer repeat SCRIPT` holds them"
)


def circumstances_in(hold: str | Iterable[str] | None) -> tuple[Circumstance, ...]:
    """Return the circumstances to hold between calls; ``None`` means all that can be held.

    Raises ``UsageError`` for an unknown word, and for a circumstance that a running process cannot hold.
    """
    if hold is None:
        return tuple(circumstance for circumstance in Circumstance if circumstance not in _FIXED)
    words = [hold] if isinstance(hold, str) else list(hold)
    named = parse_held(",".join(words)) if words else ()
    if fixed := [circumstance for circumstance in named if circumstance in _FIXED]:
        raise UsageError(f"{fixed[0]} cannot be held in a process that runs already", hint="tracer repeat SCRIPT can")
    return named


class HeldCalls:
    """The ``Laboratory`` of a function: ``record`` puts the state back, calls it and reads what was recorded."""

    def __init__(
        self,
        record: Callable[[str], Recording],
        recordings: list[Recording],
        findings: Sequence[Finding] | None,
        settings: Mapping[str, FactValue],
    ) -> None:
        """``findings`` of the first call, and the ``settings`` that its plan makes."""
        self._record = record
        self._recordings = recordings
        self._began = time.time_ns()
        self._count = 0
        self._comparing: Comparing | None = None
        self._findings = findings
        left_out = {*SEEDS, *variables_among(settings)}
        self._planned = {name: value for name, value in settings.items() if name not in left_out}

    def explain(self, repeated: Repeated, hold: tuple[Circumstance, ...]) -> Repeated:
        """``repeated`` with what holding circumstances showed, if its calls diverge."""
        divergence = repeated.divergence
        if not hold or not divergence.differs:
            return repeated
        number = int(repeated.second.rpartition(" ")[2])
        self._comparing = Comparing(
            [{"": self._recordings[0]}, {"": self._recordings[number - 1]}], lambda: self._findings
        )
        candidates = [circumstance for circumstance in hold if self._can_explain(circumstance)]
        suspected, sure = suspects(divergence.roots, candidates, self._recordings[0].trace)
        search = Search(
            laboratory=self,
            unheld=[Tried(frozenset(), recording) for recording in self._comparing.unheld],
            candidates=candidates,
            suspected=suspected,
            sure=sure,
        )
        repeated = msgspec.structs.replace(repeated, held=search.find() if candidates else ())
        return repeated if repeated.cause is not None else msgspec.structs.replace(repeated, not_held=_NOT_HELD)

    def _can_explain(self, circumstance: Circumstance) -> bool:
        """Return whether holding it would change anything here."""
        import torch

        if circumstance.held is None or circumstance.held.why_not():
            return False
        if circumstance is Circumstance.THREADS:
            return torch.get_num_threads() > 1
        return circumstance is not Circumstance.SETTINGS or bool(self._planned)

    def run(self, held: Holds) -> Tried:
        """Call the function with ``held`` held."""
        assert self._comparing is not None
        self._count += 1
        replaced = Replacements()
        try:
            for circumstance in in_order(held):
                if circumstance.held is not None and circumstance.held.inside is not None:
                    circumstance.held.inside(Inside(replaced, self._began, self._planned, is_new_process=False))
            recording = self._record(f"held-{self._count}")
        except Exception as problem:
            return Tried(held, None, f"the call ends with {type(problem).__name__} then")
        finally:
            replaced.put_back()
        family = {"": recording}
        return Tried(held, family, self._comparing.other_calls(family), unused_of(held, replaced.used))

    def compare(self, first: Family, second: Family) -> Shown:
        """Return whether the two agree."""
        assert self._comparing is not None
        return self._comparing.compare(first, second)
