"""What is known of regions and of none of their calls: kernels whose ops were not seen, and regions that varied.

A kernel that adds atomically varies, whatever it was made of. A region that was run again and gave other results does
so too, though nothing in it is known to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracer.findings import Evidence, Finding
from tracer.judging.process.trace_under_target import TraceUnderTarget
from tracer.names import (
    About,
    Backend,
    Cause,
    DeterministicMode,
    Direction,
    EvidenceKind,
    KernelLanguage,
    Phase,
    RegionInside,
    Shown,
    UnknownReason,
    Verdict,
)
from tracer.tables.settings.declared import MODE, declared
from tracer.tables.versions import release
from tracer.trace.records import Kernel, Region, Tried

#: What the compiler writes itself, and would write otherwise under deterministic mode.
_GENERATED = (KernelLanguage.CPP, KernelLanguage.TRITON)
_WHY = (
    "`{kernel}` adds floating-point numbers atomically, in an order that varies; the ops that it was made of were not"
    " seen."
)
_REMEDY = (
    "Switch deterministic mode on before anything is compiled: Inductor then calls eager kernels that add in one order."
    " Record from the start of the process, and the lines are named."
)
_REMEDY_OWN = "Let the kernel add in one order, or write its partial results and add those afterwards."
_WHY_TRIED = (
    "Run again in this run with the same inputs and generators, the region gave other results, and nothing in it is"
    " known to vary: the tables are wrong for this device."
)
_REMEDY_TRIED = (
    "Please report it, with the code of its function. Until it is known why, run it eagerly (`tracer run --eager"
    " --trials 5 --trial-all` tries its calls one by one), or keep it out of what must repeat."
)
_SOURCE = Evidence(
    kind=EvidenceKind.SOURCE,
    ref="torch/_inductor/lowering.py, index_put_impl_ and scatter_reduce_, 2.4.1, 2.9.1, 2.13.0 and 2.15.0",
)


def region_findings(scene: TraceUnderTarget) -> Iterator[Finding]:
    """One finding for each such kernel, where the code that was seen is what runs under ``scene``, and for each region
    that varied."""
    for region in scene.trace.regions:
        if region.tried is not None and region.tried.varied and not region.tried.together and _is_here(region, scene):
            yield _varied(region, region.tried, scene)
        if region.inside is not RegionInside.KERNELS or not region.executions or not _runs(region, scene):
            continue
        for kernel in region.kernels:
            if kernel.adds_in_any_order:
                yield _finding(kernel, region, scene)


def _runs(region: Region, scene: TraceUnderTarget) -> bool:
    """Is it the code that runs? It was compiled for one device, version and state of deterministic mode."""
    is_on = scene.conditions.get(MODE) in (DeterministicMode.WARN.value, DeterministicMode.ON.value)
    return _was_in_mode(region) is is_on and _is_here(region, scene)


def _was_in_mode(region: Region) -> bool:
    return region.deterministic_mode not in (None, DeterministicMode.OFF)


def _is_here(region: Region, scene: TraceUnderTarget) -> bool:
    """Does ``scene`` speak of the device and the torch that it ran on?"""
    environment, backend = scene.trace.environment, scene.target.backend
    is_rocm = environment.hip is not None
    devices = region.device.split(",")
    here = backend is Backend.RECORDED or (
        "cuda" in devices and is_rocm
        if backend is Backend.ROCM
        else backend.value in devices and not (is_rocm and backend is Backend.CUDA)
    )
    return here and release(environment.torch) == scene.target.torch


def _backend_of(device: str, scene: TraceUnderTarget) -> Backend:
    backend = scene.target.backend
    is_known = backend is Backend.RECORDED and device in Backend._value2member_map_
    return Backend(device) if is_known else backend


def _of_region(region: Region, backend: Backend, claim: str, **says: Any) -> Finding:
    """A finding at the region's place, which is no call's; ``says``: what else it states."""
    return Finding(
        rule=f"{region.backend or 'generated'}-{backend}-{claim}",
        op="",
        phase=Phase.BACKWARD if region.direction is Direction.BACKWARD else Phase.FORWARD,
        location=region.location,
        function=region.function,
        called_from=region.called_from,
        regions=(region.id,),
        backend=backend,
        about=About.COMPILED,
        **says,
    )


def _varied(region: Region, tried: Tried, scene: TraceUnderTarget) -> Finding:
    """Under another mode than it was compiled in, other code would run, of which nothing is known."""
    backend = _backend_of(region.device, scene)
    was_on = _was_in_mode(region)
    varies, unknown = Verdict.NONDETERMINISTIC, Verdict.UNKNOWN
    as_is = varies if _runs(region, scene) else unknown
    in_mode = varies if was_on else unknown
    ref = (
        f"region {region.id}: varied in {tried.varied:,} of {tried.trials:,} trials, {tried.distinct:,} results of one"
    )
    return _of_region(
        region,
        backend,
        "tried",
        count=region.executions,
        verdict=as_is,
        deterministic_mode=in_mode,
        why=_WHY_TRIED,
        remedy=_REMEDY_TRIED,
        evidence=(Evidence(kind=EvidenceKind.TRIED, ref=ref),),
        subject=f"region {region.id}",
        name=region.id,
        reason=UnknownReason.NO_EVIDENCE if unknown in (as_is, in_mode) else None,
        tried=tried,
    )


def _finding(kernel: Kernel, region: Region, scene: TraceUnderTarget) -> Finding:
    is_generated = kernel.language in _GENERATED
    safe = Verdict.DETERMINISTIC if is_generated else Verdict.NONDETERMINISTIC
    device = kernel.device or region.device
    backend = _backend_of(device, scene)
    mode = declared(MODE)
    claim = f"{kernel.name} in region {region.id}, compiled for {device}, seen in this run: it adds atomically"
    shown = Evidence(kind=EvidenceKind.GENERATED, ref=claim)
    return _of_region(
        region,
        backend,
        "adds-atomically",
        count=region.executions * kernel.calls,
        verdict=Verdict.NONDETERMINISTIC,
        deterministic_mode=safe,
        cause=Cause.ATOMIC_ACCUMULATION,
        why=_WHY.format(kernel=kernel.name),
        remedy=_REMEDY if is_generated else _REMEDY_OWN,
        evidence=(shown, _SOURCE) if is_generated else (shown,),
        kernels=(kernel.name,),
        shown=Shown.ADDS_ATOMICALLY,
        subject=f"{kernel.name} in region {region.id}",
        name=kernel.name,
        code=mode.line("on") if is_generated and mode is not None else "",
        where="before anything is compiled" if is_generated else "",
        sets={MODE: "on"} if is_generated else {},
    )
