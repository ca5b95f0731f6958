"""Runs that diverged -> what to change next: for each root, each hold that explains, each input that differs.

A change of the judgement's plan that closes a finding at a root is that root's; every other root gets one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.model import Loading, Reason, Root
from tracer.divergence.repeated import Repeated
from tracer.findings import Change, Finding, Need
from tracer.names import About
from tracer.tables.sources import source_by_id
from tracer.trace.values import ValueKind

#: Causes that the tables speak of, so that the remedy of a finding at a root is the root's.
_OF_TABLES = (
    RootCause.KERNEL,
    RootCause.SETTING,
    RootCause.DRAW,
    RootCause.UNWRITTEN_MEMORY,
    RootCause.COLLECTIVE,
)
_SEED_ALL = (
    "Call `torch.manual_seed(0)` at the top of the script; `random.seed(0)` and `numpy.random.seed(0)` too, where these"
    " are drawn from"
)


class _Step(NamedTuple):
    """An edit for a root."""

    title: str
    remedy: str
    where: str


def next_steps(repeated: Repeated, plan: Sequence[Change] = (), findings: Sequence[Finding] = ()) -> tuple[Change, ...]:
    """Return the changes that diverged runs ask for, then ``plan``, a judgement's; ``plan`` alone if they agree."""
    if repeated.agrees:
        return tuple(plan)
    spoken: dict[int, list[int]] = {}
    steps: dict[_Step, list[int]] = {}
    for number, root in enumerate(repeated.numbered, 1):
        change = _of_tables(root, repeated, plan, findings)
        if change is not None:
            spoken.setdefault(change.number, []).append(number)
        else:
            steps.setdefault(_step(root), []).append(number)
    closing = [replace(change, roots=tuple(spoken.get(change.number, ()))) for change in plan]
    # What hangs on another change keeps its place behind it.
    leading = [change for change in closing if change.roots and not change.needs]
    ordered = [
        *_lines(repeated),
        *_held(repeated),
        *leading,
        *(Change(number=0, **step._asdict(), roots=tuple(numbers)) for step, numbers in steps.items()),
        *_left(repeated),
        *(change for change in closing if change not in leading),
    ]
    moved = {change.number: number for number, change in enumerate(ordered, 1)}

    def renumbered(need: Need) -> Need:
        return replace(need, changes=tuple(sorted(moved[number] for number in need.changes)))

    return tuple(
        replace(change, number=number, needs=tuple(map(renumbered, change.needs)))
        for number, change in enumerate(ordered, 1)
    )


def _of_tables(root: Root, repeated: Repeated, plan: Sequence[Change], findings: Sequence[Finding]) -> Change | None:
    """The change of ``plan`` that closes a finding at ``root``; none whose settings were made and did not help."""
    for change in plan:
        is_made = change.sets and change.sets.items() <= repeated.sets.items()
        if not is_made and any(_speaks_of(findings[position], root) for position in change.findings):
            return change
    return None


def _speaks_of(finding: Finding, root: Root) -> bool:
    """Return whether the finding is about the call, or about what the root was seen to come from."""
    if finding.about is not About.CALL:
        reason = root.reason
        seed = reason.seed.location if reason is not None and reason.seed is not None else ""
        is_its_generator = root.cause is RootCause.DRAW and finding.name == f"generator {root.name}"
        if (seed and finding.location == seed) or is_its_generator:
            return True
    at = (finding.op, finding.phase, finding.location)
    return root.cause in _OF_TABLES and at == (root.op, root.phase, root.location)


def _lines(repeated: Repeated) -> Iterator[Change]:
    """Yield the change of the first line at which the runs begin to differ."""
    source = next((source for source in repeated.sources if source.reaches), None)
    if source is None:
        return
    row = source_by_id(source.source)
    remedy = "make what it gives the same in every run" if row is None else row.remedy
    yield Change(
        number=0,
        title=f"Change the line at which the runs begin to differ{f': it {row.name}' if row is not None else ''}",
        remedy=f"{remedy[:1].upper()}{remedy[1:]}.",
        where=f"{source.location} (called from {source.called_from})" if source.called_from else source.location,
        roots=tuple(range(1, len(repeated.numbered) + 1)),
    )


