"""What no op shows: settings, draws, memory, data loading; environment, processes and ranks; what was not seen."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from tracer.findings import FillCost, Judgement
from tracer.names import SEVERITY, About, ChildState, HintKind, SeedOrigin, StartedBy, Verdict
from tracer.plan import name_of, place_of
from tracer.report import Report
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words, first
from tracer.report.words import (
    calls_by_op,
    consecutive,
    joined,
    ops_behind,
    plural,
    size,
    some,
    steps_in_words,
    subject_of,
)
from tracer.tables.settings import DECLARED
from tracer.trace.differences import RankComparison
from tracer.trace.records import GROUP_SIZE, Allocation, Child, Draw, Environment, Loader, TraceSource

#: Settings, generators and loaders that are named where one line must do; hints of one screen.
_GIST, _HINTS = 2, 5
_HASH_SEED = "PYTHONHASHSEED"
_HASHED = {
    "a set": "put the set in `sorted(...)`: strings in it have another order in each run",
    "hash": "`hash` of a string gives another number in each run",
}
#: How a trace is named that a rank wrote.
_RANK = re.compile(r"\.rank\d+\.")


def settings(report: Report, reader: Reader) -> Section | None:
    """Return the section on the whole process, and on what differs between machines alone."""
    blocks: list[said.Block] = []
    if findings := _findings(report, reader, About.SETTING, About.LATE, About.CHANGED, About.COMPILED):
        lead = "What holds for the whole process, and the recorded calls that make it matter."
        blocks += [said.lead(lead), *findings]
    if notes := report.judgement.notes:
        differ = "differs" if len(notes) == 1 else "differ"
        same = "Two runs on one machine agree whatever these are; other machines or versions may give other bits."
        rows = []
        for note in notes:
            calls = (said.quiet(f"Calls that depend on it: {calls_by_op(note.ops)}"),) if note.ops else ()
            rows.append(said.Row(said.Code(note.subject), blocks=(*said.paragraphs(note.why, note.remedy), *calls)))
        summary = f"{plural(len(notes), 'setting')} that {differ} between machines only"
        brief = joined([note.subject for note in notes[: reader.rows]])
        blocks.append(said.Fold(summary, (said.quiet(same), said.Rows(tuple(rows))), brief))
    return Section(anchor="settings", title="Settings", blocks=tuple(blocks)) if blocks else None


def hints(report: Report, reader: Reader) -> Section | None:
    """What may be otherwise in another run, process or machine, though this recording shows nothing of it."""
    if not report.has_hints or not (words := hint_words(report)):
        return None
    shown, left_out = first(words, None if reader.is_whole else _HINTS)
    bullets = said.Bullets(shown, left_out, "--verbose has")
    return Section(anchor="hints", title="Hints from your code", label="Hints", blocks=(bullets,))


def hint_words(report: Report) -> tuple[str, ...]:
    """A line for each thing that one recording hints at."""
    trace = report.judgement.trace
    found: dict[tuple[HintKind, str], list[str]] = {}
    for hint in trace.hints:
        found.setdefault((hint.kind, hint.name), []).append(hint.location)
    words = [
        f"{some(places, 2)}: `{name}` gives its names in any order, and runs may differ; put it in `sorted(...)`"
        for (kind, name), places in found.items()
        if kind is HintKind.LISTING
    ]
    if not trace.environment.variables.get(_HASH_SEED, "random").isdigit():
        for name, what in _HASHED.items():
            if places := found.get((HintKind.HASH_ORDER, name)):
                words.append(f"{some(places, 2)}: {what}, as {_HASH_SEED} is not set, and runs may differ")
    for loader in trace.loaders:
        place, owner = _place(loader), loader.fetched_by.partition(".")[0]
        made_at = found.get((HintKind.OWN_GENERATOR, owner), [])
        if made_at and loader.workers and not loader.has_worker_init:
            copies = f"each of {plural(loader.workers, 'worker')} of the DataLoader at {place} draws from a copy"
            words.append(f"{made_at[0]}: {copies}, the same numbers; make it of `torch.initial_seed()` in the worker")
        if loader.epoch_set is False and loader.iterations > 1:
            words.append(f"{place}: `set_epoch` was never called, so every epoch has the same order")
    drawn = [draw for draw in trace.draws if draw.generator.startswith("cuda") and not draw.module and draw.location]
    if drawn:
        at = some(list(dict.fromkeys(draw.called_from or draw.location for draw in drawn)), 2)
        words.append(f"{at}: drawn on a GPU, whose kind decides the numbers; draw on the CPU and copy")
    inside = [draw for draw in trace.draws if draw.module and draw.origin is SeedOrigin.PROGRAM]
    if inside and report.ranks is not None and all(setting.name != "torch_seed" for setting in report.ranks.settings):
        one_seed = "all ranks draw the same numbers in every run, as all have one seed; add the rank if they should not"
        words.append(f"{inside[0].location}: {one_seed}")
    return tuple(words)


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
        GeneratorRow(name, plural(calls, "call"), origin, seeded_at, origin.verdict)
        for (name, origin, seeded_at), calls in draws.items()
    ]
    drawn = {draw.generator for draw in judgement.draws}
    for generator in judgement.trace.generators:
        if generator.name not in drawn and generator.drew is not False:  # no call was seen to draw from it
            calls = "" if generator.drew else "an unknown number of calls"
            verdict = generator.origin.verdict if generator.drew else Verdict.UNKNOWN
            rows.append(GeneratorRow(generator.name, calls, generator.origin, generator.seeded_at, verdict))
    return sorted(rows, key=lambda row: SEVERITY.index(row.verdict))


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
        states = ((said.Badge(row.verdict, row.origin.label), said.Soft(row.origin.says)) for row in rows)
        cells = [
            (said.Code(row.name), state, said.Code(row.seeded_at), row.draws)
            for row, state in zip(rows, states, strict=True)
        ]
        heads = ("Generator", "State", "Set at", "Drawn by")
        blocks.append(said.table(heads, cells, "generator", reader.rows, long="State"))
    blocks += findings
    if report.judgement.draws and reader.is_whole:
        counts: Counter[tuple[Words, ...]] = Counter()
        for draw in report.judgement.draws:
            generator = said.Code(draw.generator), " ", said.Badge(draw.origin.verdict, draw.origin.label)
            place = (*_place_cells(draw), generator)
            counts[place] += draw.count
        ledger = [(*place, f"{calls:,}") for place, calls in counts.items()]
        names = ("Op or function", "Phase", "Module", "Place", "Generator", "Calls")
        table = said.table(names, ledger, "place", reader.rows, brief="Phase", figures=("Calls",))
        blocks += [said.Heading("What drew"), table]
    shown, left_out = first([row for row in rows if row.origin is not SeedOrigin.UNUSED], _GIST)
    gist: list[Words] = []
    for row in shown:
        is_anew = row.seeded_at and row.origin is SeedOrigin.MACHINE
        gist += [
            "; " if gist else "",
            said.Badge(row.verdict, "seeded with another number in every run:" if is_anew else row.origin.label),
            f" {row.name.replace('passed', 'a generator that was passed')}",
            f" at {row.seeded_at}" if row.seeded_at else "",
            f", {row.draws}" if row.draws else "",
        ]
    gist += [f"; {plural(left_out, 'more generator')}"] if left_out else []
    return Section(anchor="draws", title="Random draws", blocks=tuple(blocks), gist=tuple(gist))


def _place_cells(record: Draw | Allocation) -> tuple[Words, ...]:
    """The op or function, its phase, module and line."""
    return said.Code(name_of(record.op)), record.phase.value, said.Code(record.module), said.Code(_place(record))


def fill_words(fill: FillCost) -> str:
    """Return the cost of filling unwritten memory, and whether the step was seen to need it."""
    amount = f"{plural(fill.calls, 'call')}, {size(fill.bytes)}"
    cost = f"As the settings stand, memory that nobody has written yet is not filled: {amount}."
    advice, need = "what they read can be anything", "the step looks as if it needs no fill"
    if fill.is_on:
        cost = f"Deterministic mode fills memory that nobody has written yet: {amount}."
        advice, need = "leave the fill on until that is mended", "turning the fill off looks safe for this step"
    if fill.reads:
        reads = plural(fill.reads, "call reads", "calls read")
        return f"{cost} {reads} memory before it was wholly written: {advice}."
    rest = f"so {need}. That is evidence, not proof: memory that kernels allocate inside cannot be seen."
    if fill.unfollowed:
        calls = plural(fill.unfollowed, "call")
        rest = f"but the memory of {calls} could not be followed: whether the step needs the fill is not known."
    return f"{cost} No read before a write was seen, {rest}"


def memory(report: Report, reader: Reader) -> Section | None:
    """Memory that was given without being written, and what filling it costs."""
    findings = _findings(report, reader, About.MEMORY, About.OVERLAP)
    fill = report.judgement.fill
    blocks: list[said.Block] = [] if fill is None else [said.lead(fill_words(fill))]
    blocks += findings
    if groups := sorted(report.judgement.trace.allocations, key=lambda group: -group.bytes):
        cells = [
            (*_place_cells(group), f"{group.count:,}", f"{group.count - group.unfollowed:,}", size(group.bytes))
            for group in groups
        ]
        figures = ("Calls", "Followed", "To fill")
        heads = ("Op", "Phase", "Module", "Place", *figures)
        table = said.table(heads, cells, "place", reader.rows, brief="Phase", figures=figures)
        blocks += [said.Heading("Memory that was given without being written"), table]
    return Section(anchor="memory", title="Memory", blocks=tuple(blocks)) if blocks else None


def loading(report: Report, reader: Reader) -> Section | None:
    """Each ``DataLoader`` that was iterated."""
    loaders, blocks = report.judgement.trace.loaders, list[said.Block]()
    if loaders:
        heads = ("Place", "Workers", "Order", "Drawn from", "Iterated")
        if reader.is_whole:
            blocks.append(said.lead("Each DataLoader that was iterated, by the line that made it."))
        cells = list(map(_loader_cells, loaders))
        blocks.append(said.table(heads, cells, "loader", reader.rows, figures=("Iterated",)))
    blocks += _findings(report, reader, About.LOADER)
    shown, left_out = first(loaders, _GIST)
    gist: list[Words] = []
    for loader in shown:
        workers = f", {plural(loader.workers, 'worker')}" if loader.workers else ""
        gist += ["; " if gist else "", said.Code(loader.called_from or loader.location), f"{workers}, {_order(loader)}"]
        if loader.shuffles or loader.workers:
            state = said.Badge(loader.origin.verdict, loader.origin.label)
            gist += [" " if loader.shuffles else "; seeds of its workers ", state]
        gist += [f", {further}" for further in _further(loader)]
    gist += [f"; {plural(left_out, 'more loader')}"] if left_out else []
    return Section(anchor="loading", title="Data loading", blocks=tuple(blocks), gist=tuple(gist)) if blocks else None


def _order(loader: Loader) -> str:
    """The order of its samples in a few words: fixed by torch's own samplers alone."""
    if loader.shuffles or loader.sampler in ("SequentialSampler", "DistributedSampler"):
        return "shuffled" if loader.shuffles else "in a fixed order"
    return f"in the order of {loader.sampler or 'its data set'}"


