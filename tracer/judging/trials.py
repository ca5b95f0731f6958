"""Applies the results of trials and data facts to a target: as evidence of findings, and as banners."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from tracer.findings import Evidence, Target
from tracer.names import Backend, DataShown, EvidenceKind, Untried
from tracer.tables.rules import Ruling
from tracer.tables.versions import release_or_text
from tracer.trace.file import Trace
from tracer.trace.merging import joined, summed
from tracer.trace.records import CallGroup, Region, Tried


class TrialsHere:
    """The trials of one trace, for one target. They are evidence only for their own device and torch."""

    def __init__(self, trace: Trace, target: Target) -> None:
        self._target = target
        self._is_rocm = trace.environment.hip is not None
        self._is_this_torch = release_or_text(trace.environment.torch) == target.torch
        self._recorded: Tried | None = None
        """All trials of the trace, for whatever target."""
        self._varied = 0
        """Groups of calls that varied."""
        self._bear = False
        """Whether some of them are evidence for the target."""
        self._regions = [region for region in trace.regions if region.tried is not None]
        for region in self._regions:
            self._join(region.tried)
            self._bear |= self._bears_on_region(region)

    def bearing(self, calls: Iterable[CallGroup]) -> list[CallGroup]:
        """``calls`` with the results of their trials, if those ran on the target's device."""
        groups = []
        for group in calls:
            if group.tried is not None:
                if not group.tried.together:  # else its region's trials are counted
                    self._join(group.tried)
                    self._varied += bool(group.tried.varied)
                backend = Backend.CPU if group.host is not None else self._target.backend
                bears = self._is_here(backend, (group.facts.get("device"),))
                self._bear |= bears
                group = group if bears else replace(group, tried=None)
            groups.append(group)
        return groups

    def _join(self, tried: Tried | None) -> None:
        if tried is not None:
            self._recorded = tried if self._recorded is None else joined(self._recorded, tried, 0)

    def _bears_on_region(self, region: Region) -> bool:
        return self._is_here(self._target.backend, region.device.split(","))

    def _is_here(self, backend: Backend, devices: Collection[object]) -> bool:
        """Return whether trials on ``devices`` ran on ``backend``'s, with the target's torch."""
        is_same_maker = (backend is Backend.ROCM) == self._is_rocm or backend is Backend.CPU
        is_device = backend is Backend.RECORDED or (is_same_maker and backend.device in devices)
        return self._is_this_torch and is_device

    def banners(self, judged: Iterable[tuple[CallGroup, Ruling]]) -> Iterator[str]:
        """Banners about them; ``judged``: at least the calls on which they decided."""
        judged = tuple(judged)
        settled = sum(group.count for group, ruling in judged if ruling.observed)
        if refuted := ", ".join(dict.fromkeys(group.op for group, ruling in judged if ruling.refuted is not None)):
            yield f"The table is wrong for this device: {refuted} varied when replayed. Please report it."
        varied = [(region, tried) for region in self._regions if (tried := region.tried) is not None and tried.varied]
        if self._recorded is not None:
            bears = "" if self._bear else " They ran on another device or torch than this target's."
            yield f"{summary_of(self._recorded, self._varied, len(varied))}{bears}"
        yield from (_of_region(*region) for region in varied if self._bears_on_region(region[0]))
        if settled:
            yield (
                f"{_calls(settled)} {'is' if settled == 1 else 'are'} deterministic only for the data of this run,"
                " which were checked: other data may make runs differ."
            )


def _of_region(region: Region, tried: Tried) -> str:
    """A compiled region that varied, and the suspected kernels, in a sentence or two."""
    where = f" ({region.location})" if region.location else ""
    said = f"Compiled region {region.id}{where} varied in {tried.varied:,} of {tried.trials:,} trials"
    adding = [kernel.name for kernel in region.kernels if kernel.adds_in_any_order]
    adds = "adds" if len(adding) == 1 else "add"
    suspected = f" Suspected: {', '.join(adding)}, which {adds} atomically." if adding else ""
    if tried.together == 1:
        return f"{said}; one group of its calls alone may vary.{suspected}"
    if tried.together:
        several = f"{tried.together:,} groups of its calls may vary, and which of them did is not known"
        return f"{said}; {several}.{suspected}"
    return f"{said}, although nothing in it is known to vary. Please report it."


