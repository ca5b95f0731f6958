"""The working directory as the first run found it, kept so that later runs can start in a fresh copy of it.

What is small is copied before the first run. What is large is linked in a copy, as long as it is what it was; folders
of version control and of environments are linked as a whole.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from tracer.errors import UsageError
from tracer.plain import say
from tracer.runner.script import Task
from tracer.trace.file import files_of_children, values_path
from tracer.trace.lines import files_of_lines

#: Entries of a folder that are looked at.
MOST_ENTRIES = 20_000
#: Folders that no training writes to: of version control, of environments, of Python's tools.
NO_RESULTS = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"}
)
#: Bytes of a file, and of all files, that are copied.
MOST_OF_A_FILE, MOST_OF_ALL = 8 << 20, 64 << 20
_IGNORED = frozenset({".pytest_cache"})


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


class FolderEntry(NamedTuple):
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


def entries_of(folder: str | os.PathLike[str], walk: Walk) -> Iterator[FolderEntry]:
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
                yield FolderEntry(
                    path,
                    is_folder,
                    stat.S_ISREG(status.st_mode),
                    is_closed,
                    (0, 0, 0) if is_folder else _stamp(status),
                )
                if count > MOST_ENTRIES:
                    return
                if is_folder and not is_closed:
                    folders.append(path)


class Snapshot:
    """The working directory as it stands now; what is kept of it and its copies stand in ``root``."""

    def __init__(
        self,
        folder: Path,
        output: Path,
        root: Path,
        *,
        most_of_a_file: int = MOST_OF_A_FILE,
        most_of_all: int = MOST_OF_ALL,
    ) -> None:
        self.folder, self.root = folder, root
        self._walk = Walk(str(output), _IGNORED, enters_mounts=False)
        self._saved = self.root / "found"
        self._copies = 0
        entries = list(entries_of(self.folder, self._walk))
        self.is_too_large = len(entries) > MOST_ENTRIES
        self._entries_found = {entry.path: entry for entry in entries[:MOST_ENTRIES]}
        room = 0 if self.is_too_large else most_of_all
        for entry in self._entries_found.values():
            here, there, size = self.folder / entry.path, self._saved / entry.path, entry.stamp[0]
            if self.is_too_large or entry.is_folder or entry.is_closed or size > min(room, most_of_a_file):
                continue
            with suppress(OSError):
                there.parent.mkdir(parents=True, exist_ok=True)
                if here.is_symlink():
                    there.symlink_to(os.path.join(os.path.dirname(here), os.readlink(here)))
                elif here.is_file():
                    shutil.copy2(here, there)
                    room -= size

    def why_not_copied(self) -> str:
        """Return why a run in a copy shows nothing, or cannot be made; empty if it can."""
        if self.is_too_large:
            return "the working directory holds too many files to be copied"
        if lost := self.lost():
            return f"{lost} was changed by a run, and is too large to be put back"
        now = {entry.path: entry for entry in entries_of(self.folder, self._walk) if not entry.is_folder}
        then = {path: entry for path, entry in self._entries_found.items() if not entry.is_folder}
        return "" if now != then else "no run changed anything in the working directory"

    def had(self, path: str) -> bool:
        """Return whether the folder may have had this file as it was found."""
        return self.is_too_large or path in self._entries_found

    def lost(self) -> str:
        """A file that a run changed, and that is too large to have been kept; empty where there is none."""
        for entry in self._entries_found.values():
            if not (entry.is_folder or entry.is_closed or os.path.lexists(self._saved / entry.path)):
                stamp = (0, 0, 0)
                with suppress(OSError):
                    stamp = _stamp((self.folder / entry.path).lstat())
                if stamp != entry.stamp:
                    return entry.path
        return ""

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


def within(task: Task, folder: Path) -> Task:
    """``task`` in a copy of the working directory: an absolute path to the script becomes the copy's."""
    here = os.path.join(os.getcwd(), "")
    if task.as_module or not task.target.startswith(here):
        return task
    return msgspec.structs.replace(task, target=os.path.join(folder, task.target[len(here) :]))


def temporary_of(copy: Path) -> Path:
    return copy.with_name("t")


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return (status.st_size, status.st_mtime_ns, status.st_ino)


#: The recordings, and the file that names the folder which they belong into.
_RECORDINGS, _DESTINATION = "recordings", "destination"


@contextmanager
def scratch_of(destination: Path) -> Iterator[Path]:
    """A folder outside the working directory; in the end ``destination`` has what lies in ``recordings_in`` it."""
    scratch = Path(tempfile.mkdtemp(prefix="tracer-"))
    try:
        recordings_in(scratch).mkdir()
        (scratch / _DESTINATION).write_text(os.path.abspath(destination), encoding="utf-8")
        yield scratch
    finally:
        leave(scratch)


def clear_output(folder: Path, name: str, *runs: str) -> None:
    """Make ``folder`` and remove what an earlier job of this name left there: it would be taken for this one's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in (
            folder / f"{name}.json",
            folder / f"{name}.html",
            *(each for of in runs for each in folder.glob(of)),
        ):
            if left.is_file() or left.is_symlink():
                left.unlink()
    except OSError as problem:
        raise UsageError(f"cannot make {folder}: {problem.strerror}", hint="choose another folder with -o") from problem


def recordings_in(scratch: Path) -> Path:
    return scratch / _RECORDINGS


def remove_run(trace: Path) -> None:
    """Remove the files that a run left: its trace, its file of values, and those of its child processes."""
    for left in (trace, values_path(trace), *files_of_children(trace), *files_of_lines(trace)):
        left.unlink(missing_ok=True)


def leave(scratch: Path) -> None:
    """Move the recordings to where they belong, and remove the folder; they stay, and it says so, if they cannot go."""
    recordings = recordings_in(scratch)
    try:
        destination = (scratch / _DESTINATION).read_text(encoding="utf-8")
        os.makedirs(destination, exist_ok=True)
        for entry in recordings.iterdir():
            shutil.move(entry, os.path.join(destination, entry.name))
    except OSError as problem:
        if recordings.exists() and any(recordings.iterdir()):
            say(f"tracer: the recordings stay in {recordings}: {problem.strerror or problem}")
            return
    shutil.rmtree(scratch, ignore_errors=True)
