import torch
from torch import nn

torch.manual_seed(0)
CORPUS = """a cat sat on the mat while the dog ran over a hill
the hill was green and the cat was old but the dog was young""".split()
vocab = {w: i for i, w in enumerate(sorted(set(CORPUS)))}
ids = torch.tensor([vocab[w] for w in CORPUS])


class LM(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.e = nn.Embedding(n, 8)
        self.r = nn.GRU(8, 8, batch_first=True)
        self.o = nn.Linear(8, n)

    def forward(self, t):
        return self.o(self.r(self.e(t))[0])


model = LM(len(vocab))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    out = model(ids[None, :-1])
    loss = nn.functional.cross_entropy(out[0], ids[1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step}")

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = model
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")
