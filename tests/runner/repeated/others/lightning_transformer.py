# needs: lightning
import lightning
import torch
from lightning.pytorch.demos import Transformer


class Language(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Transformer(vocab_size=50, ninp=32, nhead=2, nhid=32, nlayers=2)

    def training_step(self, batch, number):
        words, target = batch
        return torch.nn.functional.nll_loss(self.model(words, target), target.view(-1))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(0)
words = torch.randint(0, 50, (16, 12))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(words, words.flip(1)), batch_size=4, shuffle=True)
trainer = lightning.Trainer(
    max_steps=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(Language(), loader)
