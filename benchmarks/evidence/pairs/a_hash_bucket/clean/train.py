import logging
import time

import numpy as np
import torch
from torch import nn

from features import N_BUCKETS, encode_row

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("ctr")

CITIES = ["oslo", "turin", "lyon", "gent", "porto", "graz"]
DEVICES = ["phone", "tablet", "desktop", "tv"]


def make_rows(rng, n):
    rows, clicks = [], []
    for _ in range(n):
        row = {"city": str(rng.choice(CITIES)), "device": str(rng.choice(DEVICES)), "slot": f"s{rng.integers(9)}"}
        p = 0.2 + 0.1 * CITIES.index(row["city"]) * (row["device"] == "phone")
        rows.append(encode_row(row))
        clicks.append(float(rng.random() < p))
    return torch.tensor(rows), torch.tensor(clicks)


class WideDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(N_BUCKETS, 8, mode="sum")
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.mlp(self.emb(x)).squeeze(-1)


def train():
    torch.manual_seed(11)
    x, y = make_rows(np.random.default_rng(11), 1024)
    model = WideDeep()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    start = time.perf_counter()
    for step in range(60):
        sel = torch.randint(0, len(x), (128,))
        loss = nn.functional.binary_cross_entropy_with_logits(model(x[sel]), y[sel])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 20 == 0:
            log.info("step %d loss %.8f", step, loss.item())
    log.info("took %.2fs", time.perf_counter() - start)
    return loss.item()


if __name__ == "__main__":
    print("final", repr(train()))
