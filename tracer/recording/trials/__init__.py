"""Replays an op and compares its results bit by bit.

How an overload's calls are replayed is decided once, from its schema. Memory of the size of each result is allocated,
filled and freed before each replay: an allocator that reuses it shows some reads of unwritten memory.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace
from torch.utils._pytree import tree_leaves, tree_map_only

from tracer.facts import Args, Kwargs
from tracer.names import Untried
from tracer.recording import patching
from tracer.recording.calls import may_draw
from tracer.recording.storage import ACCUMULATES, SCATTERS, UPDATES, WRITES, Access, argument_at
from tracer.recording.torch_private import seams
from tracer.recording.torch_private.seams import find
from tracer.recording.values.call_digests import COLLECTIVES, plan_of
from tracer.recording.values.digest_table import DeviceDigests, Slot, is_capturing
from tracer.trace.merging import join
from tracer.trace.records import Tried

#: Namespaces whose ops are there for what they do beside computing.
_EFFECTS = frozenset({"profiler", "prim", "prepacked", "mkldnn_prepacked", "rngprims", "symm_mem"})
#: Roles of arguments that a call writes, whatever its schema says.
_WRITING = (WRITES, UPDATES, SCATTERS, ACCUMULATES)
_OPAQUE = ("torch.classes", "ScriptObject", "ProcessGroup", "Stream", "Future", "Storage", "Any")


ReplayedArgument = tuple[int, str]
"""Position (-1 for a keyword) and name."""


class ReplayPlan(NamedTuple):
    """The plan to replay a call."""

    written: tuple[ReplayedArgument, ...]
    """Arguments that it writes; they are compared like its results."""
    overwritten: tuple[ReplayedArgument, ...]
    """Those of them that it does not read: each replay fills them with other bytes."""
    copies_all: bool
    """Whether all tensors are copied. The schema of a foreign op, or of one with a state, may say too little."""
    draws: bool
    """Whether it may draw from a generator."""
    is_foreign: bool
    """Whether it is from outside torch. It may draw from Python's and NumPy's generators too."""
    scratch: frozenset[int]
    """Positions of results that only its own backward reads; parts of them stay unwritten."""


def plan_replay(func: Any, access: Access) -> ReplayPlan | Untried | None:
    """Return how to replay calls of ``func``, or why that is impossible; ``None`` if they compute nothing (views)."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return Untried.SIDE_EFFECTS
    namespace, _, rest = str(func).partition(".")
    name = rest.partition(".")[0]
    kinds = [str(argument.type) for argument in schema.arguments]
    if namespace in (*COLLECTIVES, "_dtensor") or any("ProcessGroup" in kind for kind in kinds):
        return Untried.COLLECTIVE
    if namespace in _EFFECTS or _has_effects(func) or any(word in kind for kind in kinds for word in _OPAQUE):
        return Untried.SIDE_EFFECTS
    if access.allocates or access.grows:
        return Untried.FRESH_MEMORY
    gives = any("Tensor" in str(each.type) for each in schema.returns)
    plan = plan_of(func, access, lambda text: 0)
    written = () if plan is None else tuple((position, name) for position, name, _ in plan.written)
    if access.is_foreign and not gives and not written:
        return Untried.SIDE_EFFECTS  # whatever it is called for, it shows nowhere
    if plan is None:
        return None
    if not gives and not written:
        return Untried.NO_RESULT
    roles = {(position, name): role for position, name, role in access.arguments}
    if access.is_foreign:
        roles = {}  # nothing but its schema is known
    undeclared = tuple(argument for argument in roles if roles[argument] in _WRITING and argument not in written)
    return ReplayPlan(
        written=(*written, *undeclared),
        overwritten=tuple(argument for argument in written if roles.get(argument) == WRITES),
        copies_all=access.is_foreign or any(layer in name for layer in ("rnn", "lstm", "gru")),
        draws=access.is_foreign or may_draw(func),
        is_foreign=access.is_foreign,
        scratch=plan.scratch,
    )


def _has_effects(func: Any) -> bool:
    """Whether the op is registered as having side effects (torch 2.6 and newer)."""
    has_effects = find(sys.modules.get("torch._higher_order_ops.effects"), "has_effects")
    try:
        return has_effects is not None and bool(has_effects(func))
    except Exception:  # other releases ask for more than the op
        return False


