"""Which forward line a backward call belongs to, by other means than the recorder's: anomaly mode's own tracebacks.

Anomaly mode stores with every autograd node the Python stack that made it, and, for a node made while the engine
evaluated another, that other node. It is run on a training of its own, without a recorder.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tracer import Trace
from tracer.names import BlindSpotKind, Phase

#: ``(op, autograd node's name, path:line)``
Named = tuple[str, str, str]

_NO_NUMBER = 2**64 - 1
_ENTRY = re.compile(r'  File "(?P<path>.*)", line (?P<line>\d+), in (?P<function>.*)')
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_CHECKPOINT = _TORCH + os.path.join("utils", "checkpoint.py")
#: torch wraps a mode's ``__torch_dispatch__`` in these.
_AROUND_THE_MODE = (_TORCH + "_compile.py", _TORCH + os.path.join("_dynamo", "eval_frame.py"))
_STDLIB = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
_SITE = f"{os.sep}site-packages{os.sep}"


class _BackwardLines(TorchDispatchMode):
    """Looks up the line of every backward call with a sequence number."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Counter[Named] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        node = torch._C._current_autograd_node()
        if node is not None and node._sequence_nr() != _NO_NUMBER and not _is_recomputing():
            self.lines[str(func), node.name(), _forward_line(node)] += 1
        return func(*args, **(kwargs or {}))


def lines_by_anomaly_mode(step: Callable[[], Any]) -> Counter[Named]:
    """Run ``step`` and count its backward calls by op, node and forward line."""
    mode = _BackwardLines()
    with torch.autograd.set_detect_anomaly(True, check_nan=False), mode:
        step()
    return mode.lines


def lines_of_trace(trace: Trace, *, python_in_backward: bool = False) -> Counter[Named]:
    """The same of a recorded trace.

    Python code that runs inside the backward pass (a hook, a function's ``backward``) bears its own line, and the
    forward's as ``called_from``: with ``python_in_backward``, of programs without a library's code, that one counts.
    """
    lines: Counter[Named] = Counter()
    for group in trace.calls:
        if group.phase is Phase.BACKWARD and not group.node.startswith("AccumulateGrad"):
            line = group.called_from if python_in_backward and group.called_from else group.location
            lines[group.op, group.node, line] += group.count
    return lines


def count_unlinked(trace: Trace) -> int:
    """How many backward calls the trace itself says it cannot attribute."""
    return sum(spot.count for spot in trace.blind_spots if spot.kind is BlindSpotKind.NO_FORWARD_LINK)


def _forward_line(node: Any) -> str:
    """Where the forward op of ``node`` was called: the root's stack, unless a recomputation made the node."""
    while True:
        entries = _entries(node.metadata["traceback_"])
        parent = node.metadata.get("parent_")
        if parent is None or _is_recomputation(entries):
            return next((_spelled(path, line) for path, line, _ in reversed(entries) if _is_outside(path)), "")
        node = parent


def _entries(traceback: Iterable[str]) -> list[tuple[str, str, str]]:
    found = (_ENTRY.match(text) for text in traceback)
    return [(match["path"], match["line"], match["function"]) for match in found if match]


def _is_recomputation(entries: list[tuple[str, str, str]]) -> bool:
    """Does the stack pass through checkpointing after it last entered the engine?"""
    for path, _, function in reversed(entries):
        if function == "_engine_run_backward":
            return False
        if path == _CHECKPOINT:
            return True
    return False


def _is_recomputing() -> bool:
    """Is a checkpointed function being run again? What re-entrant checkpointing does itself is backward work."""
    frame: Any = sys._getframe(2)
    ran_other_code = False
    while frame is not None and frame.f_code.co_name != "_engine_run_backward":
        if frame.f_code.co_filename in _AROUND_THE_MODE:
            pass
        elif frame.f_code.co_filename != _CHECKPOINT:
            ran_other_code = True
        elif frame.f_code.co_name == "recompute_fn" or (frame.f_code.co_name == "backward" and ran_other_code):
            return True
        frame = frame.f_back
    return False


def _is_outside(path: str) -> bool:
    return not path.startswith((_TORCH, _STDLIB)) and os.path.basename(path) != "oracle.py"


def _spelled(path: str, line: str) -> str:
    _, is_installed, below = path.rpartition(_SITE)
    return f"{below if is_installed else os.path.relpath(path)}:{line}"
