"""Tracebacks as the script alone would have printed them, without the tracer's frames."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from linecache import getline
from types import TracebackType

import tracer

_OURS = os.path.dirname(os.path.abspath(tracer.__file__)) + os.sep
_BUNDLED = os.path.join(_OURS, "bundled") + os.sep
# The recorder's mode calls torch's entry of an ordinary op from here: an error that ends here is the op's.
_MODE = (os.path.join(_OURS, "recording", "mode.py"), "__torch_dispatch__")
# What stands in for a watched function calls it by these names, written in C as it may be: its error is the caller's.
_ORIGINAL = r"\b(?:_tracer_original|call_through|original)\("
# How the recorder's mode calls the op that it was handed; the untouched call goes there from C++.
_OP_CALL = os.path.join("torch", "_ops.py")


def trim(error: BaseException) -> None:
    """Remove the tracer's frames from the traceback of ``error``, its causes and its contexts.

    Where the innermost frame is the tracer's own, the error is too, and the traceback stays whole.
    """
    for link in _chain(error):
        frames = list(_frames(link.__traceback__))
        if frames and _is_ours(frames[-1]) and not _made_a_call(frames[-1]) and isinstance(link, Exception):
            continue
        link.__traceback__ = _rebuilt(frames)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """``error``, its causes and contexts, and the members of groups, each once."""
    visited: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        exception = waiting.pop()
        if exception is None or id(exception) in visited:
            continue
        visited.add(id(exception))
        yield exception
        waiting += [exception.__cause__, exception.__context__, *getattr(exception, "exceptions", ())]


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_ours(frame: TracebackType) -> bool:
    path = frame.tb_frame.f_code.co_filename
    return path.startswith(_OURS) and not path.startswith(_BUNDLED)


def _made_a_call(frame: TracebackType) -> bool:
    code = frame.tb_frame.f_code
    return (code.co_filename, code.co_name) == _MODE or re.search(
        _ORIGINAL, getline(code.co_filename, frame.tb_lineno)
    ) is not None


def _rebuilt(frames: list[TracebackType]) -> TracebackType | None:
    """The frames of the script alone, innermost last."""
    script_frames: list[TracebackType] = []
    after_ours = False
    for frame in frames:
        path = frame.tb_frame.f_code.co_filename
        if _is_ours(frame) or (after_ours and (path.endswith(_OP_CALL) or path.startswith("<frozen importlib"))):
            after_ours = True
            continue
        after_ours = False
        script_frames.append(frame)
    traceback: TracebackType | None = None
    for frame in reversed(script_frames):
        traceback = TracebackType(traceback, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return traceback
