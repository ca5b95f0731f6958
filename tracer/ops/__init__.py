"""The table of ops: its columns, and a row for each op of which something is known that its schema does not say.

Ops that are alike in everything share a line. An in-place op has a row of its own: it does other things to memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Any

import msgspec


class Touch(Enum):
    """An op's effect on the memory of its arguments."""

    ALLOCATES = auto()
    """Its result is memory that nothing was written to."""
    GROWS = auto()
    """It may enlarge a storage."""
    MOVES = auto()
    """Its result holds what its argument holds, unwritten memory included."""
    OVERWRITES = auto()
    """It writes all of ``self`` and reads nothing of it."""
    METADATA = auto()
    """It asks for sizes, dtypes and places, and touches no element."""
    WAITS = auto()
    """It waits for other ranks, and its tensor, which may be unwritten, only says on which device."""
    SHAPE_OF_SELF = auto()
    """It asks ``self`` for its sizes alone: what ``zero_`` and its like become where ``torch.func`` writes nothing."""
    SCATTERS = auto()
    """It writes ``self`` at places that only data know, and reads nothing else of it."""
    ACCUMULATES = auto()
    """It reads and writes ``self`` at places that only data know."""
    GATHERS = auto()
    """It reads its first argument at places that only data know."""
    SELECTS = auto()
    """It takes elements of its first argument or leaves them, as another tensor says."""


class Numbers(Enum):
    """An op's effect on tensors of distinct numbers, which write each place once when they serve as an index."""

    MAKES = auto()
    CARRIES = auto()
    """Its result holds numbers of its argument."""
    PUTS = auto()
    """Its result holds numbers that it was given, each at a place that an index names."""


class Writes(Enum):
    """The way in which an op's index says where it writes."""

    ALONG = auto()
    """One index for each element, along ``dim``: ``scatter``."""
    ROWS = auto()
    """One index for each row of ``dim``: ``index_add``."""
    SEVERAL = auto()
    """One index for each dimension: ``index_put``."""
    FLAT = auto()
    """One index through all elements: ``put``."""
    EMBEDDED = auto()
    """One index for each row of a table, one of which may be padding."""
    POOLED = auto()
    """One index through the last dimensions of ``self``, as many as ``spatial`` says."""
    UNPOOLED = auto()
    """The same, through ``output_size``."""


class Orders(Enum):
    """Whether ties show in which element an op chooses."""

    ONE = auto()
    """It chooses one element of a row."""
    SEVERAL = auto()
    """It chooses or orders several."""


class Route(Enum):
    """The public function that calls an op alone, if its arguments are another op's private results."""

    ATTENTION = auto()
    RECURRENT = auto()
    BATCH_NORM = auto()
    CTC = auto()


class Index(msgspec.Struct, frozen=True):
    """An argument of indices, and the dimension that they count through."""

    argument: str
    counts: str
    """The tensor."""
    dim: int | str
    """Its dimension, or the argument that says which."""


class IndexBelow(msgspec.Struct, frozen=True):
    """An argument of indices that lie below the number in another argument."""

    argument: str
    limit: str


class Formula(msgspec.Struct, frozen=True):
    """A backward formula that runs under a dispatch mode alone, an empty one too."""

    node: str
    """The autograd node, without its number."""
    mark: str
    """An overload that it dispatches once, and the other formula never or seldom."""
    differs: str
    """The possible difference of its result."""
    on_cuda: bool = True
    """False where CUDA takes it without a mode too."""


