"""Loaders: where they were made, and what their order and their workers' seeds depend on."""

from __future__ import annotations

import gc
import os
import random
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
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
from tests.support.command import process
from tests.support.lines import line_of, record
from tracer import DeterminismTracer, judge
from tracer.names import BlindSpotKind, SeedOrigin, Verdict
from tracer.recording.origin.sites import Sites
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


def test_a_loader_is_named_by_the_line_that_made_it() -> None:
    def run() -> None:
        loader = DataLoader(NUMBERS, shuffle=True)  # made here
        for _ in range(3):
            list(loader)

    found = only(run)
    assert line(found.location) == line_of(run, "# made here")
    assert (found.iterations, found.shuffles, found.sampler, found.workers) == (3, True, "RandomSampler", 0)
    assert found.function.endswith("run")


def test_a_loader_made_before_recording_is_named_by_its_first_iteration() -> None:
    loader = DataLoader(NUMBERS)

    def run() -> None:
        list(loader)  # first
        list(loader)

    found = only(run)
    assert line(found.location) == line_of(run, "# first")
    assert (found.iterations, found.shuffles) == (2, False)


def test_a_loader_that_nobody_iterates_is_not_recorded() -> None:
    assert loaders(lambda: DataLoader(NUMBERS, shuffle=True)) == ()


def test_a_subclass_is_named_by_the_line_that_made_it() -> None:
    class Own(DataLoader[Any]):
        def __init__(self, data: Any) -> None:
            super().__init__(data, batch_size=2)

        def __iter__(self) -> Any:
            yield from super().__iter__()

    def run() -> None:
        list(Own(NUMBERS))  # made here

    assert line(only(run).location) == line_of(run, "# made here")


def test_loaders_made_by_one_line_in_a_loop_are_one_record() -> None:
    def run() -> None:
        for _ in range(20):
            list(DataLoader(NUMBERS))

    assert only(run).iterations == 20


@pytest.mark.parametrize(
    ("sampler", "shuffles"),
    [
        (lambda: RandomSampler(NUMBERS), True),
        (lambda: RandomSampler(NUMBERS, replacement=True), True),
        (lambda: SubsetRandomSampler([1, 2]), True),
        (lambda: WeightedRandomSampler([0.5, 0.5], 2), True),
        (lambda: DistributedSampler(NUMBERS, num_replicas=2, rank=0), True),
        (lambda: DistributedSampler(NUMBERS, num_replicas=2, rank=0, shuffle=False), False),
        (OwnOrder, False),
    ],
)
def test_torch_own_samplers_say_whether_they_draw(sampler: Callable[[], Any], shuffles: bool) -> None:
    made = sampler()
    found = only(lambda: list(DataLoader(NUMBERS, sampler=made)))
    assert (found.shuffles, found.sampler) == (shuffles, type(made).__qualname__)


def test_a_batch_sampler_of_torch_is_seen_through_and_another_is_named() -> None:
    class OwnBatches(BatchSampler):
        def __iter__(self) -> Iterator[list[int]]:
            yield [0, 1]

    drawn = only(lambda: list(DataLoader(NUMBERS, batch_sampler=BatchSampler(RandomSampler(NUMBERS), 2, False))))
    assert (drawn.shuffles, drawn.sampler) == (True, "RandomSampler")
    own = only(lambda: list(DataLoader(NUMBERS, batch_sampler=OwnBatches(RandomSampler(NUMBERS), 2, False))))
    assert (own.shuffles, own.sampler.rpartition(".")[2]) == (False, "OwnBatches")


def test_an_iterable_dataset_gives_the_order_itself() -> None:
    found = only(lambda: list(DataLoader(Counting(), batch_size=2)))
    assert (found.shuffles, found.sampler) == (False, "")


