"""Judges what was observed of the process: generators, memory, loaders, compilation.

For regions whose calls were not seen: kernels that add atomically, and replays that varied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tracer.facts import Value
from tracer.findings import Evidence, FillCost, Finding, Note
from tracer.judging.bound_rows import (
    BoundRows,
    ReadSetting,
    TraceUnderTarget,
    compiles_by_inductor,
    is_worth_a_note,
    read_setting,
    subject_of,
)
from tracer.names import (
    HOST_GENERATORS,
    About,
    Backend,
    Cause,
    DeterministicMode,
    Differs,
    Direction,
    EventKind,
    EvidenceKind,
    GeneratorKind,
    KernelLanguage,
    Overlap,
    Phase,
    RegionInside,
    RegionOrigin,
    SeedOrigin,
    Shown,
    Verdict,
)
from tracer.tables.bound_table import device_backend, is_here
from tracer.tables.setting_rows import SettingRow
from tracer.tables.settings import FILL, INDUCTOR_FLAG, MODE, declared
from tracer.trace.file import Trace
from tracer.trace.records import (
    SEEDED_AT,
    Draw,
    Kernel,
    Loader,
    OverlapWrite,
    Region,
    UnwrittenRead,
)

_OF_GENERATOR = {
    GeneratorKind.TORCH: "environment-torch-generator",
    GeneratorKind.PASSED: "environment-passed-generator",
    GeneratorKind.PYTHON: "environment-python-generator",
    GeneratorKind.NUMPY: "environment-numpy-generator",
    GeneratorKind.NUMPY_OBJECTS: "environment-numpy-generator-objects",
    GeneratorKind.PYTHON_OBJECTS: "environment-python-generator-objects",
}
_WORKERS = "environment-loader-workers"
#: Settings by which fresh memory is filled.
_FILL = frozenset({MODE, FILL})
_MEMORY, _OVERLAP = "environment-unwritten-memory", "environment-overlapping-write"

_WATCH = "record the whole script with `tracer run`, which sees what seeds it"


def observed_findings(rows: BoundRows) -> Iterator[Finding | Note]:
    """All findings about what was observed of the process, besides its settings."""
    yield from (*_torch_generators(rows), *_host_generators(rows), *_own_generators(rows))
    yield from (*_unwritten_reads(rows), *_overlaps(rows), *_loaders(rows), *_compiled(rows))
    yield from region_findings(rows.scene)


def _torch_generators(rows: BoundRows) -> Iterator[Finding | Note]:
    """Generators of torch with a random seed that were drawn from, and devices whose models draw otherwise."""
    for row in rows.about(About.GENERATOR):
        ops = sum((rows.dependents.drawing[backend] for backend in row.backends), Counter[str]())
        if ops and row.differs is Differs.MACHINES:
            yield rows.note(row, subject=row.name, ops=dict(ops.most_common()))
    drawn: dict[str, tuple[Draw, Counter[str]]] = {}
    scene = rows.scene
    for draw in rows.dependents.draws:
        origin = (
            draw.origin
            if draw.kind is GeneratorKind.PASSED
            else scene.origin(draw.origin, "seed.torch", draw.seeded_at)
        )
        if origin is SeedOrigin.MACHINE:
            drawn.setdefault(draw.generator, (draw, Counter()))[1][draw.op] += draw.count
    for generator, (first, ops) in drawn.items():
        for row in rows.named(_OF_GENERATOR.get(first.kind, _OF_GENERATOR[GeneratorKind.TORCH])):
            is_drawn = _is_drawn(scene.trace, first.seeded_at)
            facts = {"origin": SeedOrigin.MACHINE.value, "seed.number": "drawn" if is_drawn else "none"}
            how = "seeded by the machine" if first.seeded_at else "never seeded"
            subject = f"generator {generator}, {_DRAWN if is_drawn else how}"
            at = first
            if first.seeded_at:  # the line that seeded it at random, not that of the first draw
                at = msgspec.structs.replace(first, location=first.seeded_at, function="", called_from="")
            name = f"generator {generator}"
            yield from rows.finding(row, facts, subject=subject, name=name, ops=ops, at=at, phase=first.phase)


def _host_generators(rows: BoundRows) -> Iterator[Finding]:
    """Python's and NumPy's global generators that were drawn from without a fixed seed."""
    for generator in rows.scene.trace.generators:
        if not generator.drew or generator.kind not in HOST_GENERATORS:
            continue
        origin = rows.scene.origin(generator.origin, f"seed.{generator.name}", generator.seeded_at)
        if origin not in (SeedOrigin.MACHINE, SeedOrigin.UNSEEN):
            continue
        is_drawn = origin is SeedOrigin.MACHINE and _is_drawn(rows.scene.trace, generator.seeded_at)
        state = "never seeded" if origin is SeedOrigin.MACHINE else "seeded or not: not recorded"
        for row in rows.named(_OF_GENERATOR[generator.kind]):
            yield from rows.finding(
                row,
                {"origin": origin.value, "seed.number": "drawn" if is_drawn else "none"},
                subject=f"generator {generator.name}, {_DRAWN if is_drawn else state}",
                name=f"generator {generator.name}",
                at=Draw(generator=generator.name, op="", location=generator.seeded_at if is_drawn else ""),
                reason_detail=_WATCH if origin is SeedOrigin.UNSEEN else "",
            )


_DRAWN = "seeded with another number in every run"


def _is_drawn(trace: Trace, seeded_at: str) -> bool:
    """Return whether the line ``seeded_at`` takes its seed from what differs in every process."""
    seeds = (event for event in trace.events if seeded_at and event.kind is EventKind.SEED and event.is_drawn)
    return any(event.location == seeded_at for event in seeds)


_KINDS = {
    GeneratorKind.PYTHON_OBJECTS: "a random.Random",
    GeneratorKind.NUMPY_OBJECTS: "a generator of NumPy's",
}


def _own_generators(rows: BoundRows) -> Iterator[Finding]:
    """Generators of the program's own without a fixed seed. What was drawn from them is not recorded."""
    for made in rows.scene.trace.own_generators:
        name = _KINDS.get(made.kind, f"generator {made.kind}")
        facts: dict[str, Value] = {
            "origin": SeedOrigin.MACHINE.value,
            "by.library": made.by_library,
            "made.often": made.count > 1 or made.function.rpartition(".")[2] in _FOR_A_SAMPLE,
            "made.drew": made.drew,
            "seed.number": "drawn" if made.is_seeded else "none",
        }
        subject = f"{name}, {_DRAWN if made.is_seeded else 'made without a seed'}"
        for row in rows.named(_OF_GENERATOR[made.kind]):
            yield from rows.finding(row, facts, subject=subject, name=name, at=made, phase=made.phase, count=made.count)


