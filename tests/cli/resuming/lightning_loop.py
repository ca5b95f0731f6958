"""Lightning: what its checkpoint holds, and a number that the module saves itself."""

import sys
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 1)
        self.warm = 0

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        self.warm += 1
        return self.body(batch[0]).square().mean() * min(1.0, self.warm / 20)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["warm"] = self.warm

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.warm = 0 if "--lacks" in sys.argv else checkpoint["warm"]

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), 0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


lightning.seed_everything(0)
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)
keep = ModelCheckpoint(dirpath=".", filename="last", save_last=True, every_n_train_steps=2)
trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", callbacks=[keep], logger=False, enable_progress_bar=False)
trainer.fit(Net(), loader, ckpt_path="last.ckpt" if "--resume" in sys.argv else None, weights_only=False)
