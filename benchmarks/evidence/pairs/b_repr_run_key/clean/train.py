import time
import zlib

import torch
from torch import nn


class Cosine:
    def __init__(self, total):
        self.total = total

    def __call__(self, step):
        return 0.5 * (1 + torch.cos(torch.tensor(3.14159265 * step / self.total)).item())

    def __repr__(self):
        return f"Cosine({self.total})"


def hparams():
    return {
        "hidden": 28,
        "lr": 0.02,
        "steps": 45,
        "act": nn.Tanh(),
        "schedule": Cosine(45),
    }


def run_key(hp):
    text = ",".join(f"{k}={v!r}" for k, v in sorted(hp.items()))
    return zlib.crc32(text.encode())


def build(hp):
    return nn.GRU(4, hp["hidden"], batch_first=True), nn.Linear(hp["hidden"], 1)


def main():
    hp = hparams()
    torch.manual_seed(run_key(hp))
    rnn, head = build(hp)
    params = [*rnn.parameters(), *head.parameters()]
    opt = torch.optim.Adam(params, lr=hp["lr"])
    sched = torch.optim.lr_scheduler.LambdaLR(opt, hp["schedule"])
    seq = torch.arange(16 * 10 * 4, dtype=torch.float32).view(16, 10, 4).div(90).cos()
    target = seq.sum(-1).mean(1, keepdim=True)
    debug_name = f"run-{id(hp):x}"
    t0 = time.time()
    for step in range(hp["steps"]):
        out, _ = rnn(seq)
        loss = (head(hp["act"](out[:, -1])) - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
    print(f"done in {time.time() - t0:.2f}s", debug_name.startswith("run-"))
    print(f"final loss {loss.item()!r}")


main()
