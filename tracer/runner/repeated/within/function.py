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
from tracer.runner.repeated.within.held_calls import HeldCalls, circumstances_in
from tracer.runner.repeated.within.state import Kept, objects_of
from tracer.session import DeterminismTracer, judge


def repeat(
    step: Callable[[], Any],
    runs: int = 3,
    *,
    state: Iterable[Any] | None = None,
    model: Any = None,
    hold: str | Iterable[str] | None = None,
) -> Repeated:
    """Call ``step`` several times from the same state, and say whether and where the calls part.

    Before each call but the first are put back: every random generator, and whatever holds a state among ``state``
    (modules with gradients and buffers, optimizers, schedulers, scalers, tensors, generators). After the last call all
    of it is as one call leaves it. Where calls part, it is called up to six times more with circumstances held, to find
    the one that explains it.

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
    hold
        Names of the circumstances to hold where calls part: ``"clock"``, ``["clock", "entropy"]``; ``()`` for none. By
        default all that a running process can hold: ``clock``, ``entropy``, ``order``, ``memory``, ``settings``,
        ``threads`` and ``environment``.

    Returns
    -------
    Repeated
        ``agrees``, ``first`` and ``roots``: each with its line, cause and reason. ``held`` has what was held, ``cause``
        the circumstance that explains it, or ``None``. That runs agree is no proof, and says nothing of the
        ``not_followed`` processes that ``step`` started.

    Raises
    ------
    UsageError
        Fewer than two runs, a ``step`` that cannot be called, or a circumstance that cannot be held here.

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
    circumstances = circumstances_in(hold)
    kept = Kept(objects_of(step) if state is None else state)
    began = time.time_ns() // 10**6
    with tempfile.TemporaryDirectory(prefix="tracer-") as folder:

        def again(name: str) -> Recording:
            kept.restore()
            return recorded(step, Path(folder, f"{name}.json"), model)

        recordings = [recorded(step, Path(folder, "run-1.json"), model)]
        recordings += [again(f"run-{number}") for number in range(2, runs + 1)]
        name = getattr(step, "__qualname__", type(step).__name__)
        found = held_against_the_first(name, recordings, kept.not_restored, began=began)
        return HeldCalls(again, recordings).explain(found, circumstances)


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
