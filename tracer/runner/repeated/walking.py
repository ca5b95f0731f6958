"""What a folder holds, walked in one order up to a number of entries; what is left out of it is said as data."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

#: Entries of a folder that are looked at.
MOST_ENTRIES = 20_000
#: Folders that no training writes to: of version control, of environments, of Python's tools.
NO_RESULTS = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"}
)


class Walk(NamedTuple):
    """The rules of what a walk leaves out."""

    without: str
    """A folder of the tracer's own, and all in it."""
    ignored: frozenset[str] = frozenset()
    """Names of entries that are left out."""
    closed: frozenset[str] = NO_RESULTS
    """Names of folders that are not looked into; an environment of Python's is not either, whatever its name."""
    enters_mounts: bool = True
    """Whether other file systems are looked into."""


class Entry(NamedTuple):
    """A file, a link or a folder, below the one that is walked."""

    path: str
    """Relative to that one."""
    is_folder: bool
    is_file: bool
    """Whether it is a plain file, and no link."""
    is_closed: bool
    """Whether it is a folder that is not looked into."""
    stamp: tuple[int, int, int]
    """Of a file or a link: its size, the time of its last change and its inode, which differ if it was written."""


def entries_of(folder: str | os.PathLike[str], walk: Walk) -> Iterator[Entry]:
    """Yield the entries of ``folder``, folders before their contents; one more than ``MOST_ENTRIES`` if too many."""
    without = {os.path.abspath(walk.without), os.path.realpath(walk.without)}
    folders, count = [""], 0
    for inside in folders:
        try:
            with os.scandir(os.path.join(folder, inside)) as scanned:
                found = sorted(scanned, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            path = os.path.join(inside, entry.name)
            if entry.name in walk.ignored or os.path.join(folder, path) in without:
                continue
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                is_folder = stat.S_ISDIR(status.st_mode)
                is_closed = is_folder and (
                    entry.name in walk.closed
                    or os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
                    or (not walk.enters_mounts and os.path.ismount(entry.path))
                )
                count += 1
                yield Entry(
                    path,
                    is_folder,
                    stat.S_ISREG(status.st_mode),
                    is_closed,
                    (0, 0, 0) if is_folder else (status.st_size, status.st_mtime_ns, status.st_ino),
                )
                if count > MOST_ENTRIES:
                    return
                if is_folder and not is_closed:
                    folders.append(path)
