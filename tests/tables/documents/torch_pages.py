"""The two pages of ``torch.use_deterministic_algorithms``: an early one, before ``warn_only``, and a current one."""

from __future__ import annotations

from tests.tables.documents.cases import C, D, Document, N, R, Statement, check, entry, fact, process, program, row
from tests.tables.documents.processes import (
    FASTER,
    MACHINE,
    ON,
    PROGRAM,
    drew,
    inductor,
    ran,
    wrote_overlapping,
)
from tracer.names import Overlap

CONV_OPS = "aten.convolution aten.convolution_backward"
MODES = (
    ("linear", "cuda-upsample-linear1d-backward", "aten.upsample_linear1d_backward"),
    ("bilinear", "cuda-upsample-bilinear2d-backward", "aten.upsample_bilinear2d_backward"),
    ("bicubic", "cuda-upsample-bicubic2d-backward", "aten.upsample_bicubic2d_backward"),
    ("trilinear", "cuda-upsample-trilinear3d-backward", "aten.upsample_trilinear3d_backward"),
)
LARGE = {"shape_numel_ge_32768": True, "threads": "many"}
PLAIN = {"dtype": "float32", "layout": "strided"}
SAMPLER = {"arg_output_mask0": True, "arg_interpolation_mode": "bilinear", "arg_padding_mode": "zeros"}

#: cuDNN names no algorithm of a plain forward that varies: softened, and still a risk.
PLAIN_FORWARD = check("cuda-convolution", "aten.convolution", C, D, conv_plain_forward=True)
CONVOLUTIONS = tuple(
    entry("on CUDA, switched", f"torch.nn.{name}{n}d", check("cuda-convolution", CONV_OPS, N, D), *softened)
    for name, softened in (("Conv", (PLAIN_FORWARD,)), ("ConvTranspose", ()))
    for n in (1, 2, 3)
)

SPARSE_BMM = entry(
    "sparse times dense on CUDA, switched", "torch.bmm", check("cuda-bmm", "aten.bmm", N, D, layout="sparse_coo")
)
GETITEM = entry(
    "backward on the CPU of indexing by tensors, switched",
    "torch.Tensor.__getitem__",
    check("cpu-index-put", "aten.index_put aten._index_put_impl_", N, D, arg_accumulate=True, **PLAIN, **LARGE),
)
INDEX_PUT = entry(
    "without accumulate on any device, switched",
    "torch.Tensor.index_put",
    check("cuda-index-put", "aten.index_put aten.index_put_", C, D, arg_accumulate=False, index_is_mask=False),
    check("cpu-index-put", "aten.index_put aten.index_put_", C, D, arg_accumulate=False, index_is_mask=False, **LARGE),
)
INDEX_PUT_ADDS = entry(
    "with accumulate on the CPU, switched",
    "torch.Tensor.index_put",
    check("cpu-index-put", "aten.index_put aten.index_put_", N, D, arg_accumulate=True, **PLAIN, **LARGE),
)
PUT_ADDS = entry(
    "with accumulate on the CPU, switched",
    "torch.Tensor.put_",
    check("cpu-put", "aten.put_ aten.put", N, D, arg_accumulate=True, **PLAIN, **LARGE),
)
INDEX_ADD = entry(
    "on CUDA, switched", "torch.index_add", check("cuda-index-add", "aten.index_add aten.index_add_", N, D, **PLAIN)
)
INDEX_SELECT = entry(
    "backward on CUDA, switched",
    "torch.index_select",
    check("cuda-index-add", "aten.index_add aten.index_add_", N, D, **PLAIN),
)
REPEAT_INTERLEAVE = entry(
    "backward on CUDA, switched",
    "torch.repeat_interleave",
    check("cuda-index-add", "aten.index_add aten.index_add_", N, D, **PLAIN),
)
INDEX_COPY = entry(
    "on CPU and CUDA, switched",
    "torch.Tensor.index_copy",
    check("cuda-index-copy", "aten.index_copy aten.index_copy_", C, D),
    check("cpu-index-copy", "aten.index_copy aten.index_copy_", C, D, **LARGE),
)

