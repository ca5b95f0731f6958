"""Loaders: where they were made, and what their order and their workers' seeds depend on."""

from __future__ import annotations

import gc
import random
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from tests.support.bits import random_state, seed_everything
from tests.support.lines import line_of, record
from tracer import DeterminismTracer, judge
from tracer.names import SeedOrigin, Verdict
from tracer.recording.origin import Sites
from tracer.recording.randomness.loaders import LoaderLog
from tracer.trace.records import Loader

NUMBERS: Any = list(range(8))


class Noisy(Dataset[tuple[float, float, float]]):
    """Draws from Python's, NumPy's and torch's own generator for each sample."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))


class Counting(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


class OwnOrder(Sampler[int]):
    """Nobody can know what such a sampler draws from."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(8))

    def __len__(self) -> int:
        return 8


def loaders(function: Callable[[], object]) -> tuple[Loader, ...]:
    return record(function).trace.loaders


def only(function: Callable[[], object]) -> Loader:
    (loader,) = loaders(function)
    return loader


def line(location: str) -> int:
    return int(location.rpartition(":")[2])


def seeded(number: int = 0) -> torch.Generator:
    generator = torch.Generator()
    generator.manual_seed(number)
    return generator


def test_a_loader_is_named_by_the_line_that_made_it_or_iterated_it_first_and_only_where_it_is_iterated() -> None:
    class Own(DataLoader[Any]):
        def __init__(self, data: Any) -> None:
            super().__init__(data, batch_size=2)

        def __iter__(self) -> Any:
            yield from super().__iter__()

    loader = DataLoader(NUMBERS)

    def run() -> None:
        list(loader)  # first
        list(loader)
        list(Own(NUMBERS))  # by who made it
        DataLoader(NUMBERS)
        for _ in range(3):
            here = DataLoader(NUMBERS, shuffle=True)  # made here
            list(here)
            list(here)

    earlier, own, here = loaders(run)
    assert (line(earlier.location), earlier.iterations) == (line_of(run, "# first"), 2)
    assert line(own.location) == line_of(run, "# by who made it")
    assert (line(here.location), here.iterations) == (line_of(run, "# made here"), 6)
    assert (here.shuffles, here.sampler, here.workers) == (True, "RandomSampler", 0)
    assert here.function.endswith("run")


class SequentialSampler(OwnOrder):
    """Bears the name of torch's alone."""


class OwnBatches(BatchSampler):
    def __iter__(self) -> Iterator[list[int]]:
        yield [0, 1]


@pytest.mark.parametrize(
    ("options", "shuffles", "sampler"),
    [
        ({}, False, "SequentialSampler"),
        ({"sampler": SequentialSampler()}, False, f"{__name__}.SequentialSampler"),
        ({"sampler": OwnOrder()}, False, "OwnOrder"),
        ({"sampler": RandomSampler(NUMBERS, replacement=True)}, True, "RandomSampler"),
        ({"sampler": SubsetRandomSampler([1, 2])}, True, "SubsetRandomSampler"),
        ({"sampler": WeightedRandomSampler([0.5, 0.5], 2)}, True, "WeightedRandomSampler"),
        ({"sampler": DistributedSampler(NUMBERS, 2, 0)}, True, "DistributedSampler"),
        ({"sampler": DistributedSampler(NUMBERS, 2, 0, shuffle=False)}, False, "DistributedSampler"),
        ({"batch_sampler": BatchSampler(RandomSampler(NUMBERS), 2, False)}, True, "RandomSampler"),
        ({"batch_sampler": OwnBatches(RandomSampler(NUMBERS), 2, False)}, False, "OwnBatches"),
        ({"dataset": Counting(), "batch_size": 2}, False, ""),  # which gives the order itself
    ],
)
def test_torch_own_samplers_say_whether_they_draw_and_others_are_named(
    options: dict[str, Any], shuffles: bool, sampler: str
) -> None:
    found = only(lambda: list(DataLoader(**{"dataset": NUMBERS} | options)))
    assert (found.shuffles, found.sampler) == (shuffles, sampler)


def test_order_and_worker_seeds_depend_on_the_generators_that_they_are_drawn_from() -> None:
    def run() -> None:
        left = torch.Generator()
        left.seed()
        torch.seed()
        list(DataLoader(NUMBERS, shuffle=True))
        list(DataLoader(NUMBERS, shuffle=True, generator=seeded(7)))
        list(DataLoader(NUMBERS, shuffle=True, generator=torch.Generator()))
        list(DataLoader(NUMBERS, shuffle=True, generator=left))
        list(DataLoader(NUMBERS, sampler=RandomSampler(NUMBERS, generator=seeded())))
        list(DataLoader(NUMBERS, sampler=RandomSampler(NUMBERS), generator=seeded()))
        list(DataLoader(NUMBERS, sampler=DistributedSampler(NUMBERS, num_replicas=2, rank=0)))
        torch.manual_seed(0)  # seeds
        list(DataLoader(NUMBERS, shuffle=True))

    machine, program, fixed = SeedOrigin.MACHINE, SeedOrigin.PROGRAM, SeedOrigin.FIXED
    found = loaders(run)
    assert [(one.origin, one.has_generator, one.workers_origin, one.workers_have_generator) for one in found] == [
        (machine, False, None, False),  # one for both
        (program, True, None, False),
        (fixed, True, None, False),
        (machine, True, None, False),
        (program, True, machine, False),
        (machine, False, program, True),
        (fixed, False, machine, False),
        (program, False, None, False),
    ]
    assert line(found[1].seeded_at) == line_of(seeded, "manual_seed")
    assert line(found[-1].seeded_at) == line_of(run, "# seeds")


