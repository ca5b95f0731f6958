"""What no op shows, as rows that page and terminal share: generators, unwritten memory, data loading."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tracer.findings import FillCost, Judgement
from tracer.names import SeedOrigin, Verdict
from tracer.report.wording.words import SEED_ORIGINS, joined, plural, size
from tracer.trace.records import Generator, Loader


class GeneratorRow(NamedTuple):
    """One generator that the step drew from, as it stood at one start."""

    name: str
    draws: str
    """How often it was drawn from, in words."""
    origin: SeedOrigin
    seeded_at: str
    verdict: Verdict
    """The verdict whose colour it bears."""

    @property
    def start(self) -> str:
        """Where its state came from, with the line."""
        return f"{SEED_ORIGINS[self.origin].said}{f', at {self.seeded_at}' if self.seeded_at else ''}"


class LoaderRow(NamedTuple):
    """One ``DataLoader`` in words."""

    place: str
    workers: str
    order: str
    drawn_from: str
    """Which generator its order and its workers' seeds come from, and whether that was seeded."""
    origin: SeedOrigin | None
    """``None`` where it draws nothing."""
    further: tuple[str, ...]
    iterations: int


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
        for generator in judgement.generators
        if generator.name not in drawn and generator.drew is not False
    ]
    order = (Verdict.NONDETERMINISTIC, Verdict.UNKNOWN, Verdict.SEEDED)
    return sorted(rows, key=lambda row: order.index(row.verdict))


def _uncounted(one: Generator) -> GeneratorRow:
    """A generator whose state says all that is known: no call was seen to draw from it."""
    if one.drew:
        return GeneratorRow(one.name, "drawn from", one.origin, one.seeded_at, SEED_ORIGINS[one.origin].verdict)
    return GeneratorRow(one.name, "could not be told", one.origin, one.seeded_at, Verdict.UNKNOWN)


def untouched_generators(judgement: Judgement) -> tuple[str, ...]:
    """Generators that the step did not draw from."""
    drawn = {draw.generator for draw in judgement.draws}
    return tuple(
        generator.name for generator in judgement.generators if generator.drew is False and generator.name not in drawn
    )


def unseen_generators(judgement: Judgement) -> str:
    """Which generators nobody can watch, where the process had loaded what makes them; empty where it had not."""
    if not any(generator.name == "numpy" for generator in judgement.generators):
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


def loader_rows(loaders: Iterable[Loader]) -> list[LoaderRow]:
    """Each ``DataLoader`` that was iterated, in the order of the trace."""
    return [_loader(loader) for loader in loaders]


def _loader(one: Loader) -> LoaderRow:
    draws = one.shuffles or one.workers > 0
    place = one.location or "place not recorded"
    return LoaderRow(
        f"{place} (called from {one.called_from})" if one.called_from else place,
        _workers(one),
        f"{'drawn at random' if one.shuffles else 'fixed'}{f' ({one.sampler})' if one.sampler else ''}",
        _source(one) if draws else "draws nothing",
        one.origin if draws else None,
        tuple(_further(one)),
        one.iterations,
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
