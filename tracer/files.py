"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tracer.errors import TracerError


def write_whole(path: str | os.PathLike[str], data: bytes, *, error: type[TracerError] = TracerError) -> Path:
    """Write ``data`` to ``path`` through a neighbour that is renamed into place.

    A reader sees the old file or the new one, never half of it; what is not a plain file (``/dev/stdout``, a
    pipe) is written directly. Raises ``error`` in one line where the path cannot be written.
    """
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            if target.is_dir():
                raise error(f"{target} is a folder", hint="name a file")
            target.write_bytes(data)
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:80]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            os.chmod(temporary, _mode_of(target))
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error(f"cannot write {target}: {reason}", hint="choose another path") from problem
    return target


def _mode_of(target: Path) -> int:
    """The permission bits that ``target`` has, or that a new file gets under this process's umask."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask
