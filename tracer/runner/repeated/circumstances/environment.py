"""Who runs a process, and where, by the variables that say so."""

from __future__ import annotations

#: Each leads to this machine: launchers meet at the name of theirs.
VARIED_NAME, HELD_NAME = "127.0.0.1", "localhost"


def names_of_somebody(user: str, host: str) -> dict[str, str]:
    """Variables that say who runs a process, and where."""
    users, hosts = ("USER", "LOGNAME", "USERNAME"), ("HOSTNAME", "COMPUTERNAME")
    return dict.fromkeys(users, user) | dict.fromkeys(hosts, host)
