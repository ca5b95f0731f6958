"""Where a subcommand's output goes: checked before the work starts, and printable on any terminal."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tracer.errors import TracerError, UsageError


def check_writable(path: Path, *, error: type[TracerError] = UsageError) -> None:
    """Raise ``error`` if ``path`` cannot become a file.

    Called before the work whose result it will hold: a script that trained for hours must not find out then.
    """
    if path.is_dir():
        raise error(f"{path} is a folder", hint="name a file")
    if path.exists() and not path.is_file():
        return
    check_folder(path.parent, error=error)


def check_folder(folder: Path, *, error: type[TracerError] = UsageError) -> None:
    """Raise ``error`` if no file can be made in ``folder``, or in what stands where it will be made.

    A file is really made, since permission bits say little to root and on a read-only disk; it has no name,
    and nothing else is made, so that a run that is refused leaves nothing.
    """
    try:
        standing = next((parent for parent in (folder, *folder.parents) if parent.exists()), folder)
        with tempfile.TemporaryFile(dir=standing):
            pass
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error(f"cannot write in {folder}: {reason}", hint="choose another folder") from problem


def show(text: str) -> None:
    """Print ``text`` on standard output; what its encoding cannot spell becomes a question mark."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    if not text.endswith("\n"):
        sys.stdout.write("\n")
