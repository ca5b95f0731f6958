"""What may be asked for beside the count of calls, as a user says it. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tracer.errors import UsageError

#: What the trials of one call may copy and hold, in bytes.
TRIAL_MEMORY = 1 << 30
#: What the tensors of all kept calls may take together, in bytes.
KEEP_BYTES = 256 << 20


class Trials(msgspec.Struct, frozen=True):
    """Calls made again on the spot: ``Trials(5)`` repeats each call that the tables hold for a risk five times.

    Raises ``UsageError`` where ``times`` is negative.
    """

    times: int
    """How often a call is repeated; 0 for no trials."""
    all: bool = False
    """Repeat every call, whatever the tables say of it."""
    threads: bool = False
    """Repeat calls on another number of threads too."""
    memory: int = TRIAL_MEMORY
    """Bytes that the trials of one call may copy and hold; a larger call is counted as not tried."""

    def __post_init__(self) -> None:
        if self.times < 0:
            raise UsageError(f"trials={self.times} is less than none", hint="say how often to repeat a call: trials=5")


class Keep(msgspec.Struct, frozen=True):
    """Calls whose inputs are kept, by glob: ``Keep("index_*")``."""

    globs: str | tuple[str, ...]
    """Globs of ops (``index_*``), lines (``train.py:12``), files and modules."""
    bytes: int = KEEP_BYTES
    """Bytes that the tensors of all kept calls may take together; further calls are left out."""

    @classmethod
    def of(cls, keep: Keep | str | Iterable[str]) -> Keep | None:
        """``keep`` as an object; ``None`` where it names nothing."""
        if not isinstance(keep, Keep):
            keep = cls(keep if isinstance(keep, str) else tuple(keep))
        return keep if keep.globs else None

    @property
    def patterns(self) -> tuple[str, ...]:
        """The globs, one by one."""
        return (self.globs,) if isinstance(self.globs, str) else self.globs