POOLS = (
    entry(
        "backward on CUDA, refused",
        "torch.nn.AvgPool3d",
        check("cuda-avg-pool3d-backward", "aten.avg_pool3d_backward", N, R, shape_windows_overlap=True),
    ),
    entry(
        "backward on CUDA, refused",
        "torch.nn.AdaptiveAvgPool2d",
        check(
            "cuda-adaptive-avg-pool-backward", "aten._adaptive_avg_pool2d_backward", N, R, shape_divides_evenly=False
        ),
    ),
    entry(
        "backward on CUDA, refused",
        "torch.nn.AdaptiveAvgPool3d",
        check(
            "cuda-adaptive-avg-pool3d-backward", "aten._adaptive_avg_pool3d_backward", N, R, shape_divides_evenly=False
        ),
    ),
    entry(
        "backward on CUDA, refused",
        "torch.nn.MaxPool3d",
        check("cuda-max-pool3d-backward", "aten.max_pool3d_with_indices_backward", N, R, shape_windows_overlap=True),
    ),
    entry(
        "backward on CUDA, refused",
        "torch.nn.AdaptiveMaxPool2d",
        check(
            "cuda-adaptive-max-pool2d-backward", "aten.adaptive_max_pool2d_backward", N, R, shape_divides_evenly=False
        ),
    ),
    entry(
        "backward on CUDA, refused",
        "torch.nn.FractionalMaxPool2d",
        check("cuda-fractional-max-pool-backward", "aten.fractional_max_pool2d_backward", N, R),
    ),
    entry(
        "backward on CUDA, refused",
        "torch.nn.FractionalMaxPool3d",
        check("cuda-fractional-max-pool-backward", "aten.fractional_max_pool3d_backward", N, R),
    ),
)


def interpolations(**found: str) -> tuple[Statement, ...]:
    """The entry for ``interpolate``, a case a mode; ``found`` says of which modes the refusal is not true, and why."""
    return tuple(
        entry(
            f"mode {mode}, backward on CUDA, refused",
            "torch.nn.functional.interpolate",
            check(rule, op, N, D if mode in found else R, shape_same_size=False),
            corrected=found.get(mode, ""),
        )
        for mode, rule, op in MODES
    )


def reflection_pads(plane: str = "") -> tuple[Statement, ...]:
    """ReflectionPad1d to 3d, refused; `plane` is what corrects the second where it is switched."""
    return tuple(
        entry(
            "backward on CUDA, refused",
            f"torch.nn.ReflectionPad{n}d",
            check(
                "cuda-reflection-pad2d-backward" if n == 2 else "cuda-reflection-pad-backward",
                f"aten.reflection_pad{n}d_backward",
                N,
                D if n == 2 and plane else R,
            ),
            corrected=plane if n == 2 else "",
        )
        for n in (1, 2, 3)
    )


