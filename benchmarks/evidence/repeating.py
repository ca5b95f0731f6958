"""Running a sample many times under each state of deterministic mode, and what came of it."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from msgspec.structs import replace

from benchmarks.evidence.switching import Mode, deterministic_mode, is_refusal
from tests.support.measured import SCHEMA, MeasuredCall, MeasuredRun, Measurement, verdicts_of
from tests.support.samples import UNWRITTEN, Sample
from tracer import DeterminismTracer
from tracer.names import Backend, DeterministicMode, Settings, Verdict
from tracer.tables.loading import load_tables
from tracer.tables.settings import settings_of
from tracer.tables.versions import release

WARNING = "does not have a deterministic implementation"


def digest(tensors: Iterable[torch.Tensor], *, shapes_only: bool = False) -> bytes:
    """A fingerprint that two results share only if all their bytes, shapes and dtypes agree."""
    told = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        told.update(repr((tuple(tensor.shape), tensor.dtype, tensor.layout)).encode())
        for part in () if shapes_only else _parts(tensor.detach()):
            plain = part.resolve_conj().resolve_neg()
            written = torch.empty(plain.shape, dtype=plain.dtype, device="cpu").copy_(plain)
            told.update(written.flatten().view(torch.uint8).numpy().tobytes())
    return told.digest()


def _parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Plain tensors that hold all that ``tensor`` holds."""
    if tensor.is_quantized:
        return (tensor.int_repr(),)
    if tensor.layout is torch.strided:
        return (tensor,)
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor.to_dense(),)


@contextmanager
def contention(device: str) -> Iterator[Callable[[], None]]:
    """A function that keeps the device busy with other work while a run is under way; nothing on a CPU."""
    if torch.device(device).type != "cuda":
        yield lambda: None
        return
    side = torch.cuda.Stream(device)
    square = torch.randn(1024, 1024, device=device)

    def stir() -> None:
        with torch.cuda.stream(side):
            for _ in range(10):
                torch.mm(square, square)

    yield stir
    torch.cuda.synchronize(device)


def calls_of(sample: Sample) -> tuple[MeasuredCall, ...] | None:
    """What the sample dispatches with deterministic mode off; ``None`` where it fails in itself."""
    tracer = DeterminismTracer()
    run = sample.prepared()
    with tracer:
        try:
            run()
        except Exception:
            return None
    seen = {}
    for group in tracer.trace.calls:
        call = MeasuredCall(op=group.op, phase=group.phase, node=group.node.rstrip("0123456789"), facts=group.facts)
        seen[repr(call)] = call
    return tuple(seen.values())


def repeated(
    sample: Sample, mode: Mode, runs: int, stir: Callable[[], None], calls: tuple[MeasuredCall, ...]
) -> MeasuredRun:
    """Run ``sample`` ``runs`` times; once where torch refuses it.

    The sample ran without the mode (``calls_of``): an error of whatever kind under the mode comes from the mode. Some
    calls fail there on what the mode does instead, in words of their own.
    """
    results, warned, done = set(), False, 0
    by_shape = sample.entry in UNWRITTEN
    with deterministic_mode(mode), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(runs):
            run = sample.prepared()
            stir()
            done += 1
            try:
                results.add(digest(run(), shapes_only=by_shape))
            except Exception as error:
                if mode is not Mode.OFF or is_refusal(error):
                    return _run(sample, mode, done, 0, calls, refused=True)
                results.add(type(error).__name__.encode())
        warned = any(WARNING in str(one.message) for one in said)
    return _run(sample, mode, done, len(results), calls, warned=warned)


def _run(sample: Sample, mode: Mode, runs: int, distinct: int, calls: Any, **what: bool) -> MeasuredRun:
    name = sample.entry if not sample.number else f"{sample.entry}, sample {sample.number}"
    name = name if sample.dtype == "float32" else f"{name}, {sample.dtype}"
    return MeasuredRun(what=name, mode=DeterministicMode(mode.value), runs=runs, distinct=distinct, calls=calls, **what)


def measure(
    samples: Iterable[Sample],
    device: str,
    runs: int,
    modes: Iterable[Mode] = (Mode.OFF, Mode.ON),
    *,
    keep_all: bool = False,
) -> Measurement:
    """Every sample under every mode. Runs in which nothing happened and nothing was expected are only counted.

    What is expected is asked of the tables as they ship; ``keep_all`` keeps every run.
    """
    kind = torch.device(device).type
    backend = Backend.ROCM if kind == "cuda" and torch.version.hip else Backend(kind)
    environment = DeterminismTracer().trace.environment
    settings = settings_of(environment, Settings.RECORDED)
    settings.pop("deterministic_mode", None)
    frame = Measurement(
        schema=SCHEMA,
        backend=backend,
        torch=release(torch.__version__),
        device=torch.cuda.get_device_name(device) if kind == "cuda" else "",
        threads=torch.get_num_threads(),
        settings=settings,
    )
    tables = load_tables()
    kept: dict[str, MeasuredRun] = {}
    tried = alike = 0
    with contention(device) as stir:
        for sample in samples:
            calls = calls_of(sample)
            if calls is None:
                continue
            tried += 1
            for mode in modes:
                run = repeated(sample, mode, runs, stir, calls)
                quiet = not (run.refused or run.warned or run.distinct > 1)
                if quiet and not keep_all and not _expected(run, frame, tables):
                    alike += 1
                else:
                    kept[f"{run.what} {run.mode}"] = run
    return replace(frame, samples=tried, alike=alike, run=tuple(kept.values()))


def _expected(run: MeasuredRun, frame: Measurement, tables: Any) -> bool:
    """Whether a table expects the run to be refused or to vary."""
    wary = {Verdict.RAISES, Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL}
    return bool(wary & set(verdicts_of(run, frame, tables)))
