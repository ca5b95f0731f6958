"""Builders: small valid objects in one line, so that a test names only what it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from tracer.findings import Evidence, Finding, Judgement, Tally, Target
from tracer.names import (
    SEVERITY,
    About,
    Backend,
    Cause,
    Direction,
    EventKind,
    EvidenceKind,
    KernelLanguage,
    Phase,
    RegionInside,
    RegionOrigin,
    SeedOrigin,
    Settings,
    Verdict,
)
from tracer.trace.file import Trace
from tracer.trace.records import (
    CallGroup,
    Draw,
    Environment,
    Event,
    Generator,
    Kernel,
    Loader,
    Region,
    TensorForm,
    TraceSource,
    UnwrittenRead,
)

if TYPE_CHECKING:
    from tracer.report import Report


def tensor(dtype: str, *shape: int, **fields: Any) -> TensorForm:
    """A tensor among the arguments of a call."""
    return TensorForm(dtype, shape, **fields)


def call(op: str = "aten.index_add_.default", **fields: Any) -> CallGroup:
    """One group of calls: a forward ``op`` on a floating CPU tensor at ``train.py:10``."""
    fields.setdefault("facts", {"device": "cpu", "dtype": "float32"})
    return CallGroup(
        **{
            "op": op,
            "phase": Phase.FORWARD,
            "module": "net.fc",
            "location": "train.py:10",
            "function": "forward",
        }
        | _words(fields)
    )


def kernel(name: str = "cpp_fused_index_add_0", **fields: Any) -> Kernel:
    """A kernel that Inductor wrote for the CPU, and that adds atomically."""
    made = {"language": KernelLanguage.CPP, "device": "cpu", "ops": ("aten.index_put.default",), "atomic": True}
    return Kernel(**{"name": name} | made | fields)


def region(identity: str = "0/0 forward", **fields: Any) -> Region:
    """A region that Inductor compiled for the CPU and that ran once, with one ``kernel()``."""
    return Region(
        **{
            "id": identity,
            "function": "forward",
            "location": "train.py:8",
            "backend": "inductor",
            "device": "cpu",
            "direction": Direction.FORWARD,
            "origin": RegionOrigin.COMPILED,
            "executions": 1,
            "inside": RegionInside.OPS_AND_KERNELS,
            "ops": 1,
            "kernels": (kernel(),),
        }
        | fields
    )


def environment(**fields: Any) -> Environment:
    """A process on Linux with torch 2.13 and nothing set."""
    return Environment(**{"python": "3.11.9", "platform": "Linux-x86_64", "torch": "2.13.0"} | fields)


def trace(*calls: CallGroup, **fields: Any) -> Trace:
    """A trace of ``calls`` by one recording, or of one ``call()`` when none are given."""
    calls = calls or (call(),)
    total = sum(group.count for group in calls)
    source = TraceSource(name="train.py", optimizer_steps=1, calls=total)
    return Trace(
        **{
            "tracer_version": "0.1.0",
            "environment": environment(),
            "calls": tuple(calls),
            "sources": (source,),
        }
        | fields
    )


def evidence(ref: str = "torch 2.13 docs, torch.use_deterministic_algorithms", kind: str = "documented") -> Evidence:
    """One reference."""
    return Evidence(kind=EvidenceKind(kind), ref=ref)


def finding(rule: str = "cuda-index-add", **fields: Any) -> Finding:
    """``index_add_`` in a forward pass: nondeterministic as things stand, fixed by deterministic mode."""
    return Finding(
        **{
            "rule": rule,
            "op": "aten.index_add_.default",
            "phase": Phase.FORWARD,
            "module": "net.fc",
            "location": "train.py:10",
            "function": "forward",
            "verdict": Verdict.NONDETERMINISTIC,
            "deterministic_mode": Verdict.DETERMINISTIC,
            "cause": Cause.ATOMIC_ACCUMULATION,
            "why": "Rows are added with atomicAdd, in whichever order the threads arrive.",
            "remedy": "Turn deterministic mode on.",
            "evidence": (evidence(),),
            "facts": {"device": "cuda", "dtype": "float32"},
            "backend": Backend.CUDA,
        }
        | _words(fields)
    )


def process_finding(rule: str = "environment-cudnn-benchmark", **fields: Any) -> Finding:
    """A finding about a setting: cuDNN's benchmark is on, and convolutions ran."""
    said = str(fields.get("subject", "torch.backends.cudnn.benchmark"))
    fields.setdefault("name", said.partition(" = ")[0])
    return Finding(
        **{
            "rule": rule,
            "op": "",
            "phase": Phase.OTHER,
            "about": About.SETTING,
            "subject": "torch.backends.cudnn.benchmark = True",
            "ops": {"aten.convolution.default": 24},
            "count": 24,
            "verdict": Verdict.NONDETERMINISTIC,
            "deterministic_mode": Verdict.NONDETERMINISTIC,
            "cause": Cause.AUTOTUNE,
            "why": "Algorithms are chosen by a stopwatch.",
            "remedy": "Turn it off.",
            "code": "torch.backends.cudnn.benchmark = False",
            "where": "at the top of the script, before the model runs",
            "sets": {"cudnn_benchmark": False},
            "evidence": (evidence(),),
        }
        | _words(fields)
    )


