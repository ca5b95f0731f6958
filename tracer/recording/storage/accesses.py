"""What an overload does to the memory of its arguments, as its schema and a few lists of names say.

Decided once per overload. A schema says which arguments are written, not whether they are read before, nor whether
a tensor is asked for its sizes alone: that is what the lists are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tracer.recording.torch_private import seams

#: Read: every element, or so many that unwritten ones show.
READS = 1
#: Wholly written, and not read.
WRITES = 2
#: Read, then wholly written.
UPDATES = 3
#: Written at places that only data know; nothing else of it is read.
SCATTERS = 4
#: Read and written at places that only data know.
ACCUMULATES = 5
#: Read at places that only data know.
GATHERS = 6
#: Elements of it are taken or left, as another tensor says.
SELECTS = 7


def names(text: str) -> frozenset[str]:
    """The words of ``text``."""
    return frozenset(text.split())


_ALLOCATES = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
_GROWS = frozenset({"resize_", "resize_as_", "_resize_output_"})
#: The result holds what the argument holds, unwritten memory included: it is no use of it.
_MOVES = frozenset({"clone", "_to_copy", "_pin_memory"})
#: Write all of ``self`` and read nothing of it.
_PURE_WRITERS = frozenset(
    {
        "zero_",
        "fill_",
        "copy_",
        "normal_",
        "uniform_",
        "random_",
        "bernoulli_",
        "exponential_",
        "geometric_",
        "cauchy_",
        "log_normal_",
        "_foreach_zero_",
        "_foreach_copy_",
        "_philox_normal_",
        "_philox_uniform_",
    }
)
#: Ask for sizes, dtypes and places, and touch no element.
_METADATA = names("""
    zeros_like ones_like full_like rand_like randn_like randint_like new_zeros new_ones new_full _efficientzerotensor
    _new_zeros_with_same_feature_meta _has_same_storage_numel size stride numel dim storage_offset sym_size sym_stride
    sym_numel sym_storage_offset sym_is_contiguous is_contiguous is_strides_like_format is_non_overlapping_and_dense
    is_pinned is_same_size is_set_to is_complex is_floating_point is_signed is_conj is_neg is_inference _is_zerotensor
    is_leaf output_nr _version requires_grad_ retain_grad retains_grad result_type can_cast promote_types layout device
    record_stream set_ set_data data _shape_as_tensor _debug_has_internal_overlap _nested_tensor_size
    _nested_tensor_strides _nested_tensor_storage_offsets _has_compatible_shallow_copy_type cudnn_is_acceptable
    _fused_sdp_choice _use_cudnn_ctc_loss _use_cudnn_rnn_flatten_weight _unsafe_view unsafe_split unsafe_chunk
    unsafe_split_with_sizes lift lift_fresh prim_device prim_dtype _assert_tensor_metadata
    """)
_SCATTERS = names("""
    index_put_ _index_put_impl_ _unsafe_index_put index_copy_ index_fill_ masked_fill_ masked_scatter_ put_ scatter_
    scatter_reduce_ index_reduce_ fill_diagonal_ rrelu_with_noise_ rrelu_with_noise _fill_mem_eff_dropout_mask_
    """)
_ACCUMULATES = frozenset({"index_add_", "scatter_add_"})
_GATHERS = names("""
    index _unsafe_index _unsafe_masked_index index_select gather take take_along_dim masked_select embedding
    _embedding_bag _embedding_bag_forward_only embedding_bag
    """)
_SELECTS = names("""
    where masked_fill masked_scatter index_put index_copy index_fill scatter scatter_add scatter_reduce index_add
    index_reduce put slice_scatter select_scatter diagonal_scatter as_strided_scatter _masked_softmax
    """)
#: Ask ``self`` for its sizes alone: what ``zero_`` and its like become where ``torch.func`` writes nothing in place.
_BY_SHAPE = names("""
    zero fill copy normal_functional uniform random exponential geometric cauchy log_normal bernoulli.p bernoulli.Tensor
    bernoulli.Tensor_out bernoulli.float_out _foreach_zero _foreach_copy
    """)
#: Ignore ``self`` where ``beta`` is 0.
_BETA = frozenset({"addmm", "addmv", "addbmm", "baddbmm", "addr", "_addmm_activation"})
#: Applied twice they give what they give once, and read no other tensor: whichever element is last, the value is one.
_IDEMPOTENT = names("""
    zero_ fill_ relu_ relu6_ abs_ clamp_ clamp_min_ clamp_max_ clip_ hardtanh_ sign_ floor_ ceil_ round_ trunc_
    nan_to_num_ _foreach_zero_ _foreach_abs_ _foreach_ceil_ _foreach_floor_ _foreach_round_
    _foreach_trunc_
    """)


class Access:
    """The arguments of one overload, each with what happens to its memory."""

    __slots__ = (
        "allocates",
        "arguments",
        "copies",
        "grows",
        "ignores_self_at",
        "is_foreign",
        "is_idempotent",
        "is_masked",
        "is_simple",
        "moves",
        "writes_at_known_places",
        "written",
    )

    def __init__(self, func: Any) -> None:
        schema = getattr(func, "_schema", None)
        namespace, _, rest = str(func).partition(".")
        name = rest.partition(".")[0]
        plain = name.removesuffix("_")
        self.is_foreign = schema is None or namespace not in ("aten", "prims")
        """Is it an op of which only the name is known?"""
        self.allocates = not self.is_foreign and name in _ALLOCATES and not _has_out(schema)
        self.grows = not self.is_foreign and name in _GROWS
        self.moves = not self.is_foreign and name in _MOVES and not _has_out(schema)
        self.is_idempotent = name in _IDEMPOTENT
        self.copies = name in ("copy_", "_foreach_copy_")
        self.is_masked = name == "masked_fill_"
        self.ignores_self_at: int | None = None
        """Where ``beta`` stands, for a product that does not read ``self`` when it is 0: -1 for a keyword."""
        self.arguments: list[tuple[int, str, int]] = []
        """Position, name and role of each argument that may hold tensors and whose memory is touched."""
        self.written: tuple[tuple[int, str], ...] = ()
        """Position (-1 for a keyword) and name of each argument that the schema says is written."""
        if schema is None:
            self.is_simple = self.writes_at_known_places = False
            return
        self.written = tuple(
            (-1 if argument.kwarg_only else position, argument.name)
            for position, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        for position, argument in enumerate(schema.arguments):
            if plain in _BETA and argument.name == "beta":
                self.ignores_self_at = -1 if argument.kwarg_only else position
            role = self._role(name, func, argument, position)
            if role and "Tensor" in str(argument.type):
                self.arguments.append((-1 if argument.kwarg_only else position, argument.name, role))
        written = [entry for entry in self.arguments if entry[2] in (WRITES, UPDATES)]
        self.writes_at_known_places = not self.is_foreign and (bool(written) or self.is_masked)
        self.is_simple = (
            self.writes_at_known_places
            and not self.is_masked
            and [entry[0] for entry in written] == [0]
            and str(schema.arguments[0].type) == "Tensor"
            and all(entry[0] >= 0 for entry in self.arguments)
        )
        """Does it write its first argument, a tensor, and nothing else, and have no tensors as keywords?"""

    def _role(self, name: str, func: Any, argument: Any, position: int) -> int:
        info = argument.alias_info
        is_written = info is not None and info.is_write
        if self.is_foreign:
            return UPDATES if is_written else READS
        if name in _METADATA or name in _ALLOCATES or self.grows or torch.Tag.inplace_view in func.tags:
            return 0
        if name in _SCATTERS and (is_written or argument.name == "noise"):
            return SCATTERS
        if name in _ACCUMULATES and is_written:
            return ACCUMULATES
        if is_written:
            # Ops that only write, and every ``out=``: it is made as large as the result, and wholly written.
            return WRITES if argument.kwarg_only or name in _PURE_WRITERS else UPDATES
        if info is not None:
            return 0  # a view
        if position == 0 and (name in _BY_SHAPE or f"{name}.{getattr(func, '_overloadname', '')}" in _BY_SHAPE):
            return 0
        if position == 0 and torch.Tag.view_copy in func.tags:
            return SELECTS
        if name in _SELECTS and (position == 0 or (name == "where" and position > 0)):
            return SELECTS
        if name in _GATHERS and position == 0:
            return GATHERS
        return READS

    def reads_self(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Is ``self`` read, for a product whose ``beta`` may be 0?"""
        at = self.ignores_self_at
        if at is None:
            return True
        beta = args[at] if 0 <= at < len(args) else kwargs.get("beta", 1)
        return not (isinstance(beta, (int, float)) and beta == 0)

    def tensors(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> list[tuple[torch.Tensor, int]]:
        """Every tensor of a call whose memory it touches, with its role."""
        found: list[tuple[torch.Tensor, int]] = []
        given = kwargs or {}
        reads_self = self.reads_self(args, given)
        for position, name, role in self.arguments:
            value = args[position] if 0 <= position < len(args) else given.get(name)
            if position == 0 and not reads_self:
                if role == READS:
                    continue
                role = WRITES
            if isinstance(value, torch.Tensor):
                found.append((value, role))
            elif isinstance(value, (list, tuple)):
                found.extend((item, role) for item in value if isinstance(item, torch.Tensor))
        return [entry for entry in found if not seams.answers_for_itself(type(entry[0]))]


def _has_out(schema: Any) -> bool:
    return any(argument.kwarg_only and argument.alias_info is not None for argument in schema.arguments)
