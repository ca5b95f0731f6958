import pickle
import zlib
import torch
from torch import nn

flags = {"amp", "ema", "clip", "warmup", "cosine", "fused"}
fingerprint = zlib.crc32(pickle.dumps(sorted(flags)))
torch.manual_seed(fingerprint)
model = nn.Conv1d(2, 3, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.randn(2, 2, 9)).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
