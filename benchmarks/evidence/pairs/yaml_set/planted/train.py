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

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")
