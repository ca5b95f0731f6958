"""A Lightning ``Callback`` that records chosen batches and writes a determinism report when training ends.

Trainer(callbacks=[DeterminismCallback(steps=[0], backend="cuda")])
"""

from __future__ import annotations

from typing import Any

from tracer.integrations.chosen_steps import ChosenSteps

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:  # the package's older name
    from pytorch_lightning.callbacks import Callback  # type: ignore[assignment, unused-ignore]


class DeterminismCallback(ChosenSteps, Callback):  # type: ignore[misc, unused-ignore]
    """Records the training batches ``steps``, counted over the whole run from 0; see ``ChosenSteps`` for the rest."""

    _batch = 0

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Enter the tracer if this batch was chosen."""
        self.before(self._batch, pl_module, type(pl_module).__name__)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Leave the tracer."""
        self._batch += 1
        self.after()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Leave the tracer and write what there is: a trace that says so where it is partial."""
        self.break_off(exception)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the trace and, on rank zero, the report."""
        self.finish()
