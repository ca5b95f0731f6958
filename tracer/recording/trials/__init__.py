"""How a call is made again: planned once per overload, from its schema; on copies of what it may write."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from tracer.facts import Args, Kwargs
from tracer.names import Untried
from tracer.recording.calls import may_draw
from tracer.recording.storage import ACCUMULATES, SCATTERS, UPDATES, WRITES, Access, argument_at
from tracer.recording.torch_private import seams
from tracer.recording.values.call_digests import COLLECTIVES, plan_of

#: Namespaces whose ops are there for what they do beside computing.
_EFFECTS = frozenset({"profiler", "prim", "prepacked", "mkldnn_prepacked", "rngprims", "symm_mem"})
#: Roles of arguments that a call writes, whatever its schema says.
_WRITING = (WRITES, UPDATES, SCATTERS, ACCUMULATES)
_OPAQUE = ("torch.classes", "ScriptObject", "ProcessGroup", "Stream", "Future", "Storage", "Any")
#: The first calls of a group are all tried, then those whose number is a power of two.
_FIRST_CALLS = 3

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

    def outcome(self, args: Args, kwargs: Kwargs, result: Any) -> list[torch.Tensor]:
        """The tensors of a call to compare: those that it wrote to, then its results, without duplicates."""
        several = (*tensors_of(self.written, args, kwargs), *self.results(result))
        return list({id(tensor): tensor for tensor in several}.values())

    def results(self, result: Any) -> list[torch.Tensor]:
        """The tensors that a call returned, without its scratch."""
        if self.scratch and isinstance(result, (tuple, list)):
            result = [item for place, item in enumerate(result) if place not in self.scratch]
        return tensors_in(result)


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
    has_effects = namespace in _EFFECTS or any(word in kind for kind in kinds for word in _OPAQUE)
    registered = seams.find(sys.modules.get("torch._higher_order_ops.effects"), "has_effects")  # torch 2.6 and newer
    with suppress(Exception):  # other releases ask for more than the op
        has_effects = has_effects or (registered is not None and bool(registered(func)))
    if has_effects:
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


class CannotCopyError(Exception):
    """The call's inputs cannot be copied; the argument is an ``Untried``."""


class Copies:
    """The arguments of one call, copied before it ran."""

    def __init__(self, plan: ReplayPlan, args: Args, kwargs: Kwargs, limit: int) -> None:
        """Raises ``CannotCopyError`` for more than ``limit`` bytes, and for what cannot be copied as it lies."""
        self._args = args
        self._kwargs = kwargs
        tensors = tensors_in((args, kwargs))
        wanted = tensors if plan.copies_all else tensors_of(plan.written, args, kwargs)
        if not all(map(_can_be_rebuilt, wanted)):
            raise CannotCopyError(Untried.LAYOUT)
        storage_of: Any = torch._C.TensorBase.untyped_storage  # not torch.Tensor's, which is watched
        originals = {seams.storage_id(tensor): storage_of(tensor) for tensor in wanted}
        # One copy stays here, another is handed to each trial.
        self.size = 2 * sum(int(storage.nbytes()) for storage in originals.values())
        if self.size > limit:
            raise CannotCopyError(Untried.MEMORY)
        shared = [tensor for tensor in tensors if seams.storage_id(tensor) in originals]
        if not all(map(_can_be_rebuilt, shared)):
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
            set_storage: Any = torch._C.TensorBase.set_
            set_storage(laid, storage, tensor.storage_offset(), tensor.shape, tensor.stride())
            return laid

        arguments = self._args, dict(self._kwargs)
        return tree_map_only(torch.Tensor, rebuilt, arguments) if clones else arguments


def _can_be_rebuilt(tensor: Any) -> bool:
    """Return whether a storage, an offset, sizes and strides describe the tensor completely."""
    if not seams.is_dense(tensor) or tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor():
        return False
    return bool(seams.storage_id(tensor))


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor in ``value``, including those in lists and dictionaries."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def tensors_of(arguments: tuple[ReplayedArgument, ...], args: Args, kwargs: Kwargs) -> list[torch.Tensor]:
    """The tensors among some arguments of a call."""
    return tensors_in([argument_at(*argument, args, kwargs) for argument in arguments])


def is_due(count: int) -> bool:
    """Return whether a group's call of this number, counted from 1, is tried."""
    return count <= _FIRST_CALLS or not count & (count - 1)


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
