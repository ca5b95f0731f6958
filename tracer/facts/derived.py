"""Facts that the judge works out from what a call group says of itself, and facts of the process."""

from __future__ import annotations

from tracer.facts.fact import BOOL, Fact, Kind, Value

#: Autograd nodes whose backward writes each element of the input at most once.
SELECTING_NODES: frozenset[str] = frozenset(
    f"{name}Backward" for name in ("Max", "Min", "Sort", "Topk", "Kthvalue", "Median", "Nanmedian", "Mode")
)
#: Autograd nodes that scatter a tensor of zeros and ones, and nothing else, onto one of zeros and ones.
COUNTING_NODES: frozenset[str] = frozenset({"ScatterReduceBackward", "IndexReduceBackward"})


def _derived(key: str, about: str, of_forward: str = "") -> Fact:
    return Fact(key, BOOL, Kind.DERIVED, about, of_forward=of_forward)


def _process(key: str, domain: tuple[Value, ...], about: str) -> Fact:
    return Fact(key, domain, Kind.PROCESS, about)


FACTS = (
    _derived("backward.selects", "Is it made by the backward of an op that selects each element at most once?"),
    _derived("backward.attention_softmax", "Is it made by the backward of attention's own softmax (_safe_softmax)?"),
    _derived("backward.counts", "Is it made by the backward of a reduction by index, which adds zeros and ones?"),
    _derived("phase.backward", "Is it made in the backward pass?"),
    _derived("shape.is_scalar", "Has the tensor no dimension at all? Not known counts as having some."),
    _derived("forward.direct", "Was its forward called directly?", "call.direct"),
    _derived("forward.returns_indices", "Did its forward return indices?", "call.returns_indices"),
    _derived("forward.fits_cudnn", "Does cuDNN take its forward?", "call.fits_cudnn"),
    _derived("forward.efficient_off", "Was the efficient kernel off in its forward?", "sdp.efficient_off"),
    _derived("attention.may_fuse", "Did attention's math route make it on a CPU, where the target may fuse?"),
    _derived("attention.has_mask", "Did attention's math route, on a CPU, add a mask that it was given?"),
    _derived(
        "library.widens_counts",
        "Does a library's line convert whole numbers before it counts them on a CPU, which counts none?",
    ),
    _derived("module.recurrent", "Is it made by nn.RNN, nn.GRU or nn.LSTM?"),
    _process("value", ("unset", "safe", "other"), "A setting: not made, made to a safe value, or to another one."),
    _process(
        "late",
        ("certain", "possible", "spare"),
        "A late setting: had its reader read it, or may it have? Spare: either, and nothing recorded depends on it.",
    ),
    _process("change", ("between-phases", "within"), "Did deterministic mode change between forward and backward?"),
    _process("origin", ("program", "restored", "fixed", "machine", "unseen"), "A generator's state."),
    _process(
        "seed.number",
        ("none", "clock", "process-id", "entropy", "hash", "address"),
        "What a seed was made from, where that is another number in every process; none: the program's own number.",
    ),
    _process("by.library", BOOL, "Did an installed package make it?"),
    _process("made.often", BOOL, "Is the generator made anew for each sample or call?"),
    _process("overlap", ("itself", "source", "indexed"), "With what memory overlaps."),
    _process("loader.workers", BOOL, "Has the loader workers?"),
    _process("loader.worker_init", BOOL, "Has it a worker_init_fn?"),
    _process("loader.shuffles", BOOL, "Does it shuffle?"),
    _process("loader.generator", BOOL, "Has it a generator?"),
    _process("loader.in_order", BOOL, "Does it give batches in order?"),
    _process("loader.persistent", BOOL, "Do its workers persist?"),
    _process("loader.worker_draws", ("none", "seen", "unseen"), "Do workers draw from a global generator?"),
    _process("loader.start_method", ("none", "fork", "spawn", "forkserver"), "How its workers start."),
    _process("loader.epoch_set", ("set", "never", "other"), "Was the sampler's epoch set? other: no such sampler."),
    _process("compiled", ("ran", "would"), "Did Inductor compile it here, or would it without the recorder?"),
)