def _held(repeated: Repeated) -> Iterator[Change]:
    """Yield the changes that make permanent what made the runs agree."""
    cause = repeated.cause
    if cause is not None and cause.remedy:
        first = repeated.first
        yield Change(
            number=0,
            title=f"Remove what differs: runs agree when {cause.clause}",
            remedy=f"{cause.remedy[:1].upper()}{cause.remedy[1:]}.",
            where=_line(first) if first is not None else "the whole process",
            roots=tuple(range(1, len(repeated.numbered) + 1)),
        )


def _line(root: Root) -> str:
    return root.called_from or root.location or root.module or "place not recorded"


def _step(root: Root) -> _Step:
    """The next step for one root."""
    line, reason = _line(root), root.reason
    shows = reason.shows if reason is not None else None
    op = root.region or root.op.removesuffix(".default")
    if root.cause is RootCause.DRAW:
        return _seed(root, reason)
    if root.cause is RootCause.UNWRITTEN_MEMORY:
        gave = root.earlier.location or root.earlier.called_from if root.earlier is not None else ""
        how = "Write all of it first: `torch.nn.init` for a parameter, `torch.zeros` elsewhere"
        return _Step(f"Write before reading in {op}", f"{how}.", gave or line)
    if root.cause is RootCause.INPUT_DATA:
        return _Step(*_data(root, reason), line)
    if root.cause is RootCause.INITIAL_STATE:
        what = f"{root.kind.value.replace('-', ' ') if root.kind is not None else 'state'} {root.name}".strip()
        how = f"{_SEED_ALL}, before the model is built; or load the same checkpoint in every run"
        return _Step(f"Begin every run with the same {what}", f"{how}.", line)
    if root.cause is RootCause.ARGUMENT:
        how = "Compute it from what is the same in every run"
        if shows is Shows.OTHER_LAYOUT:
            how = "Give the op one memory layout in every run: `.contiguous()` before it, and a fixed order of axes"
        return _Step(f"Give {op} the same arguments in every run", f"{how}.", line)
    if root.cause is RootCause.OUTSIDE_CHANGE:
        how = "A NumPy array, a thread or a library that shares the memory writes to it: give the step a copy"
        if reason is not None and reason.processes:
            started = reason.processes[0]
            how = f"Processes started at {started} may share it: give each its own copy, or let them take turns"
        return _Step(f"Let nothing else write to what {op} reads", f"{how}.", line)
    if root.cause is RootCause.STRUCTURE:
        after = root.earlier
        where = (after.called_from or after.location if after is not None else "") or line
        how = "Look at the condition, the length or the order of the loop that decides which calls follow"
        return _Step("Make the same calls in every run", f"{how}.", where)
    if root.cause is RootCause.THREAD_ORDER:
        how = "Let no branch write to a tensor, or draw from a generator, that another one reads: return what it made"
        return _Step("Give each branch of `torch.jit.fork` tensors of its own", f"{how}.", line)
    if root.cause is RootCause.SETTING:
        names = [setting.name for setting in reason.settings] if reason is not None else []
        named = " and ".join(names[:3]) or "the settings that differ"
        return _Step(f"Set {named} alike in every run", "Set it in the script, or in the shell that starts it.", line)
    if root.cause is RootCause.COLLECTIVE:
        how = "Record each rank of both runs with `tracer run --values`, and hold rank against rank with `tracer diff`"
        return _Step(f"Find the rank that gives {op} something else", f"{how}.", line)
    if root.cause is RootCause.KERNEL:
        how = f"`tracer explain {root.op}` says what may be written instead and what deterministic mode does to it"
        return _Step(f"Replace {op}, which does not repeat itself", f"{how}.", line)
    if reason is not None and reason.threads:
        how = "Wait for the threads before the call (`thread.join()`, `future.result()`), or give them a copy"
        return _Step(f"Let no thread write to what {op} reads", f"{how}.", reason.threads[0])
    how = "Run `tracer repeat --vary all` and compare which circumstances move it; record from the script's first line"
    return _Step(f"Find out what {op} differs by", f"{how}.", line)


