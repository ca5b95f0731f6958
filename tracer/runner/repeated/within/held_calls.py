"""A function called again with circumstances held, as far as a process that runs already can hold them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from tracer.divergence import Recording
from tracer.divergence.repeated import Repeated
from tracer.errors import UsageError
from tracer.runner.repeated.circumstances.declared import Circumstance, Inside, parse_held
from tracer.runner.repeated.circumstances.planned import variables_among
from tracer.runner.repeated.circumstances.replacing import Replacements
from tracer.runner.repeated.holding import Comparing, Holds, Search, Shown, Tried, suspects
from tracer.session import judge
from tracer.tables.settings.declared import SEEDS

#: Of a process and not of a call.
_FIXED = tuple(one for one in Circumstance if one.held is not None and not one.held.in_one_process)
_NOT_HELD = (
    "within one process the hash seed and addresses cannot be held, nor can the folder, nor names that were imported"
    " from their modules before (from time import time); `tracer repeat SCRIPT` holds them"
)


def circumstances_in(hold: str | Iterable[str] | None) -> tuple[Circumstance, ...]:
    """What to hold between calls: ``None`` is all that can be.

    Raises ``UsageError`` for another word, and for what cannot be held in a process that runs already.
    """
    if hold is None:
        return tuple(one for one in Circumstance if one not in _FIXED)
    words = [hold] if isinstance(hold, str) else list(hold)
    named = parse_held(",".join(words)) if words else ()
    if fixed := [one for one in named if one in _FIXED]:
        raise UsageError(f"{fixed[0]} cannot be held in a process that runs already", hint="tracer repeat SCRIPT can")
    return named


class HeldCalls:
    """The ``Laboratory`` of a function: ``record`` puts the state back, calls it and reads what was recorded."""

    def __init__(self, record: Callable[[str], Recording], recordings: list[Recording]) -> None:
        self._record = record
        self._recordings = recordings
        self._began = time.time_ns()
        self._count = 0
        self._comparing: Comparing | None = None
        trace = recordings[0].trace
        settings = judge(trace).planned_settings if trace is not None else {}
        left_out = {*SEEDS, *variables_among(settings)}
        self._planned = {name: value for name, value in settings.items() if name not in left_out}

    def explain(self, found: Repeated, hold: tuple[Circumstance, ...]) -> Repeated:
        """``found`` with what holding circumstances showed, where its calls part."""
        divergence = found.divergence
        if not hold or (divergence.agrees and not divergence.ends):
            return found
        number = int(found.second.rpartition(" ")[2])
        self._comparing = Comparing([self._recordings[0], self._recordings[number - 1]])
        candidates = [one for one in hold if self._can_explain(one)]
        suspected, sure = suspects(divergence.roots, candidates)
        search = Search(
            laboratory=self,
            unheld=[Tried(frozenset(), recording) for recording in self._comparing.unheld],
            candidates=candidates,
            suspected=suspected,
            sure=sure,
        )
        found = msgspec.structs.replace(found, held=search.find() if candidates else ())
        return found if found.cause is not None else msgspec.structs.replace(found, not_held=_NOT_HELD)

    def _can_explain(self, one: Circumstance) -> bool:
        """Would holding it change anything here?"""
        import torch

        if one.held is None or one.held.why_not():
            return False
        if one is Circumstance.THREADS:
            return torch.get_num_threads() > 1
        return one is not Circumstance.SETTINGS or bool(self._planned)

    def run(self, held: Holds) -> Tried:
        """Call the function with ``held`` held."""
        assert self._comparing is not None
        self._count += 1
        replaced = Replacements()
        names = [one for one in Circumstance if one in held]
        try:
            for one in names:
                if one.held is not None and one.held.inside is not None:
                    one.held.inside(Inside(replaced, self._began, self._planned, is_new_process=False))
            recording = self._record(f"held-{self._count}")
        except Exception as problem:
            return Tried(held, None, f"the call ends with {type(problem).__name__} then")
        finally:
            replaced.put_back()
        unused = (one for one in names if one.held is not None and one.held.notes_use and one not in replaced.used)
        return Tried(held, recording, self._comparing.other_calls(recording), frozenset(unused))

    def compare(self, one: Tried, other: Tried) -> Shown:
        """Do the two agree?"""
        assert self._comparing is not None
        assert one.recording is not None
        assert other.recording is not None
        return self._comparing.compare(one.recording, other.recording)