#: Methods by which a data set returns a sample.
_FOR_A_SAMPLE = ("__getitem__", "__getitems__", "__next__", "__iter__")


def _unwritten_reads(rows: BoundRows) -> Iterator[Finding]:
    """Reads of memory that was not filled when it was allocated, whatever mode the process ended in."""
    scene = rows.scene
    unfilled = {MODE: "off"} if scene.is_recorded and not _FILL.intersection(scene.sets) else None
    for row in rows.named(_MEMORY):
        for read in scene.trace.unwritten_reads:
            allocation = read.allocated_by.removesuffix(".default") or "an allocation"
            place = f" at {read.allocated_at}" if read.allocated_at else ""
            led = f" (called from {read.allocated_from})" if read.allocated_from else ""
            subject = f"memory that {allocation} gave{place}{led}, read before it was wholly written"
            yield from rows.finding(row, {}, settings=unfilled, subject=subject, **_of_call(read))


#: Known to have kernels that work on all entries of a list at once.
_WHOLE_LISTS = (Backend.CUDA, Backend.ROCM)
_IN_FLIGHT = "environment-copy-in-flight"
_COPIES = (Overlap.COPIED_FROM, Overlap.COPIED_INTO)


def _overlaps(rows: BoundRows) -> Iterator[Finding]:
    scene = rows.scene
    is_rocm = scene.trace.environment.hip is not None
    for write in scene.trace.overlaps:
        for row in rows.named(_IN_FLIGHT if write.kind in _COPIES else _OVERLAP):
            own = device_backend(write.device, is_rocm=is_rocm)
            backend = own if scene.target.backend is Backend.RECORDED else scene.target.backend
            kind: str = write.kind.value
            if write.kind in _COPIES and backend is Backend.CPU:
                continue  # the host copies itself
            if write.kind is Overlap.ENTRIES:
                if backend is Backend.CPU:
                    continue  # one entry after another
                kind = kind if backend in _WHOLE_LISTS else "entries_perhaps"
            facts: dict[str, Value] = {"overlap": kind}
            yield from rows.finding(row, facts, subject=write.kind.says, backend=backend, **_of_call(write))


def _of_call(call: UnwrittenRead | OverlapWrite) -> dict[str, Any]:
    """The fields of a finding about the calls that it affects."""
    ops = {call.op: call.count}
    return {"ops": ops, "at": call, "op": call.op, "phase": call.phase, "module": call.module}


def loader_facts(loader: Loader, scene: TraceUnderTarget, *, of_workers: bool = False) -> dict[str, Value]:
    """Facts of a ``DataLoader`` for conditions; the origin is that of its order, or of the seeds ``of_workers``."""
    origin, is_given, seeded_at = loader.origin, loader.has_generator, loader.seeded_at
    if of_workers and loader.workers_origin is not None:
        origin, is_given, seeded_at = loader.workers_origin, loader.workers_have_generator, ""
    origin = origin if is_given else scene.origin(origin, "seed.torch", seeded_at)
    return {
        "loader.workers": loader.workers > 0,
        "loader.shuffles": loader.shuffles,
        "loader.in_order": loader.in_order or loader.workers < 2,  # one worker keeps the order
        "origin": origin.value,
        SEEDED_AT: seeded_at if origin is SeedOrigin.MACHINE else "",
    }


#: Rows that never make two runs differ: the property of a loader that each is about; ``None`` if it lacks it.
_BETWEEN_MACHINES: Mapping[str, Callable[[Loader], str]] = {
    "environment-loader-persistent": lambda loader: "persistent workers" if loader.persistent_workers else "",
    "environment-loader-start-method": lambda loader: (
        f"workers started by {loader.start_method}" if loader.start_method in ("spawn", "forkserver") else ""
    ),
    "environment-loader-epoch": lambda loader: "set_epoch was never called" if loader.epoch_set is False else "",
    "environment-loader-worker-count": lambda loader: "the number of workers" if loader.workers else "",
}


def _loaders(rows: BoundRows) -> Iterator[Finding | Note]:
    for row in rows.about(About.LOADER):
        for loader in rows.scene.trace.loaders:
            if row.differs is Differs.MACHINES:
                if row.id in _BETWEEN_MACHINES and (said := _BETWEEN_MACHINES[row.id](loader)):
                    place = f" at {loader.location}" if loader.location else ""
                    yield rows.note(row, subject=f"{_spelt(loader)}{place}: {said}", ops={})
                continue
            yield from rows.finding(
                row,
                loader_facts(loader, rows.scene, of_workers=row.id == _WORKERS),
                subject=_spelt(loader),
                name="DataLoader",
                at=loader,
                count=loader.iterations,
                reason_detail=_WATCH if loader.origin is SeedOrigin.UNSEEN else "",
            )