_Base = torch._C.TensorBase
_storage_of: Any = _Base.untyped_storage
_set: Any = _Base.set_


class CannotCopyError(Exception):
    """The call's inputs cannot be copied; the message is the reason."""

    def __init__(self, reason: Untried) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Copies:
    """The arguments of one call, copied before it ran."""

    def __init__(self, plan: ReplayPlan, args: Args, kwargs: Kwargs, limit: int) -> None:
        """Raises ``CannotCopyError`` for more than ``limit`` bytes, and for what cannot be copied as it lies."""
        self._args = args
        self._kwargs = kwargs
        tensors = list(tensors_in((args, kwargs)))
        wanted = tensors if plan.copies_all else tensors_of(plan.written, args, kwargs)
        if not all(map(can_be_rebuilt, wanted)):
            raise CannotCopyError(Untried.LAYOUT)
        originals = {seams.storage_id(tensor): _storage_of(tensor) for tensor in wanted}
        # One copy stays here, another is handed to each trial.
        self.size = 2 * sum(int(storage.nbytes()) for storage in originals.values())
        if self.size > limit:
            raise CannotCopyError(Untried.MEMORY)
        shared = [tensor for tensor in tensors if seams.storage_id(tensor) in originals]
        if not all(map(can_be_rebuilt, shared)):
            raise CannotCopyError(Untried.LAYOUT)
        self._copied = {identity: storage.clone() for identity, storage in originals.items()}
        """Storage, by its identity, to a copy of it."""
        uses = Counter(map(seams.storage_id, shared))
        overwritten = map(seams.storage_id, tensors_of(plan.overwritten, args, kwargs))
        self._overwritten = {identity for identity in overwritten if uses[identity] == 1}

    def fresh(self, byte: int) -> tuple[Args, dict[str, Any]]:
        """The arguments of one trial; memory that the call only writes to is filled with ``byte``."""
        clones = {identity: storage.clone() for identity, storage in self._copied.items()}

        def rebuilt(tensor: torch.Tensor) -> torch.Tensor:
            identity = seams.storage_id(tensor)
            if identity not in clones:
                return tensor
            storage = clones[identity]
            # Only where the tensor is all of its storage: what lies around it is nobody's to change.
            if identity in self._overwritten and tensor.numel() * tensor.element_size() == storage.nbytes():
                storage.fill_(byte)
            laid = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            _set(laid, storage, tensor.storage_offset(), tensor.shape, tensor.stride())
            return laid

        if not clones:
            return self._args, dict(self._kwargs)
        args, kwargs = tree_map_only(torch.Tensor, rebuilt, (self._args, dict(self._kwargs)))
        return args, kwargs


def can_be_rebuilt(tensor: Any) -> bool:
    """Whether a storage, an offset, sizes and strides describe the tensor completely."""
    if not seams.is_dense(tensor) or tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor():
        return False
    return bool(seams.storage_id(tensor))


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor in ``value``, including those in lists and dictionaries."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def tensors_of(arguments: tuple[ReplayedArgument, ...], args: Args, kwargs: Kwargs) -> list[torch.Tensor]:
    """The tensors among some arguments of a call."""
    return tensors_in([argument_at(*argument, args, kwargs) for argument in arguments])


