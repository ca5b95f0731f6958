"""How the calls of an overload are replayed, decided once per overload from its schema."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from tracer.facts.argument_readers import Args, Kwargs
from tracer.names import Untried
from tracer.recording.calls.draws import may_draw
from tracer.recording.storage import accesses
from tracer.recording.storage.accesses import Access
from tracer.recording.torch_private import seams, storages
from tracer.recording.torch_private.seams import find
from tracer.recording.values.call_digests import COLLECTIVES, plan_of

#: Namespaces whose ops are there for what they do beside computing.
_EFFECTS = frozenset({"profiler", "prim", "prepacked", "mkldnn_prepacked", "rngprims", "symm_mem"})
#: Roles of arguments that a call writes, whatever its schema says.
_WRITING = (accesses.WRITES, accesses.UPDATES, accesses.SCATTERS, accesses.ACCUMULATES)
_OPAQUE = ("torch.classes", "ScriptObject", "ProcessGroup", "Stream", "Future", "Storage", "Any")


Argument = tuple[int, str]
"""Position (-1 for a keyword) and name."""


class ReplayPlan(NamedTuple):
    """The plan to replay a call."""

    written: tuple[Argument, ...]
    """Arguments that it writes; they are compared like its results."""
    overwritten: tuple[Argument, ...]
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
        overwritten=tuple(argument for argument in written if roles.get(argument) == accesses.WRITES),
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
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) if hasattr(torch.nn, "Buffer") else (torch.Tensor,)


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
        originals = {storages.storage_id(tensor): _storage_of(tensor) for tensor in wanted}
        # One copy stays here, another is handed to each trial.
        self.size = 2 * sum(int(storage.nbytes()) for storage in originals.values())
        if self.size > limit:
            raise CannotCopyError(Untried.MEMORY)
        shared = [tensor for tensor in tensors if storages.storage_id(tensor) in originals]
        if not all(map(can_be_rebuilt, shared)):
            raise CannotCopyError(Untried.LAYOUT)
        self._copied = {identity: storage.clone() for identity, storage in originals.items()}
        """Storage, by its identity, to a copy of it."""
        uses = Counter(map(storages.storage_id, shared))
        overwritten = map(storages.storage_id, tensors_of(plan.overwritten, args, kwargs))
        self._overwritten = {identity for identity in overwritten if uses[identity] == 1}

    def fresh(self, byte: int) -> tuple[Args, dict[str, Any]]:
        """The arguments of one trial; memory that the call only writes to is filled with ``byte``."""
        clones = {identity: storage.clone() for identity, storage in self._copied.items()}

        def rebuilt(tensor: torch.Tensor) -> torch.Tensor:
            identity = storages.storage_id(tensor)
            if identity not in clones:
                return tensor
            storage = clones[identity]
            # Only where the tensor is all of its storage: what lies around it is nobody's to change.
            if identity in self._overwritten and tensor.numel() * tensor.element_size() == storage.nbytes():
                storage.fill_(byte)
            return _laid_on(storage, tensor)

        if not clones:
            return self._args, dict(self._kwargs)
        args, kwargs = tree_map_only(torch.Tensor, rebuilt, (self._args, dict(self._kwargs)))
        return args, kwargs


def _laid_on(storage: Any, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on ``storage`` with the offset, sizes and strides of ``tensor``."""
    laid = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    _set(laid, storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return laid


def can_be_rebuilt(tensor: Any) -> bool:
    """Whether a storage, an offset, sizes and strides describe the tensor completely."""
    if type(tensor) not in _PLAIN and seams.dispatches_itself(type(tensor)):
        return False
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested or tensor.device.type == "meta":
        return False
    return not (tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor()) and bool(storages.storage_id(tensor))


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor in ``value``, including those in lists and dictionaries."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def tensors_of(arguments: tuple[Argument, ...], args: Args, kwargs: Kwargs) -> list[torch.Tensor]:
    """The tensors among some arguments of a call."""
    return tensors_in([accesses.argument_at(*argument, args, kwargs) for argument in arguments])