def _seed(root: Root, reason: Reason | None) -> _Step:
    """For a generator in another state: the line that seeds it, or that draws otherwise."""
    line = _line(root)
    if reason is None or reason.shows is Shows.DRAWN_AHEAD:
        how = "How often and how much it draws hangs on something that differs: the data, a condition, a length"
        return _Step(f"Draw alike from {root.name} in every run", f"{how}.", line)
    seed = reason.seed
    if seed is not None and seed.first != seed.second:
        how = "Seed with a number that stands in the code or the configuration"
        return _Step(f"Change the line that seeds generator {root.name}", f"{how}.", seed.location or line)
    if root.earlier is not None:
        after = root.earlier.called_from or root.earlier.location
        how = "Between this draw and the one before it something that is no recorded call seeded or moved the generator"
        return _Step(f"Leave generator {root.name} alone after {root.earlier.op}", f"{how}.", after or line)
    return _Step(f"Seed generator {root.name}", f"{_SEED_ALL}, before the first draw.", line)


def _data(root: Root, reason: Reason | None) -> tuple[str, str]:
    """For data that came in: whether their order differs, or they do."""
    if reason is not None and reason.shows is Shows.BATCH:
        if reason.elsewhere is not None:
            how = "Give it a seeded generator, `generator=torch.Generator().manual_seed(0)`, and sort what it indexes"
            return f"Fix the order of {root.name or 'the loader'}", f"{how}."
        return _samples(root.name, reason.loading)
    if reason is not None and reason.loading is not None:
        return _samples(reason.loading.loader, reason.loading)
    if reason is not None and reason.shows in (Shows.OTHER_TENSORS, Shows.OTHER_TARGET):
        return "Walk the tensors in one order", "Sort what comes out of a set, a dictionary of hashes or a directory."
    how = "Seed what makes it (NumPy's generators have seeds of their own), sort what is listed, read fixed copies"
    return f"Give the step the same data{f' ({root.name})' if root.name else ''}", f"{how}."


def _samples(loader: str, loading: Loading | None) -> tuple[str, str]:
    """For a loader that gives other samples: their order, the seeds of its workers, or what the data set draws."""
    name = loader or "the loader"
    seeded = "give the loader `generator=torch.Generator().manual_seed(0)`"
    if loading is None:
        how = f"Draw in the data set from what is seeded for each sample or worker, and {seeded}"
        return f"Fix the samples of {name}", f"The samples themselves differ. {how}."
    if loading.indices_agree is False:
        how = f"The sampler's indices differ: {seeded}, or seed what the sampler draws from"
        return f"Fix the order of {name}", f"{how}."
    method = f"{loading.fetched_by} ({loading.fetched_at})" if loading.fetched_by else "the data set"
    if loading.seeds_agree is False:
        how = f"Workers' seeds are drawn from it: {seeded}. Draw in {method} from the generators that are seeded so"
        return f"Seed the workers of {name}", f"{how}, or for each sample by its index."
    if loading.workers == 0 and loading.draws:
        how = f"{_SEED_ALL}, before the first batch, or draw in {method} for each sample by its index"
        return f"Fix the samples of {name}", f"{how}."
    how = f"What was compared agrees, so {method} takes in something else: entropy, a clock, a file, other threads"
    return f"Fix the samples of {name}", f"{how}. Draw there for each sample by its index, from a seed in the code."


def _left(repeated: Repeated) -> Iterator[Change]:
    """Yield changes where all calls agree, the runs leave other results, and nothing that was held explains it."""
    cause = repeated.cause
    if repeated.numbered or not repeated.ends or (cause is not None and cause.is_certain):
        return
    end = repeated.ends[0]
    of_training = end.kind not in (ValueKind.FILE, ValueKind.OUTPUT)
    how = "Every recorded call agrees, so something else writes it: a process, a thread, a foreign kernel, `numpy`"
    if not of_training:
        how = (
            "No recorded call differs: look for a clock, a name, an order or a number of the machine in what is written"
        )
    yield Change(
        number=0,
        title=f"Find what makes {end.kind.value.replace('-', ' ')} {end.name} another one",
        remedy=f"{how}.",
        where="beside the recorded calls" if of_training else "where it is written",
    )
