"""Which groups of calls are worth trying: those that the tables do not hold for safe on the device that they ran on."""

from __future__ import annotations

from tracer.names import Backend, DeterministicMode, Settings, Verdict
from tracer.tables.loading import load_tables
from tracer.tables.ruling.target_tables import TargetTables
from tracer.tables.settings.declared import MODE
from tracer.tables.settings.target_settings import settings_of
from tracer.tables.versions import release
from tracer.trace.model import CallGroup, Environment

_SAFE = (Verdict.DETERMINISTIC, Verdict.SEEDED, Verdict.RAISES)


class Risk:
    """The tables, asked for the recorded devices: under the settings as they stand, and with deterministic mode off.

    The second is asked too, so that a recording in deterministic mode tries whether the mode keeps what it promises.
    """

    def __init__(self, environment: Environment) -> None:
        recorded = settings_of(environment, Settings.RECORDED)
        self._tables = [
            TargetTables(
                load_tables(),
                Backend.RECORDED,
                release(environment.torch),
                conditions,
                is_rocm=environment.hip is not None,
            )
            for conditions in (recorded, {**recorded, MODE: DeterministicMode.OFF.value})
        ]

    def of(self, group: CallGroup) -> bool:
        """Can two runs of these calls differ, as far as the tables know?"""
        return any(tables.rule_on(group).verdict not in _SAFE for tables in self._tables)