def _further(loader: Loader) -> list[str]:
    """What else two runs may depend on."""
    further = [] if loader.in_order else ["batches as they come (in_order=False)"]
    further += ["persistent workers"] if loader.persistent_workers else []
    return further + (["set_epoch was never called"] if loader.epoch_set is False else [])


def _findings(report: Report, reader: Reader, *about: About) -> tuple[said.Block, ...]:
    """The findings of a section for a reader of everything; others read them in the table of findings."""
    numbered = [(number, finding) for number, finding in enumerate(report.findings, 1) if finding.about in about]
    if not numbered or not reader.is_whole:
        return ()
    shown, left_out = first(numbered, reader.rows)
    rows = []
    for number, finding in shown:
        link = said.Paragraph((said.Badge(finding.verdict), said.Link(f"Finding {number:,}", f"finding-{number}")))
        calls = calls_by_op(ops_behind(finding))
        matters = (said.quiet(f"Matters for these calls: {calls}"),) if calls else ()
        aside = (finding.about.label, " · ", place_of(finding))
        rows.append(
            said.Row(said.Code(subject_of(finding)), aside, blocks=(link, *said.paragraphs(finding.why), *matters))
        )
    return (said.Rows(tuple(rows), left_out=left_out, elsewhere="the table of findings has"),)


