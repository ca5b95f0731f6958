"""A root that is a loader's batch says whether the indices agree, and what its workers drew."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, Subset

from tracer import DeterminismTracer
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Loading, Root, read_recording

HERE = "tests/divergence/test_loading.py"


class Plain(Dataset[torch.Tensor]):
    """Draws nothing."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.full(2, float(index)))


class Noisy(Plain):
    """Draws from Python's global generator."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), index + random.random())


class Arrays(Plain):
    """Draws from NumPy's."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.full(2, index + np.random.rand()))


class Entropy(Plain):
    """Takes in what no seed gives."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), float(int.from_bytes(os.urandom(3), "big")))


class Stream(IterableDataset[torch.Tensor]):
    """Draws, and has no indices."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(4):
            yield torch.full((2,), number + random.random())


def noisy_pairs(samples: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.stack(samples), torch.zeros(len(samples))


def reseeded(worker: int) -> None:
    """Workers that begin otherwise in each run."""
    random.seed(os.urandom(8))


def runs(folder: Path, make: Callable[[], Any]) -> Root:
    """The root of two runs that iterate what ``make`` makes; torch's generator alone is the same in both."""
    for number in range(2):
        torch.manual_seed(0)
        np.random.seed(number)
        with DeterminismTracer(values=True) as tracer:
            for batch in make():
                (batch[0] if isinstance(batch, (tuple, list)) else batch).sum()
        tracer.save(folder / f"{number}.trace.json")
    root = compare_recordings(*(read_recording(folder / f"{number}.trace.json") for number in range(2))).first
    assert root is not None
    assert root.cause is RootCause.INPUT_DATA
    return root


def loading(root: Root) -> Loading:
    assert root.loading is not None
    return root.loading


def test_without_workers_the_generator_that_stood_otherwise_is_named(tmp_path: Path) -> None:
    root = runs(tmp_path, lambda: DataLoader(Arrays(), batch_size=2))
    assert loading(root).indices_agree is True
    assert "loads batch 0 here; the sampler's indices agree; it is loaded in the training process" in root.why
    assert "in Arrays.__getitem__ (" in root.why
    assert root.why.endswith(", where NumPy's `numpy.random` was in another state")


class Shuffled(Sampler[int]):
    """Orders that Python's generator draws, from the epoch on that it is told."""

    def __init__(self, first: int = 0) -> None:
        self.first, self.epoch = first, 0

    def __iter__(self) -> Iterator[int]:
        order = list(range(8))
        if self.epoch >= self.first:
            random.shuffle(order)
        self.epoch += 1
        return iter(order)

    def __len__(self) -> int:
        return 8


def test_another_order_is_told_from_other_samples(tmp_path: Path) -> None:
    root = runs(tmp_path, lambda: DataLoader(Subset(Plain(), range(8)), batch_size=2, sampler=Shuffled()))
    assert loading(root).indices_agree is False
    assert "the sampler's indices differ" in root.why


@pytest.mark.parametrize("workers", [0, 1])
def test_the_second_epochs_indices_are_held_against_the_second_epochs(tmp_path: Path, workers: int) -> None:
    def make() -> Any:
        loader = DataLoader(Plain(), batch_size=2, sampler=Shuffled(1), num_workers=workers)
        yield from loader
        yield from loader

    assert loading(runs(tmp_path, make)).indices_agree is False


@pytest.mark.parametrize("dataset", [Noisy, Stream])
def test_workers_seeds_and_methods_are_said_and_what_they_draw_is_said_to_be_unseen(
    tmp_path: Path, dataset: Callable[[], Any]
) -> None:
    root = runs(tmp_path, lambda: DataLoader(dataset(), batch_size=2, num_workers=1, worker_init_fn=reseeded))
    assert loading(root).indices_agree is (None if dataset is Stream else True)
    assert ("its data set gives the order itself" in root.why) == (dataset is Stream)
    name = "Stream.__iter__" if dataset is Stream else "Noisy.__getitem__"
    assert f"what its workers drew in {name} ({HERE}:" in root.why
    assert "its workers' seeds agree" in root.why


def test_a_batch_of_several_tensors_that_came_in_another_order_is_found_elsewhere(tmp_path: Path) -> None:
    orders = iter([[0, 1, 2], [1, 0, 2]])
    root = runs(tmp_path, lambda: DataLoader(Plain(), sampler=next(orders), collate_fn=noisy_pairs, num_workers=1))
    assert root.name.endswith(", [0]")
    assert (root.first, root.second) == ("0", "1")
    assert loading(root).indices_agree is False
