"""What the five documents say that this project began from, but for the entries of their lists: in our words.

Each statement has what carries it: calls that a rule must judge so, a process that a row of settings must find and its
twin that it must not, or the place where the program says it. Lists of APIs are in ``test_torch_page`` and in
``test_other_backends``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.support.build import call, environment, read, trace
from tests.support.build import event as event_of
from tests.support.build import loader as loader_of
from tracer.facts import Value
from tracer.names import DeterministicMode, EventKind, Overlap, SeedOrigin, Subsystem, Verdict
from tracer.trace import Trace
from tracer.trace.records import Generator, OverlapWrite

D, N, C, R, S = (
    Verdict.DETERMINISTIC,
    Verdict.NONDETERMINISTIC,
    Verdict.CONDITIONAL,
    Verdict.RAISES,
    Verdict.SEEDED,
)
MACHINE, PROGRAM = SeedOrigin.MACHINE, SeedOrigin.PROGRAM
OFF, ON = {"deterministic_mode": DeterministicMode.OFF}, {"deterministic_mode": DeterministicMode.ON}


class Check(NamedTuple):
    """Calls that a statement is about, and what our table has to answer."""

    rule: str
    ops: tuple[str, ...]
    off: Verdict
    """The worst that is right with deterministic mode off."""
    on: Verdict
    facts: Mapping[str, Value]
    """Facts of the calls and settings of the target, where they are not torch's defaults."""
    versions: tuple[str, ...]
    """Where the check is not for all of the page's versions."""


class RowCheck(NamedTuple):
    """A row of the table of settings that carries a statement: a process that triggers it, and one that does not.

    A process is a trace, judged whole; or facts alone, held against the row's cases, where no recorder sees such a
    thing and the row is there to be explained.
    """

    row: str
    triggers: Trace | Mapping[str, Value]
    clean: Trace | Mapping[str, Value]
    backend: str
    words: str
    """What the row's words must hold, where the statement is about more than its verdict."""


class Statement(NamedTuple):
    """One sentence of a document, in our words."""

    says: str
    carriers: tuple[Check | RowCheck | str, ...]
    """A text is ``module:NAME``, or a file, for what the program says itself."""
    corrected: str
    """Where the document is wrong: how. The checks then ask for what is true."""


class Document(NamedTuple):
    """One document: where it comes from, the versions that it speaks of, its statements by heading."""

    about: str
    versions: tuple[str, ...]
    parts: Mapping[str, tuple[Statement, ...]]


def said(says: str, *carriers: Check | RowCheck | str, corrected: str = "") -> Statement:
    return Statement(says, carriers, corrected)


def check(rule: str, ops: str, off: Verdict, on: Verdict, versions: str = "", **facts: Value) -> Check:
    """A check in one line; ``ops`` of aten and ``versions`` are words, and ``arg__mode`` stands for ``arg.mode``."""
    keys = {name.replace("__", "."): value for name, value in facts.items()}
    return Check(rule, tuple(f"aten.{op}" for op in ops.split()), off, on, keys, tuple(versions.split()))


def row(name: str, triggers: Any, clean: Any, *, backend: str = "cuda", words: str = "") -> RowCheck:
    """A check of a row, its id without what leads it."""
    return RowCheck(f"environment-{name}", triggers, clean, backend, words)


# --- processes ---


def ran(op: str, device: str = "cuda", **settings: Any) -> Trace:
    """One call of ``op`` in a process with these settings."""
    facts = {"device": device, "dtype": "float32", "layout": "strided"}
    return trace(call(op, facts=facts), environment=environment(**settings))


def drew(origin: SeedOrigin, *generators: str, **settings: Any) -> Trace:
    """Draws from torch's own generators."""
    drawn = [{"rng.generator": one, "rng.origin": origin.value} for one in generators or ("cuda:0",)]
    calls = (call("aten.randn.default", facts={"device": "cuda", "dtype": "float32"} | facts) for facts in drawn)
    return trace(*calls, environment=environment(**settings))


def host_draws(name: str) -> RowCheck:
    """A draw from Python's or NumPy's global generator, unseeded and seeded."""
    drawn = (trace(generators=(Generator(name=name, origin=origin, drew=True),)) for origin in (MACHINE, PROGRAM))
    return row(f"{name}-generator", *drawn)


