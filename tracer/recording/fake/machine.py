"""The machine, and the rank of a job, that a run on fake tensors stands for. Imports no torch."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from tracer.errors import UsageError

_SPELLING = re.compile(r"cpu|cuda:([1-9]\d?)\.(\d)", re.ASCII)


class FakeMachine(msgspec.Struct, frozen=True):
    """The GPU that ``torch.cuda`` describes: ``Machine.parse("cuda:8.0")``; without a capability there is no GPU."""

    capability: tuple[int, int] | None = None
    """Compute capability of its GPUs; ``None`` for a machine without any."""
    devices: int = 1
    """GPUs of this machine."""

    @classmethod
    def parse(cls, text: str, *, devices: int = 1) -> FakeMachine:
        """Read ``cpu`` or ``cuda:8.0``. Raises ``UsageError`` for anything else."""
        match = _SPELLING.fullmatch(text)
        if match is None:
            raise UsageError(f"--as {text!r} is no machine", hint="write cpu, or cuda with a capability: --as cuda:8.0")
        return cls((int(match[1]), int(match[2])) if match[1] else None, devices)

    def __str__(self) -> str:
        return "cpu" if self.capability is None else "cuda:{}.{}".format(*self.capability)


#: Ranks on one machine, as far as the size of the job can be divided so.
_ON_ONE_MACHINE = 8
#: More ranks than any job has: lists of all ranks are made.
_MOST_RANKS = 1 << 20
_RANKS = re.compile(r"\d+(,\d+)*", re.ASCII)


class OneRank(msgspec.Struct, frozen=True):
    """One rank of a job: ``OneRank.of(17, 1024)``."""

    rank: int
    world_size: int
    groups: list[tuple[int, ...]] = []
    """Ranks of each process group that a run as this rank makes."""

    @classmethod
    def of(cls, rank: int, world_size: int) -> OneRank:
        """Raises ``UsageError`` if there is no such rank."""
        if not 0 < world_size <= _MOST_RANKS:
            raise UsageError(f"no job has {world_size} ranks", hint=f"choose a world size from 1 to {_MOST_RANKS:,}")
        if not 0 <= rank < world_size:
            message = f"there is no rank {rank} in a world size of {world_size}"
            raise UsageError(message, hint=f"choose a rank from 0 to {world_size - 1}")
        return cls(rank, world_size)

    @property
    def local_world_size(self) -> int:
        """Ranks on its machine: 8, or the largest divisor of 8 that divides the world size."""
        return math.gcd(_ON_ONE_MACHINE, self.world_size)

    def variables(self) -> dict[str, str]:
        """The environment variables that ``torchrun`` sets for it."""
        local = self.local_world_size
        numbers = {
            "RANK": self.rank,
            "WORLD_SIZE": self.world_size,
            "LOCAL_RANK": self.rank % local,
            "LOCAL_WORLD_SIZE": local,
            "GROUP_RANK": self.rank // local,
            "GROUP_WORLD_SIZE": self.world_size // local,
            "ROLE_RANK": self.rank,
            "ROLE_WORLD_SIZE": self.world_size,
            "MASTER_PORT": 29500,
            "TORCHELASTIC_RESTART_COUNT": 0,
            "TORCHELASTIC_MAX_RESTARTS": 0,
        }
        words = {"MASTER_ADDR": "127.0.0.1", "ROLE_NAME": "default", "TORCHELASTIC_RUN_ID": "none"}
        return {**{name: str(number) for name, number in numbers.items()}, **words}

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """``variables`` are set in the block, and as they were after it."""
        before = {name: os.environ.get(name) for name in self.variables()}
        os.environ.update(self.variables())
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def ranks_in(text: str, world_size: int) -> list[OneRank]:
    """Read ``0,17,1023``. Raises ``UsageError`` for anything else, and for a rank that does not exist."""
    if _RANKS.fullmatch(text) is None:
        raise UsageError(f"--rank {text!r} names no rank", hint="write a number, or several: --rank 0,17")
    numbers = dict.fromkeys(int(number) for number in text.split(","))
    return [OneRank.of(number, world_size) for number in numbers]
