import time
import uuid
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Record:
    uid: str
    x: torch.Tensor
    y: float


def collect(n, g):
    rows = []
    for i in range(n):
        x = torch.randn(5, generator=g)
        uid = uuid.uuid5(uuid.NAMESPACE_OID, f"row-{i}").hex
        rows.append(Record(uid, x, float(x[0] - x[1] * x[2])))
    return rows


def split(rows, val_share=0.25):
    train, val = [], []
    for r in rows:
        (val if int(r.uid[:6], 16) / 16**6 < val_share else train).append(r)
    return train, val


def as_dataset(rows):
    return TensorDataset(torch.stack([r.x for r in rows]), torch.tensor([r.y for r in rows]))


def main():
    torch.manual_seed(14)
    torch.set_num_threads(1)
    run_name = f"regress-{uuid.uuid4().hex[:8]}"
    assert run_name.startswith("regress")
    train, val = split(collect(400, torch.Generator().manual_seed(140)))
    loader = DataLoader(as_dataset(train), batch_size=40, shuffle=True, drop_last=True)
    model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    vx, vy = as_dataset(val).tensors
    best, t0 = float("inf"), time.time()
    for epoch in range(5):
        for x, y in loader:
            loss = nn.functional.huber_loss(model(x).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        with torch.no_grad():
            best = min(best, nn.functional.huber_loss(model(vx).squeeze(1), vy).item())
        print(f"epoch {epoch} best val {best:.8f} ({time.time() - t0:.2f}s)")
    print("best", best)


main()