def _relative_difference(own: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
    """The largest difference of a floating-point element, relative to the larger one; 1 if only one is a number."""
    largest = 0.0
    for left, right in zip(own, other, strict=False):
        if left.is_complex() and right.is_complex():
            left, right = torch.view_as_real(left.resolve_conj()), torch.view_as_real(right.resolve_conj())
        is_strided = left.layout is torch.strided is right.layout
        if not left.is_floating_point() or not is_strided or (left.dtype, left.shape) != (right.dtype, right.shape):
            continue
        differs = (left != right) & ~(left.isnan() & right.isnan())
        left, right = left[differs].double(), right[differs].double()
        size = torch.maximum(left.abs(), right.abs())
        # Divided first: the difference of two large ones is infinite.
        distances = (left / size - right / size).abs().nan_to_num(1.0, 1.0)
        largest = max(largest, *distances.clamp_max(1.0).amax(0, keepdim=True).tolist()) if left.numel() else largest
    return largest


#: The first calls of a group are all tried, then those whose number is a power of two.
_FIRST_CALLS = 3


def is_due(count: int) -> bool:
    """Return whether a group's call of this number, counted from 1, is tried."""
    return count <= _FIRST_CALLS or not count & (count - 1)


class TrialTally:
    """The outcomes of one group of calls."""

    def __init__(self) -> None:
        self.call_count = 0
        """Calls so far."""
        self._tried = Tried()
        self._untried: Counter[Untried] = Counter()

    def is_due(self) -> bool:
        """Whether this call is to be tried: the first few of a group are, then increasingly rare ones."""
        return is_due(self.call_count)

    def leave(self, reason: Untried) -> None:
        self._untried[reason] += 1

    def note(self, own: object, results: Sequence[object], relative: float) -> None:
        """Count a call that was tried: its ``own`` result, that of each trial, and the largest difference."""
        varied = sum(result != own for result in results)
        call = Tried(
            calls=1,
            trials=len(results),
            varied=varied,
            distinct=len({own, *results}),
            relative=relative,
            first=self.call_count if varied else 0,
        )
        self._tried = join(self._tried, call)

    def listed(self) -> Tried:
        """The outcomes as stored in a trace."""
        return replace(self._tried, untried=dict(self._untried))


#: Size of the second stream's work, and how often it is repeated.
_BUSY_NUMBERS, _BUSY_TIMES = 1 << 22, 8
#: The bytes that fill fresh memory, in turn: neighbours differ, and none is zero.
_BYTES = (0x55, 0xAA, 0x3C, 0xC3, 0xFF)


def _fill_next(results: Sequence[torch.Tensor], byte: int) -> None:
    """Fill the allocator's next block of each result's size with ``byte``."""
    blocks = [
        torch.empty(result.nbytes, dtype=torch.uint8, device=result.device).fill_(byte)
        for result in results
        if result.layout is torch.strided and result.nbytes
    ]
    blocks.clear()


Digest = tuple[int, ...]
Make = Callable[[Args, dict[str, Any]], list[torch.Tensor]]
"""Makes the call on these arguments; returns the tensors to compare."""


Ways = list[tuple[Callable[[Any], Any], Callable[[], Any]]]
"""For each generator that a call may draw from, those among its arguments too: the functions that set and read its
state, below those that watch for seeding, because nothing is seeded."""


def _ways(plan: ReplayPlan, args: Args, kwargs: Kwargs) -> Ways:
    passed: list[Any] = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Generator)]
    defaults = [generator for _, generator in seams.default_generators()]
    generators: dict[int, Any] = {generator._cdata: generator for generator in (*defaults, *passed)}
    set_state: Any = patching.held_by(torch._C.Generator, "set_state")
    ways: list[Any] = [(partial(set_state, generator), generator.get_state) for generator in generators.values()]
    if plan.is_foreign:
        hidden: Any = getattr(patching.held_by(random, "random"), "__self__", None)
        if hidden is not None:
            ways.append((hidden.setstate, hidden.getstate))
        mersenne = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
        if mersenne is not None:
            ways.append((mersenne.set_state, mersenne.get_state))
    return ways


class Prepared(NamedTuple):
    """Everything needed to replay one call, taken before it ran."""

    tally: TrialTally
    copies: Copies
    generators: Ways
    states: list[Any]
    """Those of the generators, from which each trial starts."""

    def rewind(self) -> None:
        """Restore the generators to their states before the call."""
        for (put, _), state in zip(self.generators, self.states, strict=True):
            put(state)

    def finish(self, attempt: Callable[[], Untried | None]) -> None:
        """Run ``attempt``, which replays the call, then restore the generators to their states after the call."""
        try:
            after = self._replace(states=[read() for _, read in self.generators])
        except Exception:
            self.tally.leave(Untried.GENERATOR)
            return
        try:
            reason = attempt()
        except Exception:  # a failure of the recorder never reaches the program
            reason = Untried.FAILED
        finally:
            after.rewind()
        if reason is not None:
            self.tally.leave(reason)


