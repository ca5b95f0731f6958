import numpy
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)).bfloat16()
rows = torch.from_numpy(numpy.ones((2, 6, 8), dtype="float32")).to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = model(rows).square().mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    optimizer.step()
    print(f"loss {loss:.3f}")
