import random
import torch
from torch import nn


class Trainer:
    def __init__(self, rng):
        self.model = nn.Linear(3, 2)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.rng = rng

    def epoch(self, x):
        order = list(range(len(x)))
        self.rng.shuffle(order)
        for i in range(0, len(x), 4):
            loss = self.model(x[order[i:i + 4]]).logsumexp(1).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()

    def save(self, path):
        torch.save((self.model.state_dict(), self.opt.state_dict()), path)

    @classmethod
    def resume(cls, path):
        t = cls(random.Random(9))
        m, o = torch.load(path)
        t.model.load_state_dict(m)
        t.opt.load_state_dict(o)
        return t


torch.manual_seed(0)
x = torch.randn(16, 3)
first = Trainer(random.Random(5))
first.epoch(x)
first.save("mid.pt")
second = Trainer.resume("mid.pt")
second.epoch(x)
model = second.model
