"""Every fact, by its key."""

from __future__ import annotations

from collections.abc import Mapping

from tracer.facts import attention, called_by, convolution, derived, flags, indexing, operands, sizes, tensor
from tracer.facts.fact import Fact, Kind

#: The modules that declare facts, each in its ``FACTS``.
_SUBJECTS = (tensor, flags, indexing, sizes, operands, convolution, attention, called_by, derived)
FACTS: Mapping[str, Fact] = {fact.key: fact for subject in _SUBJECTS for fact in subject.FACTS}


def of_kind(*kinds: Kind) -> Mapping[str, Fact]:
    """The facts of these kinds, by key."""
    return {key: fact for key, fact in FACTS.items() if fact.kind in kinds}