def _spelt(loader: Loader) -> str:
    """The ``DataLoader`` as its constructor call, reduced to the relevant arguments."""
    said: list[tuple[bool, str]] = [
        (bool(loader.workers), f"num_workers={loader.workers}"),
        (loader.shuffles, f"sampler={loader.sampler}" if _is_own(loader.sampler) else "shuffle=True"),
        (loader.has_worker_init, "worker_init_fn=..."),
        (loader.has_generator, "generator=..."),
        (loader.persistent_workers, "persistent_workers=True"),
        (not loader.in_order, "in_order=False"),
        (not loader.shuffles and _is_own(loader.sampler), f"sampler={loader.sampler}"),
    ]
    return f"DataLoader({', '.join(text for holds, text in said if holds)})"


def _is_own(sampler: str) -> bool:
    """Return whether it is another sampler than the two that ``shuffle`` picks."""
    return sampler not in ("", "RandomSampler", "SequentialSampler", "BatchSampler")


class _CompiledUnder(NamedTuple):
    """Regions that were compiled under the same value of a row's setting and the same state of deterministic mode."""

    read: ReadSetting | None
    """``None`` for a row without a setting."""
    settings: dict[str, Value]
    """The settings when they were compiled, if not the target's."""
    regions: frozenset[str] | None
    """``None``: all compiled code."""


def _compiled(rows: BoundRows) -> Iterator[Finding | Note]:
    scene = rows.scene
    ran = [region for region in scene.trace.regions if region.backend in _INDUCTORS and region.executions]
    hides_calls = not scene.trace.regions or any(region.inside in _WITHOUT_OPS for region in ran)
    for row in rows.about(About.COMPILED) if compiles_by_inductor(scene.trace) else ():
        for under in _compiled_under(row, scene):
            facts: dict[str, Value] = {}
            subject, ops = row.name, rows.ops_for(row, under.regions)
            if ops is None and hides_calls and rows.may_run_on(row.backends):
                ops = {}
            if under.read is not None:
                facts["value"], subject = under.read.word, subject_of(row, under.read)
                if row.differs is Differs.MACHINES and ops is not None and is_worth_a_note(row, under.read):
                    yield rows.note(row, subject=subject, ops=ops)
            if ops is not None and row.differs is Differs.RUNS:
                yield from rows.finding(row, facts, subject=subject, name=row.name, ops=ops, settings=under.settings)


def _compiled_under(row: SettingRow, scene: TraceUnderTarget) -> Iterator[_CompiledUnder]:
    """Findings about how code was compiled: by region for a row that needs calls, unless the target replaces it."""
    replaced = {MODE, INDUCTOR_FLAG, row.read} & scene.sets.keys()
    regions = [region for region in scene.trace.regions if region.options]
    has_regions = bool(regions)
    if "compiled-templates" in row.needs:
        regions = [region for region in regions if not _chose_without_timing(region, scene)]
    is_by_region = scene.is_recorded and not replaced and has_regions and row.needs
    environment, is_read = scene.environment, bool(row.field or row.variable or row.read)
    if not is_by_region:
        read = read_setting(row, environment)
        if read is not None or not is_read:
            yield _CompiledUnder(read, {}, None)
        return
    alike: dict[tuple[ReadSetting | None, tuple[tuple[str, Value], ...]], set[str]] = {}
    for region in regions:
        settings = {**environment.settings, **region.options}
        read = read_setting(row, msgspec.structs.replace(environment, settings=settings))
        if read is None and is_read:
            continue
        held: dict[str, Value] = {"inductor_deterministic": bool(settings.get(INDUCTOR_FLAG))}
        if region.deterministic_mode is not None:
            held[MODE] = region.deterministic_mode.value
        alike.setdefault((read, tuple(held.items())), set()).add(region.id)
    yield from (_CompiledUnder(read, dict(held), frozenset(names)) for (read, held), names in alike.items())


