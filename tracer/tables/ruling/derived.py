"""Facts that a call group says of itself, in a condition's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracer.tables.vocabulary import COUNTING_NODES, FORWARD_FACTS, SELECTING_NODES, Value

#: A softmax that attention's math route alone calls: rows that a mask left empty come out as zeros.
_ATTENTION_SOFTMAX = "SafeSoftmaxBackward"

_Derivation = Callable[[str | None, Mapping[str, Value]], bool | None]


def derive(key: str, node: str | None, facts: Mapping[str, Value]) -> bool | None:
    """The derived fact ``key`` of a call with ``facts`` that was made by the autograd node ``node``.

    ``node`` is ``None`` outside the backward pass, and empty where it is not known; then nor is what rests on it.
    """
    return DERIVATIONS[key](node, facts)


def _of_node(is_one: Callable[[str], bool]) -> _Derivation:
    def from_node(node: str | None, facts: Mapping[str, Value]) -> bool | None:
        if node is None:
            return False
        return is_one(node.rstrip("0123456789")) if node else None

    return from_node


def _told_by_forward(told: str) -> _Derivation:
    return lambda node, facts: facts.get(told) is True


#: How each key of ``vocabulary.DERIVED_FACTS`` follows.
DERIVATIONS: Mapping[str, _Derivation] = {
    "backward.selects": _of_node(lambda name: name in SELECTING_NODES),
    "backward.attention_softmax": _of_node(lambda name: name == _ATTENTION_SOFTMAX),
    # It lets calls off, so one that is not known to count is held not to.
    "backward.counts": lambda node, facts: (node or "").rstrip("0123456789") in COUNTING_NODES,
    "shape.is_scalar": lambda node, facts: facts.get("ndim") == 0,
    **{key: _told_by_forward(told) for key, told in FORWARD_FACTS.items()},
    # A backward op that is called outside the backward pass has no forward: whoever called it went past its function.
    "forward.direct": lambda node, facts: node is None or facts.get(FORWARD_FACTS["forward.direct"]) is True,
    "phase.backward": lambda node, facts: node is not None,
    "attention.may_fuse": lambda node, facts: facts.get("attention.may_fuse") is True,
    "module.recurrent": lambda node, facts: facts.get("module.recurrent") is True,
}