def _place(record: Draw | Allocation | Loader) -> str:
    led = f"called from {record.called_from}" if record.called_from else ""
    return f"{record.location}{f' ({led})' if led else ''}" if record.location else led or "place not recorded"


def _loader_cells(loader: Loader) -> tuple[Words, ...]:
    """One ``DataLoader``: its place, workers and order, which generator these come from, how often it was iterated."""
    origin = loader.origin
    started = f", started by {loader.start_method}" if loader.start_method else ""
    init = "with" if loader.has_worker_init else "without"
    workers = f"{loader.workers:,}{started}, {init} worker_init_fn" if loader.workers else "none"
    source: Words = said.Soft("nothing")
    order = _order(loader)
    if loader.shuffles or loader.workers:
        whose = "its own generator" if loader.has_generator else "the default generator"
        if not loader.has_generator and loader.sampler == "DistributedSampler":  # from the seed that it was made with
            whose = "its sampler's own generator"
        at = f", at {loader.seeded_at}" if loader.seeded_at else ""
        source = (said.Badge(origin.verdict, origin.label), said.Soft(f"{whose}, {origin.says}{at}"))
    return (
        said.Code(_place(loader)),
        (workers, said.Soft("; ".join(_further(loader)))),
        order if loader.sampler in order else f"{order} ({loader.sampler})",
        source,
        plural(loader.iterations, "time"),
    )


