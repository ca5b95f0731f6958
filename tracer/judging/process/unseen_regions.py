"""Regions whose kernels were seen and whose ops were not: what adds atomically in them varies, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.findings import Evidence, Finding
from tracer.judging.process.trace_under_target import TraceUnderTarget
from tracer.names import About, Backend, Cause, DeterministicMode, EvidenceKind, Phase, Shown, Verdict
from tracer.tables.settings.declared import MODE, declared
from tracer.tables.versions import release
from tracer.trace.region_names import Direction, KernelLanguage, RegionInside
from tracer.trace.regions import Kernel, Region

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
_SOURCE = Evidence(
    kind=EvidenceKind.SOURCE,
    ref="torch/_inductor/lowering.py, index_put_impl_ and scatter_reduce_, 2.4.1, 2.9.1, 2.13.0 and 2.15.0",
)


def region_findings(scene: TraceUnderTarget) -> Iterator[Finding]:
    """One finding for each such kernel, where the code that was seen is what runs under ``scene``."""
    for region in scene.trace.regions:
        if region.inside is not RegionInside.KERNELS or not region.executions or not _runs(region, scene):
            continue
        for kernel in region.kernels:
            if kernel.adds_in_any_order:
                yield _finding(kernel, region, scene)


def _runs(region: Region, scene: TraceUnderTarget) -> bool:
    """Is it the code that runs? It was compiled for one device, version and state of deterministic mode."""
    environment, backend = scene.trace.environment, scene.target.backend
    was_on = region.deterministic_mode not in (None, DeterministicMode.OFF)
    is_on = scene.conditions.get(MODE) in (DeterministicMode.WARN.value, DeterministicMode.ON.value)
    here = backend is Backend.RECORDED or backend.value in region.device.split(",")
    return was_on is is_on and here and release(environment.torch) == scene.target.torch


def _finding(kernel: Kernel, region: Region, scene: TraceUnderTarget) -> Finding:
    is_generated = kernel.language in _GENERATED
    safe = Verdict.DETERMINISTIC if is_generated else Verdict.NONDETERMINISTIC
    device = kernel.device or region.device
    backend = scene.target.backend
    if backend is Backend.RECORDED and device in Backend._value2member_map_:
        backend = Backend(device)
    mode = declared(MODE)
    claim = f"{kernel.name} in region {region.id}, compiled for {device}, seen in this run: it adds atomically"
    shown = Evidence(kind=EvidenceKind.GENERATED, ref=claim)
    return Finding(
        rule=f"{region.backend or 'generated'}-{backend}-adds-atomically",
        op="",
        phase=Phase.BACKWARD if region.direction is Direction.BACKWARD else Phase.FORWARD,
        location=region.location,
        function=region.function,
        called_from=region.called_from,
        count=region.executions * kernel.calls,
        verdict=Verdict.NONDETERMINISTIC,
        deterministic_mode=safe,
        cause=Cause.ATOMIC_ACCUMULATION,
        why=_WHY.format(kernel=kernel.name),
        remedy=_REMEDY if is_generated else _REMEDY_OWN,
        evidence=(shown, _SOURCE) if is_generated else (shown,),
        regions=(region.id,),
        kernels=(kernel.name,),
        shown=Shown.ADDS_ATOMICALLY,
        backend=backend,
        about=About.COMPILED,
        subject=f"{kernel.name} in region {region.id}",
        name=kernel.name,
        code=mode.line("on") if is_generated and mode is not None else "",
        where="before anything is compiled" if is_generated else "",
        sets={MODE: "on"} if is_generated else {},
    )
