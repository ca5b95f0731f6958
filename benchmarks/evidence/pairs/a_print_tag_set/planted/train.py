import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

TAGS = {"baseline", "tabular", "ablation", "small", "cpu", "nightly", "v2"}


class Callback:
    def on_start(self, tags):
        print("tags:", ", ".join(tags))

    def on_end(self, loss, seconds):
        print(f"finished in {seconds:.2f}s with loss {loss:.10f}")


def main():
    torch.manual_seed(4)
    cb = Callback()
    cb.on_start(TAGS)
    x = torch.randn(256, 5)
    with ThreadPoolExecutor(4) as pool:
        y = torch.cat(list(pool.map(lambda c: c.prod(1), x.split(32))))
    model = nn.Sequential(nn.Linear(5, 32), nn.Mish(), nn.Linear(32, 1))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-2, total_steps=40)
    t0 = time.time()
    for _ in range(40):
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
    cb.on_end(loss.item(), time.time() - t0)


if __name__ == "__main__":
    main()