def not_seen(report: Report, reader: Reader) -> Section | None:
    """Return the section on what ran and was not seen, or seen only in part."""
    if not report.blind_spots:
        return None
    lead = "This ran without passing the recorder, or only in part; nothing is said about it."
    rows = tuple(
        said.Row(
            spot.kind.value,
            aside=plural(spot.count, "time"),
            blocks=(said.Paragraph(spot.detail), *said.paragraphs(said.Code(spot.location))),
        )
        for spot in report.blind_spots
    )
    blocks = (said.lead(lead), said.Rows(rows, anchor="not-seen"))
    gists = []
    for kind in dict.fromkeys(spot.kind for spot in report.blind_spots):
        located = (spot.location for spot in report.blind_spots if spot.kind is kind and spot.location)
        places = some(list(dict.fromkeys(located)), 2)
        what = kind.headline or kind.banner.lower() or kind.value
        gists.append(f"{what}{f' ({places})' if places else ''}")
    gist = f"{'; '.join(gists)}. `tracer repeat` compares what comes of it."
    return Section(anchor="blind-spots", title="What was not seen", label="Not seen", blocks=blocks, gist=gist)


def environment(report: Report, reader: Reader) -> Section:
    """Versions, settings and recordings, and the command that judges again."""
    trace = report.judgement.trace
    recorded = tuple(_settings(trace.environment, trace.differing_settings))
    beside = [said.Pairs(recorded, "Versions and settings of the recorded process", "environment")]
    ranks: dict[TraceSource, list[int]] = {}  # of those that recorded as much
    for source in trace.sources:
        ranks.setdefault(replace(source, rank=None), []).extend([] if source.rank is None else [source.rank])
    recordings: list[tuple[str, Words]] = []
    for source, numbers in ranks.items():
        of = "" if source.world_size is None else f" of {source.world_size}"
        rank = f", {ranks_named(numbers)}{of}" if numbers else ""
        steps = steps_in_words(source.optimizer_steps, source.steps_by_hand, report.judgement.training)
        partial: Words = (" ", said.Strong(f"partial: {source.partial}")) if source.partial else ""
        recordings.append((f"{source.name or 'unnamed'}{rank}", (f"{steps}, {plural(source.calls, 'call')}", partial)))
    beside += [said.Pairs(tuple(recordings), "Recordings")] if recordings else []
    lead = "As recorded: when recording began or, for a script, when its first recorded optimizer step began."
    again = said.Sample(command(report), "the command that judges again")
    blocks = (said.lead(lead), said.Beside(tuple(beside)), said.Heading("This judgement again"), again)
    return Section(anchor="environment", title="Environment", blocks=blocks)


def command(report: Report) -> str:
    """Return the command (in Python, if settings were asked for by name) that judges the same trace again."""
    target = report.target
    if target.sets:
        trace = report.traces[0] if report.traces else "trace.json"
        strict = ", strict=True" if report.strict else ""
        return (
            f"judge(Trace.load({trace!r}), backend={target.backend.value!r}, torch={target.torch!r}, "
            f"settings={dict(target.sets)!r}{strict})"
        )
    words = ["--backend", target.backend.value, "--torch", target.torch]
    words += ["--settings", target.settings.value, *(["--strict"] if report.strict else [])]
    traces = shlex.join(report.traces)
    of_ranks = {_RANK.sub(".rank*.", trace) for trace in report.traces}
    if len(report.traces) > SPANS and len(of_ranks) == 1 and all(map(_RANK.search, report.traces)):
        traces = "*".join(map(shlex.quote, of_ranks.pop().split("*")))  # the pattern by which a shell finds them
    return f"tracer report {traces} {shlex.join(words)}"


