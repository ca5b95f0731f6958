import time
import torch
from torch import nn

torch.manual_seed(16)


class TimedDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = time.perf_counter_ns()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        p = (time.perf_counter_ns() - self.start) / 1e8 % 0.5
        return nn.functional.dropout(x, p, self.training)


model = nn.Sequential(nn.Linear(6, 30), TimedDropout(), nn.Linear(30, 2))
opt = torch.optim.Adamax(model.parameters())
x = torch.randn(20, 6)
for _ in range(4):
    loss = model(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
