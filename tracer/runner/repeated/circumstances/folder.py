"""The working directory as the first run found it, kept so that later runs can start in a fresh copy of it.

What is small is copied before the first run. What is large is linked in a copy, as long as it is what it was; folders
of version control and of environments are linked as a whole.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from tracer.runner.repeated.walking import MOST_ENTRIES, Walk, entries_of

#: Bytes of a file, and of all files, that are copied.
MOST_OF_A_FILE, MOST_OF_ALL = 8 << 20, 64 << 20
_IGNORED = frozenset({".pytest_cache"})


class Snapshot:
    """The working directory as it stands now; what is kept of it and its copies stand in ``root``."""

    def __init__(self, folder: Path, output: Path, root: Path) -> None:
        self.folder = folder
        self._walk = Walk(str(output), _IGNORED, enters_mounts=False)
        self.root = root
        self._saved = self.root / "found"
        self._copies = 0
        entries = list(entries_of(self.folder, self._walk))
        self._is_too_large = len(entries) > MOST_ENTRIES
        self._entries_found = {entry.path: entry for entry in entries[:MOST_ENTRIES]}
        if not self._is_too_large:
            self._save()

    def why_not_copied(self) -> str:
        """Return why a run in a copy shows nothing, or cannot be made; empty if it can."""
        if self._is_too_large:
            return "the working directory holds too many files to be copied"
        if lost := self._lost():
            return f"{lost} was changed by a run, and is too large to be put back"
        return "" if self._changed() else "no run changed anything in the working directory"

    def _changed(self) -> bool:
        now = {entry.path: entry for entry in entries_of(self.folder, self._walk) if not entry.is_folder}
        then = {path: entry for path, entry in self._entries_found.items() if not entry.is_folder}
        return now != then

    def _lost(self) -> str:
        """A file that a run changed, and that is too large to have been kept; empty where there is none."""
        return next(
            (
                entry.path
                for entry in self._entries_found.values()
                if not (entry.is_folder or entry.is_closed or os.path.lexists(self._saved / entry.path))
                and _stamp(self.folder / entry.path) != entry.stamp
            ),
            "",
        )

    def copy(self) -> Path:
        """A fresh copy of the folder as it was found; beside it, an empty folder for temporary files."""
        self._copies += 1
        target = self.root / str(self._copies) / "d"
        target.mkdir(parents=True)
        temporary_of(target).mkdir()
        for entry in self._entries_found.values():
            here, there, saved = self.folder / entry.path, target / entry.path, self._saved / entry.path
            if entry.is_folder and not entry.is_closed:
                there.mkdir(exist_ok=True)
            elif saved.is_symlink() or saved.exists():
                shutil.copy2(saved, there, follow_symlinks=False)
            else:
                there.symlink_to(here)
        return target

    def _save(self) -> None:
        """Copy what is small, while there is room."""
        room = MOST_OF_ALL
        for entry in self._entries_found.values():
            here, there = self.folder / entry.path, self._saved / entry.path
            size = entry.stamp[0]
            if entry.is_folder or entry.is_closed or size > min(room, MOST_OF_A_FILE):
                continue
            with suppress(OSError):
                there.parent.mkdir(parents=True, exist_ok=True)
                if here.is_symlink():
                    there.symlink_to(os.path.join(os.path.dirname(here), os.readlink(here)))
                elif here.is_file():
                    shutil.copy2(here, there)
                    room -= size


def temporary_of(copy: Path) -> Path:
    """The folder for temporary files of a run that starts in ``copy``."""
    return copy.with_name("t")


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.lstat()
    except OSError:
        return (0, 0, 0)
    return (status.st_size, status.st_mtime_ns, status.st_ino)
