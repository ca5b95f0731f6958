"""A script that replaces its own process by ``exec``, as those do that set ``PYTHONHASHSEED`` for themselves.

A Python program that comes is recorded in place of the script; any other ends the recording.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tracer.plain import say
from tracer.recording import patching
from tracer.recording.patching import Watch
from tracer.runner.outcome import ScriptRecording

#: Options of Python's that take the next word.
_WITH_WORD = ("-W", "-X", "--check-hash-based-pycs")
#: Those after which Python does not find the tracer, and those that name no script.
_NOT_FOLLOWED = re.compile(r"-([a-zA-Z]*[IESc].*)?$")


def own_line(script: str, args: Sequence[str]) -> tuple[str, ...]:
    """The command line of this process up to ``script``, without ``-m``; empty if that is not how it was started."""
    words, tail = sys.orig_argv, [script, *args]
    if words[-len(tail) :] != tail:
        return ()
    before = words[1 : -len(tail)]
    return tuple(before[:-1] if before[-1:] == ["-m"] else before)


def recorded_line(command: Sequence[str], own: Sequence[str]) -> list[str]:
    """``command``, which runs a Python script or module, as ``own`` records it; empty if it cannot be."""
    flags: list[str] = []
    rest = list(command[1:])
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        if not rest[0].startswith(_WITH_WORD) and _NOT_FOLLOWED.match(rest[0]):
            return []
        taken = 2 if rest[0] in _WITH_WORD else 1
        flags, rest = [*flags, *rest[:taken]], rest[taken:]
    runs_python = os.path.basename(command[0]).startswith("python")
    is_script = bool(rest) and (rest[0] != "-m" or len(rest) > 1)
    return [command[0], *flags, *own, *rest] if own and runs_python and is_script else []


@contextmanager
def followed_by_exec(recording: ScriptRecording, own: Sequence[str], leave: Callable[[], None]) -> Iterator[None]:
    """Record what the script replaces its process by in this context, by the command line ``own``.

    ``leave`` is called before.
    """

    def replace(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        path, command, *environment = args
        if not os.access(path, os.X_OK):  # it is searched for by trying
            return call(*args, **kwargs)
        words = [os.fsdecode(word) for word in command]
        line = recorded_line(words, own)
        leave()
        if line:
            if not recording.is_quiet:
                say("tracer: the script replaces its process (exec); recording begins anew")
            return call(path, line, *environment, **kwargs)
        recording.save_so_far()
        hint = "set beforehand what it sets" if os.path.basename(words[0]).startswith("python") else "record that one"
        say(f"tracer: the script replaces its process by {words[0]} (exec), which is not recorded; {hint}")
        return call(*args, **kwargs)

    lift = patching.place([(os, "execv"), (os, "execve")], Watch(around=replace))
    try:
        yield
    finally:
        if lift is not None:
            lift()
