"""Every group of calls with what it was judged as, for tables of calls: made when it is asked for.

A judgement keeps findings and a tally, which stay small however many groups a trace has. Who wants the calls one by one
has them judged again, by the same tables under the same settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tracer.findings import Target
from tracer.judging.minimal_settings import seeded_in_its_place
from tracer.names import Backend
from tracer.tables.model import Table
from tracer.tables.ruling.binding import RuleOutcome
from tracer.tables.ruling.target_tables import TargetTables
from tracer.tables.translation import NO_TRANSLATIONS, Translations
from tracer.trace.file import Trace
from tracer.trace.model import CallGroup


class JudgedCall(NamedTuple):
    """A group of calls and the ruling on it."""

    group: CallGroup
    """As it was recorded; seeded where the target asks for that."""
    ruling: RuleOutcome


def judged_calls(
    trace: Trace,
    tables: Mapping[Backend, Table],
    target: Target,
    *,
    strict: bool = False,
    translations: Translations = NO_TRANSLATIONS,
) -> Iterator[JudgedCall]:
    """Each group of ``trace`` in its order; the arguments are those of ``judge_trace``."""
    bench = TargetTables(
        tables,
        target.backend,
        target.torch,
        target.conditions,
        is_rocm=trace.environment.hip is not None,
        strict=strict,
        translations=translations,
    )
    bench.look_ahead(trace.calls)
    for recorded in trace.calls:
        group = seeded_in_its_place(recorded, target.sets) if target.sets else recorded
        yield JudgedCall(group, bench.rule_on(group))
