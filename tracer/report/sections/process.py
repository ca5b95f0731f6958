"""What no op shows: settings, random draws, memory, data loading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from tracer.findings import FillCost, Judgement
from tracer.names import About, SeedOrigin, Verdict
from tracer.plan import name_of, place_of
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words, first
from tracer.report.words import ABOUT, SEED_ORIGINS, calls_by_op, joined, ops_behind, plural, size, subject_of
from tracer.trace.records import Allocation, Draw, Generator, Loader

if TYPE_CHECKING:
    from tracer.report.view import ReportView


def settings(report: ReportView, reader: Reader) -> Section | None:
    """What holds for the whole process, and what differs between machines alone."""
    blocks: list[said.Block] = []
    if found := _findings(report, reader, About.SETTING, About.LATE, About.CHANGED, About.COMPILED):
        lead = "What holds for the whole process, and the recorded calls that make it matter."
        blocks += [said.lead(lead), *found]
    if report.notes:
        differ = "differs" if len(report.notes) == 1 else "differ"
        same = "Two runs on one machine agree whatever these are; other machines or versions may give other bits."
        rows = tuple(
            said.Row(
                said.Code(note.subject),
                blocks=_said(note.why, note.remedy)
                + _quiet("Calls that depend on it: ", calls_by_op(note.ops) if note.ops else ""),
            )
            for note in report.notes
        )
        blocks.append(
            said.Fold(
                f"{plural(len(report.notes), 'setting')} that {differ} between machines only",
                (said.quiet(same), said.Rows(rows)),
                brief=joined([note.subject for note in report.notes[: reader.rows]]),
            )
        )
    return Section(anchor="settings", title="Settings", blocks=tuple(blocks)) if blocks else None


def draws(report: ReportView, reader: Reader) -> Section | None:
    """Every generator that was drawn from, and where its state came from."""
    rows, unseen = generator_rows(report.judgement), unseen_generators(report.judgement)
    found = _findings(report, reader, About.GENERATOR)
    if not (rows or unseen or found):
        return None
    lead = (
        "Every generator that the step drew from, and where its state came from. Draws repeat in two runs only where"
        " the program set that state."
    )
    blocks: list[said.Block] = [said.lead(lead)] if reader.is_whole else []
    if rows:
        shown, left_out = first(rows, reader.rows)
        columns = said.columns("Generator", "State", "Set at", "Drawn by", long="State")
        blocks.append(said.Table(columns, tuple(map(_generator_cells, shown)), noun="generator", left_out=left_out))
    blocks += _quiet("Not drawn from: ", ", ".join(untouched_generators(report.judgement)), ".")
    blocks += _quiet("", unseen)
    blocks += found
    if report.draws and reader.is_whole:
        ledger, left_out = first(_ledger(report.draws), reader.rows)
        heads = said.columns(
            "Op or function", "Phase", "Module", "Place", "Generator", "Calls", brief="Phase", figures=("Calls",)
        )
        blocks += [said.Heading("What drew"), said.Table(heads, ledger, noun="place", left_out=left_out)]
    return Section(anchor="draws", title="Random draws", blocks=tuple(blocks))


def memory(report: ReportView, reader: Reader) -> Section | None:
    """Memory that was given without being written, and what filling it costs."""
    found = _findings(report, reader, About.MEMORY, About.OVERLAP)
    blocks: list[said.Block] = [] if report.fill is None else [said.lead(fill_words(report.fill))]
    blocks += found
    if report.allocations and reader.is_whole:
        largest = sorted(report.allocations, key=lambda one: -one.bytes)
        shown, left_out = first(largest, reader.rows)
        heads = said.columns(
            "Op",
            "Phase",
            "Module",
            "Place",
            "Calls",
            "Followed",
            "To fill",
            brief="Phase",
            figures=("Calls", "Followed", "To fill"),
        )
        blocks.append(said.Heading("Memory that was given without being written"))
        blocks.append(said.Table(heads, tuple(map(_allocation_cells, shown)), noun="place", left_out=left_out))
    return Section(anchor="memory", title="Memory", blocks=tuple(blocks)) if blocks else None


def loading(report: ReportView, reader: Reader) -> Section | None:
    """Each ``DataLoader`` that was iterated."""
    found = _findings(report, reader, About.LOADER)
    blocks: list[said.Block] = []
    if report.loaders:
        shown, left_out = first(report.loaders, reader.rows)
        columns = said.columns("Place", "Workers", "Order", "Drawn from", "Iterated", figures=("Iterated",))
        if reader.is_whole:
            blocks.append(said.lead("Each DataLoader that was iterated, by the line that made it."))
        blocks.append(said.Table(columns, tuple(map(loader_cells, shown)), noun="loader", left_out=left_out))
    blocks += found
    return Section(anchor="loading", title="Data loading", blocks=tuple(blocks)) if blocks else None


def _findings(report: ReportView, reader: Reader, *about: About) -> tuple[said.Block, ...]:
    """The findings of a section, where all is told; else the table of findings alone has them."""
    found = [(number, one) for number, one in enumerate(report.findings, 1) if one.about in about]
    if not found or not reader.is_whole:
        return ()
    shown, left_out = first(found, reader.rows)
    rows = (
        said.Row(
            said.Code(subject_of(one)),
            aside=(ABOUT[one.about].label, " · ", place_of(one)),
            blocks=(
                said.Paragraph((said.Badge(one.verdict), said.Link(f"Finding {number:,}", f"finding-{number}"))),
                *_said(one.why),
                *_quiet("Matters for these calls: ", calls_by_op(ops_behind(one))),
            ),
        )
        for number, one in shown
    )
    return (said.Rows(tuple(rows), left_out=left_out, elsewhere="the table of findings has"),)


def _said(*sentences: str) -> tuple[said.Block, ...]:
    return tuple(said.Paragraph(sentence) for sentence in sentences if sentence)


def _quiet(lead: str, text: str, end: str = "") -> tuple[said.Block, ...]:
    return (said.quiet(f"{lead}{text}{end}"),) if text else ()


def _generator_cells(row: GeneratorRow) -> tuple[Words, ...]:
    origin = SEED_ORIGINS[row.origin]
    return (
        said.Code(row.name),
        (said.Badge(row.verdict, origin.label), said.Soft(origin.said)),
        said.Code(row.seeded_at),
        row.draws,
    )


def _ledger(draws: Iterable[Draw]) -> list[tuple[Words, ...]]:
    """The ledger by generator, op, phase, module and place, in the order of the first draw; calls of one place that
    differ in their facts alone are one row."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for draw in draws:
        counts[(name_of(draw.op), draw.phase, draw.module, _place(draw), draw.generator, draw.origin)] += draw.count
    return [
        (
            said.Code(op),
            phase.value,
            said.Code(module),
            said.Code(place),
            (said.Code(generator), " ", said.Badge(SEED_ORIGINS[origin].verdict, SEED_ORIGINS[origin].label)),
            f"{calls:,}",
        )
        for (op, phase, module, place, generator, origin), calls in counts.items()
    ]


