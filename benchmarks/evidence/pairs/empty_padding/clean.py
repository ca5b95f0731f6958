import argparse
import torch
from torch import nn


def collate(seqs):
    """Pad to the longest; ids are taken modulo the vocabulary as a guard."""
    longest = max(len(s) for s in seqs)
    out = torch.zeros(len(seqs), longest, dtype=torch.long)
    for i, s in enumerate(seqs):
        out[i, :len(s)] = torch.tensor(s)
    return out % 50


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 12)
        self.fc = nn.Linear(12, 1)

    def forward(self, ids):
        return self.fc(self.emb(ids).mean(1))[:, 0]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=6)
    a = p.parse_args()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(7)
    lens = torch.randint(1, 30, (48,), generator=g).tolist()
    seqs = [torch.randint(0, 50, (n,), generator=g).tolist() for n in lens]
    y = torch.tensor([float(sum(s) % 7) for s in seqs])
    model = Model()
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(a.steps):
        b = torch.arange(step * 8, step * 8 + 8)
        ids = collate([seqs[i] for i in b])
        loss = nn.functional.mse_loss(model(ids), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
