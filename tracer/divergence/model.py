"""A recording on disk, and the result of comparing two: the roots, each with its cause, and what merely follows."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import msgspec

from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.lines import LineSource
from tracer.names import Phase, Verdict
from tracer.trace import records
from tracer.trace.differences import SettingDifference
from tracer.trace.file import Trace, values_path
from tracer.trace.records import Environment
from tracer.trace.values import ValueKind, Values, read_values


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One run's trace and values."""

    name: str
    values: Values
    trace: Trace | None = None
    """``None`` where the run was killed before it wrote one."""

    @property
    def environment(self) -> Environment | None:
        """Versions and settings as recording began."""
        return self.trace.environment if self.trace is not None else self.values.header.environment


Family = Mapping[str, Recording]
"""The recordings of one run by role; the first process has an empty role."""


def has_values(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a file of values beside this trace, or it is one itself."""
    return os.path.isfile(values_path(path))


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read the values and, where there is one, the trace. ``path`` names either. Raises ``TraceError`` in one line."""
    values = values_path(path)
    named = Path(path)
    endings = (".trace.json", ".trace.json.gz", ".json", ".json.gz")
    beside = [named] if named != values else [values.with_suffix(ending) for ending in endings]
    trace = next((path for path in beside if os.path.isfile(path)), None)
    return Recording(
        name=values.stem, values=read_values(values), trace=Trace.load(trace) if trace is not None else None
    )


# --- what comparing two of them gives ---


class CallPlace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that a reason refers to."""

    op: str
    phase: Phase = Phase.OTHER
    module: str = ""
    location: str = ""
    called_from: str = ""
    step: int = 0
    call: int = -1
    """Its index in the recording that has it; -1 if unknown."""

    @property
    def words(self) -> str:
        """``aten.mm.default at train.py:4``."""
        return f"{self.op} at {self.location}" if self.location else self.op


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a generator's seed."""

    location: str = ""
    is_machines: bool = False
    """Whether the generator was left unseeded, so that the machine chose its state."""
    first: str = ""
    """The seed in the first run; empty if unknown."""
    second: str = ""


class Loading(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a batch that is another one in the second run."""

    loader: str
    """Its name, with the line that iterated it."""
    indices_agree: bool | None
    """Whether the sampler gave both runs the same indices, up to this batch; ``None`` if none were recorded."""
    seeds_agree: bool | None
    """Whether both runs gave its workers the same seeds; ``None`` without workers."""
    order_from: str
    """The generator that was in another state when the sampler drew its order."""
    says: str
    """What the recordings show of it, in words."""


class Root(records.Placed, frozen=True, kw_only=True):
    """A call at which two recordings diverge: nothing that it reads from other calls explains the difference."""

    cause: RootCause
    step: int
    """The optimizer step, as the recordings number them."""
    call: int
    """Index of the call in the first recording, from 0; in the second if only the second has it."""
    op: str
    phase: Phase
    module: str = ""
    _: ClassVar[records.Place]
    region: str = ""
    """The id of the compiled region, if the call is one."""
    rule: str = ""
    """The rule of the tables for this call; empty if there is none, or the tables were not asked."""
    verdict: Verdict | None = None
    """The tables' verdict on the call under its settings; ``None`` if the tables were not asked."""
    contradicts: bool = False
    """Whether a kernel differed that the tables call deterministic. Then the table is wrong here."""
    shows: Shows | None = None
    """The recordings' evidence."""
    why: str = ""
    """The same in a sentence, without a full stop; empty if nothing shows it."""
    seed: Seed | None = None
    """Who seeded the generator that differs."""
    loading: Loading | None = None
    """How the batch that it reads or makes came about, if it does."""
    kind: ValueKind | None = None
    """The kind of input that differs, if one does."""
    name: str = ""
    """The name of that parameter, loader or generator; of the setting for ``setting``."""
    first: str = ""
    """Its value in the first recording, in words, if known."""
    second: str = ""
    earlier: CallPlace | None = None
    """The earlier call that explains it: the draw after which a generator ran ahead, the allocation of the memory."""
    follows: int = 0
    """Calls that differ only because of it."""
    reaches_training: bool = False
    """Whether one of these, or the call itself, belongs to backward or to an optimizer."""
    same_cause: int = 0
    """Further calls with the same cause, which are not reported on their own."""
    other_call: int | None = None
    """Index of the call in the second recording; ``None`` if only one has it."""
    only_second: bool = False
    """Whether it is a call that only the second recording has."""
    arms: tuple[str, ...] = ()
    """The arms of a repeated run in which it differed."""
    process: str = ""
    """The child process that made the call: ``child 2``; empty for the process that the user started."""

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies the root across pairs of runs: lines and counts may differ."""
        file = self.location.rpartition(":")[0] or self.location
        return (self.cause.value, self.op, self.phase.value, self.module, file, self.function)


class NotRestored(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a checkpoint that the resumed run did not restore."""

    kind: ValueKind
    name: str = ""
    """The first of its kind."""
    count: int = 0
    """The number of its kind that are affected, or existed."""
    has_none: bool = False
    """Whether the resumed run has nothing of the kind."""
    is_missing: bool = False
    """Whether this one is missing."""
    first: str = ""
    """Its value, if known."""
    second: str = ""
    root: Root | None = None
    """The call that showed it, if no state did."""
    ahead: int = 0
    """How many steps after the first common one its optimizer makes its first update."""


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """The second recording was compared with a later part of the first."""

    first_step: int
    """The first recording's step that was aligned with ``second_step``."""
    second_step: int
    by_itself: bool
    """Whether the step was located by comparing parameters, rather than passed in."""
    not_restored: tuple[NotRestored, ...] = ()


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas that should agree after a step, and do not."""

    step: int
    """The first step at whose update they already differ: they diverged in the step before."""
    name: str
    """The first parameter that differs."""
    parameters: int
    """The number of parameters that differ at that step."""
    gradients_differ: bool | None = None
    """Whether the gradients of that parameter differed in the step before; ``None``: not recorded."""


class Replicas(msgspec.Struct, frozen=True, kw_only=True):
    """Two ranks of one job, compared with each other."""

    ranks: tuple[int, ...]
    steps: int
    """Steps whose parameters were compared; 0 if nothing is known."""
    are_replicas: bool
    """Whether all parameters agreed at the start. If not, they are shards, or not meant to agree."""
    drift: Drift | None = None
    parameters: int = 0
    """Parameters that were compared."""
    buffers: int = 0
    """Buffers that were compared; 0 for ranks that are no replicas."""
    buffers_differ: dict[str, int] = {}
    """Buffers that differ, with the first step at whose update they do."""

    @property
    def agree(self) -> bool:
        """Whether nothing that was compared differs."""
        return self.drift is None and not self.buffers_differ


class EndState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that two runs left behind with different bytes."""

    kind: ValueKind
    """A parameter, a buffer, an optimizer's state, a file, or output (a printed line)."""
    name: str
    only_one: bool = False
    """Whether only one run left it."""
    only_second: bool = False
    """Whether the second run left it, or printed this line."""


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """The number of outputs of two runs that were compared."""

    returned: int = 0
    """Tensors that models returned, generated tokens, what the function returned that was called."""
    printed: int = 0
    """Lines on standard output."""
    files: int = 0


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """The loss of one step in two runs."""

    step: int
    first: float | None
    """``None`` if that run has none in this step."""
    second: float | None
    differs: bool
    """Whether they differ, bit for bit. A NaN equals itself."""


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Two recordings with values, compared."""

    agrees: bool
    """Whether there is no root, and both leave the same state and return the same. ``partial``, ``not_digested`` and
    ``without_effect`` say what is open."""
    calls_compared: int
    calls: tuple[int, int]
    """The number of calls in each recording."""
    ends: tuple[EndState, ...] = ()
    """The states that the runs left with different bytes; if calls differ, these follow from them."""
    notes: tuple[EndState, ...] = ()
    """The printed lines and text that differ, and files that one run alone wrote: they decide nothing if all calls
    agree."""
    ends_compared: int = 0
    """States, files and printed lines that both left."""
    states_compared: int = 0
    """The parameters, buffers and optimizer states among them; none if a run has others than the other."""
    is_inference: bool = False
    """Whether both are whole, without an optimizer step, and nothing asked for a gradient. Outputs count then."""
    outputs: Outputs = Outputs()
    """The outputs that were compared; those that differ stand among ``ends``."""
    nan: tuple[str, ...] = ()
    """States that hold NaN in both when they end, by kind and name: that they agree says nothing of training."""
    roots: tuple[Root, ...] = ()
    """In order of execution, one per cause."""
    reordered: int = 0
    """Compared calls that agree, and that threads made in another order in the second run."""
    reaches_nothing: bool = False
    """Whether no difference reaches a call of backward or of an optimizer: measuring, evaluating, reading a cache."""
    has_optimizer: bool = False
    """Whether calls of an optimizer were compared."""
    without_effect: tuple[Root, ...] = ()
    """Differences although the runs agree: they reach nothing that trains, and what the runs leave agrees."""
    follows: int = 0
    """Calls that differ only because of others."""
    only: tuple[int, int] = (0, 0)
    """The number of calls that only the first or only the second has."""
    partial: tuple[str, str] = ("", "")
    """The reason why each recording is incomplete; empty for a complete one."""
    not_digested: int = 0
    """Compared calls whose agreement is unknown."""
    settings: tuple[SettingDifference, ...] = ()
    resumed: Resumed | None = None
    replicas: Replicas | None = None
    """For two ranks of one job, which legitimately read different data: only their parameters are compared, and
    ``roots`` says where the optimizer first read or wrote different bytes."""
    losses: tuple[Loss, ...] = ()
    """The losses that ``backward`` was called on, by step; empty for recordings of other steps or ranks."""
    names: tuple[str, str] = ("", "")
    sources: tuple[LineSource, ...] = ()
    """The lines at which the runs begin to differ, where both recordings have lines: those that reach a call first."""

    @property
    def first(self) -> Root | None:
        """The first root, if any."""
        return self.roots[0] if self.roots else None

    @property
    def differs(self) -> bool:
        """Whether a call differs, or something that the runs left behind."""
        return not self.agrees or bool(self.ends)

    @property
    def spares_training(self) -> bool:
        """Whether differences reach nothing that trains, in whole recordings of which states of training were
        compared."""
        is_told = self.reaches_nothing and self.states_compared > 0
        return is_told and not (self.is_inference or any(self.partial))

    @property
    def begins(self) -> tuple[int, int]:
        """Step and call of the first root, to sort by; comparisons without a root come last."""
        return (self.roots[0].step, self.roots[0].call) if self.roots else (sys.maxsize, 0)
