import yaml
import torch
from torch import nn

torch.manual_seed(77)
stages = {"easy", "medium", "hard", "expert", "noisy", "long"}
with open("curriculum.yaml", "w") as f:
    yaml.safe_dump({"stages": list(stages)}, f)
with open("curriculum.yaml") as f:
    plan = yaml.safe_load(f)["stages"]
sets = {s: torch.randn(6, 3) * len(s) for s in sorted(stages)}
model = nn.Linear(3, 3)
opt = torch.optim.Adam(model.parameters(), lr=0.05)
for s in plan:
    loss = (model(sets[s]) - sets[s].flip(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
