"""What was recorded: where ranks differ, what went by unseen, versions and settings, how to judge it again."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from tracer.findings import Process, Target
from tracer.names import BlindSpotKind, ChildState, StartedBy, Training
from tracer.plan import name_of
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words, first
from tracer.report.report import Report
from tracer.report.words import CHILD_STATES, SEED_ORIGINS, consecutive, joined, plural, some, steps_in_words
from tracer.tables.settings import DECLARED
from tracer.trace.differences import RankComparison
from tracer.trace.records import GROUP_SIZE, BlindSpot, Environment, TraceSource

#: How a trace is named that a rank wrote.
_RANK = re.compile(r"\.rank\d+\.")
#: Merged recordings disagree in it; the first one's value is shown.
_DIFFERS = said.Strong("differs between recordings")


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
    counts: dict[BlindSpotKind, list[BlindSpot]] = {}
    for spot in report.blind_spots:
        counts.setdefault(spot.kind, []).append(spot)
    gists = []
    for kind, spots in counts.items():
        places = some(list(dict.fromkeys(spot.location for spot in spots if spot.location)), 2)
        times = plural(sum(spot.count for spot in spots), "time")
        gists.append(f"{kind} {times}{f' ({places})' if places else ''}")
    gist = "; ".join(gists)
    return Section(anchor="blind-spots", title="What was not seen", label="Not seen", blocks=blocks, gist=gist)


def environment(report: Report, reader: Reader) -> Section:
    """Versions, settings and recordings, and the command that judges again."""
    judgement = report.judgement
    recorded = tuple(_settings(judgement.trace.environment, judgement.trace.differing_settings))
    title = "Versions and settings of the recorded process"
    beside: tuple[said.Block, ...] = (said.Pairs(recorded, title, "environment"),)
    if judgement.trace.sources:
        beside += (said.Pairs(tuple(_sources(judgement.trace.sources, judgement.training)), "Recordings"),)
    lead = "As recorded: when recording began or, for a script, when its first recorded optimizer step began."
    again = said.Sample(command(report, judgement.target), "the command that judges again")
    blocks = (said.lead(lead), said.Beside(beside), said.Heading("This judgement again"), again)
    return Section(anchor="environment", title="Environment", blocks=blocks)


def command(report: Report, target: Target) -> str:
    """Return the command (in Python, if settings were asked for by name) that judges the same trace for ``target``."""
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


def _sources(sources: Sequence[TraceSource], training: Training) -> Iterator[tuple[str, Words]]:
    """A row a recording; ranks that recorded as much are one row."""
    ranks: dict[TraceSource, list[int]] = {}
    for source in sources:
        ranks.setdefault(replace(source, rank=None), []).extend([] if source.rank is None else [source.rank])
    for source, numbers in ranks.items():
        of = "" if source.world_size is None else f" of {source.world_size}"
        rank = f", {ranks_named(numbers)}{of}" if numbers else ""
        words = steps_in_words(source.optimizer_steps, source.steps_by_hand, training)
        steps = f"{words}, {plural(source.calls, 'call')}"
        partial: Words = (" ", said.Strong(f"partial: {source.partial}")) if source.partial else ""
        yield f"{source.name or 'unnamed'}{rank}", (steps, partial)


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


def _settings(environment: Environment, differing: tuple[str, ...]) -> Iterator[tuple[str, Words]]:
    """Every field that could be read, devices, and the environment variables that were set."""

    def pair(name: str, value: str, field: str) -> tuple[str, Words]:
        return name, (value, " ", _DIFFERS) if field in differing else value

    for field, name in _NAMES.items():
        value = getattr(environment, field)
        if value is not None:
            yield pair(name, _spelled(value), field)
    for device in environment.devices:
        capability = f" (compute capability {device.capability})" if device.capability else ""
        yield pair("device", f"{device.name}{capability}", "devices")
    for variable, value in sorted(environment.variables.items()):
        yield pair(variable, value, "variables")


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


# --- processes --------------------------------------------------------------------------------------------


def processes(report: Report, reader: Reader) -> Section | None:
    """Each process of the program, where its children were recorded: how it was started, and what it shows."""
    if not report.processes:
        return None
    shown, left_out = first(report.processes, min(ROWS, reader.rows))
    columns = said.columns("Process", "Started", "Recorded", "Findings")
    table = said.Table(columns, tuple(map(_process_cells, shown)), noun="process", left_out=left_out)
    lead = "Each process of the program, and the findings that its own recording shows."
    states = Counter[ChildState]()
    for child in filter(None, (process.child for process in report.processes)):
        states[child.state] += child.count
    gist = "; ".join(f"{count:,} {CHILD_STATES[state]}" for state, count in states.items())
    return Section(anchor="processes", title="Processes", blocks=(said.lead(lead), table), gist=gist)


def _process_cells(process: Process) -> tuple[Words, ...]:
    child = process.child
    numbers = joined([f"{position + 1:,}" for position in process.findings[:_MOST_NUMBERS]])
    more = len(process.findings) - _MOST_NUMBERS
    findings = f"{numbers}{f' and {more:,} more' if more > 0 else ''}" if numbers else "none"
    if child is None:
        return process.name, "", "recorded", findings
    place = f" at {child.location}" if child.location else ""
    rank = "" if child.rank is None else f"rank {child.rank}"
    has_calls = child.calls or child.state is ChildState.RECORDED
    counts = f"{plural(child.calls, 'call')}, {plural(child.optimizer_steps, 'optimizer step')}" if has_calls else ""
    is_loaders = child.started_by is StartedBy.LOADER  # its seeds come from the loader's own generator
    labels = ("" if is_loaders else f" ({SEED_ORIGINS[draw.origin].label})" for draw in child.draws)
    drawn = joined(
        list(dict.fromkeys(f"{draw.generator}{label}" for draw, label in zip(child.draws, labels, strict=True)))
    )
    draws = f"draws from {drawn}" if drawn else ""
    state = CHILD_STATES[child.state]
    times = f" ({child.count:,} times)" if child.count > 1 else ""
    recorded = ", ".join(filter(None, (state, rank, counts, draws, child.ended_by)))
    return process.name, f"{child.started_by}{place}{times}", recorded, findings if process.findings else ""


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
    shown, left_out = first(counts.most_common(), min(ROWS, reader.rows))
    columns = said.columns("Collective", "Ranks in its group", "Phase", "Module", "Line", "Calls")
    rows = tuple(
        (op, f"{size:,}", phase, module, line, f"{count:,}") for (op, size, phase, module, line), count in shown
    )
    sizes = Counter[int]()
    for (_, size, *_), count in counts.items():
        sizes[size] += count
    gist = "; ".join(f"{plural(count, 'call')} over {plural(size, 'rank')}" for size, count in sorted(sizes.items()))
    blocks = (
        said.lead("What ranks exchange, and how many of them take part."),
        said.Table(columns, rows, noun="collective", left_out=left_out),
    )
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
    blocks: list[said.Block] = [said.lead(agreement(report.ranks))]
    for title, rows in (("Settings", setting_rows(report.ranks)), ("Calls", call_rows(report.ranks))):
        shown, left_out = first(tuple(rows), min(ROWS, reader.rows))
        blocks += [said.Heading(title), said.Bullets(shown, left_out)] if shown else []
    gist = agreement(report.ranks) if report.ranks.are_identical else ""
    return Section(anchor="ranks", title="Ranks", blocks=tuple(blocks), gist=gist)


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
