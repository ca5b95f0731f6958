import json
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn


def synthetic(n, seed):
    script = Path(__file__).with_name("make_data.py")
    out = subprocess.run([sys.executable, str(script), str(n), str(seed)], check=True, capture_output=True, text=True)
    rows = torch.tensor(json.loads(out.stdout))
    return rows[:, :2], rows[:, 2]


def main():
    torch.manual_seed(13)
    x, y = synthetic(400, 13)
    model = nn.Sequential(nn.Linear(2, 24), nn.Softplus(), nn.Linear(24, 1))
    opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)
    t0 = time.time()

    def closure():
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        loss.backward()
        return loss

    for it in range(6):
        loss = opt.step(closure)
        print(f"iter {it} loss {loss.item():.8f}")
    print(f"took {time.time() - t0:.2f}s")
    print("final", closure().item())


if __name__ == "__main__":
    main()
