"""What every reader of a judgement must know first, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tracer.findings import Target
from tracer.names import Backend, BlindSpotKind, SeedOrigin, Settings
from tracer.tables.ruling.target_tables import TargetTables
from tracer.tables.versions import reviewed_releases
from tracer.trace.file import Trace
from tracer.trace.records import NO_DEVICE


def banners_of(
    trace: Trace, target: Target, target_tables: TargetTables, strict: bool, meta_calls: int
) -> Iterator[str]:
    """What must be said of the trace and of the tables of backends; ``meta_calls``: those that computed nothing."""
    if partial := trace.partial:
        yield f"The trace is partial ({partial}): calls after that point are missing."
    if any(source.eager for source in trace.sources):
        yield (
            "Recorded with compilation switched off (--eager): what torch.compile would have compiled ran op by op,"
            " and its kernels are not judged."
        )
    fake = sum(source.fake_calls for source in trace.sources)
    if fake:
        yield (
            f"Calls on fake tensors: {fake:,} of {trace.call_count:,}. They are judged as if they had run on the device"
            " that the tensors claim; nothing was computed, so no data, digests or trials stand behind them."
        )
    if meta_calls:
        yield (
            f"Calls on `meta` tensors that computed nothing: {meta_calls:,}. What they would run on a device was not"
            " seen: record the step on real tensors, or under torch's `FakeTensorMode`."
        )
    if any(source.values for source in trace.sources):
        yield (
            "Digests of what every call read and wrote were kept beside the trace: `tracer diff` holds them against"
            " another run's."
        )
    for name in target_tables.missing():
        yield f"There is no table for {name}: its calls are unknown."
    for bound in target_tables.used():
        name, reviewed = bound.table.backend, bound.table.reviewed
        if bound.extrapolated:
            newest = reviewed_releases(reviewed)[-1]
            yield (
                f"The {name} table was reviewed up to torch {newest}; for torch {target.torch} its verdicts are"
                f" those of {newest}, extrapolated."
            )
        elif bound.place != "reviewed":
            relation = "not among them" if bound.place == "between" else f"{bound.place} than those"
            refused = " and strict judging does not extrapolate" if bound.place == "newer" and strict else ""
            yield (
                f"The {name} table was reviewed for torch {reviewed}; torch {target.torch} is {relation}"
                f"{refused}: its calls are unknown."
            )
    elsewhere = sorted(target_tables.devices.difference(NO_DEVICE))
    if target.backend is not Backend.RECORDED and elsewhere and target.backend.device not in elsewhere:
        how = (
            "calls that run as another op there are judged as that op"
            if target_tables.was_translated
            else "ops as recorded"
        )
        notes = "".join(f" {note.says}" for note in target_tables.notes())
        yield f"Recorded on {' and '.join(elsewhere)}, judged for {target.backend}: {how}.{notes}"
    unlinked = sum(s.count for s in trace.blind_spots if s.kind is BlindSpotKind.NO_FORWARD_LINK)
    if unlinked:
        yield f"Backward calls without a link to their forward line: {unlinked}."
    if trace.differing_settings and target.settings is Settings.RECORDED:
        names = ", ".join(trace.differing_settings)
        yield f"The merged recordings differ in {names}; the first recording's settings were judged."


def weak_banners(grounded: Mapping[Backend, tuple[int, int]]) -> Iterator[str]:
    """What must be said where calls are deterministic by the weakest evidence alone; see ``calls.weakly_grounded``."""
    for backend, (weak, every) in grounded.items():
        yield (
            f"Of the {every:,} calls that are deterministic on {backend}, {weak:,} are so by the vendor's list of"
            " kernels alone, the weakest evidence: its list of APIs does not name them."
        )


def process_banners(trace: Trace) -> Iterator[str]:
    """What the trace cannot say of the process."""
    if trace.schema < 2:
        yield (
            "The trace was recorded by an older release: settings made late, seeds, memory and data loading were not"
            " watched."
        )
    elif not trace.watched_from_start and any(draw.origin is SeedOrigin.UNSEEN for draw in trace.draws):
        yield (
            "Seeds were not watched from the start of the process: whether the program seeded a generator before"
            " recording began is not known. `tracer run` sees it."
        )
