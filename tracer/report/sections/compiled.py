"""Compiled code: each region with its ops, its kernels and what of them varies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tracer.errors import ReportError
from tracer.names import (
    SEVERITY,
    About,
    DeterministicMode,
    Direction,
    KernelLanguage,
    RegionGap,
    RegionInside,
    RegionKind,
    RegionOrigin,
    Verdict,
)
from tracer.plain import one_line
from tracer.plan import name_of
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words, first
from tracer.report.words import plural
from tracer.trace.records import Kernel, Region, Tried

if TYPE_CHECKING:
    from tracer.judging.call_findings import JudgedCall
    from tracer.report.view import ReportView

LANGUAGES: Mapping[KernelLanguage, str] = {
    KernelLanguage.CPP: "generated C++",
    KernelLanguage.TRITON: "generated Triton",
    KernelLanguage.TEMPLATE: "template",
    KernelLanguage.EXTERN: "eager kernel, called",
    KernelLanguage.FALLBACK: "eager kernel, called",
    KernelLanguage.USER_TRITON: "your Triton kernel",
    KernelLanguage.OTHER: "kernel",
}
_ORIGINS: Mapping[RegionOrigin, str] = {
    RegionOrigin.COMPILED: "compiled while it was recorded",
    RegionOrigin.CACHE: "its code came from a cache",
    RegionOrigin.EARLIER: "compiled before recording began",
    RegionOrigin.UNKNOWN: "",
}
_GAPS: Mapping[RegionGap, str] = {
    RegionGap.EARLIER: "it was compiled before recording began",
    RegionGap.BACKEND: "only its backend can read the code that it makes",
    RegionGap.FORMAT: "this torch tells of it in a form that is not known here",
    RegionGap.HOOKS: "this torch lacks what a recorder listens to",
    RegionGap.NEVER_RAN: "it did not run while recording",
}
_INSIDE: Mapping[RegionInside, str] = {
    RegionInside.OPS_AND_KERNELS: "",
    RegionInside.OPS: "Which kernels its ops went into was not seen",
    RegionInside.KERNELS: "Its ops were not seen, its kernels were",
    RegionInside.DISPATCHED: "Its ops ran one by one, and were counted as eager ones are",
    RegionInside.UNSEEN: "Its inside was not seen",
}


class KernelRow(NamedTuple):
    """One kernel of a region."""

    name: str
    made_of: str
    """What it is: generated C++, a template, an eager kernel."""
    adds: str
    """``adds atomically``, ``adds nothing atomically``, or nothing where no source is there to read."""
    ops: str
    """The ops that went into it."""
    calls: int
    choice: str
    """What autotuning chose, and whether with a stopwatch."""
    lines: tuple[str, ...]
    """Its source's lines that show it, where the trace holds them."""

    @property
    def varies(self) -> bool:
        """Does it add atomically, on several threads?"""
        return self.adds == ADDS


class OpRow(NamedTuple):
    """Calls of one op at one place of a region."""

    op: str
    phase: str
    place: str
    module: str
    calls: int
    verdict: Verdict
    in_mode: Verdict
    kernels: str


class RegionRow(NamedTuple):
    """One region."""

    id: str
    title: str
    """What was compiled, and where it begins."""
    told: str
    """How often it ran, for what and by what it was compiled, what is in it."""
    gap: str
    """What of it was not seen, and why; empty for one that was seen whole."""
    verdict: Verdict
    """The worst of its calls; unknown where they were not seen."""
    kernels: tuple[KernelRow, ...]
    ops: tuple[OpRow, ...]
    """Worst first; empty for a report without its trace."""

    @property
    def varies(self) -> bool:
        """Does a kernel of it add atomically?"""
        return any(kernel.varies for kernel in self.kernels)


ADDS = "adds atomically"
_ADDS_NOTHING = "adds nothing atomically"
_ONE_THREAD = "adds atomically on one thread, so in one order"
_APART = "adds atomically, each thread to numbers of its own"


#: Regions that are listed, and kernels and ops of one.
_REGIONS = 60
_IN_REGION = 60
#: Kernels of a region that a terminal is told of.
_TELLING = 4
_HINT = "`tracer report TRACE --region ID` shows one region whole."


def compiled(report: ReportView, reader: Reader) -> Section | None:
    """The regions of compiled code, the worst first."""
    rows = region_rows(report)
    if not rows:
        return None
    shown, left_out = first(rows, min(_REGIONS, reader.rows))
    regions = (
        said.Row(
            (said.Badge(row.verdict), " ", said.Code(row.id)),
            aside=said.Code(row.title),
            blocks=(
                *_told_of(row),
                *(_inside(row, is_open=number == 0 and row.varies) if reader.is_whole else _telling(row)),
            ),
        )
        for number, row in enumerate(shown)
    )
    sentence = regions_sentence(report)
    blocks: tuple[said.Block, ...] = (said.lead(sentence),) if sentence else ()
    blocks += (said.Rows(tuple(regions), anchor="region", left_out=left_out), said.quiet(_HINT))
    return Section(anchor="compiled", title="Compiled code", blocks=blocks)