def unwritten(name: str, **settings: Any) -> RowCheck:
    """``empty``, read before it is written, and not."""
    reads = (trace(unwritten_reads=found, environment=environment(**settings)) for found in ((read(),), ()))
    return row(name, *reads)


def workers(*, is_given: bool, words: str = "") -> RowCheck:
    """Two workers of a loader draw from NumPy's generator; the twin is seeded, given both arguments if asked for."""

    def loaded(origin: SeedOrigin, given: bool) -> Trace:
        made = {"workers": 2, "has_worker_init": given, "has_generator": given, "start_method": "fork"}
        return trace(loaders=(loader_of(origin=origin, **made),))

    return row("loader-workers", loaded(MACHINE, False), loaded(PROGRAM, is_given), words=words)


def inductor(name: str, **settings: Any) -> RowCheck:
    """A row about what Inductor times, unless deterministic mode was on when it compiled."""

    def compiled(mode: dict[str, Any], **settings: Any) -> Trace:
        own = {f"torch._inductor.config.{option}": value for option, value in settings.items()}
        started = event_of(EventKind.FIRST_USE, Subsystem.INDUCTOR.value)
        reduces = call("aten.sum.default", facts={"device": "cuda", "dtype": "float32"})
        return trace(reduces, events=(started,), environment=environment(settings=own, **mode))

    return row(f"inductor-{name}", compiled(OFF, **settings), compiled(ON, deterministic=True, **settings))


def overlapping(*writes: OverlapWrite) -> Trace:
    return trace(overlaps=writes, environment=environment(**ON))


def changed_on_npu(*, after_calls: bool) -> Trace:
    """Deterministic mode switched on before the first op on an NPU, or between two."""
    name = "torch.use_deterministic_algorithms"
    moment = {"while_recording": after_calls, "after_calls": after_calls}
    switched = event_of(EventKind.SETTING, name, before="off", value="on", **moment)
    added = call("aten.add.Tensor", facts={"device": "npu", "dtype": "float32"})
    return trace(added, events=(switched,), environment=environment(**ON))


def timed(benchmark: bool) -> Trace:
    flags = {"cudnn_enabled": True, "cudnn_deterministic": True}
    return ran("aten.convolution.default", cudnn_benchmark=benchmark, **flags)


INDEX_ADD = "aten.index_add_.default"
SLOWER = said(
    "repeatable algorithms tend to be slower",
    row("deterministic-mode", ran(INDEX_ADD), ran(INDEX_ADD, **ON), words="faster"),
)
MAY_BE_FASTER = said(
    "benchmark on may be faster", row("cudnn-benchmark", timed(True), timed(False), words="the fastest")
)
ON_AN_NPU = row("deterministic-mode", ran(INDEX_ADD, "npu"), ran(INDEX_ADD, "npu", **ON), backend="npu")
ONCE_A_THREAD = row(
    "npu-first-setting", changed_on_npu(after_calls=True), changed_on_npu(after_calls=False), backend="npu"
)
OVERLAP = said(
    "in-place ops and out= on a tensor that overlaps itself in memory race, and the mode does not see it",
    row(
        "overlapping-write",
        overlapping(OverlapWrite(op="aten.add_.Tensor", kind=Overlap.ITSELF, location="train.py:7", device="cuda")),
        overlapping(),
    ),
)
MEANING = said(
    "deterministic: the same input on the same hardware and software gives the same output every time",
    "tracer.report.words:GUARANTEE",
)
SWITCH_OR_REFUSE = said(
    "mode on: ops switch to a repeatable algorithm where there is one and raise where there is none; mode off: neither",
    "tracer.findings:Finding.deterministic_mode",
)

# --- calls ---