def tally(findings: Iterable[Finding] = (), *, clean: int = 0) -> Tally:
    """The tally of those of ``findings`` that speak of calls, plus ``clean`` deterministic forward calls outside
    modules."""
    as_is: Counter[Verdict] = Counter()
    mode: Counter[Verdict] = Counter()
    phases: dict[Phase, Counter[Verdict]] = {}
    modules: dict[str, Counter[Verdict]] = {}
    for one in findings:
        if one.about is not About.CALL:
            continue
        as_is[one.verdict] += one.count
        mode[one.deterministic_mode] += one.count
        phases.setdefault(one.phase, Counter())[one.verdict] += one.count
        modules.setdefault(one.module, Counter())[one.verdict] += one.count
    if clean:
        as_is[Verdict.DETERMINISTIC] += clean
        mode[Verdict.DETERMINISTIC] += clean
        phases.setdefault(Phase.FORWARD, Counter())[Verdict.DETERMINISTIC] += clean
        modules.setdefault("", Counter())[Verdict.DETERMINISTIC] += clean
    return Tally(
        as_is=dict(as_is),
        deterministic_mode=dict(mode),
        by_phase={phase: dict(counts) for phase, counts in phases.items()},
        by_module={module: dict(counts) for module, counts in modules.items()},
    )


def target(**fields: Any) -> Target:
    """CUDA, torch 2.13, torch's default settings."""
    return Target(**{"backend": Backend.CUDA, "torch": "2.13.0", "settings": Settings.DEFAULT} | _words(fields))


def judgement(*findings: Finding, clean: int = 100, **fields: Any) -> Judgement:
    """``findings`` (worst first, as the judge sorts them) beside ``clean`` deterministic calls."""
    ordered = tuple(sorted(findings, key=lambda one: (SEVERITY.index(one.verdict), -one.count, one.location, one.op)))
    counted = tally([one for one in ordered if one.about is About.CALL], clean=clean)
    ordered = tuple(_settled(one, fields.get("target", target())) for one in ordered)
    made: dict[str, Any] = {
        "target": target(),
        "findings": ordered,
        "tally": counted,
        "tables": {"cuda": ">=1.11,<=2.15"},
        "planned": {name: value for one in ordered for name, value in one.sets.items()},
    }
    recorded: dict[str, Any] = {
        "environment": environment(),
        "sources": (TraceSource(name="train.py", optimizer_steps=1, calls=counted.total),),
    }
    of_trace = [name for name in fields if name not in Judgement.__struct_fields__]
    recorded |= {name: fields.pop(name) for name in of_trace}
    return Judgement(trace=Trace(**recorded), **made | fields)


def _settled(one: Finding, judged_for: Target) -> Finding:
    """``one`` with the settings that close it, as the judge would find them for rules like those of the tables."""
    if one.planned is not None or one.sets:
        return one
    conditions = judged_for.conditions
    settled = (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)
    sets: dict[str, Any] = {}
    after: tuple[Verdict, Verdict] | None = settled
    if one.cause is Cause.WORKSPACE and conditions.get("cublas_workspace") != "set":
        small = ":16:8" in one.remedy and ":4096:8" not in one.remedy
        sets = {"CUBLAS_WORKSPACE_CONFIG": ":16:8" if small else ":4096:8"}
    elif one.verdict is Verdict.SEEDED and one.deterministic_mode is Verdict.SEEDED:
        sets, after = {"seed.torch": True}, None
    elif one.deterministic_mode is Verdict.DETERMINISTIC and one.verdict not in (*settled, Verdict.SEEDED):
        sets = {"deterministic_mode": "on"}
    elif one.cause is Cause.AUTOTUNE and conditions.get("cudnn_benchmark") is True:
        sets = {"cudnn_benchmark": False}
    return msgspec.structs.replace(one, sets=sets, planned=after) if sets else one


def report(*findings: Finding, clean: int = 100, **fields: Any) -> Report:
    """A ``Report`` on ``judgement(...)``."""
    from tracer.report import Report

    return Report(judgement(*findings, clean=clean, **fields))


_WORDS = {
    "about": About,
    "phase": Phase,
    "verdict": Verdict,
    "deterministic_mode": Verdict,
    "cause": Cause,
    "backend": Backend,
    "settings": Settings,
}


def _words(fields: dict[str, Any]) -> dict[str, Any]:
    """``fields`` with plain strings turned into the members they spell."""
    return {
        name: _WORDS[name](value) if name in _WORDS and isinstance(value, str) else value
        for name, value in fields.items()
    }


def event(kind: EventKind | str = EventKind.VARIABLE, name: str = "CUBLAS_WORKSPACE_CONFIG", **fields: Any) -> Event:
    """Something that the program did at ``train.py:3``, before anything was recorded."""
    return Event(
        **{"kind": EventKind(kind), "name": name, "location": "train.py:3", "first": 1, "last": 1} | _words(fields)
    )


def loader(**fields: Any) -> Loader:
    """A ``DataLoader`` made at ``train.py:5`` that loads in order, in the training process."""
    return Loader(**{"location": "train.py:5", "sampler": "SequentialSampler"} | fields)


def generator(name: str = "cpu", origin: SeedOrigin | str = SeedOrigin.MACHINE, **fields: Any) -> Generator:
    """A generator that nobody seeded."""
    return Generator(name=name, origin=SeedOrigin(origin), **fields)


def read(op: str = "aten.add.Tensor", **fields: Any) -> UnwrittenRead:
    """A read at ``train.py:8`` of memory that ``torch.empty`` gave at ``train.py:7``."""
    given = {"allocated_by": "aten.empty.memory_format", "allocated_at": "train.py:7"}
    return UnwrittenRead(**{"op": op, "phase": Phase.FORWARD, "location": "train.py:8", **given} | _words(fields))


def draw(op: str = "random.random", generator: str = "python", **fields: Any) -> Draw:
    """A draw at ``train.py:9`` from Python's generator, which nobody seeded."""
    known = {"op": op, "generator": generator, "location": "train.py:9", "origin": SeedOrigin.MACHINE}
    return Draw(**known | _words(fields))
