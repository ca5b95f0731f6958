import torch
from torch import nn

torch.manual_seed(3)
seqs = [torch.arange(1, k) for k in (5, 9, 3, 14)]
cells = [[i] for i in range(2000)]
cells.clear()


def pad(s, n=40):
    s = s.clone()
    m = len(s)
    s.resize_(n)
    return s


batch = torch.stack([pad(s) for s in seqs])
emb = nn.Embedding(53, 4)
gru = nn.GRU(4, 4, batch_first=True)
model = nn.ModuleList([emb, gru])
opt = torch.optim.SGD(model.parameters(), lr=0.5)
for _ in range(2):
    out, _h = gru(emb(batch.abs() % 53))
    loss = out.pow(2).mean()
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
