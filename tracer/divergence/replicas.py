"""Ranks of one job: replicas that should agree after each step, and where they drift apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from tracer.divergence.model import Drift, Replicas
from tracer.divergence.recordings import Recording
from tracer.trace.values import ValueKind, Values

_Digests = Mapping[str, int]


def are_ranks(first: Recording, second: Recording) -> bool:
    """Return whether these two are ranks of one job, rather than two runs."""
    ours, theirs = first.values.header, second.values.header
    same_job = ours.world_size is not None and ours.world_size == theirs.world_size
    return same_job and None not in (ours.rank, theirs.rank) and ours.rank != theirs.rank


def compare_replicas(recordings: Sequence[Recording]) -> Replicas:
    """The first step after which parameters that agreed on all ranks no longer do, and the buffers that differ.

    Parameters that differ from the start are shards, or are not meant to agree: then nothing is claimed.
    """
    headers = [recording.values.header for recording in recordings]
    ranks = tuple(place if header.rank is None else header.rank for place, header in enumerate(headers))
    sides = [digests_by_step(recording.values, ValueKind.PARAMETER) for recording in recordings]
    steps = [step for step in sides[0] if all(step in side for side in sides)] if sides else []
    same = bool(steps) and not _differing([side[steps[0]] for side in sides])
    replicas = Replicas(ranks=ranks, steps=len(steps), are_replicas=same)
    if not same:
        return replicas
    owned = [digests_by_step(recording.values, ValueKind.BUFFER) for recording in recordings]
    buffers_differ: dict[str, int] = {}
    for step in steps:
        for name in _differing([side.get(step, {}) for side in owned]):
            buffers_differ.setdefault(name, step)
    replicas = msgspec.structs.replace(
        replicas, parameters=_compared(sides, steps), buffers=_compared(owned, steps), buffers_differ=buffers_differ
    )
    for before, step in pairwise(steps):
        digests = [side[step] for side in sides]
        differing = _differing(digests)
        if differing:
            drift = Drift(
                step=step,
                name=differing[0],
                parameters=len(differing),
                ranks=_alike(ranks, [digest[differing[0]] for digest in digests]),
                gradients_differ=_gradients(recordings, before, differing[0]),
            )
            return msgspec.structs.replace(replicas, drift=drift)
    return replicas


def digests_by_step(values: Values, kind: ValueKind) -> dict[int, dict[str, int]]:
    """Step -> name -> the first digest in that step."""
    moments = values.moments
    numbers = [at for at, name in enumerate(values.names) if name.kind is kind]
    digests: dict[int, dict[str, int]] = {}
    for row in np.flatnonzero(np.isin(moments.name, numbers)).tolist():
        name = values.names[int(moments.name[row])].name
        digests.setdefault(int(moments.step[row]), {}).setdefault(name, int(moments.digest[row]))
    return digests


def _compared(sides: Sequence[Mapping[int, _Digests]], steps: Sequence[int]) -> int:
    """How many names all ranks have in some step."""
    return len({name for step in steps for name in _common([side.get(step, {}) for side in sides])})


def _common(digests: Sequence[_Digests]) -> list[str]:
    return [name for name in digests[0] if all(name in by_name for by_name in digests)]


def _differing(digests: Sequence[_Digests]) -> list[str]:
    """Names that all ranks have, with different digests."""
    return [name for name in _common(digests) if len({by_name[name] for by_name in digests}) > 1]


def _alike(ranks: Sequence[int], digests: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    groups: dict[int, list[int]] = {}
    for rank, digest in zip(ranks, digests, strict=True):
        groups.setdefault(digest, []).append(rank)
    return tuple(map(tuple, sorted(groups.values(), key=len, reverse=True)))


def _gradients(recordings: Sequence[Recording], step: int, name: str) -> bool | None:
    sides = [digests_by_step(recording.values, ValueKind.GRADIENT).get(step, {}) for recording in recordings]
    if any(name not in side for side in sides):
        return None
    return len({side[name] for side in sides}) > 1