def _settings(environment: Environment, differing: tuple[str, ...]) -> Iterator[tuple[str, Words]]:
    """Every field that could be read, devices, and the environment variables that were set."""

    def pair(name: str, value: str, field: str) -> tuple[str, Words]:
        """Merged recordings disagree in some; the first one's value is shown."""
        return name, (value, " ", said.Strong("differs between recordings")) if field in differing else value

    for field, name in _NAMES.items():
        value = getattr(environment, field)
        if isinstance(value, bool):
            value = "on" if value else "off"
        elif isinstance(value, tuple):
            value = ", ".join(map(str, value)) or "none"
        if value is not None:
            yield pair(name, str(value), field)
    for device in environment.devices:
        capability = f" (compute capability {device.capability})" if device.capability else ""
        yield pair("device", f"{device.name}{capability}", "devices")
    for variable, value in sorted(environment.variables.items()):
        yield pair(variable, value, "variables")


#: Fields with the names by which people know them, in reading order: versions, settings, what they started from.
_NAMES = {
    "torch": "torch",
    "cuda": "CUDA",
    "hip": "HIP",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "python": "Python",
    "platform": "platform",
    **{setting.key: setting.label or setting.name for setting in DECLARED if setting.is_field},
    "sdp_backends": "attention backends",
    "default_dtype": "default dtype",
    "torch_seed": "torch seed",
    "cuda_seed": "CUDA seed",
}


# --- processes --------------------------------------------------------------------------------------------


def processes(report: Report, reader: Reader) -> Section | None:
    """Each process of the program, where its children were recorded: how it was started, and what it shows."""
    if not report.processes:
        return None
    states = Counter[ChildState]()
    rows: list[tuple[Words, ...]] = []
    for process in report.processes:
        numbers = [f"{position + 1:,}" for position in process.findings]
        findings = joined(numbers[:_MOST_NUMBERS]) or "none"
        if len(numbers) > _MOST_NUMBERS:
            findings += f" and {len(numbers) - _MOST_NUMBERS:,} more"
        if process.child is None:
            rows.append((process.name, "", "recorded", findings))
        else:
            rows.append((process.name, *_child_cells(process.child), findings if numbers else ""))
            states[process.child.state] += process.child.count
    table = said.table(("Process", "Started", "Recorded", "Findings"), rows, "process", min(ROWS, reader.rows))
    lead = "Each process of the program, and the findings that its own recording shows."
    gist = f"beside the main one, {joined([f'{count:,} {state.says}' for state, count in states.items()])}"
    return Section(anchor="processes", title="Processes", blocks=(said.lead(lead), table), gist=gist)


def _child_cells(child: Child) -> tuple[str, str]:
    """How a child was started, and what its recording shows."""
    place = f" at {child.location}" if child.location else ""
    times = f" ({child.count:,} times)" if child.count > 1 else ""
    has_calls = child.calls or child.state is ChildState.RECORDED
    counts = f"{plural(child.calls, 'call')}, {plural(child.optimizer_steps, 'optimizer step')}" if has_calls else ""
    # The seeds of a loader's workers come from the loader's own generator.
    is_loaders = child.started_by is StartedBy.LOADER
    drawn = [draw.generator if is_loaders else f"{draw.generator} ({draw.origin.label})" for draw in child.draws]
    draws = f"draws from {joined(list(dict.fromkeys(drawn)))}" if drawn else ""
    rank = "" if child.rank is None else f"rank {child.rank}"
    recorded = filter(None, (child.state.says, rank, counts, draws, child.ended_by))
    return f"{child.started_by}{place}{times}", ", ".join(recorded)


# --- collectives ------------------------------------------------------------------------------------------


