"""Calls that run on the host whatever the device (data loading, transforms, a scheduler), judged for the CPU.

These are calls of a ``DataLoader``'s fetch, CPU calls of a recording on the target's device, and what the user names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import translate

from msgspec.structs import replace

from tracer.findings import Target
from tracer.judging.call_findings import JudgedCall
from tracer.names import SAFE, Backend, HostCode, Phase
from tracer.tables.ruling.target_tables import TargetTables
from tracer.trace.file import Trace
from tracer.trace.records import CallGroup, is_set_up

_CPU = "cpu"
#: Most places that a sentence names.
_MOST_PLACES = 3


def with_hosts(trace: Trace, target: Target) -> list[CallGroup]:
    """The calls, each with the reason why it is known to run on the host, if that matters for the target.

    A call on the CPU says so itself if the step ran on the target's device; on real tensors and on fake ones, the step
    is another. Tensors of ``tracer run --fake --as`` lie on the CPU, whatever device the program asked for.
    """
    calls = trace.calls
    is_for_device = target.backend not in (Backend.RECORDED, Backend.CPU)
    claims = is_for_device and not any(source.fake_as for source in trace.sources)
    ran_there = {fake: claims and _ran_on(calls, target, fake=fake) for fake in (False, True)}
    globs = [re.compile(translate(glob)) for glob in target.host]

    def host_of(group: CallGroup) -> HostCode | None:
        if group.host is HostCode.IMPORT:
            return group.host
        if not is_for_device or group.facts.get("device") != _CPU:
            return None
        if group.host is not None or ran_there[group.fake]:
            return group.host or HostCode.DEVICE
        places = [place for place in (group.location, group.called_from) if place]
        texts = (*places, *(place.rpartition(":")[0] for place in places), group.function, group.module)
        return HostCode.NAMED if any(glob.match(text) for glob in globs for text in filter(None, texts)) else None

    hosts = ((group, host_of(group)) for group in calls)
    return [group if host is group.host else replace(group, host=host) for group, host in hosts]


def _ran_on(calls: Iterable[CallGroup], target: Target, *, fake: bool) -> bool:
    """Return whether the step ran on the target's device: most calls of the backward pass did, or of the forward pass
    without one, or of all without either. A call or two elsewhere (a probe, a file that was loaded there) decide
    nothing."""
    counted: Counter[tuple[Phase, object]] = Counter()
    for group in calls:
        if group.fake is fake:
            counted[group.phase, group.facts.get("device")] += group.count
    for phase in (Phase.BACKWARD, Phase.FORWARD, Phase.OTHER):
        there, here = counted[phase, target.backend.device], counted[phase, _CPU]
        if there or here:
            return there > here
    return False


_WORDS = {
    HostCode.LOADER: "that a DataLoader fetched",
    HostCode.DEVICE: "recorded on the CPU besides the target's device",
    HostCode.IMPORT: "that a library made while it was imported",
    HostCode.NAMED: "that you named",
}


def host_banners(
    calls: Iterable[CallGroup], unsafe: Iterable[JudgedCall], target: Target, tables: TargetTables
) -> Iterator[str]:
    """Yield which ``calls`` were judged for the CPU, not the target, and which other ``unsafe`` ones may have to be."""
    by_reason: Counter[HostCode] = Counter()
    for group in calls:
        if group.host is not None:
            by_reason[group.host] += group.count
    if by_reason:
        reasons = ", ".join(f"{count:,} {_WORDS[host]}" for host, count in sorted(by_reason.items()))
        every = by_reason.total()
        said = "1 call runs on the host and was" if every == 1 else f"{every:,} calls run on the host and were"
        yield f"{said} judged for cpu: {reasons}."
    is_for_device = target.backend not in (Backend.RECORDED, Backend.CPU)
    suspects = (call.group for call in unsafe if is_for_device and _may_be_host(call, tables))
    places = dict.fromkeys(group.called_from or group.location or "an unknown line" for group in suspects)
    if places:
        named = ", ".join(list(places)[:_MOST_PLACES])
        more = f" and {len(places) - _MOST_PLACES:,} more" if len(places) > _MOST_PLACES else ""
        yield (
            f"Calls at {named}{more} touched no module and no gradient, and would not vary on a CPU. If they run there"
            " whatever the device (transforms, a scheduler, graph set-up), say so: `--host GLOB`, or `# tracer: host`"
            " on the line."
        )


def _may_be_host(call: JudgedCall, tables: TargetTables) -> bool:
    """Return whether it is a risk on the target only, outside every module, with no differentiable result."""
    group, ruling = call
    device = group.facts.get("device")
    if group.host is not None or group.phase is not Phase.OTHER or group.module or device != _CPU:
        return False
    if is_set_up(group.phase, group.module, group.place, device):
        return False  # the finding says so itself
    if SAFE.issuperset(ruling.both):
        return False
    there = tables.rule_on(replace(group, host=HostCode.NAMED))
    return SAFE.issuperset(there.both)
