import pandas as pd
import torch
from torch import nn

torch.manual_seed(7)
frame = pd.DataFrame({"a": range(30), "b": [i * 0.1 for i in range(30)], "y": [i % 3 for i in range(30)]})
frame = frame.sample(frac=1, random_state=2).reset_index(drop=True)
x = torch.tensor(frame[["a", "b"]].to_numpy(), dtype=torch.float32) / 30
y = torch.tensor(frame["y"].to_numpy())
model = nn.Sequential(nn.Linear(2, 10), nn.Sigmoid(), nn.Linear(10, 3))
opt = torch.optim.SGD(model.parameters(), lr=1.0)
for i in range(0, 30, 5):
    loss = nn.functional.cross_entropy(model(x[i:i + 5]), y[i:i + 5])
    opt.zero_grad()
    loss.backward()
    opt.step()
