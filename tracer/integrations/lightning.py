"""A Lightning ``Callback`` that records chosen batches and writes a determinism report when their loop ends.

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
    """Records the batches ``steps`` of ``fit``, ``validate``, ``test`` or ``predict``, counted over the loop from 0.

    See ``ChosenSteps`` for the rest. Files of loops other than ``fit`` bear their name: ``trace.test.json``.
    """

    _batch = 0

    def _begin(self, pl_module: Any) -> None:
        """Enter the tracer if this batch was chosen."""
        self.before(self._batch, pl_module, type(pl_module).__name__)

    def _end(self) -> None:
        """Leave the tracer."""
        self._batch += 1
        self.after()

    def _finish(self, loop: str = "") -> None:
        """Write the trace and, on rank zero, the report."""
        self._batch = 0
        self.finish(loop)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """A batch of ``fit`` begins."""
        self._begin(pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """It ends."""
        self._end()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """``fit`` ends."""
        self._finish()

    def on_validation_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """A batch of ``validate`` begins; those within ``fit`` are not recorded."""
        if _is_validated(trainer):
            self._begin(pl_module)

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """It ends."""
        if _is_validated(trainer):
            self._end()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """``validate`` ends."""
        if _is_validated(trainer):
            self._finish("validate")

    def on_test_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """A batch of ``test`` begins."""
        self._begin(pl_module)

    def on_test_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """It ends."""
        self._end()

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        """``test`` ends."""
        self._finish("test")

    def on_predict_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """A batch of ``predict`` begins."""
        self._begin(pl_module)

    def on_predict_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """It ends."""
        self._end()

    def on_predict_end(self, trainer: Any, pl_module: Any) -> None:
        """``predict`` ends."""
        self._finish("predict")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Leave the tracer and write what there is: a trace that says so where it is partial."""
        self.break_off(exception)


def _is_validated(trainer: Any) -> bool:
    return str(getattr(trainer.state.fn, "value", trainer.state.fn)) == "validate"
