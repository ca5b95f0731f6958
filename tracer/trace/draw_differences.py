"""How the random draws of two traces differ."""

from __future__ import annotations

from typing import NamedTuple

from tracer.trace.file import Trace
from tracer.trace.process import Draw


class DrawDifference(NamedTuple):
    """Two ledgers that disagree about one generator, at the first place where they do."""

    generator: str
    ahead: int
    """Draws by which the second ledger's generator is ahead of the first one's; negative where it is behind. 0: as many
    were drawn, at other places."""
    first: Draw | None
    """The first entry of the first ledger that the second has not, or not as often; ``None`` where it has them all."""
    second: Draw | None
    """The first entry of the second ledger that the first has not, or not as often."""


def compare_draws(first: Trace, second: Trace) -> tuple[DrawDifference, ...]:
    """Which generators the two traces drew from differently, each with the first place at which they part.

    Two runs of one program draw alike; where they do not, the generator that ran ahead says which module and line drew
    more often. Seeds are not compared.
    """
    ledgers = [_by_generator(trace) for trace in (first, second)]
    names = dict.fromkeys(name for ledger in ledgers for name in ledger)
    found = (_difference(name, ledgers[0].get(name, {}), ledgers[1].get(name, {})) for name in names)
    return tuple(difference for difference in found if difference is not None)


_Place = tuple[str, ...]


def _by_generator(trace: Trace) -> dict[str, dict[_Place, tuple[Draw, int]]]:
    """Generator -> place -> its first entry and the calls there, in the order of the first draw."""
    ledger: dict[str, dict[_Place, tuple[Draw, int]]] = {}
    for draw in trace.draws:
        place = (draw.op, draw.phase.value, draw.module, draw.location, draw.called_from)
        entries = ledger.setdefault(draw.generator, {})
        known, calls = entries.get(place, (draw, 0))
        entries[place] = (known, calls + draw.count)
    return ledger


def _difference(
    name: str, one: dict[_Place, tuple[Draw, int]], other: dict[_Place, tuple[Draw, int]]
) -> DrawDifference | None:
    def lacking(here: dict[_Place, tuple[Draw, int]], there: dict[_Place, tuple[Draw, int]]) -> Draw | None:
        return next((draw for place, (draw, n) in here.items() if n > there.get(place, (draw, 0))[1]), None)

    first, second = lacking(one, other), lacking(other, one)
    if first is None and second is None:
        return None
    ahead = sum(n for _, n in other.values()) - sum(n for _, n in one.values())
    return DrawDifference(name, ahead, first, second)
