"""Lightning: what its checkpoint holds, and what the module and a callback save themselves. ``LACKS`` is left out."""

import sys
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LACKS = ""


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 1)
        self.warm = 0

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        self.warm += 1
        loss = self.body(batch[0]).square().mean()
        self.log("loss", loss)
        return loss * min(1.0, self.warm / 20)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["warm"] = self.warm

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if LACKS != "counter":
            self.warm = checkpoint["warm"]
        if LACKS == "scheduler":
            checkpoint["lr_schedulers"] = []
        if LACKS == "optimizer":
            checkpoint["optimizer_states"] = []

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), 0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        return [optimizer], [scheduler]


class Average(Callback):
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if not hasattr(self, "kept"):
            self.kept = pl_module.body.weight.detach().clone()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any) -> None:
        self.kept.mul_(0.9).add_(pl_module.body.weight.detach(), alpha=0.1)

    def state_dict(self) -> dict[str, Any]:
        return {"kept": self.kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if LACKS != "average":
            self.kept = state["kept"]


lightning.seed_everything(0)
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)
keep = ModelCheckpoint(dirpath=".", filename="{step}", save_top_k=-1, every_n_train_steps=2)
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", callbacks=[keep, Average()], logger=False, enable_progress_bar=False
)
trainer.fit(Net(), loader, ckpt_path="step=2.ckpt" if "--resume" in sys.argv else None, weights_only=False)
