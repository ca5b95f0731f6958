import multiprocessing as mp
import os
import time

from featurize import featurize

RECORDS = [f"city={c};plan={p};seats={s}" for c in ("oslo", "lima", "kyoto", "accra")
           for p in ("free", "team", "pro") for s in (1, 5, 25)]


def train(rows):
    import torch
    from torch import nn

    torch.manual_seed(77)
    x = torch.tensor(rows, dtype=torch.float32)
    y = torch.arange(len(rows)).remainder(3)
    net = nn.Sequential(nn.Linear(x.shape[1], 24), nn.GELU(), nn.Linear(24, 3))
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    for _ in range(40):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item(), sum(p.double().abs().sum().item() for p in net.parameters())


def main():
    t0 = time.time()
    owner = os.environ.get("USER", "nobody")
    ctx = mp.get_context("spawn")
    chunks = [RECORDS[i::2] for i in range(2)]
    with ctx.Pool(2) as pool:
        parts = pool.map(featurize, chunks)
    rows = [None] * len(RECORDS)
    for k, part in enumerate(parts):
        rows[k::2] = part
    print(f"features ready after {time.time() - t0:.2f}s", bool(owner))
    loss, norm = train(rows)
    print(f"final loss {loss!r} norm {norm!r}")


if __name__ == "__main__":
    main()
