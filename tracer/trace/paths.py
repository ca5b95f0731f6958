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
    if path.exists():
        return {}
    ending = next((ending for ending in (".json.gz", ".json") if path.name.endswith(ending)), path.suffix)
    start = f"{path.name.removesuffix(ending)}.rank"
    ranks = {}
    for beside in path.parent.glob(f"{glob.escape(start)}*{ending}"):
        number = beside.name.removeprefix(start).removesuffix(ending)
        if number.isdecimal():
            ranks[int(number)] = beside
    return {number: ranks[number] for number in sorted(ranks)}


def values_of_ranks(trace: str | os.PathLike[str]) -> list[Path]:
    """The file of values beside a trace; of a name that several ranks were given, those of the ranks in order."""
    path = values_path(trace)
    ranks = {}
    if not path.exists():
        for beside in path.parent.glob(f"{glob.escape(path.stem)}.rank*.values"):
            number = beside.stem.rpartition(".rank")[2]
            if number.isdecimal():
                ranks[int(number)] = beside
    return [ranks[number] for number in sorted(ranks)] or [path]
