"""Generators, memory, overlapping writes, data loading and compiled code: what was observed, held against its row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from tracer.findings import FillCost, Finding, Note
from tracer.judging.process.bound_rows import BoundRows, device_backend
from tracer.judging.process.machine_numbers import MADE_FROM, machine_numbers, seed_number
from tracer.judging.process.setting_rows import compiled_how, is_worth_a_note, read_setting, subject_of
from tracer.judging.process.trace_under_target import TraceUnderTarget
from tracer.names import HOST_GENERATORS, About, Backend, Differs, EventKind, GeneratorKind, SeedOrigin
from tracer.tables.vocabulary import Value
from tracer.trace.file import Trace
from tracer.trace.records import Draw, Loader

_OF_GENERATOR = {
    GeneratorKind.TORCH: "environment-torch-generator",
    GeneratorKind.PASSED: "environment-passed-generator",
    GeneratorKind.PYTHON: "environment-python-generator",
    GeneratorKind.NUMPY: "environment-numpy-generator",
    GeneratorKind.NUMPY_OBJECTS: "environment-numpy-generator-objects",
}
_WORKERS = "environment-loader-workers"
#: Settings by which fresh memory is filled.
_FILL = frozenset({"deterministic_mode", "fill_uninitialized_memory"})
_MEMORY, _OVERLAP = "environment-unwritten-memory", "environment-overlapping-write"

_WATCH = "record the whole script with `tracer run`, which sees what seeds it"


def observed_findings(rows: BoundRows) -> Iterator[Finding | Note]:
    """Every finding about what was observed of the process, beside its settings."""
    reads = (
        *(_torch_generators, _host_generators, machine_numbers, _numpy_objects),
        *(_unwritten_reads, _overlaps, _loaders, _compiled),
    )
    for read in reads:
        yield from read(rows)


def _torch_generators(rows: BoundRows) -> Iterator[Finding]:
    """A generator of torch that was left to the machine and drawn from."""
    drawn: dict[str, tuple[Draw, Counter[str]]] = {}
    scene = rows.scene
    for draw in scene.trace.draws:
        if draw.kind in HOST_GENERATORS:
            continue
        origin = draw.origin if draw.kind is GeneratorKind.PASSED else scene.origin(draw.origin, "seed.torch")
        if origin is SeedOrigin.MACHINE:
            drawn.setdefault(draw.generator, (draw, Counter()))[1][draw.op] += draw.count
    for generator, (first, ops) in drawn.items():
        for row in rows.named(_OF_GENERATOR.get(first.kind, _OF_GENERATOR[GeneratorKind.TORCH])):
            source = seed_number(scene.trace, first.seeded_at)
            facts = {"origin": SeedOrigin.MACHINE.value, "seed.number": source.value if source else "none"}
            how = "seeded by the machine" if first.seeded_at else "never seeded"
            subject = f"generator {generator}, {f'seeded with {MADE_FROM[source]}' if source else how}"
            at, name = _seeding(first), f"generator {generator}"
            yield from rows.finding(row, facts, subject=subject, name=name, ops=ops, at=at, phase=first.phase)


def _seeding(draw: Draw) -> Draw:
    """The line that left a generator to the machine, where it was seen; else that of the first draw."""
    if not draw.seeded_at:
        return draw
    return msgspec.structs.replace(draw, location=draw.seeded_at, function="", called_from="")


def _host_generators(rows: BoundRows) -> Iterator[Finding]:
    """Draws from Python's and NumPy's global generators that no seed of the program explains."""
    scene = rows.scene
    told = set()
    for draw in scene.trace.host_draws:
        told.add(draw.generator)
        yield from _host_draw(rows, draw)
    for generator in scene.trace.generators:
        if generator.kind in HOST_GENERATORS and generator.drew and generator.name not in told:
            unplaced = Draw(generator=generator.name, op=f"{generator.name} (unseen)", origin=generator.origin)
            yield from _host_draw(rows, unplaced)


def _host_draw(rows: BoundRows, draw: Draw) -> Iterator[Finding]:
    origin = rows.scene.origin(draw.origin, f"seed.{draw.generator}")
    if origin not in (SeedOrigin.MACHINE, SeedOrigin.UNSEEN) or draw.kind not in HOST_GENERATORS:
        return
    source = seed_number(rows.scene.trace, draw.seeded_at) if origin is SeedOrigin.MACHINE else None
    state = "never seeded" if origin is SeedOrigin.MACHINE else "seeded or not, which was not seen"
    state = f"seeded with {MADE_FROM[source]}" if source else state
    for row in rows.named(_OF_GENERATOR[draw.kind]):
        yield from rows.finding(
            row,
            {"origin": origin.value, "seed.number": source.value if source else "none"},
            subject=f"generator {draw.generator}, {state}",
            name=f"generator {draw.generator}",
            ops={draw.op: draw.count},
            at=_seeding(draw) if source else draw,
            phase=draw.phase,
            module=draw.module,
            reason_detail=_WATCH if origin is SeedOrigin.UNSEEN else "",
        )


def _numpy_objects(rows: BoundRows) -> Iterator[Finding]:
    """NumPy's generators that were made without a seed; who draws from them cannot be seen."""
    for event in rows.scene.trace.events:
        if event.kind is not EventKind.SEED or event.name != GeneratorKind.NUMPY_OBJECTS:
            continue
        for row in rows.named(_OF_GENERATOR[GeneratorKind.NUMPY_OBJECTS]):
            yield from rows.finding(
                row,
                {"origin": event.value, "by.library": False},
                subject="a NumPy Generator, made without a seed",
                name="a NumPy Generator",
                at=event,
                phase=event.phase,
                count=event.count,
            )


