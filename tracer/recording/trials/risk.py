"""Which calls are tried: those that the tables do not call deterministic on the device that they ran on."""

from __future__ import annotations

from collections.abc import Iterable

from tracer.facts.fact import Value
from tracer.names import Backend, DeterministicMode, Settings, Verdict
from tracer.tables.compilers import load_compilers
from tracer.tables.loading import load_tables
from tracer.tables.ruling.compiled import Compilation, CompiledCalls
from tracer.tables.ruling.target_tables import TargetTables
from tracer.tables.settings.declared import MODE
from tracer.tables.settings.target_settings import settings_of
from tracer.tables.versions import release
from tracer.trace.records import CallGroup, Environment, Region

_SAFE = (Verdict.DETERMINISTIC, Verdict.SEEDED, Verdict.RAISES)


class Risk:
    """The tables' verdicts for the recorded devices, under the current settings and with deterministic mode off.

    With the second, a recording in deterministic mode tests whether the mode has the effect it promises.
    """

    def __init__(self, environment: Environment) -> None:
        recorded = settings_of(environment, Settings.RECORDED)
        self._torch = release(environment.torch)
        self._is_rocm = environment.hip is not None
        self._both = (recorded, {**recorded, MODE: DeterministicMode.OFF.value})
        self._tables = [self._under(conditions) for conditions in self._both]

    def of(self, group: CallGroup) -> bool:
        """Whether two runs of these calls can differ, according to the tables."""
        return any(_accuse(tables, group) for tables in self._tables)

    def lies_in(self, region: Region, groups: Iterable[CallGroup]) -> bool:
        """Whether two runs of ``region``, which makes these calls, can differ."""
        both = [self._under(conditions, region) for conditions in self._both]
        return any(_accuse(tables, group) for group in groups for tables in both)

    def suspects(self, region: Region, groups: Iterable[CallGroup]) -> list[CallGroup]:
        """The region's calls by which two runs of it can differ, under the current settings."""
        tables = self._under(self._both[0], region)
        return [group for group in groups if _accuse(tables, group)]

    def _under(self, conditions: dict[str, Value], region: Region | None = None) -> TargetTables:
        compiled = None
        if region is not None:
            regions = {region.id: region}
            compilation = Compilation(load_compilers(), regions, {}, self._torch, self._is_rocm)
            compiled = CompiledCalls(compilation, self._torch, conditions)
        return TargetTables(
            load_tables(), Backend.RECORDED, self._torch, conditions, is_rocm=self._is_rocm, compiled=compiled
        )


def _accuse(tables: TargetTables, group: CallGroup) -> bool:
    return tables.rule_on(group).verdict not in _SAFE