def test_the_order_depends_on_the_generator_that_the_sampler_draws_from() -> None:
    def run() -> None:
        torch.seed()
        list(DataLoader(NUMBERS, shuffle=True))
        list(DataLoader(NUMBERS, shuffle=True, generator=seeded(7)))
        list(DataLoader(NUMBERS, shuffle=True, generator=torch.Generator()))
        left = torch.Generator()
        left.seed()
        list(DataLoader(NUMBERS, shuffle=True, generator=left))
        torch.manual_seed(0)  # seeds
        list(DataLoader(NUMBERS, shuffle=True))

    by_default, passed, new, left, by_seed = loaders(run)
    assert (by_default.origin, by_default.has_generator) == (SeedOrigin.MACHINE, False)
    assert (passed.origin, passed.has_generator) == (SeedOrigin.PROGRAM, True)
    assert line(passed.seeded_at) == line_of(seeded, "manual_seed")
    assert new.origin is SeedOrigin.FIXED
    assert left.origin is SeedOrigin.MACHINE
    assert by_seed.origin is SeedOrigin.PROGRAM
    assert line(by_seed.seeded_at) == line_of(run, "# seeds")


def test_order_and_worker_seeds_may_come_from_two_generators() -> None:
    def run() -> None:
        torch.seed()
        list(DataLoader(NUMBERS, sampler=RandomSampler(NUMBERS, generator=seeded())))
        list(DataLoader(NUMBERS, sampler=RandomSampler(NUMBERS), generator=seeded()))
        list(DataLoader(NUMBERS, sampler=DistributedSampler(NUMBERS, num_replicas=2, rank=0)))

    order, workers, distributed = loaders(run)
    assert (order.origin, order.workers_origin) == (SeedOrigin.PROGRAM, SeedOrigin.MACHINE)
    assert (workers.origin, workers.workers_origin) == (SeedOrigin.MACHINE, SeedOrigin.PROGRAM)
    assert [(one.has_generator, one.workers_have_generator) for one in (order, workers)] == [
        (True, False),
        (False, True),
    ]
    assert (distributed.origin, distributed.workers_origin) == (SeedOrigin.FIXED, SeedOrigin.MACHINE)


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
    def run() -> None:
        list(DataLoader(NUMBERS, num_workers=2, worker_init_fn=print_nothing, multiprocessing_context="fork"))
        list(DataLoader(NUMBERS, num_workers=1, persistent_workers=True, multiprocessing_context="fork"))

    first, second = loaders(run)
    assert (first.workers, first.has_worker_init, first.persistent_workers) == (2, True, False)
    assert (second.workers, second.has_worker_init, second.persistent_workers) == (1, False, True)
    assert (first.start_method, first.workers_seen) == ("fork", True)


def print_nothing(worker: int) -> None:
    """A ``worker_init_fn``."""


def test_workers_that_are_not_forked_cannot_be_watched() -> None:
    loader = DataLoader(NUMBERS, num_workers=1, multiprocessing_context="spawn")
    log = LoaderLog(Sites())
    log.iterates(__import__("sys")._getframe(), loader)
    (found,) = log.listed()
    assert (found.start_method, found.workers_seen) == ("spawn", False)


def test_asking_for_the_start_method_does_not_settle_it(tmp_path: Path) -> None:

    code = (
        "import multiprocessing, sys; from torch.utils.data import DataLoader\n"
        "from tracer.recording.randomness.loaders import LoaderLog; from tracer.recording.origin.sites import Sites\n"
        "log = LoaderLog(Sites())\n"
        "log.iterates(sys._getframe(), DataLoader([1], num_workers=1))\n"
        "assert log.listed()[0].start_method == multiprocessing.get_all_start_methods()[0]\n"
        "assert multiprocessing.get_start_method(allow_none=True) is None\n"
    )
    done = process("-c", code, cwd=tmp_path)
    assert done.code == 0, done.err


@pytest.mark.skipif(
    "in_order" not in DataLoader.__init__.__code__.co_varnames, reason="this torch always yields in order"
)
def test_batches_out_of_order_are_read() -> None:
    loader: Any = DataLoader(NUMBERS, num_workers=1, multiprocessing_context="fork", in_order=False)
    assert only(lambda: list(loader)).in_order is False


def test_worker_processes_stay_a_blind_spot() -> None:
    tracer = record(lambda: list(DataLoader(NUMBERS, num_workers=1, multiprocessing_context="fork")))
    assert BlindSpotKind.DATALOADER in {spot.kind for spot in tracer.trace.blind_spots}


