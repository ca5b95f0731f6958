"""The trace's model: frozen structs, each field saying what it holds.

A trace is something people attach to a public ticket: it names ops, lines of code and settings, and no
host, no user, no absolute path, no value of any tensor.
"""

from __future__ import annotations

from typing import Union

import msgspec

from tracer.names import BlindSpotKind, DeterministicMode, HostCode, Phase
from tracer.trace.trial_names import DataShown
from tracer.trace.tried import Tried

#: The schema that this release writes, and the newest that it reads. 2: settings, events, generators, memory, loaders.
#: 3: regions; a reader of 2 would take compiled calls for eager ones.
SCHEMA = 3

FactValue = Union[bool, int, str]  # noqa: UP007 (msgspec reads it on Python 3.10)
"""What a recorded fact can be; the vocabulary (``tracer.tables.vocabulary``) lists each fact's values."""


class CallGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Calls that agree in everything but their count."""

    op: str
    """The overload as torch prints it: ``aten.add.Tensor``, ``torchvision.nms.default``; a higher-order op
    as ``higher_order.cond``."""
    phase: Phase
    """Where in the step: forward, backward, recompute (activation checkpointing), optimizer or other."""
    module: str = ""
    """Module path as ``named_modules()`` spells it, led by the root's class name when no model was given;
    empty outside modules. A backward call bears its forward op's."""
    location: str = ""
    """``path:line`` of the innermost frame outside torch, relative to the working directory, else to its
    ``site-packages``. A backward call bears its forward op's. Empty when it is not known."""
    function: str = ""
    """Qualified name of the function at ``location``."""
    called_from: str = ""
    """``path:line`` of the user's own frame (outside ``site-packages``) that led to ``location``, where that is
    another; empty otherwise or where it was not taken."""
    count: int = 1
    """Number of calls."""
    node: str = ""
    """Name of the autograd node that made the call (``IndexBackward0``), for backward calls; a gradient
    accumulation bears the parameter's name behind a colon (``AccumulateGrad: fc.weight``)."""
    forward_unknown: bool = False
    """Is it a backward call of which the forward's line is not known? ``location`` is then the line that asked for the
    gradient."""
    host: HostCode | None = None
    """Why the call is known to run on the host, whatever device the training runs on; ``None`` where it is not."""
    facts: dict[str, FactValue] = {}
    """What conditions may read of the call: ``device``, ``dtype``, ``layout``, ``ndim`` of what it works on,
    ``arg.*``, ``given.*``, ``shape.*`` for the ops whose rules ask, ``subclass`` for a tensor subclass."""
    arguments: str = ""
    """What the first of the calls was called with, by the names of the op's schema, written as Python writes a call:
    ``self=float32[10, 4], dim=0, index=int64[500], source=float32[500, 4][1, 500]``. A tensor is its dtype, its shape
    and, where it has gaps or another order, its strides; then its layout and its device where they are not the usual
    ones. ``...`` is what was not kept, ``None`` among sizes one that is not fixed. Empty where nobody looked."""
    inputs: str = ""
    """The name under which the data of the first call lie in the file of inputs beside the trace; empty where they were
    not kept (``tracer run --keep-inputs``)."""
    region: str | None = None
    """``Region.id`` of the region that the call ran in; ``None`` for a call that ran eagerly."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels that the call went into: of its region, or of ``Trace.launched`` where it launched one
    itself. Empty for an eager call, for one that became no code of its own (a view), and where it is not known
    (``Region.inside``)."""
    tried: Tried | None = None
    """What making its calls again showed; ``None`` where nobody asked, or the group was not at risk."""
    data: dict[DataShown, int] = {}
    """Calls by what their data show; empty where nobody looked. Calls that are missing from it were not looked at."""


class BlindSpot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that ran and was not seen, or seen only in part."""

    kind: BlindSpotKind
    detail: str
    """What it was, in one sentence: a function's name, a number of worker processes."""
    location: str = ""
    """``path:line`` where it was noticed, when known."""
    count: int = 1
    """How often it was noticed."""


class CudaDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One accelerator as torch sees it."""

    name: str
    capability: str = ""
    """Compute capability, ``9.0``; empty where the backend has none."""


class Environment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The process's versions and settings when recording began. ``None`` means: could not be read."""

    python: str
    platform: str
    """Operating system and machine, ``Linux-x86_64``; no host name."""
    torch: str
    """torch's version with its local part, ``2.13.0+cpu``."""
    cuda: str | None = None
    """CUDA version that torch was built for."""
    hip: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    devices: tuple[CudaDevice, ...] = ()
    deterministic_mode: DeterministicMode = DeterministicMode.OFF
    fill_uninitialized_memory: bool | None = None
    cudnn_enabled: bool | None = None
    cudnn_deterministic: bool | None = None
    cudnn_benchmark: bool | None = None
    float32_matmul_precision: str | None = None
    """``highest``, ``high`` or ``medium``."""
    cuda_matmul_allow_tf32: bool | None = None
    cudnn_allow_tf32: bool | None = None
    allow_fp16_reduced_precision_reduction: bool | None = None
    allow_bf16_reduced_precision_reduction: bool | None = None
    sdp_backends: tuple[str, ...] | None = None
    """The attention backends that are switched on: ``flash``, ``mem_efficient``, ``math``, ``cudnn``."""
    num_threads: int | None = None
    """Intra-op threads."""
    num_interop_threads: int | None = None
    default_dtype: str | None = None
    torch_seed: int | None = None
    """``torch.initial_seed()``."""
    cuda_seed: int | None = None
    """The first CUDA device's initial seed; ``None`` when CUDA was not started."""
    variables: dict[str, str] = {}
    """Environment variables that the tables name and that were set. No others."""
    settings: dict[str, FactValue] = {}
    """Further settings by their dotted names, ``torch.backends.cuda.matmul.allow_fp16_accumulation``: those that the
    table of settings names and that could be read."""


class TraceSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One recording that went into a trace; a merged trace has several."""

    name: str = ""
    """What the recording was called: the tracer's ``name``, or the script's file name."""
    rank: int | None = None
    """Rank in a distributed job, when there was one."""
    world_size: int | None = None
    optimizer_steps: int = 0
    """Optimizer steps that ended while recording."""
    calls: int = 0
    """Dispatched calls recorded."""
    eager: bool = False
    """Was compilation switched off for the recording (``tracer run --eager``)?"""
    values: bool = False
    """Were digests of what calls read and wrote kept, in the file beside the trace (``tracer run --values``)?"""
    partial: str = ""
    """Why recording ended early (``interrupted``, an exception's class); empty for a whole one."""
