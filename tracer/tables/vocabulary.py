"""What a rule's condition may ask, and every value that each question can have.

Domains are finite, so that the lint can prove by enumeration that a rule's cases neither overlap nor leave a
gap. Three kinds of key:

- facts of a call, recorded with it (``CallGroup.facts``) or derived from it;
- settings of the target, known when a trace is judged;
- nothing else: a torch version stands in a case's own ``torch`` field, not in ``when``.

A fact that a trace does not hold makes the verdict ``unknown`` unless another key already decides.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracer.tables.settings.declared import conditions

Value = bool | int | str

#: dtype classes that a condition may write in place of their members.
DTYPE_CLASSES: Mapping[str, tuple[str, ...]] = {
    "floating": (
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8",
    ),
    "complex": ("complex128", "complex64", "complex32"),
    "integral": (
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "uint64",
        "uint32",
        "uint16",
    ),
    "boolean": ("bool",),
    "quantized": ("quantized",),
    "none": ("none", "other"),
}

BOOL: tuple[bool, ...] = (False, True)

#: Facts that every call bears (an op without a tensor argument has ``none`` for each but ``device``).
COMMON_FACTS: Mapping[str, tuple[Value, ...]] = {
    "device": ("cpu", "cuda", "xpu", "mps", "npu", "meta", "other", "none"),
    # Every float8 format is "float8", every quantized one "quantized".
    "dtype": tuple(name for names in DTYPE_CLASSES.values() for name in names),
    "layout": (
        "strided",
        "sparse_coo",
        "sparse_csr",
        "sparse_csc",
        "sparse_bsr",
        "sparse_bsc",
        "mkldnn",
        "jagged",
        "none",
    ),
    # Dimensions of the tensor; 6 stands for six and more, -1 for none.
    "ndim": (-1, 0, 1, 2, 3, 4, 5, 6),
}

#: Facts that are recorded for the ops whose rules ask for them. ``recording/facts.py`` reads each.
ASKED_FACTS: Mapping[str, tuple[Value, ...]] = {
    # Boolean arguments, by their schema names.
    "arg.accumulate": BOOL,
    "arg.sparse": BOOL,
    "arg.largest": BOOL,
    "arg.sorted": BOOL,
    "arg.align_corners": BOOL,
    "arg.deterministic": BOOL,  # attention libraries: a backward kernel's own switch
    "arg.sequence": BOOL,  # bucketizing: keep the order inside a bucket
    # Is a limit set on the update's norm (max_unorm > 0)?
    "arg.max_unorm": BOOL,
    "arg.training": BOOL,
    # String arguments.
    "arg.reduce": ("sum", "prod", "mean", "amax", "amin", "add", "multiply"),
    # A collective's reduction, where it is a string.
    "arg.reduce_op": ("sum", "avg", "product", "premul_sum", "min", "max", "band", "bor", "bxor"),
    # None is "default": the driver that torch picks.
    "arg.driver": ("default", "gels", "gelsy", "gelsd", "gelss"),
    # Integer codes, spelled as the public API spells them.
    "arg.reduction": ("none", "mean", "sum"),
    "arg.mode": ("sum", "mean", "max"),
    "arg.interpolation_mode": ("bilinear", "nearest", "bicubic"),
    "arg.padding_mode": ("zeros", "border", "reflection"),
    # The first entry of a gradient mask: is the input's gradient asked for?
    "arg.output_mask0": BOOL,
    # Was dropout asked for (a rate above 0, and not in evaluation)?
    "arg.dropout": BOOL,
    # Was an optional tensor given?
    "given.attn_mask": BOOL,
    # May attention take a fused kernel, or did the step restrict it to SDPBackend.MATH?
    "sdp.fused": BOOL,
    "given.weights": BOOL,
    "given.generator": BOOL,
    # Indexing: is every index that was given a mask (bool or uint8)? A mask addresses no element twice.
    "index.is_mask": BOOL,
    # Is one single value written at every index? Then duplicates do no harm.
    "index.one_value": BOOL,
    # Products: are both factors sparse?
    "operands.both_sparse": BOOL,
    # Sizes, reduced to the one question that a kernel's choice hangs on.
    "shape.numel_ge_32768": BOOL,  # elements read or written by the loop: those that the indices address
    "shape.scan_is_whole": BOOL,  # numel == size(dim): one scan over the whole tensor
    "shape.windows_overlap": BOOL,  # pooling: one element may lie in two windows
    "shape.unit_stride_unpadded": BOOL,  # pooling: each stride is 1 and nothing is padded
    "shape.channels_last": BOOL,  # the input is laid out in channels-last order
    "shape.meets_thrice": BOOL,  # padding: some element occurs three times or more in the output
    "shape.numel_gt_16777216": BOOL,  # more elements than float32 can count one by one
    "shape.rows_repeat_long": BOOL,  # embedding: so many more indices than rows that CUDA may add by atomics
    "shape.topk_radix": BOOL,  # topk: k is 64, 128, 256, 512 or 1024, along the last dimension
    "shape.grows": BOOL,  # resizing: the storage is too small for the new size
    "shape.divides_evenly": BOOL,  # adaptive pooling: each input size is a multiple of its output size
    "shape.same_size": BOOL,  # resampling: output size equals input size
}

#: Facts that are recorded where they hold and left out where they do not, so that a trace which lacks one, because the
#: fact does not hold or because its recorder was older, is judged alike. Each speaks for a call; none against it.
NOTED_FACTS: Mapping[str, tuple[Value, ...]] = {
    # Pooling, resampling: does no element collect more than two addends? Two give one sum in either order.
    "shape.meets_at_most_twice": BOOL,
    # Indexed writing: is no slot addressed twice, by the index's shape or because the step made it of distinct numbers?
    "index.distinct": BOOL,
    # Is it the forward of a convolution that is not transposed?
    "conv.plain_forward": BOOL,
    # Products, scans: is there nothing to add, because some operand has no elements?
    "shape.no_elements": BOOL,
    # Counting: are the weights integers, whose sum is exact?
    "operands.integral_weights": BOOL,
    # Products: is a row added (``nn.Linear``'s bias) that cuBLASLt takes into the product?
    "operands.row_within": BOOL,
    # topk: do its sizes keep it off every kernel that counts arrivals, whatever the device?
    "shape.topk_plain": BOOL,
}

#: Facts that are noted where they hold, like those above, and that may speak against a call: a trace that lacks one is
#: judged as it was before they were known.
MARKED_FACTS: Mapping[str, tuple[Value, ...]] = {
    # Does a dense tensor meet a sparse one whose entries were not brought together (``coalesce``)?
    "operands.uncoalesced": BOOL,
    # Element by element: is a tensor sparse of which ``layout`` does not speak, one in a list or behind the first?
    "operands.sparse": BOOL,
    # Drawing: are probabilities summed up, because several are drawn with replacement?
    "draw.cumulates": BOOL,
    # CTC: were dtypes, sizes and blank such as cuDNN takes, wherever the targets lie?
    "call.fits_cudnn": BOOL,
    # Sampling: does the input have more than 1,024 channels?
    "shape.channels_gt_1024": BOOL,
    # Convolution: is it dilated, contiguous and not depthwise, so that deterministic mode makes products of it?
    "conv.leaves_cudnn": BOOL,
    # Convolution: is it transposed with an output padding that is not below the stride, which cuDNN does not take?
    "conv.pads_output_widely": BOOL,
    # Convolution: was cuDNN switched off around the call, so that products are made of it (``cudnn.flags``)?
    "conv.without_cudnn": BOOL,
    # Copying to another dtype: is it complex32 (``chalf``)?
    "call.makes_half_complex": BOOL,
    # Attention: is the head size no multiple of 4; no multiple of 8; above 256?
    "sdp.head_not_of_4": BOOL,
    "sdp.head_not_of_8": BOOL,
    "sdp.head_gt_256": BOOL,
    # Attention: do several heads of queries share one of keys or of values (``enable_gqa=True``)?
    "sdp.shares_heads": BOOL,
    # Attention: was the memory-efficient kernel switched off around the call (``sdpa_kernel``)?
    "sdp.efficient_off": BOOL,
    # Was the op called past the function of torch.nn.functional that takes another way in deterministic mode?
    "call.direct": BOOL,
    # Was it called by the function that takes another way in deterministic mode when asked for indices?
    "call.returns_indices": BOOL,
}

#: A fact of a backward call that its forward tells, to what is recorded there: ``aten.sample`` bears it for
#: ``aten.sample_backward`` at the same place.
FORWARD_FACTS: Mapping[str, str] = {
    "forward.direct": "call.direct",
    "forward.returns_indices": "call.returns_indices",
    "forward.fits_cudnn": "call.fits_cudnn",
    "forward.efficient_off": "sdp.efficient_off",
}
BACKWARD_OF = "_backward"
"""What a backward op's name adds to its forward's."""

#: Facts that the judge derives from what a call group says of itself; none of them is ever missing for want of asking.
DERIVED_FACTS: Mapping[str, tuple[Value, ...]] = {
    # Is the call made by the backward of an op that selects each element at most once (``SELECTING_NODES``)?
    "backward.selects": BOOL,
    # Is it made by the backward of the softmax that attention's math route alone calls (_safe_softmax)?
    "backward.attention_softmax": BOOL,
    # Is it made by the backward of a reduction by index, which counts what fell together: are zeros and ones added?
    "backward.counts": BOOL,
    # Is the call made in the backward pass?
    "phase.backward": BOOL,
    # Has the tensor no dimension at all? Not known counts as having some.
    "shape.is_scalar": BOOL,
    # See ``FORWARD_FACTS``; what no forward call told counts as not so.
    "forward.direct": BOOL,
    "forward.returns_indices": BOOL,
    "forward.fits_cudnn": BOOL,
    "forward.efficient_off": BOOL,
    # Was the call made by attention's math route on the CPU, for inputs that the target may have a fused kernel for?
    "attention.may_fuse": BOOL,
    # Is it made by nn.RNN, nn.GRU or nn.LSTM? A recorder notes that it is, and nothing where it is not.
    "module.recurrent": BOOL,
}

#: Autograd nodes whose backward writes each element of the input at most once.
SELECTING_NODES: frozenset[str] = frozenset(
    f"{name}Backward" for name in ("Max", "Min", "Sort", "Topk", "Kthvalue", "Median", "Nanmedian", "Mode")
)

#: Autograd nodes that scatter a tensor of zeros and ones, and nothing else, onto one of zeros and ones.
COUNTING_NODES: frozenset[str] = frozenset({"ScatterReduceBackward", "IndexReduceBackward"})

#: Settings of the target, each declared with its domain in ``tables.settings.declared``.
SETTINGS: Mapping[str, tuple[Value, ...]] = {condition.key: condition.domain for condition in conditions()}

#: What rows of the table of settings ask of what the process did (``tables.rows``); settings they may ask too.
PROCESS_FACTS: Mapping[str, tuple[Value, ...]] = {
    # A setting: not made, made to one of the row's safe values, or to another one.
    "value": ("unset", "safe", "other"),
    # A late setting: is it certain that its reader had read it, or only that it may have? Spare: either, and nothing
    # that was recorded depends on it.
    "late": ("certain", "possible", "spare"),
    # A change in the middle: did deterministic mode differ between forward and backward, or merely change?
    "change": ("between-phases", "within"),
    # A generator's state: see ``names.SeedOrigin``.
    "origin": ("program", "restored", "fixed", "machine", "unseen"),
    # What the number was made from that it was seeded with, where that is another one in every process: see
    # ``names.NumberSource``; none: a number of the program's own, or nobody seeded it.
    "seed.number": ("none", "clock", "process-id", "entropy", "hash", "address"),
    # Was it an installed package that made it?
    "by.library": BOOL,
    # Memory that overlaps: see ``names.Overlap``.
    "overlap": ("itself", "source"),
    # A DataLoader.
    "loader.workers": BOOL,
    "loader.worker_init": BOOL,
    "loader.shuffles": BOOL,
    "loader.generator": BOOL,
    "loader.in_order": BOOL,
    "loader.persistent": BOOL,
    "loader.worker_draws": ("none", "seen", "unseen"),  # from Python's, NumPy's or torch's global generator
    "loader.start_method": ("none", "fork", "spawn", "forkserver"),
    "loader.epoch_set": ("set", "never", "other"),  # other: no DistributedSampler, or not watched
    # Code that was compiled: did Inductor compile it here, or would it without the recorder?
    "compiled": ("ran", "would"),
}

#: Every key that a condition may use, with its domain.
DOMAINS: Mapping[str, tuple[Value, ...]] = {
    **COMMON_FACTS,
    **ASKED_FACTS,
    **NOTED_FACTS,
    **MARKED_FACTS,
    **DERIVED_FACTS,
    **SETTINGS,
    **PROCESS_FACTS,
}


#: Facts that are recorded on request.
RECORDED_FACTS: Mapping[str, tuple[Value, ...]] = {**ASKED_FACTS, **NOTED_FACTS, **MARKED_FACTS}

#: What stands for a fact that a recorder notes only where it holds.
UNNOTED: Mapping[str, Value] = dict.fromkeys((*NOTED_FACTS, *MARKED_FACTS), False)


def in_domain(key: str, value: Value) -> bool:
    """Whether ``key`` can have ``value``. Types count: ``1`` is no ``true``."""
    return any(known == value and type(known) is type(value) for known in DOMAINS[key])


def allowed(key: str, value: Value) -> bool:
    """Whether a condition may ask ``key`` for ``value``: one that it can have, or a dtype class."""
    return in_domain(key, value) or (key == "dtype" and value in DTYPE_CLASSES)


def expand(key: str, value: Value) -> tuple[Value, ...]:
    """The domain values that ``value`` stands for: itself, or a dtype class's members."""
    if key == "dtype" and isinstance(value, str) and value in DTYPE_CLASSES:
        return DTYPE_CLASSES[value]
    return (value,)


def in_words(key: str, values: frozenset[Value]) -> str:
    """One condition as people read it: ``dtype: floating or complex``, ``device: not cuda``."""
    domain = frozenset(DOMAINS[key])
    if not any(isinstance(value, bool) for value in values) and 2 * len(values) > len(domain) + 1:
        return f"{key}: not {' or '.join(_values_in_words(key, domain - values))}"
    return f"{key}: {' or '.join(_values_in_words(key, values))}"


def _values_in_words(key: str, values: frozenset[Value]) -> list[str]:
    words: list[str] = []
    left = set(values)
    if key == "dtype":
        for name, members in DTYPE_CLASSES.items():
            if left.issuperset(members):
                words.append(name)
                left.difference_update(members)
    return words + [
        str(value).lower() if isinstance(value, bool) else str(value) for value in DOMAINS[key] if value in left
    ]
