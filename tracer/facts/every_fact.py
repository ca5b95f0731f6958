"""Every fact by its key; the facts of every call, those that the judge derives, and those of the process."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tracer.facts import BOOL, DECLARED, MISSING, Derive, Fact, Kind, Value, flags, indexing, kernels, sizes
from tracer.names import Overlap

#: The modules that declare the facts which are read.
SUBJECTS = (flags, indexing, kernels, sizes)

#: dtype classes that a condition may write in place of their members. Every float8 format is "float8", every quantized
#: one "quantized".
DTYPE_CLASSES: Mapping[str, tuple[str, ...]] = {
    "floating": ("float64", "float32", "float16", "bfloat16", "float8"),
    "complex": ("complex128", "complex64", "complex32"),
    "integral": ("int64", "int32", "int16", "int8", "uint8", "uint64", "uint32", "uint16"),
    "boolean": ("bool",),
    "quantized": ("quantized",),
    "none": ("none", "other"),
}

_OF_THE_TENSOR = (
    Fact("device", ("cpu", "cuda", "xpu", "mps", "npu", "meta", "other", "none"), Kind.COMMON, "The tensor's device."),
    Fact("dtype", tuple(name for names in DTYPE_CLASSES.values() for name in names), Kind.COMMON, "Its dtype."),
    Fact(
        "layout",
        ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "mkldnn", "jagged", "none"),
        Kind.COMMON,
        "Its layout.",
        on_plain=MISSING,
    ),
    Fact("ndim", tuple(range(-1, 7)), Kind.COMMON, "Its number of dimensions; 6 for six and more, -1 for no tensor."),
)


#: Autograd nodes whose backward writes each element of the input at most once.
SELECTING_NODES: frozenset[str] = frozenset(
    f"{name}Backward" for name in ("Max", "Min", "Sort", "Topk", "Kthvalue", "Median", "Nanmedian", "Mode")
)


def _derived(key: str, about: str, of_forward: str = "", *, derive: Derive | None = None) -> Fact:
    """A fact that the judge derives: it holds where ``of_forward``, or itself, was noted, unless ``derive`` says."""
    noted = of_forward or key
    holds = derive or (lambda node, facts: facts.get(noted) is True)
    return Fact(key, BOOL, Kind.DERIVED, about, of_forward=of_forward, derive=holds)


def _is_of(names: Collection[str], node: str | None) -> bool | None:
    return None if node == "" else (node or "").rstrip("0123456789") in names


def _process(key: str, about: str, domain: tuple[Value, ...] = BOOL) -> Fact:
    return Fact(key, domain, Kind.PROCESS, about)


_DERIVED = (
    _derived(
        "backward.selects",
        "Does the backward of an op that selects each element at most once call it?",
        derive=lambda node, facts: _is_of(SELECTING_NODES, node),
    ),
    _derived(  # only attention's math path calls it: fully masked rows come out as zeros
        "backward.attention_softmax",
        "Does the backward of attention's own softmax (_safe_softmax) call it?",
        derive=lambda node, facts: _is_of(("SafeSoftmaxBackward",), node),
    ),
    _derived("phase.backward", "Is it called in the backward pass?", derive=lambda node, facts: node is not None),
    _derived(
        "shape.is_scalar",
        "Is the tensor zero-dimensional? Unknown counts as no.",
        derive=lambda node, facts: facts.get("ndim") == 0,
    ),
    _derived(  # a backward op called outside the backward pass has no forward: it was called directly
        "forward.direct",
        "Was its forward called directly?",
        "call.direct",
        derive=lambda node, facts: node is None or facts.get("call.direct") is True,
    ),
    _derived("forward.returns_indices", "Did its forward return indices?", "call.returns_indices"),
    _derived("forward.fits_cudnn", "Does cuDNN take its forward?", "call.fits_cudnn"),
    _derived("forward.efficient_off", "Was the memory-efficient kernel disabled in its forward?", "sdp.efficient_off"),
    _derived("attention.may_fuse", "Did attention's math path call it on a CPU, while the target may fuse?"),
    _derived("attention.has_mask", "Did attention's math path, on a CPU, add the caller's mask?"),
    _derived(
        "library.widens_counts",
        "Does a library's line convert integers before it counts them on a CPU, which cannot count integers?",
    ),
    _derived("module.recurrent", "Does nn.RNN, nn.GRU or nn.LSTM call it?"),
    _derived("module.fuses_gates", "Does nn.GRU, nn.LSTM or a cell of theirs call it? A GPU fuses gates and biases."),
    _process("value", "A setting: not set, set to a safe value, or to another one.", ("unset", "safe", "other")),
    _process(
        "late",
        "A late setting: had its reader read it, or may it have? Spare: either, and no recorded call depends on it.",
        ("certain", "possible", "spare"),
    ),
    _process("change", "Did deterministic mode change between forward and backward?", ("between-phases", "within")),
    _process("origin", "A generator's state.", ("program", "restored", "fixed", "machine", "unseen")),
    _process(
        "seed.number",
        "A seed: does its line take it from what differs in every process? none: nothing shows that.",
        ("none", "drawn"),
    ),
    _process("by.library", "Did an installed package do it?"),
    _process("made.often", "Is a new generator created for each sample or call?"),
    _process("made.drew", "Is it known that the generator was drawn from?"),
    _process("overlap", "What the memory overlaps with.", (*(kind.value for kind in Overlap), "entries_perhaps")),
    _process("loader.workers", "Does the loader have workers?"),
    _process("loader.shuffles", "Does it shuffle?"),
    _process("loader.in_order", "Does it return batches in order?"),
)
FACTS: Mapping[str, Fact] = {fact.key: fact for fact in (*_OF_THE_TENSOR, *DECLARED.values(), *_DERIVED)}


def of_kind(*kinds: Kind) -> Mapping[str, Fact]:
    """The facts of these kinds, by key."""
    return {key: fact for key, fact in FACTS.items() if fact.kind in kinds}
