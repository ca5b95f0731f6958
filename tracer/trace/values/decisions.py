"""The file of decisions beside a file of values: what calls decided, and which of two runs' decisions correspond."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

#: By step, phase, module and call: the bytes of what each call of that kind decided, in order.
Decided = dict[str, list[bytes]]


def decisions_beside(values: str | os.PathLike[str]) -> Path:
    """The file of decisions of the run with this file of values."""
    return Path(os.path.abspath(values)).with_suffix(".decisions")


def read_decisions(path: str | os.PathLike[str]) -> Decided:
    """What was decided; empty where the run that should have kept it was killed."""
    try:
        return msgspec.msgpack.decode(Path(path).read_bytes(), type=Decided)
    except (OSError, msgspec.DecodeError):
        return {}


def write_decisions(decided: Decided, path: str | os.PathLike[str]) -> None:
    """Write what was decided."""
    Path(path).write_bytes(msgspec.msgpack.encode(decided))


def follow_the_others(own: Path, others: Path) -> bool:
    """Put what the run of ``others`` decided into the file ``own``; return whether that is something else.

    Only for calls that both make equally often: of the others nobody knows which correspond.
    """
    ours, theirs = read_decisions(own), read_decisions(others)
    joined = {key: theirs[key] if len(theirs.get(key, ())) == len(kept) else kept for key, kept in ours.items()}
    write_decisions(joined, own)
    return joined != ours