def _chose_without_timing(region: Region, scene: TraceUnderTarget) -> bool:
    """Return whether the target runs this very code, and none of its kernels was chosen by timing candidates."""
    backend = scene.target.backend
    is_same = backend is Backend.RECORDED or (scene.trace.environment.hip is None and backend.device == region.device)
    is_seen = region.origin is RegionOrigin.COMPILED and bool(region.kernels)
    return is_same and is_seen and not any(kernel.by_stopwatch for kernel in region.kernels)


_INDUCTORS = ("inductor", "")
_WITHOUT_OPS = (RegionInside.KERNELS, RegionInside.UNSEEN)


def fill_cost(trace: Trace, scene: TraceUnderTarget) -> FillCost | None:
    """The cost of filling fresh memory, and whether anything read it before it was written."""
    if not trace.allocations:
        return None
    is_on = scene.conditions.get(MODE) in ("on", "warn") and scene.conditions.get(FILL, True)
    return FillCost(
        calls=sum(allocation.count for allocation in trace.allocations),
        bytes=sum(allocation.bytes for allocation in trace.allocations),
        reads=sum(read.count for read in trace.unwritten_reads),
        unfollowed=sum(allocation.unfollowed for allocation in trace.allocations),
        is_on=bool(is_on),
    )


#: Kernels that the compiler generates, and would generate differently under deterministic mode.
_GENERATED = (KernelLanguage.CPP, KernelLanguage.TRITON)
_WHY = (
    "`{kernel}` adds floating-point numbers atomically, in an order that varies; the ops that were fused into it were"
    " not recorded."
)
_REMEDY = (
    "Turn deterministic mode on before anything is compiled: Inductor then calls eager kernels that add in a fixed"
    " order. Record from the start of the process to see the lines."
)
_REMEDY_OWN = "Let the kernel add in a fixed order, or write its partial results and add those afterwards."
_SOURCE = Evidence(
    kind=EvidenceKind.SOURCE,
    ref="torch/_inductor/lowering.py, index_put_impl_ and scatter_reduce_, 2.4.1, 2.9.1, 2.13.0 and 2.15.0",
)


def region_findings(scene: TraceUnderTarget) -> Iterator[Finding]:
    """One finding for each such kernel whose code runs under ``scene``."""
    for region in scene.trace.regions:
        if region.inside is RegionInside.KERNELS and region.executions and _runs(region, scene):
            yield from (_finding(kernel, region, scene) for kernel in region.kernels if kernel.adds_in_any_order)


def _runs(region: Region, scene: TraceUnderTarget) -> bool:
    """Return whether this code, compiled for one device, version and deterministic mode, runs on the target."""
    is_on = scene.conditions.get(MODE) in (DeterministicMode.WARN.value, DeterministicMode.ON.value)
    was_on = region.deterministic_mode not in (None, DeterministicMode.OFF)
    target, devices = scene.target, region.device.split(",")
    return was_on is is_on and is_here(target.backend, target.torch, devices, scene.trace.environment)


def _finding(kernel: Kernel, region: Region, scene: TraceUnderTarget) -> Finding:
    """At the region's place: it has no call."""
    is_generated = kernel.language in _GENERATED
    safe = Verdict.DETERMINISTIC if is_generated else Verdict.NONDETERMINISTIC
    device = kernel.device or region.device
    mode = declared(MODE)
    claim = f"{kernel.name} in region {region.id}, compiled for {device}, seen in this run: it adds atomically"
    shown = Evidence(kind=EvidenceKind.GENERATED, ref=claim)
    backend = scene.target.backend
    backend = device_backend(device, is_rocm=False) if backend is Backend.RECORDED else backend
    return Finding(
        rule=f"{region.backend or 'generated'}-{backend}-adds-atomically",
        op="",
        phase=Phase.BACKWARD if region.direction is Direction.BACKWARD else Phase.FORWARD,
        **region.place._asdict(),
        regions=(region.id,),
        backend=backend,
        about=About.COMPILED,
        count=region.executions * kernel.calls,
        verdict=kernel.verdict_of_additions,
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