# --- law 1: nothing changes ---


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True},
        {"shuffle": True, "num_workers": 2, "multiprocessing_context": "fork"},
        {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": True},
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
        @property
        def generator(self) -> Any:
            raise ValueError

        @generator.setter
        def generator(self, value: Any) -> None:
            pass

        def __iter__(self) -> Any:
            raise KeyError("its own")

    class Proxy(DataLoader[Any]):
        """Holds a loader and passes everything on, as accelerate's do."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattribute__(self, name: str) -> Any:
            if name in ("inner", "__class__", "__dict__"):
                return object.__getattribute__(self, name)
            return getattr(self.inner, name)

        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

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


# --- what workers draw from ---


class Draws(Dataset[Any]):
    """Calls ``function`` for each sample."""

    def __init__(self, function: Callable[[int], Any]) -> None:
        self.function = function

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return self.function(index)


class DrawsAlong(IterableDataset[float]):
    def __iter__(self) -> Iterator[float]:
        yield random.random()


def drawn_by(function: Callable[[int], Any], workers: int = 1) -> tuple[str, ...]:
    data = Draws(function)
    return only(lambda: list(DataLoader(data, num_workers=workers, multiprocessing_context="fork"))).worker_draws


def seeds_then_draws(index: int) -> float:
    random.seed(index)
    np.random.seed(index)
    torch.manual_seed(index)
    return random.random() + float(np.random.rand()) + float(torch.rand(()))


def draws_then_seeds(index: int) -> float:
    early = random.random()
    random.seed(index)
    return early


def draws_in_a_fork(index: int) -> float:
    state = random.getstate()
    random.seed(index)
    drawn = random.random()
    random.setstate(state)
    return drawn


def draws_after_a_fork(index: int) -> float:
    return draws_in_a_fork(index) + random.random()


def test_what_workers_draw_from_is_told_apart() -> None:
    assert drawn_by(lambda index: index) == ()
    assert drawn_by(lambda index: random.random(), workers=2) == ("python",)
    assert drawn_by(lambda index: float(np.random.normal())) == ("numpy",)
    assert drawn_by(lambda index: torch.rand(())) == ("torch",)
    assert only(lambda: list(DataLoader(DrawsAlong(), num_workers=1, multiprocessing_context="fork"))).worker_draws == (
        "python",
    )


def test_draws_from_own_generator_objects_are_not_theirs() -> None:
    assert drawn_by(lambda index: random.Random(index).random() + np.random.default_rng(index).random()) == ()


class WithGenerator(Dataset[float]):
    """Has a generator of its own, which draws or does not."""

    def __init__(self, rng: Any, draws: bool = True) -> None:
        self.rng, self.draws = rng, draws

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return float(self.rng.random()) if self.draws else 0.0


def seeds_its_own(worker: int) -> None:
    torch.utils.data.get_worker_info().dataset.rng.seed(worker)  # type: ignore[union-attr]


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, random.Random])
def test_a_generator_that_draws_in_workers_alone_is_found(make: Callable[[], Any]) -> None:
    def found(*, draws: bool, init: Callable[[int], None] | None = None) -> list[int]:
        def epoch() -> None:
            data = WithGenerator(make(), draws)
            list(DataLoader(data, num_workers=2, multiprocessing_context="fork", worker_init_fn=init))

        return [made.count for made in record(epoch).trace.own_generators]

    assert found(draws=True) == [1]
    assert found(draws=False) == []
    assert found(draws=True, init=lambda _: None) == [1]
    if make is not np.random.default_rng:
        assert found(draws=True, init=seeds_its_own) == []


def test_a_generator_that_draws_in_late_workers_alone_is_found() -> None:
    def epochs() -> None:
        data = WithGenerator(np.random.default_rng(), draws=False)
        for data.draws in (False, True):
            list(DataLoader(data, num_workers=1, multiprocessing_context="fork"))

    (made,) = record(epochs).trace.own_generators
    assert made.location.endswith(f":{line_of(epochs, 'default_rng')}")


def test_a_seed_after_workers_drew_comes_too_late() -> None:
    def epoch() -> None:
        data = WithGenerator(np.random.RandomState())
        list(DataLoader(data, num_workers=1, multiprocessing_context="fork"))
        data.rng.seed(0)

    assert [made.count for made in record(epoch).trace.own_generators] == [1]


class Stops(OwnOrder):
    def __iter__(self) -> Iterator[int]:
        raise LookupError("before a worker starts")


@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("make", [np.random.default_rng, random.Random])
def test_whether_a_generator_draws_in_workers_that_are_not_forked_is_unknown(make: Callable[[], Any]) -> None:
    def epoch(*, method: str = "spawn", draws_here: bool = False) -> tuple[WithGenerator, Any]:
        data, later = WithGenerator(make()), make
        loader = DataLoader(data, None, sampler=Stops(), num_workers=1, multiprocessing_context=method)
        with pytest.raises(LookupError):
            iter(loader)
        if draws_here:
            data[0]
        return data, later()

    def verdicts(function: Callable[[], object]) -> list[Verdict]:
        found = judge(record(function).trace).findings
        return [finding.verdict for finding in found if finding.rule.endswith("-generator-objects")]

    assert verdicts(epoch) == [Verdict.UNKNOWN]
    assert verdicts(lambda: epoch(draws_here=True)) == [Verdict.NONDETERMINISTIC]
    assert verdicts(lambda: epoch(method="fork")) == []


def test_draws_after_the_program_seeded_in_the_worker_are_its_own_affair() -> None:
    assert drawn_by(seeds_then_draws, workers=2) == ()
    assert drawn_by(draws_in_a_fork) == ()
    assert drawn_by(draws_then_seeds) == ("python",)
    assert drawn_by(draws_after_a_fork) == ("python",)


def test_workers_that_live_on_are_watched_in_every_epoch() -> None:
    calls = iter(range(10))

    def late(index: int) -> float:
        return random.random() if next(calls) > 3 else 0.0

    def run() -> None:
        loader = DataLoader(Draws(late), num_workers=1, multiprocessing_context="fork", persistent_workers=True)
        for _ in range(2):
            list(loader)

    assert only(run).worker_draws == ("python",)


def test_a_worker_that_fails_says_so_and_what_it_drew() -> None:
    def fails(index: int) -> float:
        random.random()
        raise LookupError("its own")

    def run() -> None:
        with pytest.raises(LookupError, match="its own") as caught:
            list(DataLoader(Draws(fails), num_workers=1, multiprocessing_context="fork"))
        # Found by the garbage collector, the loader's queue would close before it says that its worker shall end, and
        # that worker be awaited for five seconds.
        traceback.clear_frames(caught.tb)

    assert only(run).worker_draws == ("python",)


def test_each_loader_has_its_own_draws() -> None:
    def run() -> None:
        quiet = DataLoader(Draws(float), num_workers=1, multiprocessing_context="fork")
        noisy = DataLoader(Noisy(), num_workers=1, multiprocessing_context="fork")
        for _ in zip_longest(quiet, noisy):
            pass

    quiet, noisy = loaders(run)
    assert (quiet.worker_draws, noisy.worker_draws) == ((), ("python", "numpy", "torch"))


@pytest.mark.slow
def test_spawned_workers_start_under_a_recorder_as_ever() -> None:
    tracer = record(lambda: list(DataLoader(NUMBERS, num_workers=1, multiprocessing_context="spawn")))
    (found,) = tracer.trace.loaders
    assert (found.start_method, found.workers_seen, found.worker_draws) == ("spawn", False, ())


def by_the_clock(worker: int) -> None:
    np.random.seed(int(time.time()) + worker)


def by_entropy(worker: int) -> None:
    np.random.seed()


def by_torchs_seed(worker: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)


def by_a_draw_of_its_own(worker: int) -> None:
    np.random.seed(random.randint(0, 99) + worker)


def by_a_constant(worker: int) -> None:
    np.random.seed(7 + worker)


def by_the_machine(worker: int) -> None:
    torch.seed()


class Augmented(Dataset[float]):
    """Each sample is what ``draw`` gives."""

    def __init__(self, draw: Callable[[int], Any]) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return float(self.draw(index))


def findings_of_workers(draw: Callable[[int], Any], init: Callable[[int], None] | None = None) -> list[tuple[str, str]]:
    """The rules and lines of what is found of draws in two forked workers."""

    def epoch() -> None:
        torch.manual_seed(1)
        data = Augmented(draw)
        list(DataLoader(data, num_workers=2, worker_init_fn=init, multiprocessing_context="fork"))

    found = judge(record(epoch).trace).findings
    return [(finding.rule, finding.location) for finding in found if finding.verdict is not Verdict.SEEDED]


def of_all(_: int) -> float:
    return random.random() + float(np.random.random()) + float(torch.rand(()))


@pytest.mark.parametrize(
    ("init", "rule"),
    [
        (by_the_clock, "environment-numpy-generator"),
        (by_entropy, "environment-numpy-generator"),
        (by_the_machine, "environment-torch-generator"),
        (by_torchs_seed, ""),
        (by_a_draw_of_its_own, ""),  # torch seeded Python's generator in the worker
        (by_a_constant, ""),
    ],
)
def test_a_worker_that_seeds_at_random_draws_other_numbers(init: Callable[[int], None], rule: str) -> None:
    found = findings_of_workers(of_all, init)
    assert [name for name, _ in found] == [rule] * bool(rule)
    assert all(place.endswith(f":{init.__code__.co_firstlineno + 1}") for _, place in found)
    assert findings_of_workers(float, init) == []  # nothing is drawn


def with_numpys(seed: Any = None) -> float:
    return float(np.random.default_rng(seed).random())


def with_pythons(seed: Any = None) -> float:
    return random.Random(seed).random()


def with_torchs(seed: Any = None) -> torch.Tensor:
    generator = torch.Generator()
    generator.seed() if seed is None else generator.manual_seed(seed)
    return torch.rand((), generator=generator)


def with_the_systems(seed: Any = None) -> float:
    return random.SystemRandom().random()


def seeded_by_entropy(index: int) -> float:
    random.seed(os.urandom(8))
    return random.random()


OBJECTS = "environment-numpy-generator-objects", "environment-python-generator-objects"


@pytest.mark.parametrize(
    ("draw", "rule"),
    [
        (lambda _: with_numpys(), OBJECTS[0]),
        (lambda _: np.random.RandomState().rand(), OBJECTS[0]),
        (lambda _: with_numpys(time.time_ns()), OBJECTS[0]),
        (lambda _: with_pythons(), OBJECTS[1]),
        (with_the_systems, OBJECTS[1]),
        (lambda _: with_torchs(), "environment-passed-generator"),
        (seeded_by_entropy, "environment-python-generator"),
        (with_numpys, ""),
        (with_pythons, ""),
        (with_torchs, ""),
        (lambda _: np.random.default_rng() is None, ""),
    ],
)
def test_what_a_worker_makes_without_a_seed_is_found_where_it_draws(draw: Callable[[int], Any], rule: str) -> None:
    found = findings_of_workers(draw)
    assert [name for name, _ in found] == [rule] * bool(rule)
    assert all("test_loaders.py:" in place for _, place in found)


def test_what_late_workers_make_is_found_once() -> None:
    def epochs() -> None:
        data = Augmented(float)
        for data.draw in (float, float, lambda _: with_numpys(), lambda _: with_numpys()):
            list(DataLoader(data, num_workers=1, multiprocessing_context="fork"))

    (made,) = record(epochs).trace.own_generators
    assert (made.location.rpartition(":")[2], made.count) == (str(line_of(with_numpys, "default_rng")), 2)


class WithTorchs(Augmented):
    """Draws from a ``torch.Generator`` of its own, which its copies in workers do too."""

    def __init__(self, draws: bool = True) -> None:
        self.generator = torch.Generator()
        self.draws = draws

    def __getitem__(self, index: int) -> float:
        return float(torch.rand((), generator=self.generator)) if self.draws else 0.0


@pytest.mark.parametrize(
    ("seed", "count"),
    [
        (lambda made: made.seed(), 1),
        (lambda made: made.manual_seed(time.time_ns()), 1),
        (lambda made: made.set_state(torch.Generator().get_state()), 0),
        (lambda made: (made.seed(), made.manual_seed(3)), 0),
        (lambda made: (made.seed(), torch.rand(1, generator=made), made.manual_seed(3)), 0),
        (lambda made: None, 0),
    ],
)
def test_a_generator_of_torchs_that_draws_in_workers_alone_is_found(seed: Callable[[Any], object], count: int) -> None:
    def epoch(draws: bool) -> None:
        data = WithTorchs(draws)
        seed(data.generator)
        torch.rand(1, generator=data.generator)
        list(DataLoader(data, num_workers=2, multiprocessing_context="fork"))

    made = record(lambda: epoch(True)).trace.own_generators
    assert [(each.kind.value, each.count) for each in made] == [("passed", 1)] * count
    assert record(lambda: epoch(False)).trace.own_generators == ()
