"""Which process of a distributed job this is, and the file of its trace; several ranks on fake process groups."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from tracer.errors import TraceError, UsageError
from tracer.plain import say


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


# --- several ranks on fake process groups, recorded one after another, each in a process of its own ----------------

_Program = frozenset[tuple[Any, ...]]
"""Calls with their counts, by op, phase, module, place and shapes."""


def run_ranks(ranks: Sequence[int], world_size: int, line: Sequence[str], output: Path) -> int:
    """Run ``tracer run LINE`` as each of ``ranks``; returns the first exit code that is not 0.

    Says which were recorded, and which of them have the same program.
    """
    codes, alike = [], dict[_Program, list[int]]()
    for rank in sorted(ranks):
        command = [sys.executable, "-m", "tracer", "run", "--world-size", str(world_size), "--rank", str(rank), *line]
        codes.append(subprocess.run(command).returncode)
        alike.setdefault(_program(path_of_rank(output, Rank(rank, world_size))), []).append(rank)
    programs = "; ".join(f"{'ranks' if len(of_one) > 1 else 'rank'} {_named(of_one)}" for of_one in alike.values())
    how = "have the same program" if len(alike) == 1 else f"have {len(alike):,} programs ({programs})"
    others = world_size - len(ranks)
    rest = f"; of the other {others:,} nothing is known" if others else ""
    pattern = path_of_rank(output, Rank(0, world_size)).name.replace(".rank0.", ".rank*.")
    say(
        f"tracer: {len(ranks):,} of {world_size:,} ranks recorded ({_named(sorted(ranks))}), which {how}{rest};"
        f" next: tracer report {output.with_name(pattern)}"
    )
    return next(filter(None, codes), 0)


def _program(path: Path) -> _Program:
    from tracer.trace import Trace

    try:
        calls = Trace.load(path).calls
    except TraceError:  # its process said why
        return frozenset()
    counts: Counter[tuple[Any, ...]] = Counter()
    for group in calls:
        shapes = tuple(getattr(argument, "shape", None) for argument in group.given.values())
        facts = tuple(sorted(group.facts.items()))
        counts[group.op, group.phase, group.module, group.location, shapes, facts] += group.count
    return frozenset((*key, count) for key, count in counts.items())


def _named(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))
