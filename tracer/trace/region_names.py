"""The closed vocabularies of regions and kernels; ``tracer.names`` holds all others."""

from __future__ import annotations

from tracer.names import Word


class RegionKind(Word):
    """What made a region: a piece of a program that runs as one."""

    COMPILED = "compiled"
    """``torch.compile`` compiled it."""
    CUDA_GRAPH = "cuda-graph"
    """It was captured once, and its replays dispatch nothing."""


class Direction(Word):
    """Which half of a differentiated function a region is."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"
    """No gradient was asked for: the whole of it."""


class RegionOrigin(Word):
    """Where a region's code came from."""

    COMPILED = "compiled"
    """It was compiled while it was watched."""
    CACHE = "cache"
    """Its code came from one of torch's caches."""
    EARLIER = "earlier"
    """It was compiled before recording began."""
    UNKNOWN = "unknown"


class RegionInside(Word):
    """How much of a region was seen."""

    OPS_AND_KERNELS = "ops-and-kernels"
    """Its ops, and the kernels that they went into."""
    OPS = "ops"
    """Its ops; what they became is not known."""
    KERNELS = "kernels"
    """The kernels alone: its ops are in no call group."""
    DISPATCHED = "dispatched"
    """Nothing was fused: its ops reached the recorder one by one, and were counted as eager ones are."""
    UNSEEN = "unseen"


class RegionGap(Word):
    """Why a region was not seen whole."""

    EARLIER = "compiled-earlier"
    """It was compiled before recording began: what tells of its ops had gone by."""
    BACKEND = "other-backend"
    """Its backend makes code that nobody but it can read."""
    FORMAT = "format"
    """This torch says it otherwise than any that the recorder was written for."""
    HOOKS = "no-hooks"
    """This torch lacks what the recorder listens to."""
    NEVER_RAN = "never-ran"
    """It was compiled and did not run while recording: nothing of it is counted."""


class KernelLanguage(Word):
    """What a kernel is made of."""

    CPP = "cpp"
    """C++ that Inductor wrote."""
    TRITON = "triton"
    """Triton that Inductor wrote."""
    TEMPLATE = "template"
    """One of Inductor's templates, filled in: a matrix product, a convolution, FlexAttention."""
    EXTERN = "extern"
    """One of torch's own kernels, called with its result's memory: ``extern_kernels.mm``."""
    FALLBACK = "fallback"
    """An op that Inductor did not lower and called as eager code would: ``aten.index_put_``."""
    USER_TRITON = "user-triton"
    """A Triton kernel of the program's own."""
    OTHER = "other"