class Replay:
    """The replays of the calls of one recording."""

    def __init__(self, times: int, limit: int) -> None:
        """``limit``: bytes that the trials of one call may copy."""
        self._times = times
        self._limit = limit
        self._streams: dict[torch.device, tuple[Any, torch.Tensor]] = {}
        self._digests = DeviceDigests()

    def prepare(self, tally: TrialTally, plan: ReplayPlan, args: Args, kwargs: Kwargs) -> Prepared | Untried:
        """Copy what replays need. Returns the reason if the call is not replayed."""
        if not tally.is_due():
            return Untried.RARER
        if any(map(is_capturing, tensors_in((args, kwargs)))):
            return Untried.CAPTURED
        try:
            with unseen_by_modes():
                copies = Copies(plan, args, kwargs, self._limit)
        except CannotCopyError as problem:
            return problem.reason
        except Exception:  # a tensor of an unforeseen kind, or no memory left
            return Untried.LAYOUT
        try:
            generators = _ways(plan, args, kwargs) if plan.draws else []
            return Prepared(tally, copies, generators, [read() for _, read in generators])
        except Exception:
            return Untried.GENERATOR

    def compare(
        self, prepared: Prepared, own_tensors: Sequence[torch.Tensor], results: Sequence[torch.Tensor], make: Make
    ) -> Untried | None:
        """Replay a call and tally the result, or return why not; ``results``: its tensors that it allocated."""
        copies = prepared.copies
        if copies.size + sum(tensor.numel() * tensor.element_size() for tensor in own_tensors) > self._limit:
            return Untried.MEMORY
        own = self._digest(own_tensors)
        if own is None:
            return Untried.LAYOUT
        device = next((tensor.device for tensor in own_tensors if not tensor.is_cpu), torch.device("cpu"))
        digests: list[Digest] = []
        relative = 0.0
        for trial in range(self._times):
            byte = _BYTES[trial % len(_BYTES)]
            prepared.rewind()
            positional, named = copies.fresh(byte)
            _fill_next(results, byte)
            if device.type == "cuda" and trial % 2:
                self._keep_busy(device)
            tensors = make(positional, named)
            digest = self._digest(tensors)
            if digest is None or len(tensors) != len(own_tensors):
                return Untried.LAYOUT
            digests.append(digest)
            if digest != own:
                relative = max(relative, _relative_difference(own_tensors, tensors))
        prepared.tally.note(own, digests, relative)
        return None

    def _keep_busy(self, device: torch.device) -> None:
        """Start work on another stream that continues during the replay."""
        if device not in self._streams:
            numbers = torch.zeros(_BUSY_NUMBERS, device=device)
            torch.cuda.synchronize(device)
            self._streams[device] = (torch.cuda.Stream(device), numbers)
        stream, numbers = self._streams[device]
        with torch.cuda.stream(stream):
            for _ in range(_BUSY_TIMES):
                numbers.sin_()

    def _digest(self, tensors: Sequence[torch.Tensor]) -> Digest | None:
        """One digest per tensor; synchronizes a device. ``None`` if a tensor has no digest."""
        digests = [self._digests.digest(tensor) for tensor in tensors]
        if self._digests.is_used:
            self._digests.fetch()
        numbers: list[Any] = [digest.value if isinstance(digest, Slot) else digest for digest in digests]
        return None if None in numbers else tuple(numbers)


def results_of(scratch: frozenset[int], result: Any) -> Iterator[torch.Tensor]:
    """The tensors among a call's results, without those at the positions in ``scratch``."""
    if not scratch or not isinstance(result, (tuple, list)):
        yield from tensors_in(result)
        return
    for place, item in enumerate(result):
        if place not in scratch:
            yield from tensors_in(item)


@contextmanager
def unseen_by_modes() -> Iterator[None]:
    """No mode or subclass sees the ops that run inside."""
    with seams.without_torch_function(), seams.without_modes():
        yield


def quietly(make: Callable[[], Any]) -> Any:
    """Replay a call without repeating its warnings.

    torch's kernels defer a warning until the function that Python called returns; ``apply_`` calls back in between.
    """
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        return make()
    results: list[Any] = []

    def keep(number: float) -> float:
        results.append(make())
        return number

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1).apply_(keep)
    return results[0]
