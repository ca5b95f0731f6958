"""The machine as Python code sees it: its name, its load, and the order in which folders list files."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from tracer.runner.repeated.circumstances.replacing import Replacements

VARIED_NAME, HELD_NAME = "another-host", "held-host"


def become_another_host(replaced: Replacements) -> None:
    """Answer with another host's name, and list folders backwards."""
    _be_called(replaced, VARIED_NAME)
    _list(replaced, backwards=True)


def hold_host(replaced: Replacements) -> None:
    """Answer with one name and one load, and list folders by name."""
    _be_called(replaced, HELD_NAME)
    _list(replaced, backwards=False)
    replaced.put(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    replaced.put(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(2**40, 2**39, 2**39))


def names_of_somebody(user: str, host: str) -> dict[str, str]:
    """Variables that say who runs a process, and where."""
    users, hosts = ("USER", "LOGNAME", "USERNAME"), ("HOSTNAME", "COMPUTERNAME")
    return dict.fromkeys(users, user) | dict.fromkeys(hosts, host)


def _be_called(replaced: Replacements, name: str) -> None:
    replaced.put(socket, "gethostname", lambda: name)
    replaced.put(socket, "getfqdn", lambda asked="": name if asked in ("", "0.0.0.0") else asked)
    replaced.put(platform, "node", lambda: name)
    if hasattr(os, "uname"):
        read = os.uname
        replaced.put(os, "uname", lambda: os.uname_result((read().sysname, name, *tuple(read())[2:])))


def _list(replaced: Replacements, *, backwards: bool) -> None:
    listdir, scandir = os.listdir, os.scandir

    def listed(*args: Any, **named: Any) -> Any:
        return sorted(listdir(*args, **named), reverse=backwards)

    def scanned(*args: Any, **named: Any) -> Any:
        with scandir(*args, **named) as entries:
            return _Entries(sorted(entries, key=lambda entry: entry.name, reverse=backwards))

    replaced.put(os, "listdir", listed)
    replaced.put(os, "scandir", scanned)


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
