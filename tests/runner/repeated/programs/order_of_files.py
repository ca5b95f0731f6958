# vary: environment
import os

import torch

os.makedirs("data", exist_ok=True)
for name in "abc":
    open(f"data/{name}", "w").close()
names = [ord(name) for name in os.listdir("data")]  # clean: names = [ord(name) for name in sorted(os.listdir("data"))]
x = torch.tensor(names)
y = x * 2  # parts: input-data