LOSSES = (
    entry(
        "on CUDA, refused",
        "torch.nn.NLLLoss",
        check("cuda-nll-loss2d", "aten.nll_loss2d_forward", N, R, arg_reduction="mean"),
        check("cuda-nll-loss2d", "aten.nll_loss2d_forward", D, D, arg_reduction="none"),
        check("cuda", "aten.nll_loss_forward", D, D),
        corrected="spatial targets with a reduction alone; it is the forward that is refused",
    ),
    entry(
        "backward on CUDA, refused",
        "torch.nn.CTCLoss",
        check("cuda-ctc-loss-backward", "aten._ctc_loss_backward.default aten._ctc_loss_backward.Tensor", N, R),
    ),
    entry(
        "backward on CUDA with mode max, refused",
        "torch.nn.EmbeddingBag",
        check("cuda-embedding-bag-backward", "aten._embedding_bag_backward", N, R, arg_mode="max"),
        check("cuda-embedding-bag-backward", "aten._embedding_bag_backward", D, D, arg_mode="sum"),
    ),
)
PUTS = (
    entry(
        "without accumulate on any device, refused",
        "torch.Tensor.put_",
        check("cuda-put", "aten.put_ aten.put", C, R, arg_accumulate=False),
        check("cpu-put", "aten.put_ aten.put", C, R, arg_accumulate=False, **LARGE),
    ),
    entry(
        "with accumulate on CUDA, refused",
        "torch.Tensor.put_",
        check("cuda-put", "aten.put_ aten.put", N, R, arg_accumulate=True, **PLAIN),
    ),
)
MEDIAN = entry("with indices on CUDA, refused", "torch.median", check("cuda-median-indices", "aten.median.dim", C, R))
HISTC = entry(
    "on CUDA, refused",
    "torch.histc",
    check("cuda-histc", "aten.histc", C, R, **PLAIN),
    check("cuda-histc", "aten.histc", D, R, dtype="int64"),
)
GRID_SAMPLE = entry(
    "backward on CUDA, refused",
    "torch.nn.functional.grid_sample",
    check("cuda-grid-sample-2d-backward", "aten.grid_sampler_2d_backward", N, R, arg_align_corners=False, **SAMPLER),
    check("cuda-grid-sample-3d-backward", "aten.grid_sampler_3d_backward", N, R, arg_output_mask0=True),
    check("cuda-cudnn-grid-sample-backward", "aten.cudnn_grid_sampler_backward", N, N, "1.11 1.12 2.10 2.11 2.12"),
    check("cuda-cudnn-grid-sample-backward", "aten.cudnn_grid_sampler_backward", N, R, "2.13"),
    corrected="cuDNN's sampler (bilinear, zeros, aligned corners) passed in silence before 2.13",
)

EARLY_SWITCHED = (
    *CONVOLUTIONS,
    SPARSE_BMM,
    GETITEM,
    INDEX_PUT,
    INDEX_PUT_ADDS,
    PUT_ADDS,
    entry(
        "one dimension on CUDA, switched",
        "torch.Tensor.scatter_add_",
        check("cuda-scatter-add", "aten.scatter_add aten.scatter_add_", N, D, ndim=1, dtype="float32"),
    ),
    entry(
        "one dimension on CUDA with a gradient, switched",
        "torch.gather",
        check("cuda-scatter-add", "aten.scatter_add", N, D, ndim=1, dtype="float32"),
    ),
    INDEX_ADD,
    INDEX_SELECT,
    REPEAT_INTERLEAVE,
    INDEX_COPY,
)

EARLY_REFUSED = (
    *POOLS,
    *interpolations(),
    *reflection_pads(),
    *(
        entry(
            "backward on CUDA, refused",
            f"torch.nn.ReplicationPad{n}d",
            check(
                "cuda-replication-pad2d-backward" if n == 2 else "cuda-replication-pad-backward",
                f"aten.replication_pad{n}d_backward",
                N,
                R,
            ),
        )
        for n in (1, 2, 3)
    ),
    *LOSSES,
    entry(
        "more than one dimension on CUDA, refused",
        "torch.Tensor.scatter_add_",
        check("cuda-scatter-add", "aten.scatter_add aten.scatter_add_", N, R, ndim=2, dtype="float32"),
    ),
    entry(
        "more than one dimension on CUDA with a gradient, refused",
        "torch.gather",
        check("cuda-scatter-add", "aten.scatter_add", N, R, ndim=3, dtype="float32"),
    ),
    *PUTS,
    HISTC,
    entry(
        "on CUDA, refused",
        "torch.bincount",
        check("cuda-bincount", "aten.bincount", N, R, given_weights=True),
        check("cuda-bincount", "aten.bincount", D, R, given_weights=False),
    ),
    entry("on CUDA, refused", "torch.kthvalue", check("cuda-kthvalue", "aten.kthvalue", C, R)),
    MEDIAN,
    GRID_SAMPLE,
)

OVERLAP = process(
    "in-place ops and out= on a tensor that overlaps itself in memory race, and the mode does not see it",
    row("overlapping-write", wrote_overlapping(Overlap.ITSELF), wrote_overlapping(None)),
)
SLOWER = process("repeatable algorithms tend to be slower", FASTER)
MEANING = program(
    "deterministic: the same input on the same software and hardware gives the same output every time",
    "tracer.report.words:GUARANTEE",
)
SWITCH_OR_REFUSE = program(
    "mode on: ops switch to a repeatable algorithm where there is one and raise where there is none; mode off: neither",
    "tracer.findings:Finding.deterministic_mode",
)

EARLY_SAID = (
    MEANING,
    SWITCH_OR_REFUSE,
    fact(
        "matrix products raise on CUDA 10.2 and newer unless CUBLAS_WORKSPACE_CONFIG is set",
        check("cuda-cublas", "aten.mm aten.mv", C, R, **PLAIN),
        check("cuda-bmm", "aten.bmm", C, R, **PLAIN),
        check("cuda-cublas", "aten.mm aten.mv", D, D, cublas_workspace="set", **PLAIN),
        check("cuda-bmm", "aten.bmm", D, D, cublas_workspace="set", **PLAIN),
    ),
    SLOWER,
    OVERLAP,
    fact(
        "example: index_copy on the CPU is refused",
        check("cpu-index-copy", "aten.index_copy", C, D, **LARGE),
        corrected="the page's own list says that it is switched, and so does the source of 1.13",
    ),
    fact(
        "example: the backward of index_select on CUDA is refused as index_add_cuda_",
        check("cuda-index-add", "aten.index_add_", N, D, **PLAIN),
        corrected="the page's own list says that it is switched, and so does the source of 1.13",
    ),
)

EARLY = Document(
    "early-page",
    "torch.use_deterministic_algorithms before warn_only, in a Chinese rendering; judged for the oldest reviewed torch",
    ("1.11", "1.12"),
    {"switched": EARLY_SWITCHED, "refused": EARLY_REFUSED, "said": EARLY_SAID},
)

CURRENT_SWITCHED = (
    *CONVOLUTIONS,
    *(
        entry(
            "backward on CUDA, switched",
            f"torch.nn.ReplicationPad{n}d",
            check(
                "cuda-replication-pad2d-backward" if n == 2 else "cuda-replication-pad-backward",
                f"aten.replication_pad{n}d_backward",
                N,
                D,
            ),
        )
        for n in (1, 2, 3)
    ),
    SPARSE_BMM,
    GETITEM,
    INDEX_PUT,
    INDEX_PUT_ADDS,
    PUT_ADDS,
    entry(
        "on CUDA, switched",
        "torch.Tensor.scatter_add_",
        check("cuda-scatter-add", "aten.scatter_add aten.scatter_add_", N, D, ndim=2, dtype="float32"),
    ),
    entry(
        "on CUDA with a gradient, switched",
        "torch.gather",
        check("cuda-scatter-add", "aten.scatter_add", N, D, ndim=3, dtype="float32"),
    ),
    INDEX_ADD,
    INDEX_SELECT,
    REPEAT_INTERLEAVE,
    INDEX_COPY,
    entry(
        "with a tensor of values on CUDA, switched",
        "torch.Tensor.scatter",
        check("cuda-scatter-src", "aten.scatter.src aten.scatter_.src", C, D, backward_selects=False),
    ),
    entry(
        "sum and mean on CUDA, switched",
        "torch.Tensor.scatter_reduce",
        check("cuda-scatter-reduce", "aten.scatter_reduce.two", N, D, arg_reduce="sum", dtype="float32"),
        check("cuda-scatter-reduce", "aten.scatter_reduce.two", N, D, arg_reduce="mean", dtype="float32"),
    ),
)

