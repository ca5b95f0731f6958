"""Processes that documents speak of: for each fault a small trace that has it, and its twin without."""

from __future__ import annotations

from typing import Any

from tests.support.build import call, environment, trace
from tests.tables.documents.cases import RowCheck, row
from tracer.names import DeterministicMode, EventKind, Overlap, SeedOrigin, Subsystem
from tracer.trace import Trace
from tracer.trace.records import Event, Generator, Loader, OverlapWrite, UnwrittenRead

MACHINE, PROGRAM = SeedOrigin.MACHINE, SeedOrigin.PROGRAM
OFF, ON = {"deterministic_mode": DeterministicMode.OFF}, {"deterministic_mode": DeterministicMode.ON}


def ran(op: str, device: str = "cuda", facts: dict[str, Any] | None = None, **settings: Any) -> Trace:
    """One call of ``op`` in a process with these settings."""
    known = {"device": device, "dtype": "float32", "layout": "strided"}
    return trace(call(op, facts=known | (facts or {})), environment=environment(**settings))


def drew(origin: SeedOrigin, *generators: str, **settings: Any) -> Trace:
    """Draws from torch's own generators."""
    drawn = [{"rng.generator": one, "rng.origin": origin.value} for one in generators or ("cuda:0",)]
    calls = (call("aten.randn.default", facts={"device": "cuda", "dtype": "float32"} | facts) for facts in drawn)
    return trace(*calls, environment=environment(**settings))


def drew_on_host(generator: str, origin: SeedOrigin) -> Trace:
    """A draw from Python's or NumPy's global generator."""
    return trace(generators=(Generator(name=generator, origin=origin, drew=True),))


def read_unwritten(*, is_read: bool, **settings: Any) -> Trace:
    """``empty``, read before it is written, or not."""
    read = UnwrittenRead(op="aten.add.Tensor", location="train.py:4", allocated_by="aten.empty.memory_format")
    return trace(unwritten_reads=(read,) if is_read else (), environment=environment(**settings))


def loaded(origin: SeedOrigin, *, is_given: bool) -> Trace:
    """A loader whose two workers draw from NumPy's generator, with ``worker_init_fn`` and a generator or without."""
    return trace(
        loaders=(
            Loader(
                location="train.py:5",
                workers=2,
                has_worker_init=is_given,
                has_generator=is_given,
                origin=origin,
                start_method="fork",
            ),
        )
    )


def compiled(mode: dict[str, Any], **settings: Any) -> Trace:
    """Code that Inductor compiled, with ``settings`` of its own (``a__b`` for ``a.b``)."""
    own = {f"torch._inductor.config.{name.replace('__', '.')}": value for name, value in settings.items()}
    started = Event(kind=EventKind.FIRST_USE, name=Subsystem.INDUCTOR.value, location="train.py:6")
    return trace(
        call("aten.sum.default", facts={"device": "cuda", "dtype": "float32"}),
        events=(started,),
        environment=environment(settings=own, **mode),
    )


def wrote_overlapping(kind: Overlap | None) -> Trace:
    """An in-place op on memory that overlaps, in deterministic mode."""
    write = (
        () if kind is None else (OverlapWrite(op="aten.add_.Tensor", kind=kind, location="train.py:7", device="cuda"),)
    )
    return trace(overlaps=write, environment=environment(**ON))


def changed(*, after_calls: bool) -> Trace:
    """Deterministic mode switched on before the first op on an NPU, or between two."""
    event = Event(
        kind=EventKind.SETTING,
        name="torch.use_deterministic_algorithms",
        before="off",
        value="on",
        location="train.py:8",
        while_recording=after_calls,
        after_calls=after_calls,
    )
    calls = (call("aten.add.Tensor", facts={"device": "npu", "dtype": "float32"}),)
    return trace(*calls, events=(event,), environment=environment(**ON))


def inductor(name: str, **settings: Any) -> RowCheck:
    """A row about what Inductor times, unless deterministic mode was on when it compiled."""
    return row(f"inductor-{name}", compiled(OFF, **settings), compiled(ON, deterministic=True, **settings))


CONVOLUTION = "aten.convolution.default"
FASTER = row("deterministic-mode", ran("aten.index_add_.default"), ran("aten.index_add_.default", **ON), words="faster")
MAY_BE_FASTER = row(
    "cudnn-benchmark",
    ran(CONVOLUTION, cudnn_benchmark=True, cudnn_enabled=True, cudnn_deterministic=True),
    ran(CONVOLUTION, cudnn_benchmark=False, cudnn_enabled=True, cudnn_deterministic=True),
    words="the fastest",
)
UNSEEDED = row("torch-generator", drew(MACHINE), drew(PROGRAM))
ON_AN_NPU = row(
    "deterministic-mode",
    ran("aten.index_add_.default", "npu"),
    ran("aten.index_add_.default", "npu", **ON),
    backend="npu",
)
ONCE_A_THREAD = row("npu-first-setting", changed(after_calls=True), changed(after_calls=False), backend="npu")
