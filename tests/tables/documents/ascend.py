"""The Ascend list of APIs with a deterministic kernel once the mode is on, and what it says around the list."""

from __future__ import annotations

from collections.abc import Iterator

from tests.tables.documents.cases import UNKNOWN, Check, D, Document, N, Statement, process, program
from tests.tables.documents.processes import FASTER, ON_AN_NPU, ONCE_A_THREAD

#: API, as the list spells it; the rules that carry it, and the ops of each that a mode sees on an NPU.
REACHED = {
    "torch.nn.functional.batch_norm": {"npu-batch-norm": "native_batch_norm native_batch_norm_backward"},
    "torch.nn.functional.binary_cross_entropy": {
        "npu-binary-cross-entropy": "binary_cross_entropy binary_cross_entropy_backward"
    },
    "torch.nn.functional.ctc_loss": {"npu-ctc-loss": "_ctc_loss _ctc_loss_backward"},
    "torch.cumsum": {"npu-cumsum": "cumsum"},
    "torch.dot": {"npu-dot": "dot"},
    "torch.matmul": {"npu-matmul": "matmul matmul_backward mm bmm mv", "npu-dot": "dot"},
    "torch.nn.functional.embedding": {
        "npu-embedding": "embedding",
        "npu-embedding-backward": "embedding_dense_backward",
    },
    "torch.nn.functional.nll_loss": {
        "npu-nll-loss": "nll_loss_forward nll_loss2d_forward",
        "npu-nll-loss-backward": "nll_loss_backward nll_loss2d_backward",
    },
    "torch.nn.functional.prelu": {"npu-prelu": "_prelu_kernel _prelu_kernel_backward"},
    "torch.mean": {"npu-mean": "mean"},
    "torch.nn.functional.adaptive_avg_pool2d": {
        "npu-adaptive-avg-pool2d": "_adaptive_avg_pool2d",
        "npu-adaptive-avg-pool2d-backward": "_adaptive_avg_pool2d_backward",
    },
    "torch.nn.functional.avg_pool2d": {
        "npu-avg-pool2d": "avg_pool2d",
        "npu-avg-pool2d-backward": "avg_pool2d_backward",
    },
    "torch.nn.functional.binary_cross_entropy_with_logits": {
        "npu-binary-cross-entropy-with-logits": "binary_cross_entropy_with_logits"
    },
    "torch.nn.functional.mse_loss": {"npu-mse-loss": "mse_loss mse_loss_backward"},
    "torch.addbmm": {"npu-addbmm": "addbmm"},
    "torch.Tensor.addbmm_": {"npu-addbmm": "addbmm_"},
    "torch.addmv": {"npu-addmv": "addmv"},
    "torch.Tensor.addmv_": {"npu-addmv": "addmv_"},
    "torch.nn.functional.l1_loss": {"npu-l1-loss": "l1_loss npu.l1_loss_backward"},
    "torch.nn.functional.smooth_l1_loss": {"npu-smooth-l1-loss": "smooth_l1_loss smooth_l1_loss_backward"},
    "torch.addmm": {"npu-addmm": "addmm"},
    "torch.Tensor.addmm": {"npu-addmm": "addmm"},
    "torch.mm": {"npu-matmul": "mm"},
    "torch.bmm": {"npu-matmul": "bmm"},
    "torch.nn.functional.layer_norm": {"npu-layer-norm": "native_layer_norm native_layer_norm_backward"},
    "Tensor.put_": {"npu-put": "put_"},
    "torch.Tensor.index_put": {"npu-index-put": "index_put"},
    "torch.Tensor.index_put_": {"npu-index-put": "index_put_"},
    "torch_npu.npu_convolution_transpose": {
        "npu-npu-convolution-transpose": "npu.npu_convolution_transpose npu.npu_convolution_transpose_backward"
    },
    "torch_npu.npu_convolution": {"npu-npu-convolution": "npu.npu_convolution npu.npu_convolution_backward"},
    "torch_npu.npu_linear": {"npu-npu-linear": "npu.npu_linear npu.npu_linear_backward"},
    "torch_npu.npu_deformable_conv2d": {
        "npu-npu-deformable-conv2d": "npu.npu_deformable_conv2d npu.npu_deformable_conv2dbk"
    },
    "torch.ops.aten.convolution_backward": {"npu-convolution-backward": "convolution_backward"},
    "torch.nn.NLLLoss2d": {"npu-nll-loss": "nll_loss2d_forward", "npu-nll-loss-backward": "nll_loss2d_backward"},
    "torch_npu.npu_ps_roi_pooling": {
        "npu-npu-ps-roi-pooling": "npu.npu_ps_roi_pooling npu.npu_ps_roi_pooling_backward"
    },
    "torch.nn.functional.fold": {"npu-fold": "col2im"},
    "torch.nn.functional.unfold": {"npu-fold": "im2col"},
    "torch.nn.functional.kl_div": {"npu-kl-div": "kl_div npu.kl_div_backward"},
    "torch.nn.functional.multilabel_margin_loss": {
        "npu-multilabel-margin-loss": "multilabel_margin_loss_forward",
        "npu-multilabel-margin-loss-backward": "multilabel_margin_loss_backward",
    },
    "torch.std_mean": {"npu-std-var": "std_mean"},
    "torch.std": {"npu-std-var": "std"},
    "torch.var_mean": {"npu-std-var": "var_mean"},
    "torch.var": {"npu-std-var": "var"},
    "torch.sum": {"npu-sum": "sum"},
    "torch.nn.functional.interpolate": {
        "npu-interpolate": "upsample_nearest2d upsample_bilinear2d",
        "npu-interpolate-nearest-backward": "upsample_nearest2d_backward",
        "npu-interpolate-linear-backward": "upsample_bilinear2d_backward upsample_linear1d_backward",
        "npu-interpolate-bicubic-backward": "upsample_bicubic2d_backward",
        "npu-interpolate-trilinear-backward": "upsample_trilinear3d_backward",
    },
    "torch.nn.functional.soft_margin_loss": {"npu-soft-margin-loss": "soft_margin_loss soft_margin_loss_backward"},
    "torch.trace": {"npu-trace": "trace"},
    "torch.mv": {"npu-matmul": "mv"},
    "torch_npu.npu_group_norm_swish": {
        "npu-npu-group-norm-swish": "npu.npu_group_norm_swish",
        "npu-npu-group-norm-swish-backward": "npu.npu_group_norm_swish_grad",
    },
}

