"""Reading a file that somebody else wrote, within bounds; writing one whole or not at all."""

from __future__ import annotations

import errno
import gc
import io
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tracer.errors import TracerError, reason_of

#: Bytes of a text that people write or review: a lock file, a configuration, a module. Anything larger is none.
MAX_TEXT = 32 * 1024 * 1024

_CHUNK = 1 << 20
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def open_plain(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a plain file to read it, without waiting. Raises ``OSError`` for what may never end: a device, a pipe."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind == stat.S_IFREG:
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise OSError(errno.EINVAL, f"it is {_KINDS.get(kind, 'a device')}, not a file", os.fspath(path))


def read_within(stream: io.BufferedIOBase, limit: int) -> bytes:
    """All bytes of ``stream``; ``OSError`` if they are more than ``limit``."""
    chunks: list[bytes] = []
    left = limit
    while chunk := stream.read(min(_CHUNK, left + 1)):
        if len(chunk) > left:
            raise OSError(errno.EFBIG, f"it holds more than {limit >> 20} MiB")
        if not chunks and len(chunk) == _CHUNK and not chunk.strip(b"\0"):
            raise OSError(errno.EINVAL, "it begins with zero bytes")
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def read_text(path: str | os.PathLike[str], *, encoding: str = "utf-8", limit: int = MAX_TEXT) -> str:
    """The text of a file, with Python's line ends; ``OSError`` or ``ValueError`` if it is no such file."""
    with open_plain(path) as stream:
        text = read_within(stream, limit).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def write_whole(
    path: str | os.PathLike[str], data: bytes | Iterable[bytes], *, error: type[TracerError] = TracerError
) -> Path:
    """Write ``data``, in pieces if it is several, to ``path`` through a neighbour that is renamed into place: readers
    never see half of it.

    What is not a plain file (``/dev/stdout``, a pipe) is written directly. Raises ``error`` if it cannot be written.
    """
    target = Path(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            if os.path.isdir(target):
                raise error(f"{target} is a folder", hint="name a file")
            with target.open("wb") as stream:
                stream.writelines([data] if isinstance(data, bytes) else data)
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = _created(target.parent, f".{target.name[:20]}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.writelines([data] if isinstance(data, bytes) else data)
            if os.path.exists(target):
                mode = target.stat().st_mode & 0o777
            else:
                umask = os.umask(0)
                os.umask(umask)
                mode = 0o666 & ~umask
            os.chmod(temporary, mode)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except (OSError, ValueError) as problem:
        raise error(f"cannot write {target}: {reason_of(problem)}", hint="choose another path") from problem
    return target


def write_or_rescue(path: str | os.PathLike[str], data: bytes, *, suffix: str, error: type[TracerError]) -> None:
    """``write_whole`` data that cannot be made again; if that fails, they go to a new file, which the error names.

    It is beside ``path`` (unless that is a device or a pipe), in the working directory, among temporary files or at
    home.
    """
    try:
        write_whole(path, data, error=error)
    except error as problem:
        is_special = os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
        beside = () if is_special else (Path(path).parent,)
        for folder in (*beside, Path(), None, Path(os.path.expanduser("~"))):
            rescued = ""
            with suppress(OSError, ValueError):
                place = Path(tempfile.gettempdir() if folder is None else os.path.abspath(folder))
                handle, rescued = _created(place, "tracer-rescued-", suffix)
                with os.fdopen(handle, "wb") as stream:
                    stream.write(data)
                raise error(problem.message, hint=f"it is in {rescued} instead") from problem
            with suppress(OSError):  # a part of it
                os.unlink(rescued)
        raise


def _created(folder: Path, prefix: str, suffix: str = "") -> tuple[int, str]:
    """A new file, open to be written, and its path.

    Not ``tempfile.mkstemp``, whose lock a signal's handler that writes the trace could wait for forever.
    """
    name = os.path.join(folder, f"{prefix}{os.getpid()}-{time.monotonic_ns():x}{suffix}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(name, flags, 0o600), name


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect no garbage in the block.

    Reading and writing traces makes many objects and no cycles; each collection would walk all of them, and torch's.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def toml_values(text: str) -> dict[str, Any]:
    """The plain values of a TOML text. Raises ``ValueError`` for other text."""
    try:
        import tomli as toml  # four times as fast as the standard library's where its compiled wheel exists
    except ImportError:  # the same parser, slower
        import tomllib as toml  # type: ignore[import-not-found, no-redef, unused-ignore]

    return toml.loads(text)
