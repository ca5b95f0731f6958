"""The process of one run: ``python -m tracer.runner.repeated.child ORDER [PIPE]``, which becomes the script.

With a pipe it forks first, and its parent stays as the run's guard. Then what the arm changes is changed, the settings
are made, and the script runs as under ``tracer run``.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from tracer.divergence.repeated import Arm
from tracer.errors import TracerError
from tracer.plain import say
from tracer.runner.interrupts import end_by
from tracer.runner.ranks import current_rank
from tracer.runner.repeated import guard
from tracer.runner.repeated.circumstances import arrival, clock, host, memory, planned
from tracer.runner.repeated.left_behind import LeftBehind
from tracer.runner.repeated.task import Order
from tracer.runner.running import run_script
from tracer.trace.values import values_path

#: What a child exits with where it could not even begin, which no script is likely to.
COULD_NOT_BEGIN = 122

_BEGUN: Mapping[Arm, Callable[[], None]] = {
    Arm.MEMORY: memory.fill_fresh_memory,
    Arm.WORKERS: arrival.hold_up_workers,
    Arm.TIME: clock.shift_clock,
    Arm.ENVIRONMENT: host.become_another_host,
}


def main() -> int:
    """Run what the first argument says, and return the script's exit code."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    task = order.task
    scratch = tempfile.mkdtemp(prefix="tracer-") if order.arm is Arm.ENVIRONMENT else ""
    if scratch:
        tempfile.tempdir = None  # it was read just now
        os.environ.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), scratch))
    guarded = len(sys.argv) > 2
    if guarded:
        guard.guard(int(sys.argv[2]), scratch)
    planned.make_before_the_script(order.settings)
    _BEGUN.get(order.arm, _nothing)()
    left = LeftBehind(without=os.path.dirname(order.output))
    try:
        return run_script(
            task.target,
            task.args,
            output=Path(order.output),
            as_module=task.as_module,
            steps=task.steps,
            exit_after_steps=task.exit_after_steps,
            rank=current_rank(),
            values=values_path(order.output),
            left_behind=left.states,
            quiet=True,
        )
    except TracerError as problem:
        say(f"tracer: error: {problem}")
        return COULD_NOT_BEGIN
    finally:
        if scratch and not guarded:
            shutil.rmtree(scratch, ignore_errors=True)


def _nothing() -> None:
    """As it stands."""


if __name__ == "__main__":
    code = main()
    if code < 0:
        with suppress(OSError, ValueError, AttributeError):  # the script may have closed or replaced it
            sys.stdout.flush()
        end_by(-code)
    sys.exit(code)