def _allocation_cells(one: Allocation) -> tuple[Words, ...]:
    followed = f"{one.count - one.unfollowed:,}"
    places = (said.Code(name_of(one.op)), one.phase.value, said.Code(one.module), said.Code(_place(one)))
    return (*places, f"{one.count:,}", followed, size(one.bytes))


def _place(one: Draw | Allocation) -> str:
    if one.called_from:
        return f"{one.location} (called from {one.called_from})" if one.location else f"called from {one.called_from}"
    return one.location or "place not recorded"


class GeneratorRow(NamedTuple):
    """One generator that the step drew from, as it stood at one start."""

    name: str
    draws: str
    """How often it was drawn from, in words."""
    origin: SeedOrigin
    seeded_at: str
    verdict: Verdict
    """The verdict whose colour it bears."""


def generator_rows(judgement: Judgement) -> list[GeneratorRow]:
    """Generators that were drawn from, or may have been: unseeded ones first, then those of which nothing is known."""
    draws: dict[tuple[str, SeedOrigin, str], int] = {}
    for draw in judgement.draws:
        key = (draw.generator, draw.origin, draw.seeded_at)
        draws[key] = draws.get(key, 0) + draw.count
    rows = [
        GeneratorRow(name, plural(calls, "call"), origin, seeded_at, SEED_ORIGINS[origin].verdict)
        for (name, origin, seeded_at), calls in draws.items()
    ]
    drawn = {name for name, _, _ in draws}
    rows += [
        _uncounted(generator)
        for generator in judgement.trace.generators
        if generator.name not in drawn and generator.drew is not False
    ]
    order = (Verdict.NONDETERMINISTIC, Verdict.UNKNOWN, Verdict.SEEDED)
    return sorted(rows, key=lambda row: order.index(row.verdict))


def _uncounted(one: Generator) -> GeneratorRow:
    """A generator whose state says all that is known: no call was seen to draw from it."""
    if one.drew:
        return GeneratorRow(
            one.name, "calls that were not counted", one.origin, one.seeded_at, SEED_ORIGINS[one.origin].verdict
        )
    return GeneratorRow(one.name, "an unknown number of calls", one.origin, one.seeded_at, Verdict.UNKNOWN)


def untouched_generators(judgement: Judgement) -> tuple[str, ...]:
    """Generators that the step did not draw from."""
    drawn = {draw.generator for draw in judgement.draws}
    return tuple(
        generator.name
        for generator in judgement.trace.generators
        if generator.drew is False and generator.name not in drawn
    )


def unseen_generators(judgement: Judgement) -> str:
    """Which generators nobody can watch, where the process had loaded what makes them; empty where it had not."""
    if not any(generator.name == "numpy" for generator in judgement.trace.generators):
        return ""
    return (
        "NumPy's Generator objects (numpy.random.default_rng) cannot be seen: whether the step draws from one, and "
        "from which seed, is not known."
    )


def fill_words(fill: FillCost) -> str:
    """What filling unwritten memory costs, and whether the step was seen to need it."""
    return f"{_fill_cost(fill)} {_fill_need(fill)}"


def _fill_cost(fill: FillCost) -> str:
    amount = f"{plural(fill.calls, 'call')}, {size(fill.bytes)}"
    if fill.is_on:
        return f"Deterministic mode fills memory that nobody has written yet: {amount}."
    return f"As the settings stand, memory that nobody has written yet is not filled: {amount}."


def _fill_need(fill: FillCost) -> str:
    if fill.reads:
        seen = f"{plural(fill.reads, 'call reads', 'calls read')} memory before it was wholly written"
        return (
            f"{seen}: {'leave the fill on until that is mended' if fill.is_on else 'what they read can be anything'}."
        )
    if fill.unfollowed:
        return (
            f"No read before a write was seen, but the memory of {plural(fill.unfollowed, 'call')} could not be "
            f"followed: whether the step needs the fill is not known."
        )
    need = "turning the fill off looks safe for this step" if fill.is_on else "the step looks as if it needs no fill"
    return (
        f"No read before a write was seen, so {need}. That is evidence, not proof: memory that kernels allocate "
        f"inside cannot be seen."
    )


def loader_cells(one: Loader) -> tuple[Words, ...]:
    """One ``DataLoader``: its place, workers and order, which generator these come from, how often it was iterated."""
    draws = one.shuffles or one.workers > 0
    origin = SEED_ORIGINS[one.origin]
    place = one.location or "place not recorded"
    return (
        said.Code(f"{place} (called from {one.called_from})" if one.called_from else place),
        (_workers(one), said.Soft("; ".join(_further(one)))),
        f"{'drawn at random' if one.shuffles else 'fixed'}{f' ({one.sampler})' if one.sampler else ''}",
        (said.Badge(origin.verdict, origin.label), said.Soft(_source(one))) if draws else said.Soft("nothing"),
        plural(one.iterations, "time"),
    )


def _workers(one: Loader) -> str:
    if not one.workers:
        return "none"
    started = f", started by {one.start_method}" if one.start_method else ""
    init = "with" if one.has_worker_init else "without"
    return f"{one.workers:,}{started}, {init} worker_init_fn"


def _source(one: Loader) -> str:
    whose = "its own generator" if one.has_generator else "the default generator"
    if not one.has_generator and one.sampler == "DistributedSampler":  # from the seed that it was made with
        whose = "its sampler's own generator"
    return f"{whose}, {SEED_ORIGINS[one.origin].said}{f', at {one.seeded_at}' if one.seeded_at else ''}"


def _further(one: Loader) -> Iterable[str]:
    """What else two runs may hang on."""
    if not one.in_order:
        yield "batches as they come (in_order=False)"
    if one.persistent_workers:
        yield "persistent workers"
    if one.epoch_set is False:
        yield "set_epoch was never called"
    if one.worker_draws:
        yield f"its workers drew from {joined(one.worker_draws)}"
    if one.workers and not one.workers_seen:
        yield "its workers could not be watched"