PLAIN = {"dtype": "float32", "layout": "strided"}
LARGE = {"shape__numel_ge_32768": True, "threads": "many"}
CONV, CONV_OPS = "cuda-convolution", "convolution convolution_backward"
TIMED = check(CONV, CONV_OPS, N, N, cudnn_benchmark=True)
ONE_ALGORITHM = check(CONV, CONV_OPS, N, D, cudnn_benchmark=False)
REPEATABLE_ALGORITHM = check(CONV, CONV_OPS, D, D, cudnn_benchmark=False, cudnn_deterministic=True)
DRAWS = (check("cpu-rng", "randn bernoulli_", S, S), check("cuda-rng", "randn bernoulli_", S, S))
#: cuDNN's flag leaves other ops as they are; deterministic mode does not.
OTHER_OPS = check("cuda-index-add", "index_add_", N, D, dtype="float32", cudnn_deterministic=True)
OVERLAPPING_WINDOWS = check("cuda-avg-pool3d-backward", "avg_pool3d_backward", N, R, shape__windows_overlap=True)
GROWS = {"dtype": "float32", "shape__grows": True}

ASCEND = Document(
    "Ascend Extension for PyTorch, list of APIs that support deterministic computation, first edition",
    ("2.1", "2.6"),
    {
        "said": (
            MEANING,
            said("the mode must be set in the main process that runs the network, not in another one", ON_AN_NPU),
            said("once a thread: the first effective setting wins, later ones do nothing", ONCE_A_THREAD),
            said("a setting is effective once an op was launched under it", ONCE_A_THREAD),
            said("so set it once a thread, whether to on or to off", ONCE_A_THREAD),
            said(
                "set by use_deterministic_algorithms(True), read by are_deterministic_algorithms_enabled()", ON_AN_NPU
            ),
            said("it may cost speed", *SLOWER.carriers),
        )
    },
)

EARLY = Document(
    "torch.use_deterministic_algorithms before warn_only, in a Chinese rendering; judged for the oldest reviewed torch",
    ("1.11", "1.12"),
    {
        "said": (
            MEANING,
            SWITCH_OR_REFUSE,
            said(
                "matrix products raise on CUDA 10.2 and newer unless CUBLAS_WORKSPACE_CONFIG is set",
                check("cuda-cublas", "mm mv", C, R, **PLAIN),
                check("cuda-bmm", "bmm", C, R, **PLAIN),
                check("cuda-cublas", "mm mv", D, D, cublas_workspace="set", **PLAIN),
                check("cuda-bmm", "bmm", D, D, cublas_workspace="set", **PLAIN),
            ),
            SLOWER,
            OVERLAP,
            said(
                "example: index_copy on the CPU is refused",
                check("cpu-index-copy", "index_copy", C, D, **LARGE),
                corrected="the page's own list says that it is switched, and so does the source of 1.13",
            ),
            said(
                "example: the backward of index_select on CUDA is refused as index_add_cuda_",
                check("cuda-index-add", "index_add_", N, D, **PLAIN),
                corrected="the page's own list says that it is switched, and so does the source of 1.13",
            ),
        )
    },
)

CURRENT = Document(
    "torch.use_deterministic_algorithms with Inductor's bullets; by its entries (no kthvalue, ReplicationPad switched,"
    " MaxPool3d refused) the page of 2.10 to 2.12",
    ("2.10", "2.11", "2.12"),
    {
        "said": (
            MEANING,
            said(
                "the mode alone does not always make a program repeatable",
                row("torch-generator", drew(MACHINE, **ON), drew(PROGRAM, **ON)),
            ),
            said(
                "set_deterministic_debug_mode is another way to set it",
                row(
                    "debug-mode",
                    ran("aten.add.Tensor", settings={"torch.get_deterministic_debug_mode": 1}),
                    ran("aten.add.Tensor", settings={"torch.get_deterministic_debug_mode": 2}),
                    words="Another spelling of deterministic mode",
                ),
            ),
            said(
                "memory that nobody wrote is filled with the mode and fill_uninitialized_memory on",
                check("cuda-resize", "resize_", C, D, **GROWS),
                check("cuda-resize", "resize_", C, C, fill_uninitialized_memory=False, **GROWS),
                check("cpu-resize", "resize_", C, D, **GROWS),
            ),
            SLOWER,
            said(
                "switching the mode on switches Inductor's on too, which then times nothing that changes numbers",
                inductor("pad-mm", shape_padding=True),
            ),
            *(
                said(f"under the mode Inductor {what}", carrier)
                for what, carrier in (
                    ("does not time whether padding a product pays", inductor("pad-mm", shape_padding=True)),
                    ("takes the eager kernel, not the fastest template", inductor("max-autotune", max_autotune=True)),
                    ("chooses configurations of reductions by rule", inductor("reduction-configs")),
                    (
                        "leaves reductions out of coordinate descent",
                        inductor("coordinate-descent", coordinate_descent_tuning=True),
                    ),
                    (
                        "does not time the reordering of computation and communication",
                        inductor("overlap-reorder", reorder_for_compute_comm_overlap=True),
                    ),
                    ("does not scale RBLOCK for occupancy", inductor("dynamic-rblock", dynamic_scale_rblock=True)),
                )
            ),
            OVERLAP,
            SWITCH_OR_REFUSE,
            said("warn_only warns where the mode would raise, and the op stays as it is", OVERLAPPING_WINDOWS),
            said(
                "example: the backward of AvgPool3d(1) on CUDA is refused",
                check("cuda-avg-pool3d-backward", "avg_pool3d_backward", D, R, shape__windows_overlap=False),
            ),
        )
    },
)

NOTES = Document(
    "torch's Reproducibility notes in a Chinese rendering, with the fill of unwritten memory: 2.2 or newer",
    ("2.6", "2.13"),
    {
        "sources": (
            said(
                "nothing is promised across releases, platforms, or between CPU and GPU, even with the same seeds",
                *MEANING.carriers,
            ),
            said("two kinds of cause can be limited: random sources, and algorithms that vary", "tracer.names:Cause"),
            SLOWER,
        ),
        "seeds": (
            said(
                "torch.manual_seed seeds every device's generator",
                row("torch-generator", drew(MACHINE, "cpu"), drew(PROGRAM, "cpu", "cuda:0"), words="of all devices"),
                row("torch-generator", drew(MACHINE), drew(PROGRAM)),
            ),
            said(
                "some ops draw inside, svd_lowrank for one, so calls in a row differ", check("cpu-rng", "randn", S, S)
            ),
            said("with one seed at the start and no other cause, every run draws the same numbers", *DRAWS),
            said("seeding again before a call makes it draw the same again", *DRAWS),
            said("Python's own generator needs its seed for custom operators", host_draws("python")),
            said("NumPy's global generator needs its seed", host_draws("numpy")),
            said(
                "NumPy's generator objects are seeded one by one",
                row(
                    "numpy-generator-objects",
                    {"origin": "machine"},
                    {"origin": "program"},
                    words="Give each one a seed",
                ),
            ),
            said(
                "other libraries' generators need theirs",
                workers(is_given=True, words="every library that the dataset draws from"),
            ),
        ),
        "benchmark": (
            said("cuDNN's convolutions are a cause of differences between runs", ONE_ALGORITHM),
            said("with benchmark on, new sizes are timed, and noise may choose another algorithm next time", TIMED),
            said("with benchmark off one algorithm is chosen every time", ONE_ALGORITHM, REPEATABLE_ALGORITHM),
            MAY_BE_FASTER,
            said(
                "benchmark and cudnn.deterministic are two settings: the second does not undo the first",
                check(CONV, CONV_OPS, N, N, cudnn_benchmark=True, cudnn_deterministic=True),
                REPEATABLE_ALGORITHM,
            ),
        ),
        "algorithms": (
            SWITCH_OR_REFUSE,
            said(
                "its page lists the ops that are concerned; what does not keep to the list is worth a report",
                "docs/where-torch-documentation-differs.md",
            ),
            said(
                "example: index_add_ on CUDA raises",
                check("cuda-index-add", "index_add_", N, D, dtype="float32"),
                corrected="it is switched, as torch's own list says since 1.11",
            ),
            said("sparse-dense bmm on CUDA is switched", check("cuda-bmm", "bmm", N, D, layout="sparse_coo")),
            said(
                "matrix products need CUBLAS_WORKSPACE_CONFIG on CUDA 10.2 and newer",
                check("cuda-cublas", "mm mv", C, R, "2.6", **PLAIN),
                check("cuda-bmm", "bmm", C, R, "2.6", **PLAIN),
                check("cuda-cublas", "mm", D, D, cublas_workspace="set", **PLAIN),
                check("cuda-cublas", "mm", D, D, "2.13", **PLAIN),
                corrected="since 2.10 torch hands cuBLAS a workspace of its own and checks nothing",
            ),
        ),
        "convolutions": (
            said(
                "one algorithm may itself vary unless the mode or cudnn.deterministic is on",
                ONE_ALGORITHM,
                REPEATABLE_ALGORITHM,
            ),
            said("cudnn.deterministic concerns cuDNN alone, the mode other ops too", OTHER_OPS, REPEATABLE_ALGORITHM),
        ),
        "recurrent": (
            said(
                "RNN and LSTM vary on some CUDA versions",
                check("cuda-rnn", "_cudnn_rnn", N, N),
                check("cuda-rnn-backward", "_cudnn_rnn_backward", N, N),
            ),
            said(
                "their pages name the variables that help",
                check("cuda-rnn", "_cudnn_rnn", D, D, cublas_workspace="set", arg__dropout=False),
            ),
        ),
        "memory": (
            said(
                "empty and resize_ may show memory that nobody wrote",
                check("cuda-resize", "resize_", C, D, **GROWS),
                check("cuda-empty", "empty.memory_format", D, D),
                corrected="allocating alone makes no two runs differ; reading before writing does",
            ),
            said(
                "to feed such a tensor to another op is a fault of the program, which nothing stops",
                unwritten("unwritten-memory"),
            ),
            said(
                "with the mode on such memory is filled, as fill_uninitialized_memory says by default",
                check("cuda-resize", "resize_", C, D, **GROWS),
                check("cuda-resize", "resize_", C, C, fill_uninitialized_memory=False, **GROWS),
            ),
            said(
                "the fill costs time and may be switched off where the program never reads before it writes",
                unwritten("fill-uninitialized-memory", fill_uninitialized_memory=False, **ON),
            ),
        ),
        "loading": (
            said("DataLoader seeds its workers anew in each process", workers(is_given=False)),
            said("worker_init_fn and a seeded generator keep the workers' draws the same", workers(is_given=True)),
        ),
    },
)

