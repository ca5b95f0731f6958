"""``tracer.compare``: two steps called from the same state, and whether their difference is rounding."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from tracer.divergence.jobs import Job
from tracer.divergence.magnitudes import Comparison, Side
from tracer.errors import UsageError
from tracer.recording.options import UNSHAKEN, PlaceOptions, RecordOptions
from tracer.runner.configurations.of_script import answered
from tracer.runner.repeated.state import SavedState, objects_of
from tracer.session import Session
from tracer.trace.values import read_magnitudes


def compare(
    step_a: Callable[[], Any],
    step_b: Callable[[], Any],
    *,
    yardstick_runs: int = 3,
    state: Iterable[Any] | None = None,
    model: Any = None,
) -> Comparison:
    """Call two steps from the same state, and say whether they differ by rounding alone, and where if not.

    ``step_a`` is called ``yardstick_runs`` times more, with each result that depends on parameters changed by up to
    half a unit in the last place; how far each place of the step moves then is what rounding does to it. Before each
    call the state is restored, as ``tracer.repeat`` does; at the end it is as the last call leaves it.

    Parameters
    ----------
    step_a, step_b
        Called without arguments; ``functools.partial`` or a ``lambda`` binds them.
    yardstick_runs
        Shaken calls, one or more. Where they leave the answer open, further ones are made, of ``step_b`` too.
    state
        What to put back, as for ``tracer.repeat``; by default what both steps can reach.
    model
        Spells module paths, as for ``DeterminismTracer``. Two models are aligned by their module paths.

    Returns
    -------
    Comparison
        ``verdict`` (``equal``, ``rounding``, ``undecided``, ``significant``); ``first``: the first place whose
        difference is larger than rounding explains, with its line, ``ratio`` and ``relative``; ``significant``,
        ``only``.

    Raises
    ------
    UsageError
        A step that cannot be called, or no shaken call.
    TraceError
        The steps have no place in common.

    Examples
    --------
    ```python
    found = tracer.compare(lambda: step(eager_model), lambda: step(fused_model))
    assert found.verdict != "significant", found.first
    ```
    """
    for step in (step_a, step_b):
        if not callable(step):
            raise UsageError(f"a {type(step).__name__} cannot be called", hint="write compare(lambda: step(...), ...)")
    if not isinstance(yardstick_runs, int) or yardstick_runs < 1:
        raise UsageError("without a shaken call there is no yardstick", hint="ask for one or more")
    reached = [*objects_of(step_a), *objects_of(step_b)] if state is None else state
    saved = SavedState({id(held): held for held in reached}.values())
    with tempfile.TemporaryDirectory(prefix="tracer-") as folder:
        return answered(_Calls({"a": step_a, "b": step_b}, saved, Path(folder), model).record, yardstick_runs)


class _Calls:
    """Calls of two steps, each from the same state and recorded into a file of its own."""

    def __init__(self, steps: Mapping[Side, Callable[[], Any]], state: SavedState, folder: Path, model: Any) -> None:
        self._steps = steps
        self._state = state
        self._folder = folder
        self._model = model
        self._count = 0

    def record(self, side: Side, places: PlaceOptions = UNSHAKEN) -> Job:
        """Call a step once from the state that everything had at first: a ``Recording``."""
        if self._count:
            self._state.restore()
        self._count += 1
        path = self._folder / f"{self._count}.values"
        session = Session(self._model, RecordOptions(name=path.stem, magnitudes=str(path), places=places))
        with session, _eagerly() if places.shake is not None else nullcontext():
            self._steps[side]()
        return Job({"": read_magnitudes(path)})


def _eagerly() -> AbstractContextManager[object]:
    """A context in which compiled functions run op by op."""
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    import torch

    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance
