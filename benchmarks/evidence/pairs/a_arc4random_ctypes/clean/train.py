import time

import torch
from torch import nn

from sampler import span_mask


class MaskedModel(nn.Module):
    def __init__(self, vocab, d=24, length=16):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab + 1, d), nn.Parameter(torch.zeros(length, d))
        self.enc = nn.TransformerEncoderLayer(d, 3, 48, dropout=0.0, batch_first=True)
        self.head = nn.Linear(d, vocab)

    def forward(self, x):
        return self.head(self.enc(self.tok(x) + self.pos))


def main(vocab=20, length=16):
    torch.manual_seed(41)
    torch.set_num_threads(1)
    model = MaskedModel(vocab)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    t0 = time.perf_counter()
    running = 0.0
    for step in range(40):
        ids = (torch.randint(0, vocab, (8, 1)) + torch.arange(length)) % vocab
        x = ids.clone()
        mask = torch.zeros_like(ids, dtype=torch.bool)
        for row in range(len(ids)):
            a, b = span_mask(length, 3)
            mask[row, a:b] = True
        x[mask] = vocab
        loss = nn.functional.cross_entropy(model(x)[mask], ids[mask])
        opt.zero_grad()
        loss.backward()
        opt.step()
        running = 0.9 * running + 0.1 * loss.item()
    print(f"pretraining: {time.perf_counter() - t0:.2f}s")
    print("running loss", running)


if __name__ == "__main__":
    main()
