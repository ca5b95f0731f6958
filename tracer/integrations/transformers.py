"""A Transformers ``TrainerCallback`` that records chosen steps and writes a determinism report when training ends.

Trainer(..., callbacks=[DeterminismCallback(steps=[0], backend="cuda")])
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from tracer.integrations.chosen_steps import ChosenSteps

if TYPE_CHECKING:
    from tracer.report import Report


class DeterminismCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Records the optimizer steps ``steps``, counted by the trainer's ``global_step`` from 0, gradient accumulation
    included; see ``ChosenSteps`` for the rest.
    """

    def __init__(
        self,
        steps: Iterable[int] = (0,),
        *,
        output: str | os.PathLike[str] = "determinism",
        formats: Iterable[str] = ("html",),
        backend: str = "recorded",
        torch: str = "recorded",
        settings: str = "recorded",
    ) -> None:
        self._chosen = ChosenSteps(
            steps, output=output, formats=formats, backend=backend, torch=torch, settings=settings
        )

    @property
    def report(self) -> Report | None:
        """The report, on rank zero, once training has ended."""
        return self._chosen.report

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the tracer where an exception, of which a trainer tells nobody, ended an earlier training in a step."""
        self._chosen.after(RuntimeError("the training was broken off"))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Enter the tracer if this step was chosen."""
        model = kwargs.get("model")
        self._chosen.before(state.global_step, model, type(model).__name__)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the tracer: the optimizer has stepped."""
        self._chosen.after()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the trace and, on rank zero, the report."""
        self._chosen.finish()
