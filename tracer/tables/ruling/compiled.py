"""A compiled call before its compiler's table, the backend's own table, and what the generated code shows.

The compiler's rule says what becomes of an op: a kernel of the compiler's own, or an eager kernel that it calls, of
which the backend's table speaks. An op without a rule is one of both. For the device, version and mode that it was
generated for the code itself is stronger than any table: a kernel that adds atomically varies, and one that does not
cannot vary by that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tracer.names import Backend, DeterministicMode, RegionKind, UnknownReason
from tracer.tables.compilers.model import CompiledRule, CompilerTable
from tracer.tables.ruling.binding import RuleOutcome, unknown_ruling
from tracer.tables.ruling.compiled_call import CompiledCall, Eager
from tracer.tables.ruling.conditions import BoundRule
from tracer.tables.ruling.derived import DERIVATIONS, derive
from tracer.tables.versions import judged_as, placed
from tracer.tables.vocabulary import Value
from tracer.trace.records import CallGroup, Kernel, Region

_MODE = "deterministic_mode"
_REMEDY = "Record it on the target itself, or with `tracer run --eager`: eager calls are judged for any backend."


class Compilation(NamedTuple):
    """What a trace holds of compiled code, and the tables that speak of it."""

    tables: Mapping[str, CompilerTable]
    """By compiler, as a region names it."""
    regions: Mapping[str, Region]
    launched: Mapping[str, Kernel]
    """Kernels that the program launched itself."""
    torch: str
    """The release that compiled it."""
    is_rocm: bool
    """Were its ``cuda`` devices AMD's?"""


class CompiledCalls:
    """The compiled calls of one trace before one target; rulings are kept by what they rest on."""

    def __init__(
        self,
        compilation: Compilation,
        version: str,
        settings: Mapping[str, Value],
        *,
        changed: frozenset[str] = frozenset(),
        strict: bool = False,
    ) -> None:
        """``changed`` are settings that the target has otherwise than the recording: code compiled under them is not
        what was seen."""
        self._compilation = compilation
        self._version = version
        self._settings = settings
        self._changed = changed
        self._strict = strict
        self._rules: dict[int, tuple[BoundRule, BoundRule]] = {}
        self._kept: dict[tuple[object, ...], RuleOutcome] = {}

    def under(self, settings: Mapping[str, Value]) -> CompiledCalls:
        """The same calls under the settings of the recording."""
        return CompiledCalls(self._compilation, self._version, settings, strict=self._strict)

    def rule_on(self, group: CallGroup, backend: Backend, eager: Eager, node: str | None) -> RuleOutcome:
        """The ruling for a call that ran in a region or launched a kernel; ``eager`` rules on what it calls."""
        key = (group.op, group.region, group.kernels, backend, node, *sorted(group.facts.items()))
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._ruling(group, backend, eager, node)
        return found

    def _ruling(self, group: CallGroup, backend: Backend, eager: Eager, node: str | None) -> RuleOutcome:
        region = self._compilation.regions.get(group.region or "")
        is_compiled = region is not None and region.kind is not RegionKind.CUDA_GRAPH
        if group.region is not None and not is_compiled and not group.kernels:
            return eager(group.op, group.facts)
        if region is None or not is_compiled:
            launched, device = self._compilation.launched, _device_of(backend)
            kernels = [launched[name].launched_on(device) for name in group.kernels if name in launched]
            return CompiledCall(group.op, None, None, kernels, eager, group.facts).outcome(backend, True, True)
        named = {kernel.name: kernel for kernel in region.kernels}
        kernels = [named[name] for name in group.kernels if name in named]
        if kernels and all(kernel.is_the_programs for kernel in kernels):
            kernels = [kernel.launched_on(_device_of(backend)) for kernel in kernels]
            return CompiledCall(group.op, None, None, kernels, eager, group.facts).outcome(backend, True, True)
        table = self._compilation.tables.get(region.backend)
        refusal = self._refusal(region, table, backend)
        rule = None if table is None or refusal is not None else table.find(group.op, backend)
        base = (lambda op, facts: refusal) if refusal is not None else eager
        called = eager
        call = CompiledCall(group.op, rule, table, kernels, base, group.facts, called)
        if rule is not None:
            bound = self._bound(rule, table)
            facts = {**group.facts}
            for name in dict.fromkeys((*bound[0].facts, *bound[1].facts)):
                if name in DERIVATIONS and (value := derive(name, node, group.facts)) is not None:
                    facts[name] = value
            call = call._replace(bound=bound, known=facts)
        made = call.outcome(backend, *self._seen(kernels, backend, region))
        is_newer = table is not None and placed(table.reviewed, self._version) == "newer"
        return made._replace(extrapolated=made.extrapolated or is_newer)

    def _bound(self, rule: CompiledRule, table: CompilerTable | None) -> tuple[BoundRule, BoundRule]:
        found = self._rules.get(id(rule))
        if found is None:
            reviewed = table.reviewed if table is not None else ""
            version = judged_as(reviewed, self._version, extrapolated=placed(reviewed, self._version) == "newer")
            as_is = BoundRule(rule, version, self._settings)
            in_mode = BoundRule(rule, version, {**self._settings, _MODE: DeterministicMode.ON.value})
            found = self._rules[id(rule)] = (as_is, in_mode)
        return found

    def _refusal(self, region: Region, table: CompilerTable | None, backend: Backend) -> RuleOutcome | None:
        """The ruling where no table speaks of the compiler, the device or the version; ``None`` where one does."""
        if table is None:
            by = f"`{region.backend}`" if region.backend else "a compiler that is not named"
            why = f"It was compiled by {by}, of which no table speaks."
            return unknown_ruling(backend, "compiled", UnknownReason.NO_TABLE, region.backend, why)._replace(
                remedy=_REMEDY
            )
        if backend not in table.backends:
            why = f"What {table.compiler.capitalize()} makes of it on {backend} was not read."
            return unknown_ruling(backend, "compiled", UnknownReason.NO_TABLE, region.backend, why)._replace(
                remedy=_REMEDY
            )
        place = placed(table.reviewed, self._version)
        if place != "reviewed" and (place != "newer" or self._strict):
            detail = f"torch {self._version} against {table.reviewed}"
            return unknown_ruling(backend, "compiled", UnknownReason.TABLE_NOT_REVIEWED, detail)
        return None

    def _seen(self, kernels: list[Kernel], backend: Backend, region: Region) -> tuple[bool, bool]:
        """Does the code that was seen run as things stand, and in deterministic mode? It was generated for one device,
        version and mode."""
        compiled = self._compilation
        if not kernels or self._version != compiled.torch or compiled.is_rocm != (backend is Backend.ROCM):
            return False, False
        device = _device_of(backend)
        if any(kernel.device and kernel.device != device for kernel in kernels):
            return False, False
        devices = region.device.split(",")
        if device not in (part.strip() for part in devices) or self._changed.intersection(
            (*region.options, "num_threads")
        ):
            return False, False
        was_on = region.deterministic_mode
        if was_on is None:
            return False, False
        on = was_on is not DeterministicMode.OFF
        is_on = self._settings.get(_MODE) in (DeterministicMode.WARN.value, DeterministicMode.ON.value)
        return on is is_on, on


def _device_of(backend: Backend) -> str:
    return "cuda" if backend is Backend.ROCM else backend.value
