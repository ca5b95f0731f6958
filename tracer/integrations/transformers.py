"""A Transformers ``TrainerCallback`` that records chosen steps and writes a determinism report when training ends.

Trainer(..., callbacks=[DeterminismCallback(steps=[0], backend="cuda")])
"""

from __future__ import annotations

import warnings
from typing import Any

from transformers import TrainerCallback

from tracer.integrations.chosen_steps import ChosenSteps


class DeterminismCallback(ChosenSteps, TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Records the optimizer steps ``steps``, counted by the trainer's ``global_step`` from 0, gradient accumulation
    included; see ``ChosenSteps`` for the rest. ``Trainer.evaluate`` and ``predict`` tell a callback of their steps only
    afterwards: outside a training, a warning says that they were not recorded.
    """

    _has_trained = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the tracer if an exception, which a trainer does not report, ended an earlier training in a step."""
        self._has_trained = True
        self.after(RuntimeError("the training was broken off"))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Enter the tracer if this step was chosen."""
        model = kwargs.get("model")
        self.before(state.global_step, model, type(model).__name__)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the tracer: the optimizer has stepped."""
        self.after()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the trace and, on rank zero, the report."""
        self.finish()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Say that nothing was recorded if no training was."""
        if not self._has_trained:
            hint = "put `with DeterminismTracer(model):` around them"
            warnings.warn(f"determinism: this callback records no evaluate() and predict(); {hint}", stacklevel=2)

    on_predict = on_evaluate