class Op(msgspec.Struct, frozen=True):
    """One row: the properties of every overload of one op. A default also holds for an op without a row."""

    name: str
    """Without its namespace and overload: ``index_add_``."""
    touches: Touch | None = None
    """``None``: what its schema says, reading every argument in full."""
    idempotent: bool = False
    """Whether applying it twice gives the same, and it reads no other tensor. Then no order of writes shows."""
    beta: bool = False
    """Whether ``self`` is not read when ``beta`` is 0."""
    product: bool = False
    """Whether each element of its result is made of many elements of two factors."""
    copies: bool = False
    """Whether it copies one argument to another."""
    is_view: bool = False
    """Whether it shares memory with an argument though its schema does not say so, or wraps what Python holds."""
    detaches: bool = False
    """Whether its result is its argument, without the graph that it came of."""
    to_host: bool = False
    """Whether it hands what it reads to Python."""
    scratch: int | None = None
    """Place of the result that only its own backward reads, where the schema has no name for it."""
    undeclared: tuple[str, ...] = ()
    """Arguments that it writes although its schema calls them inputs."""
    draws: bool | None = None
    """Whether it draws random numbers, where torch's tag is wrong: it is handed what it needs, or bears no tag."""
    numbers: Numbers | None = None
    writes: Writes | None = None
    spatial: int = 0
    """Dimensions that a pool's index counts through."""
    sums: bool = False
    """Whether it adds up what it writes to one place, whatever its arguments."""
    onto_zeros: bool = False
    """Whether it adds into a tensor of zeros that it makes."""
    orders: Orders | None = None
    tied: bool = False
    """Whether its result depends on which of equal elements comes first."""
    reduces: bool = False
    """Whether it adds numbers up, so that another split of the work rounds otherwise."""
    indexed_by: Index | IndexBelow | None = None
    """The argument that holds indices, and what they count through."""
    indexes_each: bool = False
    """Whether ``indices`` is a list, with one index for each dimension of ``self``."""
    indexed_flat_by: str = ""
    """The argument that counts through all elements of ``self``."""
    bends: tuple[tuple[int, str | float], ...] = ()
    """Where it, or its backward, bends or jumps: signs, and a number or the argument that holds it."""
    jumps: bool = False
    """Whether its floating result is made of steps, of which rounding may choose another one."""
    probabilities: bool = False
    """Whether its floating arguments must lie between 0 and 1."""
    definite: bool = False
    """Whether its matrix must be positive definite."""
    route: Route | None = None
    kernel: str = ""
    """The name in ``torch.nn.attention.SDPBackend`` that chooses it."""
    made_of: tuple[str, ...] = ()
    """Names by which a generated kernel may call it: what it was before the graph decomposed it."""
    called_for: tuple[str, ...] = ()
    """Ops that an external kernel of this name computes."""
    formula: Formula | None = None
    on_cpu_for: str = ""
    """The name, valid on every device, of its computation, if torch has a kernel for a CPU alone; else empty."""


# --- the rows ---

_SELECTED = "in the sign of zeros, and where the gradient is infinite or NaN"
_LAST_BITS = "in its last bits"
_VALUE = "in the last bits of the value's gradient"
_STATISTICS = ("running_mean", "running_var")
_ALONG_DIM = Index("index", "self", "dim")


def _selects(node: str) -> Formula:
    return Formula(node, "aten.logical_or_.default", _SELECTED, on_cuda=False)


def _rows(names: str, **columns: Any) -> Iterator[Op]:
    """A row for each of ``names``."""
    return (Op(name, **columns) for name in names.split())


