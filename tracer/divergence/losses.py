"""What ``backward`` was called on in two runs, step for step."""

from __future__ import annotations

import numpy as np

from tracer.divergence.model import Loss
from tracer.trace.values import ValueKind, Values


def compare_losses(first: Values, second: Values) -> tuple[Loss, ...]:
    """The loss of each step in both runs: the mean, where ``backward`` was called several times in a step."""
    ours, theirs = _by_step(first), _by_step(second)
    return tuple(
        Loss(
            step=step,
            first=_mean(ours.get(step)),
            second=_mean(theirs.get(step)),
            differs=ours.get(step, b"") != theirs.get(step, b""),
        )
        for step in sorted(ours.keys() | theirs.keys())
    )


def _by_step(values: Values) -> dict[int, bytes]:
    """The bytes of the losses of each step, as doubles."""
    moments = values.moments
    numbers = [place for place, name in enumerate(values.names) if name.kind is ValueKind.LOSS]
    losses: dict[int, bytes] = {}
    for row in np.flatnonzero(np.isin(moments.name, numbers)).tolist():
        step = int(moments.step[row])
        losses[step] = losses.get(step, b"") + int(moments.digest[row]).to_bytes(8, "little")
    return losses


def _mean(losses: bytes | None) -> float | None:
    return None if losses is None else float(np.frombuffer(losses, "<f8").mean())