def summary_of(tried: Tried, varied: int, regions: int = 0) -> str:
    """All trials of a recording in a sentence or two, and how many groups of calls and compiled ``regions`` varied."""
    said = f"{_calls(tried.calls)} {'was' if tried.calls == 1 else 'were'} replayed, {tried.trials:,} times in all"
    counts = ((varied, "group of calls", "groups of calls"), (regions, "compiled region", "compiled regions"))
    which = " and ".join(f"{count:,} {single if count == 1 else many}" for count, single, many in counts if count)
    outcome = f"{which} varied" if which else "all agreed, which proves nothing"
    untried = ", ".join(f"{count:,} {_WHY_NOT[why]}" for why, count in sorted(tried.untried.items()) if count)
    return f"Trials: {said}: {outcome}.{f' Not tried: {untried}.' if untried else ''}"


_WHY_NOT = {
    Untried.RARER: "of groups that had been tried before",
    Untried.MEMORY: "too large for --trial-memory",
    Untried.COLLECTIVE: "collective",
    Untried.SIDE_EFFECTS: "with effects that cannot be undone",
    Untried.FRESH_MEMORY: "that return unwritten memory",
    Untried.NO_RESULT: "without a result to compare",
    Untried.NO_INPUT: "without a tensor to read",
    Untried.NOT_COMPUTED: "on fake tensors",
    Untried.LAYOUT: "of a layout that cannot be copied",
    Untried.GENERATOR: "of a generator whose state cannot be restored",
    Untried.CAPTURED: "of a CUDA graph",
    Untried.COMPILED: "in compiled code whose ops are not known, or of the program's own kernels",
    Untried.FAILED: "that raised when replayed",
}


def shown_of(groups: Iterable[CallGroup]) -> tuple[Tried | None, dict[DataShown, int]]:
    """The results of trials and data facts of the groups of one finding."""
    tried: Tried | None = None
    data: dict[DataShown, int] = {}
    before = 0
    regions: set[str | None] = set()
    for group in groups:
        is_counted = group.tried is not None and group.tried.together > 0 and group.region in regions
        if group.tried is not None and not is_counted:
            tried = group.tried if tried is None else joined(tried, group.tried, before)
        data = summed(data, group.data) if group.data else data
        regions.add(group.region)
        before += group.count
    return tried, data


def shown_by(tried: Tried | None, data: dict[DataShown, int]) -> Iterator[Evidence]:
    """The results as evidence."""
    if tried is not None and tried.trials:
        yield Evidence(kind=EvidenceKind.TRIED, ref=words_of(tried))
    if data:
        shares = ", ".join(f"{_SHOWN[shown]} in {count:,}" for shown, count in sorted(data.items()))
        yield Evidence(kind=EvidenceKind.OBSERVED, ref=f"{_calls(sum(data.values()))} checked: {shares}")


_SHOWN = {
    DataShown.DISTINCT: "no element written twice",
    DataShown.TWICE_ONTO_ZEROS: "no element written more than twice, onto zeros",
    DataShown.EXACT: "integers whose sums are exact",
    DataShown.NO_TIES: "no ties and no NaN",
    DataShown.DUPLICATES: "elements written several times",
    DataShown.TIES: "ties",
    DataShown.NAN: "a NaN among the ordered values",
    DataShown.UNREAD: "nothing that could be read",
}


def words_of(tried: Tried) -> str:
    """``varied in 3 of 5 trials of 1 call``, or that it agreed."""
    of = f"{tried.trials:,} trial{'' if tried.trials == 1 else 's'} of {_calls(tried.calls)}"
    if tried.together:
        runs = f"{tried.calls:,} execution{'' if tried.calls == 1 else 's'}"
        of = f"{tried.trials:,} trial{'' if tried.trials == 1 else 's'} of {runs} of its compiled region"
        several = f"{tried.together:,} groups of calls may vary"
        of += f", in which {several if tried.together > 1 else 'nothing else is known to vary'}"
    if not tried.varied:
        return f"agreed in {of}"
    distance = f", up to {tried.relative:.1g} apart (relative)" if tried.relative else ""
    rarely = ", rarely" if tried.is_rare else ""
    return f"varied in {tried.varied:,} of {of}{rarely}: {tried.distinct:,} results of one call{distance}"


def _calls(count: int) -> str:
    return f"{count:,} call{'' if count == 1 else 's'}"
