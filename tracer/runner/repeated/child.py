"""The process of one run: ``python -m tracer.runner.repeated.child ORDER [PIPE]``, which becomes the script.

With a pipe it forks first, and the parent stays as the run's guard. Then settings are applied, circumstances are varied
or held, and the script runs as under ``tracer run``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tracer.errors import TracerError
from tracer.plain import say
from tracer.recording.options import RecordOptions, Trials
from tracer.runner.interrupts import end_by
from tracer.runner.ranks import current_rank
from tracer.runner.repeated import guard
from tracer.runner.repeated.left_behind import LeftBehind
from tracer.runner.repeated.task import Order, change_circumstances, change_in_child
from tracer.runner.running import run_script

#: The exit code of a child that could not start its script; scripts are unlikely to use it.
COULD_NOT_BEGIN = 122
#: How often a call is replayed on the spot before its kernel is blamed.
REPLAYS = 10


def main() -> int:
    """Run the order in the first argument; returns the script's exit code."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    task = order.task
    if order.temporary:
        tempfile.tempdir = None
        os.environ.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), order.temporary))
    if len(sys.argv) > 2:
        guard.guard(int(sys.argv[2]), order.scratch)
    change_circumstances(order)
    left = None if order.magnitudes else LeftBehind(without=os.path.dirname(order.output))
    wanted: dict[str, Any] = {"values": True}
    if order.replayed is not None:
        wanted = {"trials": Trials(REPLAYS, all=True, ops=order.replayed)}
    elif order.magnitudes:
        wanted = {"magnitudes": True, "places": order.places, "eager": order.places.shake is not None}
    try:
        return run_script(
            task.target,
            task.args,
            output=Path(order.output),
            as_module=task.as_module,
            steps=task.steps,
            exit_after_steps=task.exit_after_steps,
            rank=current_rank(),
            options=RecordOptions(**wanted, children=order.children, lines=order.lines),
            left_behind=tuple if left is None else left.states,
            quiet=True,
            at_start=(change_in_child, order),
        )
    except TracerError as problem:
        say(f"tracer: error: {problem}")
        return COULD_NOT_BEGIN


if __name__ == "__main__":
    code = main()
    if code < 0:
        with suppress(OSError, ValueError, AttributeError):  # the script may have closed or replaced it
            sys.stdout.flush()
        end_by(-code)
    sys.exit(code)
