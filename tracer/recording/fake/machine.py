"""The machine that a step on fake tensors is run as. Imports no torch."""

from __future__ import annotations

import re

import msgspec

from tracer.errors import UsageError

_SPELLING = re.compile(r"cpu|cuda:([1-9]\d?)\.(\d)", re.ASCII)


class Machine(msgspec.Struct, frozen=True):
    """What ``torch.cuda`` answers as: ``Machine.parse("cuda:8.0")``; without a capability there is no GPU."""

    capability: tuple[int, int] | None = None
    """Compute capability of its GPUs; ``None`` for a machine without any."""
    devices: int = 1
    """GPUs of this machine."""

    @classmethod
    def parse(cls, text: str, *, devices: int = 1) -> Machine:
        """Read ``cpu`` or ``cuda:8.0``. Raises ``UsageError`` for anything else."""
        match = _SPELLING.fullmatch(text)
        if match is None:
            raise UsageError(f"--as {text!r} is no machine", hint="write cpu, or cuda with a capability: --as cuda:8.0")
        return cls((int(match[1]), int(match[2])) if match[1] else None, devices)

    def __str__(self) -> str:
        return "cpu" if self.capability is None else "cuda:{}.{}".format(*self.capability)
