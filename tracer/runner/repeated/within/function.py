"""``tracer.repeat``: a step called several times from the same state, each call held against the first."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tracer.divergence import Recording, compare_recordings, read_recording
from tracer.divergence.outside import joined_outside
from tracer.divergence.repeated import UNVARIED, Repeated, Run, not_followed, outcomes, with_arms
from tracer.errors import UsageError
from tracer.runner.repeated.within.state import Kept, objects_of
from tracer.session import DeterminismTracer, judge


def repeat(
    step: Callable[[], Any], runs: int = 3, *, state: Iterable[Any] | None = None, model: Any = None
) -> Repeated:
    """Call ``step`` several times from the same state, and say whether and where the calls part.

    Before each call but the first are put back: every random generator, and whatever holds a state among ``state``
    (modules with gradients and buffers, optimizers, schedulers, scalers, tensors, generators). After the last call all
    of it is as one call leaves it.

    Parameters
    ----------
    step
        Called without arguments; ``functools.partial`` or a ``lambda`` binds them.
    runs
        Calls in all, two or more.
    state
        What to put back. By default what ``step`` can reach: its closure, the globals that it names, its defaults, the
        object that it is a method of. What cannot be put back (an iterator) is named in ``not_restored``.
    model
        Spells module paths, as for ``DeterminismTracer``.

    Returns
    -------
    Repeated
        ``agrees``, ``first`` and ``roots``: each with its line, cause and reason. That runs agree is no proof, and says
        nothing of the ``not_followed`` processes that ``step`` started.

    Raises
    ------
    UsageError
        Fewer than two runs, or a ``step`` that cannot be called.

    Examples
    --------
    ```python
    found = tracer.repeat(lambda: train_step(model, batch, optimizer), runs=3)
    assert found.agrees and not found.not_followed, found.first
    ```
    """
    if not callable(step):
        raise UsageError(f"a {type(step).__name__} cannot be called", hint="write repeat(lambda: train_step(...))")
    if not isinstance(runs, int) or runs < 2:
        raise UsageError("one run cannot be compared", hint="ask for two or more")
    kept = Kept(objects_of(step) if state is None else state)
    began = time.time_ns() // 10**6
    recordings = []
    with tempfile.TemporaryDirectory(prefix="tracer-") as folder:
        for number in range(1, runs + 1):
            if number > 1:
                kept.restore()
            recordings.append(recorded(step, Path(folder, f"run-{number}.json"), model))
    name = getattr(step, "__qualname__", type(step).__name__)
    return held_against_the_first(name, recordings, kept.not_restored, began=began)


def recorded(step: Callable[[], Any], path: Path, model: Any = None) -> Recording:
    """Call ``step`` once under the recorder, with values."""
    recorder = DeterminismTracer(model, name=path.stem, values=path.with_suffix(".values"))
    with recorder:
        step()
    recorder.save(path)
    return read_recording(path)


def held_against_the_first(
    name: str, recordings: list[Recording], not_restored: tuple[str, ...] = (), *, began: int = 0
) -> Repeated:
    """What ``recordings``, two or more of the same thing, show together; ``began`` as for ``compare_recordings``."""
    base = recordings[0]
    findings = judge(base.trace).findings if base.trace is not None else None
    divergences = [
        compare_recordings(base, other, may_resume=False, findings=findings, began=began) for other in recordings[1:]
    ]
    compared = {UNVARIED: divergences}
    roots = with_arms(compared)
    parting = [one for one in divergences if not one.agrees]
    shown = min(parting, key=lambda one: one.begins) if parting else divergences[0]
    return Repeated(
        name=name,
        runs=tuple(
            Run(name=f"run {number}", file="", calls=len(one.values)) for number, one in enumerate(recordings, 1)
        ),
        divergence=shown,
        second=f"run {divergences.index(shown) + 2}",
        roots=roots,
        arms=outcomes(compared, roots, {UNVARIED: "nothing"}, {}),
        not_restored=not_restored,
        not_followed=not_followed(recordings),
        outside=joined_outside(one.outside for one in divergences),
    )
