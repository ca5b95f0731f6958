import torch
from torch import nn

torch.manual_seed(8)
BRANCHES = ["text", "image", "audio", "depth", "thermal", "imu"]


class Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.ModuleDict()
        for name in BRANCHES:
            self.b[name] = nn.Linear(4, 4)
        self.top = nn.Linear(4, 1)

    def forward(self, feats):
        s = sum(self.b[k](feats[k]) for k in sorted(feats))
        return self.top(s.relu())


model = Fusion()
feats = {k: torch.ones(3, 4) * len(k) for k in sorted(BRANCHES)}
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(2):
    loss = model(feats).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
