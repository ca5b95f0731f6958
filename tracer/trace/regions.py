"""Regions: what ``torch.compile`` compiled, what CUDA graphs captured, and the kernels that both came to."""

from __future__ import annotations

import msgspec

from tracer.names import DeterministicMode
from tracer.trace.model import FactValue
from tracer.trace.region_names import Direction, KernelLanguage, RegionGap, RegionInside, RegionKind, RegionOrigin
from tracer.trace.tried import Tried


class Kernel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kernel as the generated code, or the program, has it."""

    name: str
    """``cpp_fused_index_add_0``, ``triton_poi_fused_add_1``, ``extern_kernels.mm``, ``aten.index_put_.default``; a
    kernel of the program's own by its function's name."""
    language: KernelLanguage
    device: str = ""
    """What it was generated for, in the vocabulary's words; empty where it is not known."""
    calls: int = 1
    """How often one execution of its region calls it."""
    ops: tuple[str, ...] = ()
    """The ops that went into it, as call groups of its region spell them, once each."""
    original_ops: tuple[str, ...] = ()
    """The ops of the program that those were made of, where its name or a comment says so (``aten.index_add``)."""
    is_matched: bool = True
    """Were ``ops`` told by the compiler? If not they were inferred from names, as for code that came from a cache."""
    atomic: bool | None = None
    """Does its source add, or combine otherwise, atomically in floating point? ``None`` where there is no source to
    read: an extern kernel, a fallback."""
    is_parallel: bool | None = None
    """Do several threads run it at once? A kernel that one thread runs adds in one order. ``None``: not known."""
    keeps_apart: bool = False
    """Does its source prove that no two threads meet in one number, wherever it adds atomically or writes at an index?
    Each then adds and writes in its own order."""
    lines: tuple[str, ...] = ()
    """The lines of its source that show it; only where source was asked for (``--with-source``)."""
    choice: str = ""
    """The configuration or the template that autotuning chose; empty where nothing was chosen."""
    by_stopwatch: bool | None = None
    """Was that chosen by timing candidates in this or in an earlier process? ``None``: could not be told, or nothing
    was chosen."""

    @property
    def is_the_programs(self) -> bool:
        """Did the program bring it? Then no setting of torch's changes its source."""
        return self.language is KernelLanguage.USER_TRITON

    def launched_on(self, device: str) -> Kernel:
        """As it runs on ``device``, where the program launches it itself: its source is the same there."""
        if self.device == device:
            return self
        return msgspec.structs.replace(self, device=device, is_parallel=None, keeps_apart=False)

    @property
    def rounds_by_choice(self) -> bool:
        """Was it chosen by a stopwatch, and may another choice round otherwise? Blocks of a pointwise kernel do not
        matter to it: each element is computed by itself."""
        return self.by_stopwatch is True and not self.name.startswith("triton_poi_")

    @property
    def adds_in_any_order(self) -> bool | None:
        """Do several threads add atomically to one number, so that the order varies? ``None`` where there is no source
        to read."""
        return None if self.atomic is None else self.atomic and not self.writes_in_order

    @property
    def writes_in_order(self) -> bool:
        """Is it certain that no two threads write to one number, whatever the indices are?"""
        return self.is_parallel is False or self.keeps_apart


class Region(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of code that was compiled, or captured, and runs as one. Forward and backward are two regions."""

    id: str
    """Unique in its trace, and the same in every run of one program: torch's compile id and the direction,
    ``0/1 backward``."""
    kind: RegionKind = RegionKind.COMPILED
    function: str = ""
    """Name of the function that was compiled."""
    location: str = ""
    """``path:line`` where that function begins, as for ``CallGroup``."""
    called_from: str = ""
    """``path:line`` of the user's line that first ran it, where that was seen."""
    backend: str = ""
    """``inductor``, ``aot_eager``, ``eager``, or the name of a custom one; empty for a CUDA graph."""
    device: str = ""
    """What its code was generated for, in the vocabulary's words; several are joined by commas."""
    direction: Direction = Direction.INFERENCE
    mode: str = ""
    """``reduce-overhead``, ``max-autotune``: what ``torch.compile`` was told."""
    dynamic: bool | None = None
    """Does it serve several sizes? ``None``: not known."""
    fullgraph: bool | None = None
    """Was the function to be compiled whole? ``None``: not known."""
    options: dict[str, FactValue] = {}
    """Inductor's settings as they stood while it was compiled, by the names of the table of settings."""
    deterministic_mode: DeterministicMode | None = None
    """torch's deterministic mode while it was compiled: what its kernels were chosen by. ``None``: not known."""
    origin: RegionOrigin = RegionOrigin.UNKNOWN
    uses_cuda_graphs: bool = False
    """Is it replayed from CUDA graphs (``mode="reduce-overhead"``)?"""
    by_compiled_autograd: bool = False
    """Did compiled autograd make it of a whole backward pass?"""
    executions: int = 0
    """How often it ran while recording; of a CUDA graph, its replays. 0 where its ops are dispatched one by one, or
    where it is not seen."""
    recompiles: str = ""
    """``Region.id`` of the region of the same function that did not serve, and for which this was compiled."""
    guard: str = ""
    """The condition that failed there, as torch words it."""
    inside: RegionInside = RegionInside.UNSEEN
    why: RegionGap | None = None
    """Why it was not seen whole; ``None`` for one that was."""
    ops: int = 0
    """Ops of its graph: what one execution adds to the counts of its call groups."""
    kernels: tuple[Kernel, ...] = ()
    """In the order of their first call."""
    tried: Tried | None = None
    """What running it again showed, each execution as one call; ``None`` where nobody asked or nothing is at risk."""
