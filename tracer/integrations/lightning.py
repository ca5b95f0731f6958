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

    def on_train_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """A batch begins; the validation within ``fit`` is not recorded."""
        if not _is_within_fit(trainer):
            self.before(self._batch, pl_module, type(pl_module).__name__)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """It ends."""
        if not _is_within_fit(trainer):
            self._batch += 1
            self.after()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """The loop ends."""
        if not _is_within_fit(trainer):
            self._batch = 0
            loop = _loop(trainer)
            self.finish("" if loop == "fit" else loop)

    on_validation_batch_start = on_test_batch_start = on_predict_batch_start = on_train_batch_start
    on_validation_batch_end = on_test_batch_end = on_predict_batch_end = on_train_batch_end
    on_validation_end = on_test_end = on_predict_end = on_train_end

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Leave the tracer and write what there is: a trace that says so where it is partial."""
        self.break_off(exception)


def _loop(trainer: Any) -> str:
    return str(getattr(trainer.state.fn, "value", trainer.state.fn))


def _is_within_fit(trainer: Any) -> bool:
    return _loop(trainer) == "fit" and bool(trainer.validating or trainer.sanity_checking)
