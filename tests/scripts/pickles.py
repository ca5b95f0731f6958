"""Pickle a class of ``__main__``, here and in a spawned process, as DataLoader workers and checkpoints do."""

import multiprocessing
import pickle
from dataclasses import dataclass


@dataclass
class Sample:
    """Something to send."""

    number: int


def double(sample):
    """Runs in the other process."""
    return Sample(2 * sample.number)


if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(Sample(1))) == Sample(1)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [Sample(1), Sample(2)]))
