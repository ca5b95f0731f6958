# needs: lightning
import lightning
from lightning.pytorch.demos.boring_classes import BoringModel

lightning.seed_everything(0)
trainer = lightning.Trainer(
    max_steps=2,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    limit_val_batches=1,
)
trainer.fit(BoringModel())
