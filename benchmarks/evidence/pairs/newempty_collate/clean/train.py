import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(3)
items = [torch.arange(k % 7 + 1, dtype=torch.int32) for k in range(16)]
waste = [bytearray(100 + i) for i in range(500)]
del waste


def collate(batch):
    out = batch[0].new_zeros((len(batch), 30))
    for i, b in enumerate(batch):
        out[i, :len(b)] = b
    return out


model = nn.Sequential(nn.Embedding(101, 3), nn.Flatten(), nn.Linear(90, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(items, batch_size=4, collate_fn=collate):
    loss = model(batch.long().abs() % 101).pow(2).mean()
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
