"""Facts that a call group says of itself, in a condition's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tracer.tables.vocabulary import COUNTING_NODES, FORWARD_FACTS, SELECTING_NODES, Value

#: A softmax that attention's math route alone calls: rows that a mask left empty come out as zeros.
_ATTENTION_SOFTMAX = "SafeSoftmaxBackward"


class Derivation(NamedTuple):
    """How one derived fact follows."""

    reads: tuple[str, ...]
    """The recorded facts that it looks at, and no other; the autograd node apart."""
    derive: Callable[[str | None, Mapping[str, Value]], bool | None]


def derive(key: str, node: str | None, facts: Mapping[str, Value]) -> bool | None:
    """The derived fact ``key`` of a call with ``facts`` that was made by the autograd node ``node``.

    ``node`` is ``None`` outside the backward pass, and empty where it is not known; then nor is what rests on it.
    """
    return DERIVATIONS[key].derive(node, facts)


def _of_node(is_one: Callable[[str], bool]) -> Derivation:
    def from_node(node: str | None, facts: Mapping[str, Value]) -> bool | None:
        if node is None:
            return False
        return is_one(node.rstrip("0123456789")) if node else None

    return Derivation((), from_node)


def _where(name: str) -> Derivation:
    """A fact that is noted where it holds, and nothing where it does not."""
    return Derivation((name,), lambda node, facts: facts.get(name) is True)


_DIRECT = FORWARD_FACTS["forward.direct"]
#: How each key of ``vocabulary.DERIVED_FACTS`` follows.
DERIVATIONS: Mapping[str, Derivation] = {
    "backward.selects": _of_node(lambda name: name in SELECTING_NODES),
    "backward.attention_softmax": _of_node(lambda name: name == _ATTENTION_SOFTMAX),
    # It lets calls off, so one that is not known to count is held not to.
    "backward.counts": Derivation((), lambda node, facts: (node or "").rstrip("0123456789") in COUNTING_NODES),
    "shape.is_scalar": Derivation(("ndim",), lambda node, facts: facts.get("ndim") == 0),
    **{key: _where(told) for key, told in FORWARD_FACTS.items()},
    # A backward op that is called outside the backward pass has no forward: whoever called it went past its function.
    "forward.direct": Derivation((_DIRECT,), lambda node, facts: node is None or facts.get(_DIRECT) is True),
    "phase.backward": Derivation((), lambda node, facts: node is not None),
    "attention.may_fuse": _where("attention.may_fuse"),
    "module.recurrent": _where("module.recurrent"),
}
