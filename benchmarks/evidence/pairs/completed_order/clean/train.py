import concurrent.futures as cf
import torch
from torch import nn

torch.manual_seed(2)
raw = torch.randn(24, 6, 4)


def prepare(k):
    t = raw[k]
    for _ in range(30):
        t = torch.nn.functional.normalize(t + t.roll(1, 0), dim=0)
    return t


model = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4))
opt = torch.optim.Adam(model.parameters(), lr=0.02)
with cf.ThreadPoolExecutor(6) as pool:
    jobs = [pool.submit(prepare, k) for k in range(24)]
    for job in jobs:
        x = job.result()
        loss = (model(x) - x.flip(1)).pow(2).mean()
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
