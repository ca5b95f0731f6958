"""Which calls computed something: real tensors do, fake ones and those on ``meta`` do not."""

from __future__ import annotations

from collections.abc import Iterable

from tracer.names import Phase
from tracer.trace.records import CallGroup

#: The device of tensors that have a shape and no data.
META = "meta"
#: Devices of calls that compute nothing: ``none`` for a call without a tensor.
NO_DEVICE = (META, "none")


#: An optimizer is none of them: it counts its steps on the CPU, whatever device its parameters are on.
_PASSES = (Phase.FORWARD, Phase.RECOMPUTE, Phase.BACKWARD)


def has_computed_step(calls: Iterable[CallGroup]) -> bool:
    """Did a forward or backward pass call an op on a device, or on fake tensors that claim one?"""
    return any(group.phase in _PASSES and group.facts.get("device") not in NO_DEVICE for group in calls)
