"""The reproducibility notes, and a page that retells them for cuDNN's two flags."""

from __future__ import annotations

from tests.tables.documents.cases import C, D, Document, N, R, S, check, fact, process, program, row
from tests.tables.documents.processes import (
    MACHINE,
    MAY_BE_FASTER,
    ON,
    PROGRAM,
    UNSEEDED,
    drew,
    drew_on_host,
    loaded,
    read_unwritten,
)
from tests.tables.documents.torch_pages import CONV_OPS, SLOWER

CONV = "cuda-convolution"
TIMED = check(CONV, CONV_OPS, N, N, cudnn_benchmark=True)
ONE_ALGORITHM = check(CONV, CONV_OPS, N, D, cudnn_benchmark=False)
REPEATABLE_ALGORITHM = check(CONV, CONV_OPS, D, D, cudnn_benchmark=False, cudnn_deterministic=True)
DRAWS = (
    check("cpu-rng", "aten.randn aten.bernoulli_", S, S),
    check("cuda-rng", "aten.randn aten.bernoulli_", S, S),
)
#: cuDNN's flag leaves other ops as they are; deterministic mode does not.
OTHER_OPS = check("cuda-index-add", "aten.index_add_", N, D, dtype="float32", cudnn_deterministic=True)

SOURCES = (
    program(
        "nothing is promised across releases, platforms, or between CPU and GPU, even with the same seeds",
        "tracer.report.words:GUARANTEE",
    ),
    program(
        "two kinds of cause can be limited: random sources, and algorithms that vary",
        "tracer.names:Cause",
    ),
    SLOWER,
)
SEEDS = (
    process(
        "torch.manual_seed seeds every device's generator",
        row("torch-generator", drew(MACHINE, "cpu"), drew(PROGRAM, "cpu", "cuda:0"), words="of all devices"),
        UNSEEDED,
    ),
    fact("some ops draw inside, svd_lowrank for one, so calls in a row differ", check("cpu-rng", "aten.randn", S, S)),
    fact("with one seed at the start and no other cause, every run draws the same numbers", *DRAWS),
    fact("seeding again before a call makes it draw the same again", *DRAWS),
    process(
        "Python's own generator needs its seed for custom operators",
        row(
            "python-generator",
            drew_on_host("python", MACHINE),
            drew_on_host("python", PROGRAM),
        ),
    ),
    process(
        "NumPy's global generator needs its seed",
        row(
            "numpy-generator",
            drew_on_host("numpy", MACHINE),
            drew_on_host("numpy", PROGRAM),
        ),
    ),
    process(
        "NumPy's generator objects are seeded one by one",
        row("numpy-generator-objects", {"origin": "machine"}, {"origin": "program"}, words="Give each one a seed"),
    ),
    process(
        "other libraries' generators need theirs",
        row(
            "loader-workers",
            loaded(MACHINE, is_given=False),
            loaded(PROGRAM, is_given=True),
            words="every library that the dataset draws from",
        ),
    ),
)
BENCHMARK = (
    fact("cuDNN's convolutions are a cause of differences between runs", ONE_ALGORITHM),
    fact("with benchmark on, new sizes are timed, and noise may choose another algorithm in another run", TIMED),
    fact("with benchmark off one algorithm is chosen every time", ONE_ALGORITHM, REPEATABLE_ALGORITHM),
    process("benchmark on may be faster", MAY_BE_FASTER),
    fact(
        "benchmark and cudnn.deterministic are two settings: the second does not undo the first",
        check(CONV, CONV_OPS, N, N, cudnn_benchmark=True, cudnn_deterministic=True),
        REPEATABLE_ALGORITHM,
    ),
)
ALGORITHMS = (
    program(
        "use_deterministic_algorithms switches where it can and raises where it cannot",
        "tracer.findings:Finding.deterministic_mode",
    ),
    program(
        "its page lists the ops that are concerned; what does not keep to the list is worth a report",
        "docs/where-torch-documentation-differs.md",
    ),
    fact(
        "example: index_add_ on CUDA raises",
        check("cuda-index-add", "aten.index_add_", N, D, dtype="float32"),
        corrected="it is switched, as torch's own list says since 1.11",
    ),
    fact("sparse-dense bmm on CUDA varies and is switched", check("cuda-bmm", "aten.bmm", N, D, layout="sparse_coo")),
    fact(
        "matrix products need CUBLAS_WORKSPACE_CONFIG on CUDA 10.2 and newer",
        check("cuda-cublas", "aten.mm aten.mv", C, R, "2.6", dtype="float32", layout="strided"),
        check("cuda-bmm", "aten.bmm", C, R, "2.6", dtype="float32", layout="strided"),
        check("cuda-cublas", "aten.mm", D, D, dtype="float32", layout="strided", cublas_workspace="set"),
        check("cuda-cublas", "aten.mm", D, D, "2.13", dtype="float32", layout="strided"),
        corrected="since 2.10 torch hands cuBLAS a workspace of its own and checks nothing",
    ),
)
CONVOLUTIONS = (
    fact(
        "one algorithm may itself vary unless the mode or cudnn.deterministic is on",
        ONE_ALGORITHM,
        REPEATABLE_ALGORITHM,
    ),
    fact("cudnn.deterministic concerns cuDNN alone, the mode other ops too", OTHER_OPS, REPEATABLE_ALGORITHM),
)
RECURRENT = (
    fact(
        "RNN and LSTM vary on some CUDA versions",
        check("cuda-rnn", "aten._cudnn_rnn", N, N),
        check("cuda-rnn-backward", "aten._cudnn_rnn_backward", N, N),
    ),
    fact(
        "their pages name the variables that help",
        check("cuda-rnn", "aten._cudnn_rnn", D, D, cublas_workspace="set", arg_dropout=False),
    ),
)
MEMORY = (
    fact(
        "empty and resize_ may show memory that nobody wrote",
        check("cuda-resize", "aten.resize_", C, D, "2.6 2.13", dtype="float32", shape_grows=True),
        check("cuda-empty", "aten.empty.memory_format", D, D),
        corrected="allocating alone makes no two runs differ; reading before writing does",
    ),
    process(
        "to feed such a tensor to another op is a fault of the program, which nothing stops",
        row("unwritten-memory", read_unwritten(is_read=True), read_unwritten(is_read=False)),
    ),
    fact(
        "with the mode on such memory is filled, as fill_uninitialized_memory says by default",
        check("cuda-resize", "aten.resize_", C, D, "2.6 2.13", dtype="float32", shape_grows=True),
        check(
            "cuda-resize",
            "aten.resize_",
            C,
            C,
            "2.6 2.13",
            dtype="float32",
            fill_uninitialized_memory=False,
            shape_grows=True,
        ),
    ),
    process(
        "the fill costs time and may be switched off where the program never reads before it writes",
        row(
            "fill-uninitialized-memory",
            read_unwritten(is_read=True, fill_uninitialized_memory=False, **ON),
            read_unwritten(is_read=False, fill_uninitialized_memory=False, **ON),
        ),
    ),
)
LOADING = (
    process(
        "DataLoader seeds its workers anew in each process",
        row("loader-workers", loaded(MACHINE, is_given=False), loaded(PROGRAM, is_given=False)),
    ),
    process(
        "worker_init_fn and a seeded generator keep the workers' draws the same",
        row("loader-workers", loaded(MACHINE, is_given=False), loaded(PROGRAM, is_given=True)),
    ),
)

