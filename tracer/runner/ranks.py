"""Which process of a distributed job this is, and the file of its trace; several ranks on fake process groups."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
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

#: Names the file that a rank's process writes its process groups to.
_GROUPS_TO = "TRACER_GROUPS_TO"
#: Ranks along one process group that are all recorded where its first, middle and last ones differ.
ALONG = 16
#: Ranks that are recorded without being named.
MOST = 64

ProgramKey = frozenset[tuple[Any, ...]]


class RankRun(msgspec.Struct, frozen=True):
    code: int
    program: ProgramKey
    """Its calls with their counts, by op, phase, module, place and shapes."""
    groups: tuple[tuple[int, ...], ...]
    """Ranks of each process group that it is in."""


def run_ranks(ranks: Sequence[int] | None, world_size: int, line: Sequence[str], output: Path) -> int:
    """Run ``tracer run LINE`` as each of ``ranks``, or as those that stand in different positions (``None``).

    Returns the first exit code that is not 0. Says which were recorded, and which of them have the same program.
    """
    runs: dict[int, RankRun] = {}

    def run(rank: int) -> RankRun:
        if rank not in runs:
            runs[rank] = _run(rank, world_size, line, output)
        return runs[rank]

    if ranks is None:
        distinct_ranks(world_size, run)
    else:
        for rank in ranks:
            run(rank)
    say(_closing_line(runs, world_size, output))
    return next((done.code for done in runs.values() if done.code), 0)


def _run(rank: int, world_size: int, line: Sequence[str], output: Path) -> RankRun:
    command = [sys.executable, "-m", "tracer", "run", "--world-size", str(world_size), "--rank", str(rank), *line]
    with TemporaryDirectory(prefix="tracer-") as folder:
        told = Path(folder, "groups.json")
        code = subprocess.run(command, env={**os.environ, _GROUPS_TO: str(told)}).returncode
        groups = json.loads(told.read_text()) if told.is_file() else []
    return RankRun(code, _program(path_of_rank(output, Rank(rank, world_size))), tuple(map(tuple, groups)))


def _program(path: Path) -> ProgramKey:
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


def groups_file() -> Path | None:
    """Return the file for this process's groups, removed from the environment, so that no script sees it."""
    path = os.environ.pop(_GROUPS_TO, "")
    return Path(path) if path else None


def say_groups(groups: Sequence[Sequence[int]], path: Path | None) -> None:
    """Write the ranks of each fake process group that the script made to ``path``; say so if it made none."""
    if not groups:
        why = "it runs alone, or reads its rank elsewhere than in RANK and WORLD_SIZE"
        say(f"tracer: the script made no process group: {why}")
    if path is not None:
        path.write_text(json.dumps(groups))


def distinct_ranks(world_size: int, run: Callable[[int], RankRun]) -> None:
    """Run ranks in different positions: the first, a middle and the last one of each process group of rank 0.

    Where those differ along a group, all along it are run, or some if there are many, together with those along every
    other such group; and the last rank of all. Bounded by ``MOST``.
    """
    start = run(0)
    axes = _axes(start.groups) or [tuple(range(world_size))]
    differing = []
    for axis in axes:
        if any(run(axis[at]).program != start.program for at in _spread(len(axis))):
            along = range(len(axis)) if len(axis) <= ALONG else [0, *_spread(len(axis))]
            differing.append([axis[at] for at in along])
    for corner in itertools.islice(itertools.product(*differing), MOST):
        if sum(corner) < world_size:
            run(sum(corner))
    run(world_size - 1)


def _axes(groups: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Groups of rank 0 that no other one is part of: the dimensions of a mesh, without what was flattened."""
    axes: list[tuple[int, ...]] = []
    for group in sorted({tuple(sorted(group)) for group in groups if len(group) > 1 and 0 in group}, key=len):
        if not any(set(axis) <= set(group) for axis in axes):
            axes.append(group)
    return axes


def _spread(size: int) -> list[int]:
    return sorted({1, size // 2, size - 1} - {0})


def _closing_line(runs: dict[int, RankRun], world_size: int, output: Path) -> str:
    alike: dict[ProgramKey, list[int]] = {}
    for rank, done in sorted(runs.items()):
        alike.setdefault(done.program, []).append(rank)
    programs = "; ".join(f"{'ranks' if len(ranks) > 1 else 'rank'} {_named(ranks)}" for ranks in alike.values())
    how = "have the same program" if len(alike) == 1 else f"have {len(alike):,} programs ({programs})"
    others = world_size - len(runs)
    rest = f"; of the other {others:,} nothing is known" if others else ""
    pattern = path_of_rank(output, Rank(0, world_size)).name.replace(".rank0.", ".rank*.")
    return (
        f"tracer: {len(runs):,} of {world_size:,} ranks recorded ({_named(sorted(runs))}), which {how}{rest};"
        f" next: tracer report {output.with_name(pattern)}"
    )


def _named(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))
