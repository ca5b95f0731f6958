import random
import torch
from torch import nn

random.seed(9)
torch.manual_seed(9)
docs = [[(7 * i + j) % 31 for j in range(6)] for i in range(20)]
random.Random(4).shuffle(docs)
emb = nn.EmbeddingBag(31, 8, mode="mean")
clf = nn.Linear(8, 2)
model = nn.ModuleList([emb, clf])
opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
for lo in range(0, 20, 5):
    ids = torch.tensor(docs[lo:lo + 5])
    target = (ids.sum(1) % 2).long()
    loss = nn.functional.cross_entropy(clf(emb(ids)), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
