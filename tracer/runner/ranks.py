"""Which process of a distributed job this is, and the file of its trace."""

from __future__ import annotations

import os
from collections.abc import Mapping
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


def path_of_rank(path: Path, rank: Rank | None) -> Path:
    """``trace.json`` becomes ``trace.rank0.json`` for rank 0, so that no process overwrites another's trace."""
    if rank is None:
        return path
    name = path.name
    cut = next((len(name) - len(end) for end in (".json.gz", ".json") if name.endswith(end)), None)
    if cut is None:
        cut = len(path.stem)
    return path.with_name(f"{name[:cut]}.rank{rank.rank}{name[cut:]}")
