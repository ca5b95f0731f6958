"""Recorded calls by verdict, in all and by phase; in regions of compiled code; and on a part of their rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tracer.names import SEVERITY, DeterministicMode, Direction, Phase, RegionInside, RowOutcome, Verdict
from tracer.plan import name_of
from tracer.report import Report
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words, first
from tracer.report.words import VERDICTS, by_severity, joined, plural, some
from tracer.trace.records import Kernel, Region, RowTrial

if TYPE_CHECKING:
    from tracer.judging.call_findings import JudgedCall


def calls(report: Report, reader: Reader) -> Section:
    """Every recorded call, counted once."""
    tally = tally_of(report)
    lead = f"Every recorded call is counted once: {tally.total:,} in all, as the settings stand."
    blocks: list[said.Block] = [said.lead(lead)] if reader.is_whole else []
    blocks.append(tally)
    phases = report.tally.by_phase
    ran = [(phase, counts) for phase in Phase if (counts := phases.get(phase)) and any(counts.values())]
    if ran and reader.is_whole:
        shown = [verdict for verdict in SEVERITY if any(counts.get(verdict) for _, counts in ran)]
        heads = [*(VERDICTS[verdict].label for verdict in shown), "Calls"]
        rows: Iterable[tuple[Words, ...]] = (
            (said.Code(phase.value), *(f"{counts.get(verdict, 0):,}" for verdict in shown), f"{sum(counts.values()):,}")
            for phase, counts in ran
        )
        columns = said.columns("Phase", *heads, figures=heads)
        blocks += [said.Heading("By phase"), said.Table(columns, tuple(rows), noun="phase")]
    return Section(anchor="calls", title="Calls by verdict", label="Calls", blocks=tuple(blocks))


def tally_of(report: Report) -> said.TallyBlock:
    """Every recorded call, counted once."""
    return said.TallyBlock(tuple(by_severity(report.tally.as_is)), report.tally.total)


class RegionShown(NamedTuple):
    """One region with what is known of its inside."""

    region: Region
    verdict: Verdict
    """The worst of its calls; unknown where they were not seen."""
    calls: tuple[JudgedCall, ...]
    """Worst first; empty for a report without its trace."""
    kernels: tuple[Kernel, ...]
    """Those that add in any order first."""
    gap: str
    """The parts that were not seen, and why; empty for one that was seen whole."""

    @property
    def title(self) -> str:
        """The compiled code, and where it begins."""
        what = self.region.function or "compiled code"
        return f"{what} at {self.region.location}" if self.region.location else what


ADDS = "adds atomically"

#: Regions that are listed, and kernels and ops of one; kernels of a region that a terminal is told of.
_REGIONS, _IN_REGION, _TELLING = 60, 60, 4


def compiled(report: Report, reader: Reader) -> Section | None:
    """The regions of compiled code, the worst first."""
    insides = regions_inside(report)
    if not insides:
        return None
    shown, left_out = first(insides, min(_REGIONS, reader.rows))
    regions = (
        said.Row(
            (said.Badge(inside.verdict), " ", said.Code(inside.region.id)),
            aside=said.Code(inside.title),
            blocks=(
                said.quiet("; ".join(_facts(inside.region))),
                *said.paragraphs(f"{inside.gap}." if inside.gap else ""),
                *(_folded(inside, is_first=number == 0) if reader.is_whole else _telling(inside)),
            ),
        )
        for number, inside in enumerate(shown)
    )
    blocks: tuple[said.Block, ...] = said.paragraphs(regions_sentence(report), tone=said.Tone.LEAD)
    blocks += (said.Rows(tuple(regions), anchor="region", left_out=left_out),)
    gaps = some([f"{inside.region.id}: {inside.gap}" for inside in insides if inside.gap], 2, "; ")
    gist = f"{regions_sentence(report)}{f' {gaps}' if gaps else ''}"
    return Section(anchor="compiled", title="Compiled code", blocks=blocks, gist=gist)


def _telling(inside: RegionShown) -> tuple[said.Block, ...]:
    """The kernels of which there is something to say."""
    telling = [kernel for kernel in inside.kernels if kernel.adds_in_any_order or kernel.choice or kernel.by_stopwatch]
    return (_kernels(telling, _TELLING),) if telling else ()


def _folded(inside: RegionShown, *, is_first: bool) -> tuple[said.Block, ...]:
    kernels, calls = inside.kernels, inside.calls
    if not kernels and not calls:
        return ()
    tables = [_kernels(kernels, _IN_REGION)] if kernels else []
    if calls:
        shown, left_out = first(calls, _IN_REGION)
        rows: list[tuple[Words, ...]] = []
        for group, ruling in shown:
            in_mode = ruling.deterministic_mode
            under: Words = ("→ ", said.Badge(in_mode), " under the mode") if in_mode is not ruling.verdict else ""
            module: Words = ("in ", said.Code(group.module)) if group.module else ""
            op = said.Code(name_of(group.op)), f" {group.phase}, {plural(group.count, 'call')}"
            place = said.Code(group.location or "place not recorded"), said.Soft(module)
            verdict = said.Badge(ruling.verdict), said.Soft(under, " ")
            rows.append((op, verdict, said.Code(", ".join(group.kernels)), place))
        columns = said.columns("Op", "Verdict", "Into", "Place", long="Place")
        tables.append(said.Table(columns, tuple(rows), "op", left_out, "`--table calls` has"))
    summary = f"{plural(len(kernels), 'kernel')}, {plural(len(calls), 'op and place', 'ops and places')}"
    varies = any(kernel.adds_in_any_order for kernel in kernels)
    return (said.Fold(summary, tuple(tables), is_open=is_first and varies),)


def _kernels(kernels: Sequence[Kernel], most: int) -> said.Table:
    rows: list[tuple[Words, ...]] = []
    for kernel in kernels:
        choice = "; ".join(filter(None, (kernel.choice, "chosen with a stopwatch" if kernel.by_stopwatch else "")))
        times = f"called {plural(kernel.calls, 'time')} a run" if kernel.calls != 1 else ""
        adds = adding_of(kernel)
        adding = said.Soft(said.Strong(adds), is_faint=False) if adds == ADDS else said.Soft(adds)
        made_of = ", ".join(dict.fromkeys(name_of(op) for op in kernel.original_ops or kernel.ops))
        what = kernel.language.says, said.Soft(times), adding, said.Soft(choice)
        rows.append((said.Code(kernel.name), what, said.Code(made_of)))
    return said.table(("Kernel", "What it is", "Made of"), rows, "kernel", most)


def adding_of(kernel: Kernel) -> str:
    """``adds atomically``, ``adds nothing atomically``, or nothing where no source is there to read."""
    if kernel.atomic and not kernel.adds_in_any_order:
        return f"{ADDS} on one thread, so in one order"
    return "" if kernel.atomic is None else ADDS if kernel.adds_in_any_order else "adds nothing atomically"


def regions_inside(report: Report) -> list[RegionShown]:
    """The regions, the worst first, then those that ran most often."""
    by_region: defaultdict[str | None, list[JudgedCall]] = defaultdict(list)
    for call in report.judged_calls or ():
        by_region[call.group.region].append(call)
    insides = []
    for region in report.judgement.trace.regions:
        gap = region.inside.says
        if gap and region.why is not None:
            gap = f"{gap}: {region.why.says}"
        calls = by_region[region.id]
        calls.sort(key=lambda call: (SEVERITY.index(call.ruling.verdict), -call.group.count, call.group.op))
        kernels = tuple(sorted(region.kernels, key=lambda kernel: not kernel.adds_in_any_order))
        verdict = Verdict.DETERMINISTIC
        if calls:
            verdict = calls[0].ruling.verdict
        elif kernels and kernels[0].adds_in_any_order:
            verdict = Verdict.NONDETERMINISTIC
        elif gap and region.inside is not RegionInside.DISPATCHED:
            verdict = Verdict.UNKNOWN
        insides.append(RegionShown(region, verdict, tuple(calls), kernels, gap))
    return sorted(insides, key=lambda it: (SEVERITY.index(it.verdict), -it.region.executions, it.region.id))


def regions_sentence(report: Report) -> str:
    """Return how much was compiled and how much of it was seen; empty if nothing was."""
    regions = report.judgement.trace.regions
    if not regions:
        return ""
    with_ops = sum(region.inside in (RegionInside.OPS_AND_KERNELS, RegionInside.OPS) for region in regions)
    adding = sum(any(kernel.adds_in_any_order for kernel in region.kernels) for region in regions)
    dispatched = sum(region.inside is RegionInside.DISPATCHED for region in regions)
    op_by_op = f", {dispatched} counted op by op" if dispatched else ""
    atomically = f", {adding} with a kernel that {ADDS}" if adding else ""
    return f"{plural(len(regions), 'region')} of compiled code, the inside of {with_ops} seen{op_by_op}{atomically}."


def _facts(region: Region) -> Iterator[str]:
    half = "" if region.direction is Direction.INFERENCE else f"{region.direction}, "
    yield f"{half}ran {plural(region.executions, 'time')}"
    by = f" by {region.backend}" if region.backend else ""
    yield f"compiled{by} for {region.device}" if region.device else f"compiled{by}"
    if region.origin.says:
        yield region.origin.says
    if region.deterministic_mode not in (None, DeterministicMode.OFF):
        yield f"under deterministic mode ({region.deterministic_mode})"
    if region.kernels:
        yield f"{plural(region.ops, 'op')} in {plural(len(region.kernels), 'kernel')}"
    elif region.ops:
        yield plural(region.ops, "op")


# --- batch invariance: calls that were made again on a part of their rows ----------------------------------


def rows(report: Report, reader: Reader) -> Section | None:
    """Which calls depend on the rows beside a row, where calls were made again on a part of theirs."""
    if not report.judgement.trace.rows:
        return None
    by: dict[RowOutcome, list[RowTrial]] = {outcome: [] for outcome in RowOutcome}
    for trial in report.judgement.trace.rows:
        by[trial.outcome].append(trial)
    counts = {outcome: sum(trial.count for trial in trials) for outcome, trials in by.items()}
    equal, apart = counts[RowOutcome.EQUAL], counts[RowOutcome.ROUNDING]
    if not equal + apart:
        why = "" if any(counts.values()) else ": no module was handed a batch of two samples or more"
        why = f"No call was made again on a part of its rows{why}."
        return Section(anchor="rows", title="Rows beside a row", blocks=(said.lead(why),), gist=why)
    again = (
        f"{plural(equal + apart, 'call')} {'was' if equal + apart == 1 else 'were'} made again on a part of the rows"
    )
    gist = f"{again}: {equal:,} equal, bit by bit" + (f", {apart:,} differ by rounding" if apart else "")
    blocks: list[said.Block] = [said.lead(f"{gist}.")]
    if apart:
        cells: list[tuple[Words, ...]] = []
        for trial in sorted(by[RowOutcome.ROUNDING], key=lambda trial: -trial.count):
            place = said.Code(trial.module), said.Code(trial.location), f"{trial.part:,} of {trial.of:,}"
            op = said.Code(name_of(trial.op)), trial.phase.value
            cells.append((*op, *place, f"{trial.relative:.1e}", f"{trial.count:,}"))
        figures = ("Rows", "Relative", "Calls")
        heads = ("Op", "Phase", "Module", "Place", *figures)
        blocks += [said.table(heads, cells, "place", reader.rows, brief="Phase", figures=figures)]
        blocks += [
            said.Paragraph(
                "To keep a row the same whatever stands beside it, give every batch the same number of rows (pad it to"
                " one size), or use kernels that split their work alike for every number of rows."
            )
        ]
    if places := [trial for trial in by[RowOutcome.MIXED] if trial.location]:
        shown, left_out = first(places, reader.rows)
        blocks.append(said.Heading("Made of several rows together, and left out"))
        blocks.append(said.Bullets(tuple(f"`{name_of(trial.op)}` at `{trial.location}`" for trial in shown), left_out))
    for outcome, why in (
        (RowOutcome.UNKNOWN, "Which arguments hold rows is not known"),
        (RowOutcome.UNTRIED, "Left out, since they draw, vary by themselves or could not be made again"),
    ):
        if by[outcome]:
            ops = Counter[str]()
            for trial in by[outcome]:
                ops[name_of(trial.op)] += trial.count
            named = joined([f"`{op}` ({count:,})" for op, count in ops.most_common()])
            blocks.append(said.quiet(f"{why}: {named}."))
    return Section(anchor="rows", title="Rows beside a row", blocks=tuple(blocks), gist=gist)
