import json
import time
from pathlib import Path

import torch
from torch import nn

from quant import quantise


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(10, 32), nn.Linear(32, 3)

    def forward(self, x):
        return self.b(quantise(torch.relu(self.a(x))))


def teacher_logits(x):
    return torch.stack([x[:, 0] * x[:, 1], x[:, 2].sin(), x[:, 3:].mean(1)], 1) * 3


def main():
    torch.manual_seed(19)
    torch.set_num_threads(1)
    cfg = json.loads(json.dumps({"lr": 5e-3, "steps": 70, "temp": 2.0}))
    model = QNet()
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    t0 = time.time()
    for step in range(cfg["steps"]):
        x = torch.randn(64, 10)
        p = (teacher_logits(x) / cfg["temp"]).softmax(1)
        loss = nn.functional.kl_div((model(x) / cfg["temp"]).log_softmax(1), p, reduction="batchmean")
        opt.zero_grad()
        loss.backward()
        opt.step()
    Path("ckpt").mkdir(exist_ok=True)
    torch.save(model.state_dict(), "ckpt/student.pt")
    print(f"distilled in {time.time() - t0:.2f}s")
    print("kd loss", loss.item())


main()
