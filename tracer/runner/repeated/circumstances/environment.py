"""The machine as Python code sees it: its name, its load, and the order in which folders list files."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from tracer.runner.repeated.circumstances.replacing import Replacements, caller_outside

#: Modules that ask for somebody else.
_PASSING = frozenset(
    {"os", "glob", "pathlib", "shutil", "platform", "socket", "tempfile", "importlib._bootstrap_external"}
)
#: Each leads to this machine: launchers meet at the name of theirs.
VARIED_NAME, HELD_NAME = "127.0.0.1", "localhost"


def become_another_host(replaced: Replacements) -> None:
    """Answer with another host's name, and list folders backwards."""
    _be_called(replaced, VARIED_NAME, lambda: None)
    _list(replaced, lambda: None, backwards=True)


def hold_host(replaced: Replacements) -> None:
    """Answer with one name and one load, and list folders by name."""

    def use() -> None:
        replaced.use("environment", caller_outside(_PASSING))

    def read_load() -> tuple[float, float, float]:
        use()
        return (0.0, 0.0, 0.0)

    def read_disk(path: Any) -> Any:
        use()
        return shutil._ntuple_diskusage(2**40, 2**39, 2**39)

    _be_called(replaced, HELD_NAME, use)
    _list(replaced, use, backwards=False)
    replaced.put(os, "getloadavg", read_load)
    replaced.put(shutil, "disk_usage", read_disk)


def names_of_somebody(user: str, host: str) -> dict[str, str]:
    """Variables that say who runs a process, and where."""
    users, hosts = ("USER", "LOGNAME", "USERNAME"), ("HOSTNAME", "COMPUTERNAME")
    return dict.fromkeys(users, user) | dict.fromkeys(hosts, host)


def _be_called(replaced: Replacements, name: str, use: Callable[[], None]) -> None:
    def answer() -> str:
        use()
        return name

    replaced.put(socket, "gethostname", answer)
    replaced.put(socket, "getfqdn", lambda asked="": answer() if asked in ("", "0.0.0.0") else asked)
    replaced.put(platform, "node", answer)
    if hasattr(os, "uname"):
        read = os.uname
        replaced.put(os, "uname", lambda: os.uname_result((read().sysname, answer(), *tuple(read())[2:])))


def _list(replaced: Replacements, use: Callable[[], None], *, backwards: bool) -> None:
    listdir, scandir = os.listdir, os.scandir

    def listed(*args: Any, **named: Any) -> Any:
        use()
        return sorted(listdir(*args, **named), reverse=backwards)

    def scanned(*args: Any, **named: Any) -> Any:
        use()
        with scandir(*args, **named) as entries:
            return _Entries(sorted(entries, key=lambda entry: entry.name, reverse=backwards))

    replaced.put(os, "listdir", listed)
    replaced.put(os, "scandir", scanned)


class _Entries:
    """The result of ``os.scandir``: an iterator that can be closed."""

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