FLAGS = {"cudnn_deterministic": True, "cudnn_benchmark": False}
CUDNN_NOTE = Document(
    "a blog's page on cuDNN's two flags, after the Reproducibility notes of 1.11",
    ("1.11",),
    {
        "said": (
            said("cudnn.deterministic on and benchmark off fix cuDNN's choice", REPEATABLE_ALGORITHM),
            said("a seed fixes what is drawn", *DRAWS),
            said("cuDNN's convolutions are a cause of differences between runs", ONE_ALGORITHM),
            said("with benchmark on, several algorithms are timed on new sizes and the fastest stays", TIMED),
            said("noise and other hardware may choose another one in the next run", TIMED),
            said("with benchmark off one algorithm is chosen every time", ONE_ALGORITHM, REPEATABLE_ALGORITHM),
            MAY_BE_FASTER,
            said("a fixed algorithm may itself vary", ONE_ALGORITHM),
            said(
                "the mode raises where an op has no repeatable algorithm and not where it has one",
                OVERLAPPING_WINDOWS,
                ONE_ALGORITHM,
            ),
            said("cudnn.deterministic concerns cuDNN alone, the mode other ops too", OTHER_OPS, REPEATABLE_ALGORITHM),
            said(
                "seeds are to be set beside both flags",
                row("torch-generator", drew(MACHINE, **FLAGS), drew(PROGRAM, **FLAGS)),
            ),
        )
    },
)

#: By name, each with the number of its sentences under each heading, counted in the document.
DOCUMENTS: Mapping[str, tuple[Document, tuple[int, ...]]] = {
    "ascend-list": (ASCEND, (7,)),
    "early-page": (EARLY, (7,)),
    "reproducibility-notes": (NOTES, (3, 8, 5, 5, 2, 2, 4, 2)),
    "cudnn-flags": (CUDNN_NOTE, (11,)),
    "current-page": (CURRENT, (16,)),
}
