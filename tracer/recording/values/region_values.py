"""Digests of what compiled regions read and write, each execution as one call.

A region draws if a generator of the process advanced while it ran.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from tracer.recording.compiled.executions import Run
from tracer.recording.origin.sites import placed
from tracer.recording.storage.accesses import READS
from tracer.recording.torch_private import storages
from tracer.recording.values.call_values import CallValues, default_states
from tracer.recording.values.outcome import Reading
from tracer.recording.values.plans import RegionPlan
from tracer.trace.values import Group, Mark

if TYPE_CHECKING:
    from tracer.recording.compiled.listing import RegionList

_NUMBERS = (int, float, bool)
_NOT_READ = int(Mark.INPUT_NOT_DIGESTED)
_READ_UNWRITTEN = int(Mark.READ_UNWRITTEN)


class Begun(NamedTuple):
    """An execution that is under way."""

    run: Run
    reading: Reading
    changed: list[torch.Tensor]
    """Inputs that the region writes to; the others may be freed while it runs."""
    read_only: set[int]
    """Storages of those."""
    generators: dict[str, int]
    """Each default generator's state before."""


class RegionValues:
    """Digests of one recording's regions."""

    def __init__(self, calls: CallValues, regions: Callable[[], RegionList]) -> None:
        """``regions`` describes them; asked for with the first one that runs."""
        self._calls = calls
        self._regions = regions
        self._plan = RegionPlan()
        self._groups: dict[Run, int] = {}

    def before(self, run: Run, compiled: Any, inputs: Any) -> Begun | None:
        """A region is about to run."""
        calls = self._calls
        if calls.writer is None or calls.is_paused:
            return None
        reading = Reading(0)
        changed: list[torch.Tensor] = []
        untouched: set[int] = set()
        generators: dict[str, int] = {}
        try:
            written = getattr(compiled, "mutated_input_idxs", None) or ()
            numbers = []
            with torch.no_grad():
                for place, value in enumerate(inputs):
                    if isinstance(value, torch.Tensor):
                        if place in written:
                            changed.append(value)
                        else:
                            untouched.add(storages.storage_id(value))
                        if calls.is_unwritten(value):
                            if place in written:
                                continue  # memory for a result
                            reading.mark_bits |= _READ_UNWRITTEN
                        calls.read(reading, self._plan, READS, value)
                    elif isinstance(value, _NUMBERS):
                        numbers.append(f"input {place}={value!r}")
            if numbers:
                reading.numbers = calls.writer.numbers(", ".join(numbers))
            generators = default_states()
        except Exception:
            calls.failures += 1
            reading.mark_bits |= _NOT_READ
        calls.is_paused = True  # kernels of torch's own that it calls are part of it
        return Begun(run, reading, changed, untouched - {0, *map(storages.storage_id, changed)}, generators)

    def after(self, begun: Begun | None, result: Any) -> None:
        """It ran, and ``result`` is what it gave."""
        calls = self._calls
        writer = calls.writer
        if begun is None or writer is None:
            return
        try:
            states = default_states()
            drawn = {name: before for name, before in begun.generators.items() if states.get(name, before) != before}
            run = begun.run
            if run not in self._groups:
                group = Group(
                    op=f"compiled.{run.code.direction}",
                    phase=self._regions().phase_of(run),
                    module=run.scope.path,
                    **placed(run.site, run.called_from),
                    region=self._regions().name_of(run.code),
                )
                self._groups[run] = writer.group(group)
            written = [*(result if isinstance(result, (tuple, list)) else (result,)), *begun.changed]
            with torch.no_grad():
                calls.ran(self._plan, self._groups[run], begun.reading, written, begun.read_only, drawn)
        except Exception:
            calls.failures += 1

    def left(self, begun: Begun | None) -> None:
        """It is over, also where it failed."""
        if begun is not None:
            self._calls.is_paused = False
