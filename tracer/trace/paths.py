"""Where the files lie that stand beside a trace. Imports no NumPy: a script that is recorded loads that itself."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path

#: Above this number, the last part of a role tells processes that share one: those that C code started.
LOWEST_SHARED = 1000


def inputs_path(trace: str | os.PathLike[str]) -> Path:
    """The file of kept inputs beside a trace: ``run.inputs.safetensors`` for ``run.json``."""
    return values_path(trace).with_suffix(".inputs.safetensors")


def values_path(trace: str | os.PathLike[str]) -> Path:
    """The file of values beside a trace: ``run.values`` for ``run.trace.json``, ``run.json.gz`` or itself."""
    path = Path(trace)
    for suffix in (".gz", ".json", ".trace"):
        if path.suffix == suffix:
            path = path.with_suffix("")
    return path if path.suffix == ".values" else path.with_name(f"{path.name}.values")


def child_path(trace: str | os.PathLike[str], role: str) -> Path:
    """The trace of a child process beside its parent's: ``run.child-2.json.gz`` for ``run.json.gz``."""
    path = Path(trace)
    ending = next((ending for ending in (".json.gz", ".json") if path.name.endswith(ending)), path.suffix)
    return path.with_name(f"{path.name.removesuffix(ending)}.child-{role}{ending}")


def files_of_children(trace: str | os.PathLike[str]) -> Iterator[Path]:
    """The traces of child processes beside their parent's, and their files of values."""
    path = Path(trace)
    of_any = child_path(glob.escape(path.name), "*")
    for pattern in (of_any, values_path(of_any)):
        yield from path.parent.glob(pattern.name)


def traces_of_ranks(trace: str | os.PathLike[str]) -> dict[int, Path]:
    """The traces by rank of a name that several ranks were given, in order; empty where it is a file itself."""
    path = Path(trace)
    ending = next((ending for ending in (".json.gz", ".json") if path.name.endswith(ending)), path.suffix)
    return _of_ranks(path, ending)


def values_of_ranks(trace: str | os.PathLike[str]) -> list[Path]:
    """The file of values beside a trace; of a name that several ranks were given, those of the ranks in order."""
    path = values_path(trace)
    return list(_of_ranks(path, ".values").values()) or [path]


def _of_ranks(path: Path, ending: str) -> dict[int, Path]:
    if path.exists():
        return {}
    start = f"{path.name.removesuffix(ending)}.rank"
    beside = path.parent.glob(f"{glob.escape(start)}*{ending}")
    numbers = {file: file.name.removeprefix(start).removesuffix(ending) for file in beside}
    ranks = {int(number): file for file, number in numbers.items() if number.isdecimal()}
    return dict(sorted(ranks.items()))
