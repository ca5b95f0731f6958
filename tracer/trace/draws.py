"""The ledger of random draws.

A call that draws bears whom it drew from among its facts, so the ledger is a view of the calls, beside the draws from
Python's and NumPy's generators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tracer.names import GeneratorKind, SeedOrigin
from tracer.trace.model import CallGroup, FactValue
from tracer.trace.process import Draw

#: Facts of a call that draws: from which generator (``cpu``, ``cuda:0``, ``passed (cpu)``), where its state came from,
#: and the line that seeded it.
GENERATOR, ORIGIN, SEEDED_AT = "rng.generator", "rng.origin", "rng.seeded_at"


def kind_drawn_from(facts: Mapping[str, FactValue]) -> GeneratorKind | None:
    """The kind of generator that a call with these ``facts`` drew from; ``None`` for one that drew from none."""
    generator = facts.get(GENERATOR)
    return None if generator is None else GeneratorKind.spelt(generator)


def draws_of(calls: Iterable[CallGroup], host_draws: Iterable[Draw]) -> tuple[Draw, ...]:
    """The ledger of a trace: calls that drew, in the order of their first draw, then the host's generators."""
    return (*_calls_that_drew(calls), *host_draws)


def _calls_that_drew(calls: Iterable[CallGroup]) -> Iterator[Draw]:
    for group in calls:
        generator = group.facts.get(GENERATOR)
        if generator is None:
            continue
        yield Draw(
            generator=str(generator),
            op=group.op,
            phase=group.phase,
            module=group.module,
            location=group.location,
            function=group.function,
            called_from=group.called_from,
            count=group.count,
            origin=SeedOrigin(group.facts.get(ORIGIN, SeedOrigin.UNUSED)),
            seeded_at=str(group.facts.get(SEEDED_AT, "")),
        )
