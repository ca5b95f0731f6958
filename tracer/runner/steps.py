"""What is run, and which optimizer steps of it are recorded: ``A:B``, as in a Python slice."""

from __future__ import annotations

import re

import msgspec

from tracer.errors import UsageError

_SPELLING = r"(\d+)|(\d*):(\d*)"
_HINT = "write A:B, A:, :B or N, counted from 0, as in --steps 0:1 for the first step"


class WindowComplete(SystemExit):
    """Ends the script after the last requested step; the exit code is 0.

    A ``SystemExit``, so that the script's ``finally`` blocks run and its ``except Exception`` does not.
    """


class StepRange(msgspec.Struct, frozen=True):
    """Optimizer steps from ``start`` up to but excluding ``stop``; everything by default."""

    start: int = 0
    stop: int | None = None
    """``None``: until the script ends."""

    @classmethod
    def parse(cls, text: str) -> StepRange:
        """Read ``A:B``, ``A:``, ``:B`` or a single ``N``. Raises ``UsageError`` for anything else."""
        match = re.fullmatch(_SPELLING, text.strip(), re.ASCII)
        if match is None:
            raise UsageError(f"--steps {text!r} names no steps", hint=_HINT)
        single, first, last = match.groups()
        if single is not None:
            return cls(int(single), int(single) + 1)
        steps = cls(int(first or 0), int(last) if last else None)
        if steps.stop is not None and steps.stop <= steps.start:
            raise UsageError(f"--steps {text!r} is empty: B must be larger than A", hint=_HINT)
        return steps

    def __str__(self) -> str:
        return f"{self.start}:{'' if self.stop is None else self.stop}"

    def missed(self, finished: int) -> str:
        """Return why a run of ``finished`` optimizer steps did not fill the window; empty if it did."""
        last = self.start if self.stop is None else self.stop
        if finished >= last:
            return ""
        return f"the script ended after {finished} optimizer step{'s' * (finished != 1)}, before {self} was over"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    target: str
    args: tuple[str, ...] = ()
    as_module: bool = False
    steps: StepRange = StepRange()
    exit_after_steps: bool = False
    ends_before: int | None = None
    """The optimizer step that is not made any more: the script ends as it begins."""
