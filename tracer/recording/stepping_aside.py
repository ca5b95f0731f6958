"""Leaves the dispatch stack for code that any dispatch mode, even an empty one, would change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tracer.recording.torch_private import seams

#: Marks the class of the recorder's mode.
OWN_MODE = "_is_the_recorders"


@contextmanager
def without_recording() -> Iterator[bool]:
    """Take the recorder's modes off this thread's stack and put them back after; were there any?"""
    pop, push = seams.pop_mode, seams.push_mode
    if pop is None or push is None:
        yield False
        return
    lifted = []
    while seams.dispatch_mode_count():
        lifted.append(pop())
    others = [mode for mode in lifted if not hasattr(type(mode), OWN_MODE)]
    for mode in reversed(others):
        push(mode)
    try:
        yield len(others) < len(lifted)
    finally:
        for _ in others:
            pop()
        for mode in reversed(lifted):
            push(mode)
