import argparse
import pickle
from pathlib import Path

import torch
from torch import nn


class Replay:
    def __init__(self, path, cap=500):
        self.path, self.cap, self.items = Path(path), cap, []

    def load(self):
        if self.path.is_file():
            self.items = pickle.loads(self.path.read_bytes())
        return self

    def save(self):
        self.path.write_bytes(pickle.dumps(self.items[-self.cap:]))

    def sample(self, n, g):
        idx = torch.randint(0, len(self.items), (n,), generator=g).tolist()
        s, r = zip(*(self.items[i] for i in idx))
        return torch.stack(s), torch.tensor(r)


args = argparse.ArgumentParser()
args.add_argument("--buffer", default="replay.pkl")
args.add_argument("--steps", type=int, default=6)
args = args.parse_args()
g = torch.Generator().manual_seed(0)
torch.manual_seed(0)
q = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(q.parameters(), lr=5e-3)
buf = Replay(args.buffer).load()
for step in range(args.steps):
    for _ in range(10):
        s = torch.randn(4, generator=g)
        buf.items.append((s, float(s.norm())))
    s, r = buf.sample(16, g)
    loss = nn.functional.mse_loss(q(s)[:, 0], r)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("step", step, "td", loss.item())
buf.save()