def _unwritten_reads(rows: BoundRows) -> Iterator[Finding]:
    """Reads of memory that nothing had filled when it was given, whatever mode the process ended in."""
    scene = rows.scene
    unfilled = {"deterministic_mode": "off"} if scene.is_recorded and not _FILL.intersection(scene.sets) else None
    for row in rows.named(_MEMORY):
        for read in rows.scene.trace.unwritten_reads:
            given = read.allocated_by.removesuffix(".default") or "an allocation"
            place = f" at {read.allocated_at}" if read.allocated_at else ""
            led = f" (called from {read.allocated_from})" if read.allocated_from else ""
            yield from rows.finding(
                row,
                {},
                settings=unfilled,
                subject=f"memory that {given} gave{place}{led}, read before it was wholly written",
                ops={read.op: read.count},
                at=read,
                op=read.op,
                phase=read.phase,
                module=read.module,
            )


def _overlaps(rows: BoundRows) -> Iterator[Finding]:
    scene = rows.scene
    is_rocm = scene.trace.environment.hip is not None
    for row in rows.named(_OVERLAP):
        for write in scene.trace.overlaps:
            own = device_backend(write.device, is_rocm=is_rocm)
            yield from rows.finding(
                row,
                {"overlap": write.kind.value},
                subject="a write to elements that share an address"
                if write.kind.value == "itself"
                else "a write to memory that the same op reads",
                ops={write.op: write.count},
                at=write,
                op=write.op,
                phase=write.phase,
                module=write.module,
                backend=own if scene.target.backend is Backend.RECORDED else scene.target.backend,
            )


def loader_facts(loader: Loader, scene: TraceUnderTarget, *, of_workers: bool = False) -> dict[str, Value]:
    """What conditions may ask of a ``DataLoader``; the origin is that of its order, or ``of_workers``' seeds."""
    origin, is_given = loader.origin, loader.has_generator
    if of_workers and loader.workers_origin is not None:
        origin, is_given = loader.workers_origin, loader.workers_have_generator
    origin = origin if is_given else scene.origin(origin, "seed.torch")
    epoch = {True: "set", False: "never", None: "other"}[loader.epoch_set]
    drawn = "seen" if loader.worker_draws else "none" if loader.workers_seen or not loader.workers else "unseen"
    return {
        "loader.workers": loader.workers > 0,
        "loader.worker_init": loader.has_worker_init,
        "loader.shuffles": loader.shuffles,
        "loader.generator": loader.has_generator,
        "loader.in_order": loader.in_order or loader.workers < 2,  # one worker keeps the order that it is given
        "loader.persistent": loader.persistent_workers,
        "loader.worker_draws": drawn,
        "loader.start_method": loader.start_method or "none",
        "loader.epoch_set": epoch,
        "origin": origin.value,
    }


#: Rows on what makes no two runs differ: what of a loader each speaks of, in words; none where it does not.
_BETWEEN_MACHINES: Mapping[str, Callable[[Loader], str]] = {
    "environment-loader-persistent": lambda one: "workers that persist" if one.persistent_workers else "",
    "environment-loader-start-method": lambda one: (
        f"workers started by {one.start_method}" if one.start_method in ("spawn", "forkserver") else ""
    ),
    "environment-loader-epoch": lambda one: "set_epoch was never called" if one.epoch_set is False else "",
    "environment-loader-worker-count": lambda one: "the number of workers" if one.workers else "",
}


def _loaders(rows: BoundRows) -> Iterator[Finding | Note]:
    for row in rows.about(About.LOADER):
        for loader in rows.scene.trace.loaders:
            if row.differs is Differs.MACHINES:
                describe = _BETWEEN_MACHINES.get(row.id)
                said = describe(loader) if describe else ""
                if said:
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
    """The ``DataLoader`` as its construction reads, reduced to what matters here."""
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
    """Is it another sampler than the two that ``shuffle`` picks?"""
    return sampler not in ("", "RandomSampler", "SequentialSampler", "BatchSampler")


def _compiled(rows: BoundRows) -> Iterator[Finding | Note]:
    scene = rows.scene
    for how in sorted(compiled_how(scene.trace)):
        for row in rows.about(About.COMPILED):
            facts: dict[str, Value] = {"compiled": how}
            subject = row.name
            ops = rows.ops_for(row)
            if row.field or row.variable or row.read:
                read = read_setting(row, scene.environment, is_complete=scene.trace.schema > 1)
                if read is None:
                    continue
                facts["value"], subject = read.word, subject_of(row, read)
                if row.differs is Differs.MACHINES and ops is not None and is_worth_a_note(row, read):
                    yield rows.note(row, subject=subject, ops=ops)
            if ops is not None and row.differs is Differs.RUNS:
                yield from rows.finding(row, facts, subject=subject, name=row.name, ops=ops)


def fill_cost(trace: Trace, scene: TraceUnderTarget) -> FillCost | None:
    """What filling fresh memory costs the step, and whether anything read it unwritten."""
    if not trace.allocations:
        return None
    conditions = scene.conditions
    is_on = conditions.get("deterministic_mode") in ("on", "warn") and conditions.get("fill_uninitialized_memory", True)
    return FillCost(
        calls=sum(allocation.count for allocation in trace.allocations),
        bytes=sum(allocation.bytes for allocation in trace.allocations),
        reads=sum(read.count for read in trace.unwritten_reads),
        unfollowed=sum(allocation.unfollowed for allocation in trace.allocations),
        is_on=bool(is_on),
    )
