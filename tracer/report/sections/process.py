"""What no op shows: settings, random draws, memory, data loading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tracer.findings import FillCost, Judgement
from tracer.names import SEVERITY, About, SeedOrigin, Verdict
from tracer.plan import name_of, place_of
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words, first
from tracer.report.report import Report
from tracer.report.words import ABOUT, SEED_ORIGINS, calls_by_op, joined, ops_behind, plural, size, some, subject_of
from tracer.trace.records import Allocation, Draw, Loader

#: Settings, generators and loaders that are named where one line must do.
_GIST = 2


def settings(report: Report, reader: Reader) -> Section | None:
    """Return the section on the whole process, and on what differs between machines alone."""
    blocks: list[said.Block] = []
    gist = ""
    if findings := _findings(report, reader, About.SETTING, About.LATE, About.CHANGED, About.COMPILED):
        lead = "What holds for the whole process, and the recorded calls that make it matter."
        blocks += [said.lead(lead), *findings]
    if notes := report.judgement.notes:
        differ = "differs" if len(notes) == 1 else "differ"
        same = "Two runs on one machine agree whatever these are; other machines or versions may give other bits."
        rows = tuple(
            said.Row(
                said.Code(note.subject),
                blocks=said.paragraphs(note.why, note.remedy)
                + _quiet("Calls that depend on it: ", calls_by_op(note.ops) if note.ops else ""),
            )
            for note in notes
        )
        summary = f"{plural(len(notes), 'setting')} that {differ} between machines only"
        brief = joined([note.subject for note in notes[: reader.rows]])
        blocks.append(said.Fold(summary, (said.quiet(same), said.Rows(rows)), brief))
        subjects = some([note.subject for note in notes], 1)
        gist = f"{len(notes):,} that {differ} between machines only: {subjects}"
    return Section(anchor="settings", title="Settings", blocks=tuple(blocks), gist=gist) if blocks else None


def draws(report: Report, reader: Reader) -> Section | None:
    """Every generator that was drawn from, and where its state came from."""
    rows = generator_rows(report.judgement)
    findings = _findings(report, reader, About.GENERATOR)
    if not (rows or findings):
        return None
    lead = (
        "Every generator that the step drew from, and where its state came from. Draws repeat in two runs only where"
        " the program set that state."
    )
    blocks: list[said.Block] = [said.lead(lead)] if reader.is_whole else []
    if rows:
        shown, left_out = first(rows, reader.rows)
        columns = said.columns("Generator", "State", "Set at", "Drawn by", long="State")
        cells = tuple(
            (
                said.Code(row.name),
                (said.Badge(row.verdict, SEED_ORIGINS[row.origin].label), said.Soft(SEED_ORIGINS[row.origin].said)),
                said.Code(row.seeded_at),
                row.draws,
            )
            for row in shown
        )
        blocks.append(said.Table(columns, cells, noun="generator", left_out=left_out))
    blocks += _quiet("Not drawn from: ", ", ".join(untouched_generators(report.judgement)), ".")
    blocks += findings
    if report.judgement.draws and reader.is_whole:
        ledger, left_out = first(_ledger(report.judgement.draws), reader.rows)
        names = ("Op or function", "Phase", "Module", "Place", "Generator", "Calls")
        heads = said.columns(*names, brief="Phase", figures=("Calls",))
        blocks += [said.Heading("What drew"), said.Table(heads, ledger, noun="place", left_out=left_out)]
    return Section(anchor="draws", title="Random draws", blocks=tuple(blocks), gist=_draws_in_brief(rows))


def _draws_in_brief(rows: Sequence[GeneratorRow]) -> Words:
    """Each generator with its state and line; what else there is in a few words."""
    shown, left_out = first(rows, _GIST)
    generators: tuple[Words, ...] = tuple(
        (
            "; " if number else "",
            said.Badge(row.verdict, SEED_ORIGINS[row.origin].label),
            f" {row.name}",
            f" at {row.seeded_at}" if row.seeded_at else "",
            f", {row.draws}",
        )
        for number, row in enumerate(shown)
    )
    return (*generators, f"; {plural(left_out, 'more generator')}" if left_out else "")


def memory(report: Report, reader: Reader) -> Section | None:
    """Memory that was given without being written, and what filling it costs."""
    findings = _findings(report, reader, About.MEMORY, About.OVERLAP)
    fill = report.judgement.fill
    blocks: list[said.Block] = [] if fill is None else [said.lead(fill_words(fill))]
    blocks += findings
    if report.judgement.trace.allocations and reader.is_whole:
        shown, left_out = first(sorted(report.judgement.trace.allocations, key=lambda group: -group.bytes), reader.rows)
        figures = ("Calls", "Followed", "To fill")
        heads = said.columns("Op", "Phase", "Module", "Place", *figures, brief="Phase", figures=figures)
        blocks.append(said.Heading("Memory that was given without being written"))
        figures_of = ((group, group.count, group.count - group.unfollowed) for group in shown)
        cells = tuple((*_place_cells(group), f"{n:,}", f"{seen:,}", size(group.bytes)) for group, n, seen in figures_of)
        blocks.append(said.Table(heads, cells, noun="place", left_out=left_out))
    gist = fill_in_brief(fill) if fill is not None else ""
    return Section(anchor="memory", title="Memory", blocks=tuple(blocks), gist=gist) if blocks else None


def loading(report: Report, reader: Reader) -> Section | None:
    """Each ``DataLoader`` that was iterated."""
    findings = _findings(report, reader, About.LOADER)
    blocks: list[said.Block] = []
    if report.judgement.trace.loaders:
        shown, left_out = first(report.judgement.trace.loaders, reader.rows)
        columns = said.columns("Place", "Workers", "Order", "Drawn from", "Iterated", figures=("Iterated",))
        if reader.is_whole:
            blocks.append(said.lead("Each DataLoader that was iterated, by the line that made it."))
        blocks.append(said.Table(columns, tuple(map(loader_cells, shown)), noun="loader", left_out=left_out))
    blocks += findings
    shown, left_out = first(report.judgement.trace.loaders, _GIST)
    more = f"; {plural(left_out, 'more loader')}" if left_out else ""
    gist: Words = (*(("; " if number else "", _in_brief(loader)) for number, loader in enumerate(shown)), more)
    return Section(anchor="loading", title="Data loading", blocks=tuple(blocks), gist=gist) if blocks else None


def _in_brief(loader: Loader) -> Words:
    """A ``DataLoader`` in a few words, with whatever else two runs may hang on."""
    workers = f", {plural(loader.workers, 'worker')}" if loader.workers else ""
    order = "shuffled" if loader.shuffles else "in a fixed order"
    origin = SEED_ORIGINS[loader.origin]
    draws: Words = (" ", said.Badge(origin.verdict, origin.label)) if loader.shuffles or loader.workers else ""
    return said.Code(loader.location), f"{workers}, {order}", draws, "".join(f", {each}" for each in _further(loader))


def _findings(report: Report, reader: Reader, *about: About) -> tuple[said.Block, ...]:
    """The findings of a section for a reader of everything; others read them in the table of findings."""
    numbered = [(number, finding) for number, finding in enumerate(report.findings, 1) if finding.about in about]
    if not numbered or not reader.is_whole:
        return ()
    shown, left_out = first(numbered, reader.rows)
    rows = (
        said.Row(
            said.Code(subject_of(finding)),
            aside=(ABOUT[finding.about].label, " · ", place_of(finding)),
            blocks=(
                said.Paragraph((said.Badge(finding.verdict), said.Link(f"Finding {number:,}", f"finding-{number}"))),
                *said.paragraphs(finding.why),
                *_quiet("Matters for these calls: ", calls_by_op(ops_behind(finding))),
            ),
        )
        for number, finding in shown
    )
    return (said.Rows(tuple(rows), left_out=left_out, elsewhere="the table of findings has"),)


def _quiet(lead: str, text: str, end: str = "") -> tuple[said.Block, ...]:
    return (said.quiet(f"{lead}{text}{end}"),) if text else ()


def _ledger(draws: Iterable[Draw]) -> list[tuple[Words, ...]]:
    """A row for each op, place, generator and origin, in the order of the first draw."""
    counts: Counter[tuple[Words, ...]] = Counter()
    for draw in draws:
        origin = SEED_ORIGINS[draw.origin]
        cells = (*_place_cells(draw), (said.Code(draw.generator), " ", said.Badge(origin.verdict, origin.label)))
        counts[cells] += draw.count
    return [(*cells, f"{calls:,}") for cells, calls in counts.items()]


def _place_cells(record: Draw | Allocation) -> tuple[Words, ...]:
    """The op or function, its phase, module and line."""
    return said.Code(name_of(record.op)), record.phase.value, said.Code(record.module), said.Code(_place(record))


def _place(record: Draw | Allocation | Loader) -> str:
    led = f"called from {record.called_from}" if record.called_from else ""
    return f"{record.location}{f' ({led})' if led else ''}" if record.location else led or "place not recorded"


class GeneratorRow(NamedTuple):
    """One generator that the step drew from, as it stood at one start."""

    name: str
    draws: str
    """The number of draws, in words."""
    origin: SeedOrigin
    seeded_at: str
    verdict: Verdict
    """The verdict whose colour it bears."""


def generator_rows(judgement: Judgement) -> list[GeneratorRow]:
    """Generators that were drawn from, or may have been: unseeded ones first, then those of which nothing is known."""
    draws: Counter[tuple[str, SeedOrigin, str]] = Counter()
    for draw in judgement.draws:
        draws[draw.generator, draw.origin, draw.seeded_at] += draw.count
    rows = [
        GeneratorRow(name, plural(calls, "call"), origin, seeded_at, SEED_ORIGINS[origin].verdict)
        for (name, origin, seeded_at), calls in draws.items()
    ]
    drawn = {draw.generator for draw in judgement.draws}
    for generator in judgement.trace.generators:
        if generator.name not in drawn and generator.drew is not False:  # no call was seen to draw from it
            calls = "calls that were not counted" if generator.drew else "an unknown number of calls"
            verdict = SEED_ORIGINS[generator.origin].verdict if generator.drew else Verdict.UNKNOWN
            rows.append(GeneratorRow(generator.name, calls, generator.origin, generator.seeded_at, verdict))
    return sorted(rows, key=lambda row: SEVERITY.index(row.verdict))


def untouched_generators(judgement: Judgement) -> tuple[str, ...]:
    """Generators that the step did not draw from."""
    drawn = {draw.generator for draw in judgement.draws}
    untouched = (generator.name for generator in judgement.trace.generators if generator.drew is False)
    return tuple(name for name in untouched if name not in drawn)


def fill_words(fill: FillCost) -> str:
    """Return the cost of filling unwritten memory, and whether the step was seen to need it."""
    amount = f"{plural(fill.calls, 'call')}, {size(fill.bytes)}"
    if fill.is_on:
        cost = f"Deterministic mode fills memory that nobody has written yet: {amount}."
    else:
        cost = f"As the settings stand, memory that nobody has written yet is not filled: {amount}."
    if fill.reads:
        reads = plural(fill.reads, "call reads", "calls read")
        advice = "leave the fill on until that is mended" if fill.is_on else "what they read can be anything"
        return f"{cost} {reads} memory before it was wholly written: {advice}."
    if fill.unfollowed:
        return (
            f"{cost} No read before a write was seen, but the memory of {plural(fill.unfollowed, 'call')} could not be"
            " followed: whether the step needs the fill is not known."
        )
    need = "turning the fill off looks safe for this step" if fill.is_on else "the step looks as if it needs no fill"
    return (
        f"{cost} No read before a write was seen, so {need}. That is evidence, not proof: memory that kernels allocate"
        " inside cannot be seen."
    )


def fill_in_brief(fill: FillCost) -> str:
    """The same in one line."""
    what = "filled before it is written" if fill.is_on else "not filled before it is written"
    reads = "no read before a write was seen"
    if fill.unfollowed:
        reads += f", but {plural(fill.unfollowed, 'call')} could not be followed"
    if fill.reads:
        reads = f"{plural(fill.reads, 'call reads', 'calls read')} what was not wholly written"
    return f"{plural(fill.calls, 'call')}, {size(fill.bytes)} {what}; {reads}"


def loader_cells(loader: Loader) -> tuple[Words, ...]:
    """One ``DataLoader``: its place, workers and order, which generator these come from, how often it was iterated."""
    origin = SEED_ORIGINS[loader.origin]
    workers: Words = "none"
    if loader.workers:
        started = f", started by {loader.start_method}" if loader.start_method else ""
        init = "with" if loader.has_worker_init else "without"
        workers = f"{loader.workers:,}{started}, {init} worker_init_fn"
    source: Words = said.Soft("nothing")
    if loader.shuffles or loader.workers:
        whose = "its own generator" if loader.has_generator else "the default generator"
        if not loader.has_generator and loader.sampler == "DistributedSampler":  # from the seed that it was made with
            whose = "its sampler's own generator"
        at = f", at {loader.seeded_at}" if loader.seeded_at else ""
        source = (said.Badge(origin.verdict, origin.label), said.Soft(f"{whose}, {origin.said}{at}"))
    return (
        said.Code(_place(loader)),
        (workers, said.Soft("; ".join(_further(loader)))),
        f"{'drawn at random' if loader.shuffles else 'fixed'}{f' ({loader.sampler})' if loader.sampler else ''}",
        source,
        plural(loader.iterations, "time"),
    )


def _further(loader: Loader) -> Iterable[str]:
    """Yield the further conditions that two runs may depend on."""
    if not loader.in_order:
        yield "batches as they come (in_order=False)"
    if loader.persistent_workers:
        yield "persistent workers"
    if loader.epoch_set is False:
        yield "set_epoch was never called"
    if loader.worker_draws:
        yield f"its workers drew from {joined(loader.worker_draws)}"
    if loader.workers and not loader.workers_seen:
        yield "its workers could not be watched"
