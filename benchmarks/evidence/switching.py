"""Deterministic mode, switched on for a block, and how torch words a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import torch


class Mode(str, Enum):
    """A state of ``torch.use_deterministic_algorithms``."""

    OFF = "off"
    WARN = "warn"
    ON = "on"


#: How torch words a refusal: ``alertNotDeterministic``, and the check of cuBLAS's workspace.
_REFUSALS = ("does not have a deterministic implementation", "Deterministic behavior was enabled with either")


@contextmanager
def deterministic_mode(mode: Mode) -> Iterator[None]:
    """``mode`` for the block; what was set before is set again after it."""
    was_on, warned = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(mode is not Mode.OFF, warn_only=mode is Mode.WARN)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_on, warn_only=warned)


def is_refusal(error: BaseException) -> bool:
    """Whether torch raised because of deterministic mode."""
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _REFUSALS)
