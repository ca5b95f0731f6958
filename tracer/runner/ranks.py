"""Which process of a distributed job this is, and the file of its trace; several ranks on fake process groups."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import msgspec

from tracer.errors import UsageError


class Rank(msgspec.Struct, frozen=True):
    """A process of a job started by torchrun or a similar launcher."""

    rank: int
    world_size: int


def current_rank(environ: Mapping[str, str] = os.environ) -> Rank | None:
    """The rank from ``RANK`` and ``WORLD_SIZE``; ``None`` unless both are set to numbers."""
    try:
        return Rank(int(environ["RANK"]), int(environ["WORLD_SIZE"]))
    except (KeyError, ValueError):
        return None


def check_store(environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a job whose processes cannot connect: they would wait for each other until torch times out.

    ``torchrun --master-port 0`` opens a port of its own choice and tells its processes 0 (torch 2.13).
    """
    if "RANK" in environ and environ.get("MASTER_PORT", "").strip() == "0":
        raise UsageError(
            "MASTER_PORT is 0, where the processes of a job never meet",
            hint="name a port to torchrun, or use --standalone",
        )


def told_by_all(rank: Rank, key: str, number: int, goes_on: Callable[[], bool]) -> tuple[int, ...] | None:
    """Tell all ranks a number, and return what each of them told; ``None`` where they cannot be reached.

    They meet at the store of torchrun's agent, which outlives every run. Waits as long as ``goes_on`` says so.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    begun = f"tracer/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{key}"
    keys = [f"{begun}/{each}" for each in range(rank.world_size)]
    try:
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = TCPStore(address, port, is_master=False, timeout=timedelta(seconds=30))
        store.set(keys[rank.rank], str(number))
        while not store.check(keys):
            if not goes_on():
                return None
            time.sleep(0.1)
        return tuple(int(store.get(each)) for each in keys)
    except (KeyError, ValueError, RuntimeError):  # no address, or the agent is gone
        return None


def path_of_rank(path: Path, rank: Rank | None) -> Path:
    """``trace.json`` becomes ``trace.rank0.json`` for rank 0, so that no process overwrites another's trace."""
    if rank is None:
        return path
    name = path.name
    cut = next((len(name) - len(end) for end in (".json.gz", ".json") if name.endswith(end)), None)
    if cut is None:
        cut = len(path.stem)
    return path.with_name(f"{name[:cut]}.rank{rank.rank}{name[cut:]}")
