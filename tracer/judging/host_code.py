"""Calls that run on the host whatever the training runs on: data loading, transforms, a scheduler. Judged for the CPU.

What a ``DataLoader`` fetched, the recorder knows. What a recording made on the target's own device shows on the CPU is
host code too. The rest is said by the user; what looks like it is named, and judged for the target all the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import translate

import msgspec

from tracer.findings import Target
from tracer.judging.call_findings import JudgedCall
from tracer.names import Backend, HostCode, Phase, Verdict
from tracer.tables.ruling.target_tables import TargetTables
from tracer.trace.records import CallGroup

_CPU = "cpu"
_SAFE = (Verdict.DETERMINISTIC, Verdict.SEEDED)
#: So many places are named in a sentence.
_MOST_PLACES = 3


class HostCalls:
    """Tells the calls of one trace that run on the host from those that run on the target."""

    def __init__(self, calls: Iterable[CallGroup], target: Target) -> None:
        self._is_abroad = target.backend not in (Backend.RECORDED, Backend.CPU)
        device = target.backend.device
        self._was_recorded_there = self._is_abroad and any(group.facts.get("device") == device for group in calls)
        self._names = [re.compile(translate(glob)) for glob in target.host]

    def marked(self, calls: Iterable[CallGroup]) -> list[CallGroup]:
        """``calls`` with what is known of each, for a target on which it makes a difference."""
        if self._is_abroad and (self._was_recorded_there or self._names):
            return [self._marked(group) for group in calls]
        return [group if group.host is None else self._marked(group) for group in calls]

    def _marked(self, group: CallGroup) -> CallGroup:
        if group.host is HostCode.IMPORT:
            return group
        host = self._host_of(group) if self._is_abroad and group.facts.get("device") == _CPU else None
        return group if host is group.host else msgspec.structs.replace(group, host=host)

    def _host_of(self, group: CallGroup) -> HostCode | None:
        if group.host is not None:
            return group.host
        if self._was_recorded_there:
            return HostCode.DEVICE
        if self._names and any(name.match(text) for text in _texts_of(group) for name in self._names):
            return HostCode.NAMED
        return None


def _texts_of(group: CallGroup) -> Iterator[str]:
    """What a glob may name a call by: its lines, their files, its function, its module."""
    for place in (group.location, group.called_from):
        if place:
            yield place
            yield place.rpartition(":")[0]
    yield from (text for text in (group.function, group.module) if text)


_WORDS = {
    HostCode.LOADER: "that a DataLoader fetched",
    HostCode.DEVICE: "recorded on the CPU beside the target's device",
    HostCode.IMPORT: "that a library made while it was imported",
    HostCode.NAMED: "that you named",
}


def host_banners(
    calls: Iterable[CallGroup], unsafe: Iterable[JudgedCall], target: Target, tables: TargetTables
) -> Iterator[str]:
    """What of ``calls`` was judged for the CPU in a target's stead, and what else of the ``unsafe`` may have to be."""
    counted: Counter[HostCode] = Counter()
    for group in calls:
        if group.host is not None:
            counted[group.host] += group.count
    if counted:
        told = ", ".join(f"{count:,} {_WORDS[host]}" for host, count in sorted(counted.items()))
        every = sum(counted.values())
        said = "1 call runs on the host and was" if every == 1 else f"{every:,} calls run on the host and were"
        yield f"{said} judged for cpu: {told}."
    places = Counter[str]()
    is_abroad = target.backend not in (Backend.RECORDED, Backend.CPU)
    for call in unsafe if is_abroad else ():
        if _may_be_host(call, tables):
            places[call.group.called_from or call.group.location or "an unknown line"] += call.group.count
    if places:
        named = ", ".join(list(places)[:_MOST_PLACES])
        more = f" and {len(places) - _MOST_PLACES:,} more" if len(places) > _MOST_PLACES else ""
        yield (
            f"Calls at {named}{more} touched no module and no gradient, and would not vary on a CPU. If they run there"
            " whatever the device (transforms, a scheduler, graph set-up), say so: `--host GLOB`, or `# tracer: host`"
            " on the line."
        )


def _may_be_host(call: JudgedCall, tables: TargetTables) -> bool:
    """Is it a risk on the target alone, outside every module, and did nothing differentiable come of it?"""
    group, ruling = call
    if group.host is not None or group.phase is not Phase.OTHER or group.module or group.facts.get("device") != _CPU:
        return False
    if ruling.verdict in _SAFE and ruling.verdict_in_deterministic_mode in _SAFE:
        return False
    there = tables.rule_on(msgspec.structs.replace(group, host=HostCode.NAMED))
    return there.verdict in _SAFE and there.verdict_in_deterministic_mode in _SAFE
