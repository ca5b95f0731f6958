"""How the calls of an overload are replayed, decided once per overload from its schema."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from tracer.facts.argument_readers import Args, Kwargs
from tracer.names import Untried
from tracer.recording.calls.draws import may_draw
from tracer.recording.storage import accesses
from tracer.recording.storage.accesses import Access
from tracer.recording.torch_private.seams import find
from tracer.recording.values.plans import COLLECTIVES, plan_of

#: Namespaces whose ops are there for what they do beside computing.
_EFFECTS = frozenset({"profiler", "prim", "prepacked", "mkldnn_prepacked", "rngprims", "symm_mem"})
#: Roles of arguments that a call writes, whatever its schema says.
_WRITING = (accesses.WRITES, accesses.UPDATES, accesses.SCATTERS, accesses.ACCUMULATES)
_OPAQUE = ("torch.classes", "ScriptObject", "ProcessGroup", "Stream", "Future", "Storage", "Any")


class Argument(NamedTuple):
    """An argument; ``position`` is -1 for a keyword."""

    position: int
    name: str

    def of(self, args: Args, kwargs: Kwargs) -> Any:
        """The call's argument; ``None`` if it was not passed."""
        return accesses.argument_at(*self, args, kwargs)


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
    written = () if plan is None else tuple(Argument(position, name) for position, name, _ in plan.written)
    if access.is_foreign and not gives and not written:
        return Untried.SIDE_EFFECTS  # whatever it is called for, it shows nowhere
    if plan is None:
        return None
    if not gives and not written:
        return Untried.NO_RESULT
    roles = {Argument(position, name): role for position, name, role in access.arguments}
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
