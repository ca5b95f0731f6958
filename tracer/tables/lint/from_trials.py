"""A measurement made of a recording with trials: what somebody's device showed, to keep beside the tables."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.errors import TableError
from tracer.names import Backend, Settings
from tracer.tables.lint.measured import SCHEMA, MeasuredCall, Measurement, Run
from tracer.tables.settings.declared import MODE
from tracer.tables.settings.target_settings import settings_of
from tracer.tables.versions import release
from tracer.trace.file import Trace
from tracer.trace.records import CallGroup

_CPU = "cpu"


def measurement_of(trace: Trace) -> Measurement:
    """What the trials of ``trace`` showed on its device: an accelerator's, where calls ran on one, else the CPU's.

    Calls that varied are kept one by one, and those that agreed are counted, as in the files that ship. Raises
    ``TableError`` where nothing was tried.
    """
    eager = [group for group in trace.calls if group.region is None]  # no table speaks of a whole region
    tried = [group for group in eager if group.tried is not None and group.tried.trials]
    if not tried:
        raise TableError("no call of this trace was tried", hint="record it with `tracer run --trials 30`")
    devices = [str(group.facts.get("device")) for group in tried]
    device = next((name for name in devices if name != _CPU), _CPU)
    here = [group for group, name in zip(tried, devices, strict=True) if name == device]
    environment = trace.environment
    settings = settings_of(environment, Settings.RECORDED)
    runs = tuple(_runs(here, trace))
    return Measurement(
        schema=SCHEMA,
        backend=_backend_of(device, trace),
        torch=release(environment.torch),
        device=environment.devices[0].name if environment.devices and device != _CPU else "",
        threads=environment.num_threads,
        settings={key: value for key, value in settings.items() if key != MODE},
        samples=len(here),
        alike=len(here) - len(runs),
        run=runs,
    )


def _backend_of(device: str, trace: Trace) -> Backend:
    if device == Backend.ROCM.device and trace.environment.hip is not None:
        return Backend.ROCM
    try:
        return Backend(device)
    except ValueError as problem:
        raise TableError(f"no table is for {device}", hint="measure on a backend that has one") from problem


def _runs(groups: list[CallGroup], trace: Trace) -> Iterator[Run]:
    numbers: dict[str, int] = {}
    for group in groups:
        tried = group.tried
        if tried is None or not tried.varied:
            continue
        named = f"{group.op}, {group.phase}"
        numbers[named] = numbers.get(named, 0) + 1
        yield Run(
            what=f"{named}, {numbers[named]}",
            mode=trace.environment.deterministic_mode,
            runs=tried.trials + tried.calls,
            distinct=tried.distinct,
            calls=(MeasuredCall(op=group.op, phase=group.phase, node=group.node, facts=group.facts),),
        )