def test_set_epoch_is_asked_for_from_the_second_epoch_on() -> None:
    def run(epochs: list[int | None]) -> bool | None:
        sampler: Any = DistributedSampler(NUMBERS, num_replicas=2, rank=0)
        loader = DataLoader(NUMBERS, sampler=sampler)

        def train() -> None:
            for epoch in epochs:
                if epoch is not None:
                    sampler.set_epoch(epoch)
                list(loader)

        return only(train).epoch_set

    assert run([None]) is None
    assert run([None, None]) is False
    assert run([0, 1]) is True
    assert run([None, 0]) is True


def test_workers_and_their_settings_are_read() -> None:
    has_order = "in_order" in DataLoader.__init__.__code__.co_varnames  # older torch always yields in order
    others: Any = {"in_order": False} if has_order else {}

    def run() -> None:
        list(DataLoader(NUMBERS, num_workers=2, worker_init_fn=print_nothing, multiprocessing_context="fork", **others))
        list(DataLoader(NUMBERS, num_workers=1, persistent_workers=True, multiprocessing_context="fork"))

    first, second = loaders(run)
    assert (first.workers, first.has_worker_init, first.persistent_workers) == (2, True, False)
    assert (second.workers, second.has_worker_init, second.persistent_workers) == (1, False, True)
    assert (first.start_method, first.in_order, second.in_order) == ("fork", not has_order, True)
    log = LoaderLog(Sites())
    log.iterates(sys._getframe(), DataLoader(NUMBERS, num_workers=1, multiprocessing_context="spawn"))
    assert [made.start_method for made in log.listed()] == ["spawn"]


def print_nothing(worker: int) -> None:
    """A ``worker_init_fn``."""


# --- law 1: nothing changes ---


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True, "num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": True},
        {"sampler": WeightedRandomSampler([0.1] * 8, 8)},
    ],
)
def test_batches_and_random_streams_are_the_same_with_and_without(options: dict[str, Any]) -> None:
    def epochs() -> list[Any]:
        seed_everything(3)
        loader: Any = DataLoader(Noisy(), batch_size=3, **options)
        batches = [[part.tolist() for part in batch] for _ in range(2) for batch in loader]
        return [batches, random_state()]

    alone = epochs()
    assert len(alone[0]) == 6
    with DeterminismTracer():
        recorded = epochs()
    assert recorded == alone


def test_a_loader_whose_attributes_fail_is_iterated_as_ever() -> None:
    class Odd(DataLoader[Any]):
        def __getattribute__(self, name: str) -> Any:
            if name == "generator":
                raise ValueError
            return super().__getattribute__(name)

        def __iter__(self) -> Any:
            raise KeyError("its own")

    class Proxy(DataLoader[Any]):
        """Holds a loader and passes everything on, as accelerate's do."""

        def __init__(self, inner: Any) -> None:
            object.__setattr__(self, "inner", inner)

        def __getattribute__(self, name: str) -> Any:
            if name in ("inner", "__class__", "__dict__"):
                return object.__getattribute__(self, name)
            return getattr(self.inner, name)

        def __iter__(self) -> Any:
            return iter(self.inner)

    def run() -> None:
        with pytest.raises(KeyError, match="its own"):
            list(Odd(NUMBERS))
        assert len(list(Proxy(DataLoader(NUMBERS, batch_size=4)))) == 2

    assert only(run).iterations == 1


# --- law 2: nothing is kept ---


def test_a_loader_is_not_kept_alive() -> None:
    log = LoaderLog(Sites())
    log.start()
    sampler: Any = DistributedSampler(NUMBERS, num_replicas=2, rank=0)
    loader: Any = DataLoader(NUMBERS, sampler=sampler)
    list(loader)
    dead = (weakref.ref(loader), weakref.ref(sampler))
    del loader, sampler
    gc.collect()
    log.stop()
    assert [one() for one in dead] == [None, None]
    assert not log._places


# --- what workers draw is not seen ---


class WithGenerator(Dataset[float]):
    """Has a generator of its own, from which it draws."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return float(self.rng.random())


class Stops(OwnOrder):
    def __iter__(self) -> Iterator[int]:
        raise LookupError("before a worker starts")


@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("make", [np.random.default_rng, random.Random])
def test_whether_a_generator_draws_in_workers_is_unknown(make: Callable[[], Any]) -> None:
    def epoch(*, workers: int = 1, draws_here: bool = False) -> tuple[WithGenerator, Any]:
        data, later = WithGenerator(make()), make
        with pytest.raises(LookupError):
            iter(DataLoader(data, None, sampler=Stops(), num_workers=workers))
        if draws_here:
            data[0]
        return data, later()

    def verdicts(function: Callable[[], object]) -> list[Verdict]:
        found = judge(record(function).trace).findings
        return [finding.verdict for finding in found if finding.rule.endswith("-generator-objects")]

    assert verdicts(epoch) == [Verdict.UNKNOWN]
    assert verdicts(lambda: epoch(draws_here=True)) == [Verdict.NONDETERMINISTIC]
    assert verdicts(lambda: list(DataLoader([1.0, make() is None]))) == []
