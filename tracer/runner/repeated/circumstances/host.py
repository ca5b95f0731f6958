"""Another host, as Python code reads it: its name, and the order in which a folder lists its files."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Any

NAME = "another-host"


def become_another_host() -> None:
    """Answer with another host's name, and list folders backwards, for good."""
    socket.gethostname = lambda: NAME
    socket.getfqdn = lambda name="": NAME if name in ("", "0.0.0.0") else name
    platform.node = lambda: NAME
    if hasattr(os, "uname"):
        read = os.uname
        os.uname = lambda: os.uname_result((read().sysname, NAME, *tuple(read())[2:]))
    _list_backwards()


def _list_backwards() -> None:
    listdir, scandir = os.listdir, os.scandir

    def listed(*args: Any, **named: Any) -> Any:
        return sorted(listdir(*args, **named), reverse=True)

    def scanned(*args: Any, **named: Any) -> Any:
        with scandir(*args, **named) as entries:
            return _Entries(sorted(entries, key=lambda entry: entry.name, reverse=True))

    os.listdir, os.scandir = listed, scanned


class _Entries:
    """What ``os.scandir`` gives: an iterator that can be closed."""

    def __init__(self, entries: list[Any]) -> None:
        self._left = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._left)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._left = iter(())