CURRENT_REFUSED = (
    *POOLS,
    *interpolations(
        bilinear="F.interpolate has another route since 2.1 where the mode is on in the forward",
        trilinear="F.interpolate has another route since 2.9 where the mode is on in the forward",
    ),
    *reflection_pads(plane="since 2.7 deterministic mode takes a kernel that gathers"),
    *LOSSES,
    *PUTS,
    entry(
        "on CUDA, refused",
        "torch.histc",
        check("cuda-histc", "aten.histc", C, R, **PLAIN),
        check("cuda-histc", "aten.histc", D, D, dtype="int64"),
        corrected="since 2.8 floating-point input alone is refused",
    ),
    entry(
        "with weights on CUDA, refused",
        "torch.bincount",
        check("cuda-bincount", "aten.bincount", N, R, given_weights=True),
        check("cuda-bincount", "aten.bincount", D, D, given_weights=False),
    ),
    MEDIAN,
    GRID_SAMPLE,
    entry(
        "floating or complex on CUDA, refused",
        "torch.cumsum",
        check("cuda-cumsum", "aten.cumsum", N, D, dtype="float32", shape_scan_is_whole=True),
        check("cuda-cumsum", "aten.cumsum", D, D, dtype="float32", shape_scan_is_whole=False),
        corrected="by 2.6 it is switched to a scan of fixed order, and scans of several rows never vary",
    ),
    entry(
        "prod on CUDA, refused",
        "torch.Tensor.scatter_reduce",
        check("cuda-scatter-reduce", "aten.scatter_reduce.two", N, R, arg_reduce="prod", dtype="float32"),
    ),
    entry(
        "of a quantized tensor, refused",
        "torch.Tensor.resize_",
        check("cpu-resize", "aten.resize_", C, R, dtype="quantized", shape_grows=True),
        check("cuda-resize", "aten.resize_", C, R, dtype="quantized", shape_grows=True),
    ),
)

INDUCTOR = tuple(
    process(f"under the mode Inductor {what}", carrier)
    for what, carrier in (
        ("does not time whether padding a matrix product pays", inductor("pad-mm", shape_padding=True)),
        (
            "takes the eager kernel in place of the fastest of its templates",
            inductor("max-autotune", max_autotune=True),
        ),
        ("chooses Triton configurations of reductions by rule, not by time", inductor("reduction-configs")),
        (
            "leaves reductions out of coordinate descent",
            inductor("coordinate-descent", coordinate_descent_tuning=True),
        ),
        (
            "does not time the reordering of computation and communication",
            inductor("overlap-reorder", reorder_for_compute_comm_overlap=True),
        ),
        ("does not scale down RBLOCK for occupancy", inductor("dynamic-rblock", dynamic_scale_rblock=True)),
    )
)

CURRENT_SAID = (
    MEANING,
    process(
        "the mode alone does not always make a program repeatable",
        row("torch-generator", drew(MACHINE, **ON), drew(PROGRAM, **ON)),
    ),
    process(
        "set_deterministic_debug_mode is another way to set it",
        row(
            "debug-mode",
            ran("aten.add.Tensor", settings={"torch.get_deterministic_debug_mode": 1}),
            ran("aten.add.Tensor", settings={"torch.get_deterministic_debug_mode": 2}),
            words="Another spelling of deterministic mode",
        ),
    ),
    fact(
        "memory that nobody wrote is filled with the mode and fill_uninitialized_memory on",
        check("cuda-resize", "aten.resize_", C, D, dtype="float32", shape_grows=True),
        check("cuda-resize", "aten.resize_", C, C, dtype="float32", fill_uninitialized_memory=False, shape_grows=True),
        check("cpu-resize", "aten.resize_", C, D, dtype="float32", shape_grows=True),
    ),
    SLOWER,
    process(
        "switching the mode on switches Inductor's on too, which then times nothing that changes numbers",
        inductor("pad-mm", shape_padding=True),
    ),
    *INDUCTOR,
    OVERLAP,
    SWITCH_OR_REFUSE,
    fact(
        "warn_only warns where the mode would raise, and the op stays as it is",
        check("cuda-avg-pool3d-backward", "aten.avg_pool3d_backward", N, R, shape_windows_overlap=True),
    ),
    fact(
        "example: the backward of AvgPool3d(1) on CUDA is refused",
        check("cuda-avg-pool3d-backward", "aten.avg_pool3d_backward", D, R, shape_windows_overlap=False),
    ),
)

CURRENT = Document(
    "current-page",
    "torch.use_deterministic_algorithms with Inductor's bullets; by its entries (no kthvalue, ReplicationPad switched,"
    " MaxPool3d refused) the page of 2.10 to 2.12",
    ("2.10", "2.11", "2.12"),
    {"switched": CURRENT_SWITCHED, "refused": CURRENT_REFUSED, "said": CURRENT_SAID},
)
