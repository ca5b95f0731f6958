"""Ops whose result has a row for each row of some arguments, and which arguments those are.

Kernels trust the sizes that they are given: a tensor of statistics that is cut like a batch corrupts memory. So a call
is made again on a part of its rows only where a row of this table, or torch's tag of pointwise ops, says what holds
them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class RowWise(msgspec.Struct, frozen=True, kw_only=True):
    """Where the calls of an op hold rows."""

    arguments: tuple[str, ...] = ()
    """Tensors (or lists of tensors) that hold them, in the dimension that the first of them holds them in; empty: every
    tensor, broadcast."""
    is_leading: bool = True
    """Whether they lie along the first dimension alone, and not along any that the op does not work along."""
    along: str = ""
    """The argument that names the dimensions that it works along: no rows lie there."""
    last: str = ""
    """The argument whose length is the number of last dimensions that it works along."""
    sizes: str = ""
    """The argument that says the number of rows again, as a number or as the first of a list."""
    results: int | None = None
    """How many of its first results hold rows; ``None``: all of that size."""
    mixes: bool = False
    """Whether a row of its result is made of several rows."""
    is_tried: bool = True
    """Whether it is made again at all: its result may hold rows of no meaning, or be drawn."""

    @property
    def is_pointwise(self) -> bool:
        """Whether each element is made of those at its own place, broadcast."""
        return not self.arguments


#: What torch's tag says of an op that bears it.
POINTWISE = RowWise(is_leading=False)


def _rows(
    names: str, arguments: str = "", *, is_leading: bool = True, **columns: str | bool | int
) -> Iterator[tuple[str, RowWise]]:
    row = msgspec.convert({"arguments": tuple(arguments.split()), "is_leading": is_leading, **columns}, RowWise)
    return ((name, row) for name in names.split())


def _along(
    names: str, arguments: str, along: str = "dim", **columns: str | bool | int
) -> Iterator[tuple[str, RowWise]]:
    return _rows(names, arguments, is_leading=False, along=along, **columns)


_ATTENTION = "query key value attn_mask attn_bias"
_ATTENTION_BACK = f"grad_out grad_out_ out logsumexp {_ATTENTION}"

_TABLE = dict(
    (
        # pointwise without torch's tag
        *_rows(
            """
            _prelu_kernel _prelu_kernel_backward _to_copy copy_ elu_backward floor_divide
            hardsigmoid_backward hardswish_backward hardtanh_backward huber_loss leaky_relu_backward
            log_sigmoid_backward log_sigmoid_forward masked_fill masked_fill_ mse_loss rsub smooth_l1_loss
            softplus_backward softshrink_backward where
            """,
            is_leading=False,
        ),
        # results of their own shape that other rows, or a generator, decide too
        *_rows(
            "bernoulli bernoulli_ empty_like full_like native_dropout ones_like rand_like randn_like zeros_like",
            "self input",
            is_tried=False,
            is_leading=False,
        ),
        *_rows("new_empty new_empty_strided new_full new_ones new_zeros", "self", is_tried=False, results=0),
        *_rows("mkldnn_rnn_layer", "input", is_tried=False, is_leading=False, results=1),
        *_rows(
            "_native_batch_norm_legit cudnn_batch_norm miopen_batch_norm native_batch_norm",
            "input",
            mixes=True,
            results=1,
        ),
        *_rows("native_batch_norm_backward", "grad_out input", mixes=True, results=1),
        *_rows("cudnn_batch_norm_backward miopen_batch_norm_backward", "grad_output input", mixes=True, results=1),
        *_rows("nll_loss_backward nll_loss2d_backward", "self grad_output target"),
        *_rows(
            "binary_cross_entropy_backward huber_loss_backward mse_loss_backward smooth_l1_loss_backward",
            "self grad_output target",
            mixes=True,  # a mean's gradient is divided by how many there are
        ),
        *_rows("embedding_dense_backward", "indices grad_output", mixes=True, results=0),
        *_rows("binary_cross_entropy binary_cross_entropy_with_logits", "self target"),
        *_rows("nll_loss_forward nll_loss2d_forward", "self target", results=1),
        # products
        *_rows("mm linear", "self input"),
        *_rows("addmm _addmm_activation", "mat1"),
        *_rows("bmm", "self mat2"),
        *_rows("baddbmm", "batch1 batch2 self"),
        *_rows("convolution _convolution cudnn_convolution mkldnn_convolution", "input self"),
        *_rows("convolution_backward", "grad_output input", results=1),
        *_rows("_slow_conv2d_forward slow_conv3d_forward thnn_conv2d", "self"),
        *_rows("_native_batch_norm_legit_no_training", "input", results=1),
        *_rows("native_group_norm", "input", sizes="N"),
        *_rows("native_group_norm_backward", "grad_out input mean rstd", sizes="N", results=1),
        # normalizing, reducing and ordering along other dimensions
        *_rows("native_layer_norm _fused_rms_norm", "input", is_leading=False, last="normalized_shape"),
        *_rows(
            "native_layer_norm_backward _fused_rms_norm_backward",
            "grad_out input mean rstd",
            is_leading=False,
            last="normalized_shape",
            results=1,
        ),
        *_along("_safe_softmax _softmax _log_softmax cumsum cumprod logcumsumexp", "self"),
        *_along("_softmax_backward_data _log_softmax_backward_data", "grad_output output"),
        *_along("all amax amin any argmax argmin logsumexp max mean min prod std std_mean sum var var_mean", "self"),
        *_along("kthvalue linalg_vector_norm norm median mode sort topk", "self"),
        *_along("gather scatter scatter_add", "self index src"),
        *_along("index_select", "self"),
        *_along("cat", "tensors"),
        *_along("flip roll", "self", "dims"),
        *_along("glu", "self"),
        *_along("glu_backward", "grad_output self"),
        *_rows("slice_backward select_backward", "grad_output", along="dim", sizes="input_sizes"),
        # looking up
        *_rows("embedding", "indices", is_leading=False),
        # pooling and scaling
        *_rows(
            """
            _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d avg_pool2d avg_pool3d
            constant_pad_nd max_pool2d_with_indices max_pool3d_with_indices reflection_pad2d replication_pad2d
            upsample_bicubic2d upsample_bilinear2d upsample_nearest1d upsample_nearest2d
            upsample_nearest3d upsample_trilinear3d pixel_shuffle pixel_unshuffle channel_shuffle
            """,
            "self input",
        ),
        *_rows(
            """
            _adaptive_avg_pool2d_backward adaptive_max_pool2d_backward avg_pool2d_backward avg_pool3d_backward
            max_pool2d_with_indices_backward max_pool3d_with_indices_backward
            """,
            "grad_output self indices",
        ),
        *_rows(
            "upsample_bicubic2d_backward upsample_bilinear2d_backward upsample_nearest2d_backward",
            "grad_output",
            sizes="input_size",
        ),
        # attention
        *_rows(
            """
            _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention
            _scaled_dot_product_efficient_attention
            """,
            _ATTENTION,
            results=2,
        ),
        *_rows(
            """
            _scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_efficient_attention_backward
            """,
            _ATTENTION_BACK,
            results=3,
        ),
    )
)  # fmt: skip


def row_wise(name: str) -> RowWise | None:
    """What is known of the rows of the op ``name``, without namespace and overload; ``None``: nothing."""
    return _TABLE.get(name)
