from collections import Counter
import torch
from torch import nn

torch.manual_seed(5)
words = ["abab", "cdcd", "efef", "ghgh", "ijij", "klkl"]


def merges(words, n):
    out = []
    toks = [list(w) for w in words]
    for _ in range(n):
        count = Counter((a, b) for t in toks for a, b in zip(t, t[1:]))
        best = max(set(count), key=count.get)
        out.append("".join(best))
        new = []
        for t in toks:
            i, r = 0, []
            while i < len(t):
                if tuple(t[i:i + 2]) == best:
                    r.append("".join(best))
                    i += 2
                else:
                    r.append(t[i])
                    i += 1
            new.append(r)
        toks = new
    return out, toks


rules, toks = merges(words, 4)
vocab = {t: i for i, t in enumerate(list("abcdefghijkl") + rules)}
emb = nn.EmbeddingBag(len(vocab), 6)
opt = torch.optim.SGD(emb.parameters(), lr=0.4)
for t in toks:
    loss = emb(torch.tensor([[vocab[s] for s in t]])).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
