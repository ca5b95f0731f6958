"""``tracer.repeat``: calls a step several times from the same state and compares each call with the first."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tracer.divergence.comparing import compare_recordings
from tracer.divergence.families import compare_families
from tracer.divergence.model import Divergence, Family, Recording, read_recording
from tracer.divergence.repeated import UNVARIED, Repeated, Run, not_followed, outcomes, with_arms
from tracer.errors import UsageError
from tracer.recording.options import LineOptions, RecordOptions
from tracer.recording.values.moments import leaves
from tracer.runner.repeated.root_lines import MOST_RUNS, FoundLines, LineRun, find_lines
from tracer.runner.repeated.state import SavedState, objects_of
from tracer.runner.script import texts_of
from tracer.session import Session, judge
from tracer.trace.values import ValueKind
from tracer.trace.values.columns import text_digest


def repeat(
    step: Callable[[], Any],
    runs: int = 3,
    *,
    state: Iterable[Any] | None = None,
    model: Any = None,
    hold: bool = True,
) -> Repeated:
    """Call ``step`` several times from the same state, and report whether and where the calls diverge.

    Before each call but the first, every random generator and every stateful object among ``state`` (modules with
    gradients and buffers, optimizers, schedulers, scalers, tensors, generators) is restored. After the last call their
    state is what one call leaves. If calls diverge, ``step`` is called up to six more times: its lines are followed, to
    find the one that first gives other values, and held, to prove it.

    Parameters
    ----------
    step
        Called without arguments; ``functools.partial`` or a ``lambda`` binds them.
    runs
        The number of calls, two or more.
    state
        What to restore. By default everything that ``step`` can reach: its closure, the globals that it names, its
        defaults, the object that it is a method of. What cannot be restored (an iterator) stands in ``not_restored``.
    model
        Names modules in the report, as for ``DeterminismTracer``.
    hold
        Whether further calls are made if calls diverge.

    Returns
    -------
    Repeated
        ``agrees``, ``first`` and ``roots``, each root with its line, cause and reason; ``sources``, the lines at which
        the calls begin to differ, and ``held_lines``, what holding them showed. Agreement is no proof, and says nothing
        about what was ``not_followed``: processes that ``step`` started, threads that computed.

    Raises
    ------
    UsageError
        Fewer than two runs, or a ``step`` that cannot be called.

    Examples
    --------
    ```python
    result = tracer.repeat(lambda: train_step(model, batch, optimizer), runs=3)
    assert result.agrees and not result.not_followed, result.first
    ```
    """
    if not callable(step):
        raise UsageError(f"a {type(step).__name__} cannot be called", hint="write repeat(lambda: train_step(...))")
    if not isinstance(runs, int) or runs < 2:
        raise UsageError("one run cannot be compared", hint="ask for two or more")
    saved_state = SavedState(objects_of(step) if state is None else state)
    name = getattr(step, "__qualname__", type(step).__name__)
    with tempfile.TemporaryDirectory(prefix="tracer-") as folder:
        calls = FunctionCalls(step, saved_state, Path(folder), model)
        return compared_with(recorded(step, Path(folder, "run-1.json"), model), calls, name, runs, hold=hold)


def recorded(step: Callable[[], Any], path: Path, model: Any = None, lines: LineOptions | None = None) -> Recording:
    """Record one call of ``step`` with values, and what it returned; ``lines``: how its lines are followed."""
    session = Session(model, RecordOptions(name=path.stem, values=str(path.with_suffix(".values")), lines=lines))
    with session:
        value = step()
        # Floating-point numbers are left out, which may be seconds: what computes them is compared.
        with suppress(Exception):  # a container of somebody's own may refuse to be read
            moments = session.recorder.values.moments  # type: ignore[union-attr]  # values were asked for
            moments.returned("what the function returns", value)
            plain = [f"{name}={leaf!r}" for name, leaf in leaves(value, "") if isinstance(leaf, (int, str, bytes))]
            if plain:
                digest = text_digest("\n".join(plain))
                moments.write(ValueKind.RETURNED, "text and numbers that the function returns", digest)
    session.trace.save(path)
    return read_recording(path)


class FunctionCalls:
    """Calls of a function after the first one, each from the state that was saved, recorded in ``folder``."""

    def __init__(self, step: Callable[[], Any], state: SavedState, folder: Path, model: Any) -> None:
        self._step, self.state, self._folder, self._model = step, state, folder, model
        self.left = MOST_RUNS - 2

    def again(self, name: str, lines: LineOptions | None = None) -> Recording:
        self.state.restore()
        return recorded(self._step, self._folder / f"{name}.json", self._model, lines)

    def values_folder(self) -> Path:
        (self._folder / "values").mkdir(exist_ok=True)
        return self._folder / "values"

    def follow(self, name: str, lines: LineOptions, last_step: int | None, *, anew: bool = False) -> LineRun | None:
        """Call the function once more, whose lines are followed."""
        self.left -= 1
        try:
            return LineRun(self._folder / f"{name}.json", {"": self.again(name, lines)})
        except Exception:  # what the function raises when it is given other values
            return None

    def meets(self, family: Family, last_step: int | None) -> bool:
        """Return ``False``: the first calls differ from all others."""
        return False

    def compare(self, first: Family, second: Family) -> Divergence:
        return compare_families(first, second, partial(compare_recordings, may_resume=False))


def compared_with(base: Recording, calls: FunctionCalls, name: str, runs: int, *, hold: bool) -> Repeated:
    """Compare the first of ``runs`` calls with the others; ``hold``: if they diverge, further ones follow lines."""
    recordings = [base, *(calls.again(f"run-{number}") for number in range(2, runs + 1))]
    compare = partial(compare_recordings, may_resume=False, findings=judge(base.trace).findings if base.trace else None)
    divergences = [compare_families({"": base}, {"": other}, compare) for other in recordings[1:]]
    compared = {UNVARIED: divergences}
    roots = with_arms(compared)
    diverging = [divergence for divergence in divergences if not divergence.agrees]
    shown = min(diverging, key=lambda divergence: divergence.begins) if diverging else divergences[0]
    found = FoundLines()
    if hold and shown.differs:
        found = find_lines(calls, shown)
    return Repeated(
        name=name,
        runs=tuple(
            Run(name=f"run {number}", file="", calls=len(recording.values))
            for number, recording in enumerate(recordings, 1)
        ),
        divergence=shown,
        second=f"run {divergences.index(shown) + 2}",
        roots=roots,
        arms=outcomes(compared, roots, {UNVARIED: "nothing"}, {}),
        not_restored=calls.state.not_restored,
        unrecorded=not_followed({"": recording} for recording in recordings),
        sources=found.sources,
        held_lines=found.held,
        lines_note=found.note,
        texts=texts_of((source.called_from or source.location for source in found.sources), os.getcwd()),
    )
