"""Facts that no recorder notes: what a call group says of itself, in a condition's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracer.tables.vocabulary import SELECTING_NODES

#: A softmax that attention's math route alone calls: rows that a mask left empty come out as zeros.
_ATTENTION_SOFTMAX = "SafeSoftmaxBackward"


def derive(key: str, node: str | None) -> bool | None:
    """The derived fact ``key`` of a call made by the autograd node ``node``.

    ``node`` is ``None`` outside the backward pass, and empty where it is not known; then nor is the fact.
    """
    if node is None:
        return False
    return DERIVATIONS[key](node.rstrip("0123456789")) if node else None


#: How each key of ``vocabulary.DERIVED_FACTS`` follows from an autograd node's name.
DERIVATIONS: Mapping[str, Callable[[str], bool]] = {
    "backward.selects": lambda name: name in SELECTING_NODES,
    "backward.attention_softmax": lambda name: name == _ATTENTION_SOFTMAX,
}