def collectives(report: Report, reader: Reader) -> Section | None:
    """Each collective with the size of its process group, where it was called and how often."""
    counts: Counter[tuple[str, int, str, str, str]] = Counter()
    for group in report.judgement.trace.calls:
        size = group.facts.get(GROUP_SIZE)
        if isinstance(size, int):
            counts[name_of(group.op), size, group.phase.value, group.module, group.location] += group.count
    if not counts:
        return None
    rows, sizes = [], Counter[int]()
    for (op, size, *place), count in counts.most_common():
        rows.append((op, f"{size:,}", *place, f"{count:,}"))
        sizes[size] += count
    heads = ("Collective", "Ranks in its group", "Phase", "Module", "Line", "Calls")
    table = said.table(heads, rows, "collective", min(ROWS, reader.rows))
    gist = "; ".join(f"{plural(count, 'call')} over {plural(size, 'rank')}" for size, count in sorted(sizes.items()))
    blocks = (said.lead("What ranks exchange, and how many of them take part."), table)
    return Section(anchor="collectives", title="Collectives", blocks=blocks, gist=gist)


# --- ranks ------------------------------------------------------------------------------------------------

#: Findings that a row numbers.
_MOST_NUMBERS = 20
#: Rows of one kind, and values or groups of ranks in one row; the JSON report has them all.
ROWS, VALUES = 50, 6
#: Ranks in one row that do not follow each other.
SPANS = 12


def ranks(report: Report, reader: Reader) -> Section | None:
    """The section, where several ranks were compared."""
    if report.ranks is None:
        return None
    agree = agreement(report.ranks)
    blocks: list[said.Block] = [said.lead(agree)]
    for title, rows in (("Settings", setting_rows(report.ranks)), ("Calls", call_rows(report.ranks))):
        shown, left_out = first(tuple(rows), min(ROWS, reader.rows))
        blocks += [said.Heading(title), said.Bullets(shown, left_out)] if shown else []
    is_short = report.ranks.are_identical
    return Section(anchor="ranks", title="Ranks", blocks=tuple(blocks), gist=agree if is_short else "")


def agreement(compared: RankComparison) -> str:
    """Return which ranks agree, in one sentence."""
    if compared.are_identical:
        return f"All {len(compared.ranks):,} ranks agree in settings, calls and the random draws of torch."
    if len(compared.alike) == len(compared.ranks):
        return f"No two ranks agree: {ranks_named(compared.ranks)} differ."
    groups = [f"{ranks_named(group)} {'agree' if len(group) > 1 else 'is alone'}" for group in compared.alike[:VALUES]]
    rest = [rank for group in compared.alike[VALUES:] for rank in group]
    others = [f"{ranks_named(rest)} are in {len(compared.alike) - VALUES:,} further groups"] if rest else []
    return f"The ranks differ: {'; '.join((*groups, *others))}."


def setting_rows(compared: RankComparison) -> Iterator[str]:
    """A sentence a setting that differs."""
    for setting in compared.settings:
        yield f"{setting.name}: {_spread(compared.ranks, setting.values)}"


def _spread(ranks: Sequence[int], values: Sequence[str]) -> str:
    """``3 calls on ranks 0 and 1; 4 calls on rank 2``."""
    holders: dict[str, list[int]] = {}
    for rank, value in zip(ranks, values, strict=True):
        holders.setdefault(value, []).append(rank)
    spelt = [f"{value} on {ranks_named(holding)}" for value, holding in islice(holders.items(), VALUES)]
    if rest := [rank for holding in islice(holders.values(), VALUES, None) for rank in holding]:
        spelt.append(f"{plural(len(holders) - VALUES, 'further value')} on {ranks_named(rest)}")
    return "; ".join(spelt)


def call_rows(compared: RankComparison) -> Iterator[str]:
    """A sentence an op and place that is not called alike."""
    for call in compared.calls:
        place = call.location or call.called_from
        at, module = f" at {place}" if place else "", f" ({call.module})" if call.module else ""
        calls = [plural(count, "call") for count in call.counts]
        facts = f"{calls[0]} on each, with other {joined(call.facts)}" if call.facts else _spread(compared.ranks, calls)
        yield f"{name_of(call.op)} {call.phase}{at}{module}: {facts}"


def ranks_named(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0 and 1``, ``ranks 0-6 and 8``; three in a row and more are a span."""
    ordered = sorted(ranks)
    spans = consecutive(ordered)
    parts = [part for span in spans for part in ([f"{span[0]}-{span[-1]}"] if len(span) > 2 else map(str, span))]
    if len(parts) > SPANS:
        return f"{len(ordered):,} ranks ({', '.join(parts[: SPANS - 1])} ... {parts[-1]})"
    return f"rank{'s' if len(ordered) > 1 else ''} {joined(parts)}"