#: The list says what the mode does and not what happens without it: later lists do for some.
WITHOUT_THE_MODE = (N, UNKNOWN)
CALLS = {"dtype": "float32", "layout": "strided", "arg.accumulate": True}


def checks(ops_by_rule: dict[str, str]) -> Iterator[Check]:
    """One check a rule; an op without a namespace is one of aten's."""
    for rule, ops in ops_by_rule.items():
        spelt = tuple(op if "." in op else f"aten.{op}" for op in ops.split())
        yield Check(rule, spelt, WITHOUT_THE_MODE, D, CALLS, ())


LISTED = tuple(
    Statement(f"{api}: has a deterministic kernel once the mode is on", tuple(checks(ops)), api=api)
    for api, ops in REACHED.items()
)

SAID = (
    program(
        "deterministic: the same input on the same hardware and software gives the same output every time",
        "tracer.report.words:GUARANTEE",
    ),
    process("the mode must be set in the main process that runs the network, not in another one", ON_AN_NPU),
    process("once a thread: the first effective setting wins, later ones do nothing", ONCE_A_THREAD),
    process("a setting is effective once an op was launched under it", ONCE_A_THREAD),
    process("so set it once a thread, whether to on or to off", ONCE_A_THREAD),
    process(
        "it is set by use_deterministic_algorithms(True) and read by are_deterministic_algorithms_enabled()", ON_AN_NPU
    ),
    process("it may cost speed", FASTER),
)

ASCEND = Document(
    "ascend-list",
    "Ascend Extension for PyTorch, list of APIs that support deterministic computation, first edition",
    ("2.1", "2.6"),
    {"listed": LISTED, "said": SAID},
)
