"""Ranks of one job: replicas that should agree after each step, and where they stop to."""

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
    """Are these two processes of one job, rather than two runs?"""
    one, two = first.values.header, second.values.header
    same_job = one.world_size is not None and one.world_size == two.world_size
    return same_job and None not in (one.rank, two.rank) and one.rank != two.rank


def compare_replicas(recordings: Sequence[Recording]) -> Replicas:
    """The first step at which parameters that were the same on all ranks are not.

    Parameters that differ from the start are shards, or are not meant to agree: where any does, nothing is claimed.
    """
    ranks = tuple(
        place if one.values.header.rank is None else one.values.header.rank for place, one in enumerate(recordings)
    )
    sides = [_by_step(one.values, ValueKind.PARAMETER) for one in recordings]
    steps = [step for step in sides[0] if all(step in side for side in sides)] if sides else []
    same = bool(steps) and not _differing([side[steps[0]] for side in sides])
    found = Replicas(ranks=ranks, steps=len(steps), are_replicas=same)
    if not same:
        return found
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
            return msgspec.structs.replace(found, drift=drift)
    return found


def _by_step(values: Values, kind: ValueKind) -> dict[int, dict[str, int]]:
    """Step -> name -> digest, the first of each in the step."""
    moments = values.moments
    numbers = [at for at, name in enumerate(values.names) if name.kind is kind]
    found: dict[int, dict[str, int]] = {}
    for row in np.flatnonzero(np.isin(moments.name, numbers)).tolist():
        name = values.names[int(moments.name[row])].name
        found.setdefault(int(moments.step[row]), {}).setdefault(name, int(moments.digest[row]))
    return found


def _differing(digests: Sequence[_Digests]) -> list[str]:
    """Names that all have, and not alike."""
    names = [name for name in digests[0] if all(name in one for one in digests)]
    return [name for name in names if len({one[name] for one in digests}) > 1]


def _alike(ranks: Sequence[int], digests: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    groups: dict[int, list[int]] = {}
    for rank, digest in zip(ranks, digests, strict=True):
        groups.setdefault(digest, []).append(rank)
    return tuple(map(tuple, sorted(groups.values(), key=len, reverse=True)))


def _gradients(recordings: Sequence[Recording], step: int, name: str) -> bool | None:
    sides = [_by_step(one.values, ValueKind.GRADIENT).get(step, {}) for one in recordings]
    if any(name not in side for side in sides):
        return None
    return len({side[name] for side in sides}) > 1
