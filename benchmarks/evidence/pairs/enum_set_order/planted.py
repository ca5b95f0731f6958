"""Multi-task training: each task gets its own head and takes turns."""
import enum
import torch
import torch.nn as nn
import torch.nn.functional as F


class Task(enum.Enum):
    DEPTH = 1
    NORMALS = 2
    EDGES = 3
    SEGMENT = 4
    FLOW = 5


torch.manual_seed(7)
trunk = nn.Linear(10, 16)
heads = nn.ModuleDict({t.name.lower(): nn.Linear(16, 2) for t in Task})
inputs = torch.randn(32, 10)
targets = {t: torch.randn(32, 2) * t.value for t in Task}
opt = torch.optim.Adam(list(trunk.parameters()) + list(heads.parameters()), lr=3e-2)

active = {Task.DEPTH, Task.NORMALS, Task.EDGES, Task.SEGMENT, Task.FLOW}
for epoch in range(3):
    losses = {}
    for task in active:
        feats = torch.tanh(trunk(inputs))
        loss = F.smooth_l1_loss(heads[task.name.lower()](feats), targets[task])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses[task.name] = loss.item()
    print(f"[{epoch}] " + " ".join(f"{k}={losses[k]:.4f}" for k in sorted(losses)))