def whole_region(report: ReportView, region: str) -> tuple[said.Block, ...]:
    """One region whole: its kernels, its ops, what varies, and the lines of its code where the trace holds them.

    Raises ``ReportError`` in one line for an id that the trace does not have.
    """
    rows = {row.id: row for row in region_rows(report)}
    if region not in rows:
        known = one_line(", ".join(rows), 240)
        raise ReportError(
            f"there is no region {region!r}",
            hint=f"the trace has {known}" if known else "nothing was compiled while recording",
        )
    row = rows[region]
    blocks: tuple[said.Block, ...] = (
        said.Paragraph((said.Badge(row.verdict), f" Region {row.id}: ", said.Code(row.title)), said.Tone.STRONG),
        *_told_of(row),
    )
    if row.kernels:
        blocks += (said.Heading(f"Kernels ({len(row.kernels):,})"), _kernels(row.kernels, None))
    if row.ops:
        blocks += (said.Heading(f"Ops ({sum(op.calls for op in row.ops):,} calls)"), _ops(row.ops, None))
    return blocks


def _told_of(row: RegionRow) -> tuple[said.Block, ...]:
    gap = (said.Paragraph(f"{row.gap}."),) if row.gap else ()
    return (said.quiet(row.told), *gap)


def _telling(row: RegionRow) -> tuple[said.Block, ...]:
    """The kernels of which there is something to say."""
    telling = [kernel for kernel in row.kernels if kernel.varies or kernel.choice]
    return (_kernels(telling, _TELLING),) if telling else ()


def _inside(row: RegionRow, *, is_open: bool) -> tuple[said.Block, ...]:
    if not row.kernels and not row.ops:
        return ()
    summary = f"{plural(len(row.kernels), 'kernel')}, {plural(len(row.ops), 'op and place', 'ops and places')}"
    tables: tuple[said.Block, ...] = (_kernels(row.kernels, _IN_REGION),) if row.kernels else ()
    tables += (_ops(row.ops, _IN_REGION),) if row.ops else ()
    return (said.Fold(summary, tables, is_open=is_open),)


def _kernels(kernels: Sequence[KernelRow], most: int | None) -> said.Table:
    shown, left_out = first(kernels, most)
    columns = said.columns("Kernel", "What it is", "Made of")
    return said.Table(columns, tuple(map(_kernel_cells, shown)), noun="kernel", left_out=left_out)


def _kernel_cells(kernel: KernelRow) -> tuple[Words, ...]:
    adds: Words = said.Soft(said.Strong(kernel.adds), is_faint=False) if kernel.varies else said.Soft(kernel.adds)
    times = said.Soft(f"called {plural(kernel.calls, 'time')} a run" if kernel.calls != 1 else "")
    return (
        (said.Code(kernel.name), said.Lines("\n".join(kernel.lines))),
        (kernel.made_of, times, adds, said.Soft(kernel.choice)),
        said.Code(kernel.ops),
    )


def _ops(ops: Sequence[OpRow], most: int | None) -> said.Table:
    shown, left_out = first(ops, most)
    columns = said.columns("Op", "Verdict", "Into", "Place", long="Place")
    return said.Table(
        columns, tuple(map(_op_cells, shown)), noun="op", left_out=left_out, elsewhere="`--table calls` has"
    )


def _op_cells(op: OpRow) -> tuple[Words, ...]:
    then: Words = (
        said.Soft(("→ ", said.Badge(op.in_mode), " under the mode"), " ") if op.in_mode is not op.verdict else ""
    )
    return (
        (said.Code(op.op), f" {op.phase}, {plural(op.calls, 'call')}"),
        (said.Badge(op.verdict), then),
        said.Code(op.kernels),
        (said.Code(op.place), said.Soft(("in ", said.Code(op.module)) if op.module else "")),
    )


def region_rows(report: ReportView) -> list[RegionRow]:
    """The regions, the worst first, then those that ran most often."""
    by_region: dict[str, list[JudgedCall]] = {}
    for call in report.calls if report.has_calls else ():
        if call.group.region is not None:
            by_region.setdefault(call.group.region, []).append(call)
    of_whole = {name: one.verdict for one in report.findings if one.about is About.COMPILED for name in one.regions}
    rows = [
        (region, _row(region, by_region.get(region.id, []), of_whole.get(region.id)))
        for region in report.judgement.regions
    ]
    rows.sort(key=lambda row: (SEVERITY.index(row[1].verdict), -row[0].executions, row[0].id))
    return [row for _, row in rows]


