"""What must hold as well for each change of the plan to work: deterministic mode under an edit, no refusal under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tracer.findings import Need, Target
from tracer.names import DeterministicMode, Prerequisite
from tracer.tables.settings.declared import CUBLAS_VARIABLE, MODE
from tracer.trace.records import FactValue

#: Settings that are read when code is compiled, beside deterministic mode.
_INDUCTOR = "torch._inductor."


class Asking(NamedTuple):
    """What a change makes, and what it asks for."""

    sets: Mapping[str, FactValue] = {}
    needs: tuple[Prerequisite, ...] = ()
    raises_in_mode: bool = False
    """Does it take away what deterministic mode would refuse?"""
    is_compiled: bool = False
    """Does it close findings about compiled calls?"""


def needs_of(asking: Sequence[Asking], target: Target) -> list[tuple[Need, ...]]:
    """For each change, in the order of the plan, what it needs; numbers begin at 1."""
    makers = {name: number for number, one in enumerate(asking, 1) for name in one.sets}
    refused = tuple(number for number, one in enumerate(asking, 1) if one.raises_in_mode)
    needs = []
    for asker in asking:
        found = []
        if Prerequisite.DETERMINISTIC_MODE in asker.needs:
            made = (makers[MODE],) if MODE in makers else ()
            # A switch of torch works under warn_only as well.
            holds = target.conditions.get(MODE) in (DeterministicMode.ON.value, DeterministicMode.WARN.value)
            found.append(Need(kind=Prerequisite.DETERMINISTIC_MODE, setting=MODE, changes=made, holds=holds))
        read = next((name for name in asker.sets if name == MODE or name.startswith(_INDUCTOR)), "")
        if asker.is_compiled and read:
            found.append(Need(kind=Prerequisite.BEFORE_COMPILING, setting=read))
        if MODE in asker.sets:
            if CUBLAS_VARIABLE in makers and CUBLAS_VARIABLE not in asker.sets:
                found.append(
                    Need(kind=Prerequisite.NOTHING_RAISES, setting=CUBLAS_VARIABLE, changes=(makers[CUBLAS_VARIABLE],))
                )
            if refused:
                found.append(Need(kind=Prerequisite.NOTHING_RAISES, changes=refused))
        needs.append(tuple(found))
    return needs