_TABLE: dict[str, Op] = {}
#: Ops that make one number, or zero and that number.
NUMBERED = {
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero"), 0),
    **dict.fromkeys(("ones", "ones_like", "new_ones", "eye", "bernoulli"), 1),
}
#: Ops that fill a tensor with an argument, at this position.
FILLING = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0, "fill": 1, "copy": 1}
#: Ops whose result holds numbers of their first argument, or zeros, and of the arguments at these positions.
TAKING: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("clone", "_to_copy", "gather", "index", "index_select", "masked_select", "take"), ()),
    **dict.fromkeys(("repeat", "flip", "roll", "tril", "triu", "cat", "stack"), ()),
    **dict.fromkeys(("masked_fill", "index_put"), (2,)),
    **dict.fromkeys(("scatter", "index_fill", "index_copy"), (3,)),
}
SUMMING = {"index_add": 3, "scatter_add": 3, "scatter_reduce": 3, "index_put": 2}
#: Ops that return the numbers of their first argument, or a part of them, in another shape.
VIEWS = frozenset(
    {
        *("slice", "view", "_unsafe_view", "reshape", "select", "expand", "permute", "unsqueeze", "squeeze"),
        *("alias", "clone", "detach"),
    }
)
ARITHMETIC = ("add", "sub", "rsub", "mul", "div", "sum", "where")
for _op in (
    *_rows(
        """
        _assert_tensor_metadata can_cast cudnn_is_acceptable _debug_has_internal_overlap device dim
        _efficientzerotensor full_like _has_compatible_shallow_copy_type _has_same_storage_numel is_complex is_conj
        is_contiguous is_floating_point is_inference is_leaf is_neg is_non_overlapping_and_dense is_pinned
        is_same_size is_set_to is_signed is_strides_like_format _is_zerotensor layout _nested_get_jagged_dummy
        _nested_get_lengths _nested_get_max_seqlen _nested_get_min_seqlen _nested_get_offsets _nested_get_ragged_idx
        _nested_get_values _nested_tensor_size _nested_tensor_storage_offsets _nested_tensor_strides
        _nested_view_from_buffer _nested_view_from_jagged new_full new_ones new_zeros
        _new_zeros_with_same_feature_meta numel ones_like output_nr prim_device prim_dtype promote_types rand_like
        randint_like randn_like result_type retains_grad _shape_as_tensor size storage_offset stride
        sym_is_contiguous sym_numel sym_size sym_storage_offset sym_stride _use_cudnn_ctc_loss
        _use_cudnn_rnn_flatten_weight _version zeros_like
        """,
        touches=Touch.METADATA,
    ),
    Op("_fused_sdp_choice", touches=Touch.METADATA, draws=False),
    *_rows(
        """
        data lift lift_fresh record_stream requires_grad_ retain_grad set_ set_data unsafe_chunk unsafe_split
        unsafe_split_with_sizes _unsafe_view
        """,
        touches=Touch.METADATA,
        is_view=True,
    ),
    Op("detach_", is_view=True),
    Op("detach", detaches=True),
    *_rows("allclose equal _is_all_true _is_any_true is_nonzero item _local_scalar_dense", to_host=True),
    *_rows("empty empty_like empty_permuted empty_strided new_empty new_empty_strided", touches=Touch.ALLOCATES),
    *_rows("resize_ resize_as_ _resize_output_", touches=Touch.GROWS),
    Op("_pin_memory", touches=Touch.MOVES),
    *_rows("barrier monitored_barrier_", touches=Touch.WAITS),
    *_rows("clone _to_copy", touches=Touch.MOVES, numbers=Numbers.CARRIES),
    *_rows("copy_ _foreach_copy_", touches=Touch.OVERWRITES, copies=True),
    *_rows("fill_ _foreach_zero_ zero_", touches=Touch.OVERWRITES, idempotent=True),
    *_rows(
        """
        bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ _philox_normal_ _philox_uniform_ random_
        uniform_
        """,
        touches=Touch.OVERWRITES,
    ),
    *_rows(
        """
        bernoulli.Tensor bernoulli.Tensor_out bernoulli.float_out bernoulli.p cauchy copy exponential fill
        _foreach_copy _foreach_zero normal_functional random zero
        """,
        touches=Touch.SHAPE_OF_SELF,
    ),
    *_rows("geometric log_normal", touches=Touch.SHAPE_OF_SELF, probabilities=True),
    Op("uniform", touches=Touch.SHAPE_OF_SELF, draws=True),
    *_rows(
        """
        abs_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ floor_ _foreach_abs_ _foreach_ceil_ _foreach_floor_
        _foreach_round_ _foreach_trunc_ hardtanh_ nan_to_num_ relu_ relu6_ round_ sign_ trunc_
        """,
        idempotent=True,
    ),
    Op("_index_put_impl_", touches=Touch.SCATTERS, writes=Writes.SEVERAL, indexes_each=True),
    Op(
        "_unsafe_index_put",
        touches=Touch.SCATTERS,
        writes=Writes.SEVERAL,
        indexes_each=True,
        made_of=("index_put", "upsample", "grid_sampler", "embedding_dense_backward"),
    ),
    *_rows("index_copy_ index_reduce_", touches=Touch.SCATTERS, writes=Writes.ROWS),
    Op(
        "index_put_",
        touches=Touch.SCATTERS,
        numbers=Numbers.PUTS,
        writes=Writes.SEVERAL,
        indexes_each=True,
        called_for=("index_put", "_unsafe_index_put", "_unsafe_masked_index_put_accumulate"),
    ),
    Op("put_", touches=Touch.SCATTERS, writes=Writes.FLAT),
    Op("scatter_", touches=Touch.SCATTERS, numbers=Numbers.PUTS, writes=Writes.ALONG, called_for=("scatter",)),
    Op("scatter_reduce_", touches=Touch.SCATTERS, writes=Writes.ALONG, called_for=("scatter_reduce", "scatter_add")),
    Op("index_add_", touches=Touch.ACCUMULATES, writes=Writes.ROWS, sums=True),
    Op("scatter_add_", touches=Touch.ACCUMULATES, writes=Writes.ALONG, sums=True, called_for=("scatter_add",)),
    Op("index_add", touches=Touch.SELECTS, writes=Writes.ROWS, sums=True, indexed_by=_ALONG_DIM),
    *_rows("index_copy index_reduce", touches=Touch.SELECTS, writes=Writes.ROWS, indexed_by=_ALONG_DIM),
    Op(
        "index_put",
        touches=Touch.SELECTS,
        numbers=Numbers.PUTS,
        writes=Writes.SEVERAL,
        indexes_each=True,
        made_of=("index_add", "index_put", "index_select", "index", "embedding_dense_backward", "gather"),
    ),
    Op("put", touches=Touch.SELECTS, writes=Writes.FLAT, indexed_flat_by="index"),
    Op("scatter", touches=Touch.SELECTS, numbers=Numbers.PUTS, writes=Writes.ALONG, indexed_by=_ALONG_DIM),
    Op(
        "scatter_add",
        touches=Touch.SELECTS,
        writes=Writes.ALONG,
        sums=True,
        indexed_by=_ALONG_DIM,
        made_of=("scatter_add", "gather_backward", "gather"),
    ),
    Op(
        "scatter_reduce",
        touches=Touch.SELECTS,
        writes=Writes.ALONG,
        indexed_by=_ALONG_DIM,
        made_of=("scatter_reduce", "scatter_add", "index_reduce"),
    ),
    Op("_index_put_impl", writes=Writes.SEVERAL, indexes_each=True),
    Op(
        "embedding_dense_backward",
        writes=Writes.EMBEDDED,
        onto_zeros=True,
        indexed_by=IndexBelow("indices", "num_weights"),
    ),
    *_rows(
        "adaptive_max_pool2d_backward fractional_max_pool2d_backward max_pool2d_with_indices_backward",
        writes=Writes.POOLED,
        spatial=2,
    ),
    *_rows(
        "adaptive_max_pool3d_backward fractional_max_pool3d_backward max_pool3d_with_indices_backward",
        writes=Writes.POOLED,
        spatial=3,
    ),
    Op("max_unpool2d", writes=Writes.UNPOOLED, spatial=2),
    Op("max_unpool3d", writes=Writes.UNPOOLED, spatial=3),
    *_rows(
        "embedding _embedding_bag embedding_bag _embedding_bag_forward_only",
        touches=Touch.GATHERS,
        indexed_by=Index("indices", "weight", 0),
    ),
    Op("gather", touches=Touch.GATHERS, indexed_by=_ALONG_DIM),
    Op("index_select", touches=Touch.GATHERS, numbers=Numbers.CARRIES, indexed_by=_ALONG_DIM),
    Op("take_along_dim", touches=Touch.GATHERS, indexed_by=Index("indices", "self", "dim")),
    Op("index_fill", touches=Touch.SELECTS, indexed_by=_ALONG_DIM),
    Op("embedding_renorm", indexed_by=Index("indices", "self", 0)),
    Op("_embedding_bag_per_sample_weights_backward", indexed_by=Index("indices", "weight", 0)),
    *_rows("nll_loss2d_backward nll_loss2d_forward", indexed_by=Index("target", "self", 1)),
    *_rows(
        """
        multi_margin_loss multi_margin_loss_backward multilabel_margin_loss_backward multilabel_margin_loss_forward
        nll_loss_backward nll_loss_forward
        """,
        indexed_by=Index("target", "self", -1),
    ),
    Op("cummaxmin_backward", indexed_by=Index("indices", "input", "dim")),
    *_rows(
        """
        embedding_backward _embedding_bag_backward _embedding_bag_dense_backward _embedding_bag_sparse_backward
        embedding_sparse_backward
        """,
        indexed_by=IndexBelow("indices", "num_weights"),
    ),
    Op("one_hot", indexed_by=IndexBelow("self", "num_classes")),
    Op("masked_select", touches=Touch.GATHERS),
    *_rows("_unsafe_index _unsafe_masked_index", touches=Touch.GATHERS, indexes_each=True),
    Op("index", touches=Touch.GATHERS, numbers=Numbers.CARRIES, indexes_each=True),
    Op("take", touches=Touch.GATHERS, indexed_flat_by="index"),
    Op("_fill_mem_eff_dropout_mask_", touches=Touch.SCATTERS, draws=False),
    *_rows(
        "fill_diagonal_ index_fill_ masked_fill_ masked_scatter_ rrelu_with_noise rrelu_with_noise_",
        touches=Touch.SCATTERS,
    ),
    *_rows(
        "as_strided_scatter diagonal_scatter masked_scatter _masked_softmax select_scatter slice_scatter where",
        touches=Touch.SELECTS,
    ),
    Op("masked_fill", touches=Touch.SELECTS, formula=Formula("MaskedFillBackward", "aten.where.self", _VALUE)),
    *_rows("arange _indices indices nonzero randperm tril_indices triu_indices", numbers=Numbers.MAKES),
    *_rows("_unique _unique2 unique_dim", numbers=Numbers.MAKES, tied=True),
    Op("multinomial", numbers=Numbers.MAKES, probabilities=True),
    *_rows("sort topk", numbers=Numbers.MAKES, orders=Orders.SEVERAL, tied=True),
    *_rows("add flip", numbers=Numbers.CARRIES),
    Op("kthvalue", orders=Orders.ONE, tied=True),
    Op("median", orders=Orders.ONE, tied=True, formula=_selects("MedianBackward")),
    Op("nanmedian", orders=Orders.ONE, tied=True, formula=_selects("NanmedianBackward")),
    *_rows(
        "amax amin argmax argmin argsort cummax cummin mode msort unique_consecutive unique_dim_consecutive", tied=True
    ),
    *_rows("adaptive_max_pool2d max_pool2d_with_indices", tied=True, spatial=2),
    *_rows("adaptive_max_pool3d max_pool3d_with_indices", tied=True, spatial=3),
    Op("fractional_max_pool2d", spatial=2),
    Op("fractional_max_pool3d", spatial=3),
    *_rows("elu leaky_relu _prelu_kernel relu", bends=((1, 0.0),)),
    *_rows("hardsigmoid hardswish", bends=((-1, 3.0), (1, 3.0))),
    *_rows("hardshrink softshrink", bends=((-1, "lambd"), (1, "lambd"))),
    Op("hardtanh", bends=((1, "min_val"), (1, "max_val"))),
    Op("threshold", bends=((1, "threshold"),)),
    *_rows("ceil floor floor_divide heaviside round sgn sign trunc", jumps=True),
    Op("_ctc_loss", scratch=1, route=Route.CTC),
    *_rows("_cudnn_rnn miopen_rnn", scratch=3, undeclared=("dropout_state",), route=Route.RECURRENT),
    Op("mkldnn_rnn_layer", scratch=3, route=Route.RECURRENT, on_cpu_for="nn.LSTM"),
    Op("mkldnn_rnn_layer_backward", on_cpu_for="nn.LSTM"),
    Op("cudnn_batch_norm", scratch=3, undeclared=_STATISTICS, route=Route.BATCH_NORM),
    Op("miopen_batch_norm", undeclared=_STATISTICS, route=Route.BATCH_NORM),
    Op(
        "_scaled_dot_product_flash_attention_for_cpu",
        draws=False,
        route=Route.ATTENTION,
        on_cpu_for="scaled_dot_product_attention",
    ),
    Op("_scaled_dot_product_flash_attention_for_cpu_backward", on_cpu_for="scaled_dot_product_attention"),
    Op("_scaled_dot_product_flash_attention", route=Route.ATTENTION, kernel="FLASH_ATTENTION"),
    Op("_scaled_dot_product_efficient_attention", route=Route.ATTENTION, kernel="EFFICIENT_ATTENTION"),
    Op("_scaled_dot_product_cudnn_attention", route=Route.ATTENTION, kernel="CUDNN_ATTENTION"),
    Op("_scaled_dot_product_fused_attention_overrideable", route=Route.ATTENTION),
    Op("batch_norm", undeclared=_STATISTICS, route=Route.BATCH_NORM),
    *_rows("_batch_norm_impl_index instance_norm", undeclared=_STATISTICS),
    Op("_cudnn_ctc_loss", route=Route.CTC),
    *_rows("_batch_norm_no_update _batch_norm_with_update _batch_norm_with_update_functional", scratch=3),
    *_rows(
        "batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_update_stats", undeclared=_STATISTICS
    ),
    Op("native_batch_norm", undeclared=_STATISTICS, reduces=True),
    *_rows(
        """
        _cudnn_attention_backward _flash_attention_forward_no_dropout_inplace _nested_tensor_softmax_with_shape
        philox_rand _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention_backward
        """,
        draws=False,
    ),
    *_rows("inductor_reserve_rng_state normal", draws=True),
    Op("addr", beta=True),
    Op("_addmm_activation", beta=True, product=True),
    *_rows("addbmm addmv", beta=True, product=True, reduces=True),
    Op("addmm", beta=True, product=True, reduces=True, called_for=("addmm", "mm", "linear")),
    Op("baddbmm", beta=True, product=True, reduces=True, called_for=("baddbmm", "bmm")),
    Op("mm", product=True, reduces=True, called_for=("mm", "addmm", "linear")),
    Op("bmm", product=True, reduces=True, called_for=("bmm", "baddbmm")),
    Op("convolution", reduces=True, called_for=("convolution", "_convolution")),
    Op("bias_addmm", reduces=True, called_for=("addmm",)),
    *_rows("_linear_pointwise _mkl_linear", reduces=True, called_for=("addmm", "mm", "linear")),
    Op("_convolution_pointwise", reduces=True, called_for=("convolution",), on_cpu_for="convolution"),
    *_rows("_convolution_pointwise_ mkldnn_convolution", on_cpu_for="convolution"),
    Op("_convolution_transpose_pointwise", on_cpu_for="conv_transpose"),
    *_rows(
        "mkldnn_linear mkldnn_linear_backward mkldnn_linear_backward_input mkldnn_linear_backward_weights",
        on_cpu_for="linear",
    ),
    *_rows("mkldnn_max_pool2d mkldnn_max_pool2d_backward", on_cpu_for="max_pool2d"),
    *_rows("mkldnn_max_pool3d mkldnn_max_pool3d_backward", on_cpu_for="max_pool3d"),
    *_rows("mkldnn_adaptive_avg_pool2d mkldnn_adaptive_avg_pool2d_backward", on_cpu_for="adaptive_avg_pool2d"),
    *_rows("mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight", on_cpu_for="convolution"),
    Op("_mkldnn_reshape", on_cpu_for="reshape"),
    *_rows("_mkldnn_transpose _mkldnn_transpose_", on_cpu_for="transpose"),
    Op("to_mkldnn", on_cpu_for="Tensor.to_mkldnn"),
    Op("_convert_weight_to_int4pack_for_cpu", on_cpu_for="_convert_weight_to_int4pack"),
    Op("_weight_int4pack_mm_for_cpu", on_cpu_for="_weight_int4pack_mm"),
    Op("_dyn_quant_pack_4bit_weight", on_cpu_for="_dyn_quant_pack_4bit_weight"),
    Op("_dyn_quant_matmul_4bit", on_cpu_for="_dyn_quant_matmul_4bit"),
    *_rows("_sparse_mm_reduce_impl _sparse_mm_reduce_impl_backward", on_cpu_for="torch.sparse.mm"),
    Op("_spdiags", on_cpu_for="torch.sparse.spdiags"),
    Op(
        "_unsafe_masked_index_put_accumulate",
        writes=Writes.SEVERAL,
        sums=True,
        indexes_each=True,
        made_of=("embedding_dense_backward", "index_put", "grid_sampler"),
    ),
    Op(
        "cumprod", reduces=True, probabilities=True, formula=Formula("CumprodBackward", "aten.ones.default", _LAST_BITS)
    ),
    *_rows(
        """
        _adaptive_avg_pool2d avg_pool1d avg_pool2d avg_pool3d convolution_backward cumsum dot flex_attention
        flex_attention_backward linalg_vector_norm _log_softmax logcumsumexp logsumexp mean mm_plus_mm nansum
        native_group_norm native_layer_norm norm prepare_softmax_online _softmax std std_mean sum
        triton_kernel_wrapper_functional triton_kernel_wrapper_mutation var var_mean vdot
        """,
        reduces=True,
    ),
    *_rows("_grouped_mm mv _scaled_grouped_mm _scaled_mm", product=True, reduces=True),
    Op("_int_mm", product=True),
    Op("prod", reduces=True, formula=Formula("ProdBackward", "aten.ones.default", _LAST_BITS)),
    *_rows(
        """
        bernoulli binary_cross_entropy binary_cross_entropy_backward binomial histc histogram logit poisson
        _sample_dirichlet _standard_gamma
        """,
        probabilities=True,
    ),
    *_rows("cholesky cholesky_inverse _cholesky_solve_helper linalg_cholesky_ex", definite=True),
    Op("max", formula=_selects("MaxBackward")),
    Op("min", formula=_selects("MinBackward")),
):
    if _op.name in _TABLE:
        raise ValueError(f"{_op.name} has two rows")
    _TABLE[_op.name] = _op


def row_of(name: str) -> Op:
    """Return the row of the op ``name``, without namespace and overload (``index_add_``), or else an empty row."""
    return _TABLE.get(name) or Op(name)


def bare_name(overload: str) -> str:
    """``index_add_`` for ``aten.index_add_.default``; a name without dots as it is."""
    parts = overload.split(".", 2)
    return parts[1] if len(parts) > 1 else overload


def spoken(op: str, runs_as: str) -> str:
    """Return the name of the overload ``op`` in answers: what it ``runs_as`` elsewhere, if only a CPU has ``op``."""
    return runs_as if runs_as and row_of(bare_name(op)).on_cpu_for else op


def rows() -> Iterable[Op]:
    """Every row."""
    return _TABLE.values()