def regions_sentence(report: ReportView) -> str:
    """How much was compiled, and how much of it was seen; empty where nothing was."""
    regions = [region for region in report.judgement.regions if region.kind is RegionKind.COMPILED]
    if not regions:
        return ""
    seen = sum(region.inside in (RegionInside.OPS_AND_KERNELS, RegionInside.OPS) for region in regions)
    adding = sum(any(kernel.adds_in_any_order for kernel in region.kernels) for region in regions)
    dispatched = sum(region.inside is RegionInside.DISPATCHED for region in regions)
    parts = [f"{plural(len(regions), 'region')} of compiled code, the inside of {seen} seen"]
    if dispatched:
        parts.append(f"{dispatched} counted op by op")
    if adding:
        parts.append(f"{adding} with a kernel that adds atomically")
    return f"{', '.join(parts)}."


def _row(region: Region, calls: list[JudgedCall], of_whole: Verdict | None) -> RegionRow:
    """``of_whole``: the verdict of a finding that is about the region and none of its calls."""
    verdicts = {call.ruling.verdict for call in calls}
    gap = _gap(region)
    if not verdicts:
        verdicts = {Verdict.UNKNOWN if gap and region.inside is not RegionInside.DISPATCHED else Verdict.DETERMINISTIC}
    if not calls and any(kernel.adds_in_any_order for kernel in region.kernels):
        verdicts = {Verdict.NONDETERMINISTIC}
    verdicts |= set() if of_whole is None else {of_whole}
    ops = sorted((_op(call) for call in calls), key=lambda row: (SEVERITY.index(row.verdict), -row.calls, row.op))
    return RegionRow(
        region.id,
        _title(region),
        _told(region),
        gap,
        min(verdicts, key=SEVERITY.index),
        tuple(_kernel(kernel) for kernel in sorted(region.kernels, key=lambda one: not one.adds_in_any_order)),
        tuple(ops),
    )


def _title(region: Region) -> str:
    what = region.function or "compiled code"
    return f"{what} at {region.location}" if region.location else what


def _trials(tried: Tried) -> str:
    every = plural(tried.trials, "trial")
    return f"{tried.varied:,} of {every}" if tried.varied else every


def _told(region: Region) -> str:
    return "; ".join(filter(None, _facts(region)))


def _facts(region: Region) -> Iterator[str]:
    if region.kind is RegionKind.CUDA_GRAPH:
        yield f"a CUDA graph, replayed {plural(region.executions, 'time')}"
    else:
        half = "" if region.direction is Direction.INFERENCE else f"{region.direction}, "
        yield f"{half}ran {plural(region.executions, 'time')}"
        by = f" by {region.backend}" if region.backend else ""
        yield f"compiled{by} for {region.device}" if region.device else f"compiled{by}"
    if region.tried is not None and region.tried.trials:
        yield f"run again, it {'varied' if region.tried.varied else 'agreed'} in {_trials(region.tried)}"
    if _ORIGINS[region.origin]:
        yield _ORIGINS[region.origin]
    if region.deterministic_mode not in (None, DeterministicMode.OFF):
        yield f"under deterministic mode ({region.deterministic_mode})"
    if region.mode:
        yield f"mode {region.mode}"
    if region.recompiles:
        guard = f", since {region.guard}" if region.guard else ""
        yield f"compiled again after {region.recompiles}{guard}"
    if region.kernels:
        yield f"{plural(region.ops, 'op')} in {plural(len(region.kernels), 'kernel')}"
    elif region.ops:
        yield plural(region.ops, "op")


def _gap(region: Region) -> str:
    said = _INSIDE[region.inside]
    why = _GAPS[region.why] if region.why is not None else ""
    return f"{said}: {why}" if said and why else said


def _kernel(kernel: Kernel) -> KernelRow:
    adds = "" if kernel.atomic is None else ADDS if kernel.adds_in_any_order else _ADDS_NOTHING
    if kernel.atomic and not kernel.adds_in_any_order:
        adds = _APART if kernel.keeps_apart else _ONE_THREAD
    choice = kernel.choice
    if kernel.by_stopwatch:
        choice = f"{choice}, chosen with a stopwatch" if choice else "chosen with a stopwatch"
    made_of = ", ".join(dict.fromkeys(name_of(op) for op in kernel.original_ops or kernel.ops))
    return KernelRow(kernel.name, LANGUAGES[kernel.language], adds, made_of, kernel.calls, choice, kernel.lines)


def _op(call: JudgedCall) -> OpRow:
    group, ruling = call
    return OpRow(
        name_of(group.op),
        group.phase.value,
        group.location or "place not recorded",
        group.module,
        group.count,
        ruling.verdict,
        ruling.verdict_in_deterministic_mode,
        ", ".join(group.kernels),
    )