NOTES = Document(
    "reproducibility-notes",
    "torch's Reproducibility notes in a Chinese rendering, with the fill of unwritten memory: 2.2 or newer",
    ("2.6", "2.13"),
    {
        "sources": SOURCES,
        "seeds": SEEDS,
        "benchmark": BENCHMARK,
        "algorithms": ALGORITHMS,
        "convolutions": CONVOLUTIONS,
        "recurrent": RECURRENT,
        "memory": MEMORY,
        "loading": LOADING,
    },
)

CUDNN_NOTE = Document(
    "cudnn-flags",
    "a blog's page on cuDNN's two flags, after the Reproducibility notes of 1.11",
    ("1.11",),
    {
        "said": (
            fact("cudnn.deterministic on and benchmark off fix cuDNN's choice", REPEATABLE_ALGORITHM),
            fact("a seed fixes what is drawn", *DRAWS),
            fact("cuDNN's convolutions are a cause of differences between runs", ONE_ALGORITHM),
            fact("with benchmark on, several algorithms are timed on new sizes and the fastest stays", TIMED),
            fact("noise and other hardware may choose another one in the next run", TIMED),
            fact("with benchmark off one algorithm is chosen every time", ONE_ALGORITHM, REPEATABLE_ALGORITHM),
            process("benchmark on may be faster", MAY_BE_FASTER),
            fact("a fixed algorithm may itself vary", ONE_ALGORITHM),
            fact(
                "the mode raises where an op has no repeatable algorithm and not where it has one",
                check("cuda-avg-pool3d-backward", "aten.avg_pool3d_backward", N, R, shape_windows_overlap=True),
                ONE_ALGORITHM,
            ),
            fact("cudnn.deterministic concerns cuDNN alone, the mode other ops too", OTHER_OPS, REPEATABLE_ALGORITHM),
            process(
                "seeds are to be set beside both flags",
                row(
                    "torch-generator",
                    drew(MACHINE, cudnn_deterministic=True, cudnn_benchmark=False),
                    drew(PROGRAM, cudnn_deterministic=True, cudnn_benchmark=False),
                ),
            ),
        ),
    },
)
