"""``tracer.compare``: two steps called from the same state, and whether their difference is rounding."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from tracer.divergence.magnitudes import CompareVerdict, Comparison, compared, first_call
from tracer.errors import UsageError
from tracer.names import PlaceKind
from tracer.runner.repeated.within.state import SavedState, objects_of
from tracer.session import Session
from tracer.trace.values import Magnitudes, read_magnitudes

#: Further shaken calls where the answer is undecided.
FURTHER = 3


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
        Shaken calls, one or more. Where the answer is undecided, three more are made.
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
        calls = _Calls(saved, Path(folder), model)
        return calls.compare(step_a, step_b, yardstick_runs)


class _Calls:
    """Calls of two steps, each from the same state and recorded into a file of its own."""

    def __init__(self, state: SavedState, folder: Path, model: Any) -> None:
        self._state = state
        self._folder = folder
        self._model = model
        self._count = 0

    def compare(self, step_a: Callable[[], Any], step_b: Callable[[], Any], yardstick_runs: int) -> Comparison:
        first, second = self.record(step_a), self.record(step_b)
        comparison = compared(first, second)
        shaken: list[Magnitudes] = []
        of_second: list[Magnitudes] = []
        second_is_narrower = comparison.second_is_narrower
        needed = yardstick_runs if comparison.verdict is CompareVerdict.NOT_JUDGED else 0
        while needed:
            for seed in range(len(shaken) + 1, len(shaken) + needed + 1):
                shaken.append(self.record(step_a, shake=seed))
                if second_is_narrower:
                    of_second.append(self.record(step_b, shake=seed))
            comparison = compared(first, second, shaken, of_second)
            is_undecided = comparison.verdict is CompareVerdict.UNDECIDED
            needed = FURTHER if is_undecided and len(shaken) < yardstick_runs + FURTHER else 0
        place = comparison.first
        if place is None or place.kind is not PlaceKind.OUTPUT or comparison.is_given:
            return comparison
        inside = [
            self.record(step, shake=shake, calls_of=place.module)
            for step, shake in ((step_a, None), (step_b, None), (step_a, 1))
        ]
        return msgspec.structs.replace(comparison, call=first_call(inside[0], inside[1], inside[2], place))

    def record(self, step: Callable[[], Any], *, shake: int | None = None, calls_of: str = "") -> Magnitudes:
        """Call ``step`` once from the state that everything had at first."""
        if self._count:
            self._state.restore()
        self._count += 1
        path = self._folder / f"{self._count}.values"
        session = Session(self._model, name=path.stem, magnitudes=path, shake=shake, calls_of=calls_of)
        session.enter()
        problem: type[BaseException] | None = None
        try:
            with _eagerly() if shake is not None else nullcontext():
                step()
        except BaseException as error:
            problem = type(error)
            raise
        finally:
            session.leave(problem)
        return read_magnitudes(path)


@contextmanager
def _eagerly() -> Iterator[None]:
    """Compiled functions run op by op in here."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    import torch

    with torch.compiler.set_stance("force_eager"):
        yield
