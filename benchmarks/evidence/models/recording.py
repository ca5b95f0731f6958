"""Records each step under the tracer, in the process of a build whose device is hidden: as a user without a GPU would.

python -m benchmarks.evidence.models.recording FOLDER LIST...
"""

from __future__ import annotations

import signal
import sys
import warnings
from pathlib import Path

from benchmarks.evidence.models.zoo import steps
from tracer import DeterminismTracer

#: Seconds of the processor that a step may take, over all threads: a loaded machine leaves no step out.
PATIENCE = 120


def main() -> int:
    """One trace a step, under the step's number; what does not run is printed."""
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])

    def stop(*_: object) -> None:
        raise TimeoutError(f"over {PATIENCE} seconds of the processor")

    signal.signal(signal.SIGPROF, stop)
    for number, step in enumerate(steps()):
        place = folder / f"{number}.trace.json"
        if place.exists() or step.chosen.name not in sys.argv[2:]:
            continue
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        try:
            run = step.prepared("cpu", number)
            with DeterminismTracer() as tracer:
                run()
            tracer.trace.save(place)
        except Exception as problem:
            print(
                f"left out: {step.name}: {type(problem).__name__}: {str(problem).partition(chr(10))[0][:110]}",
                flush=True,
            )
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
