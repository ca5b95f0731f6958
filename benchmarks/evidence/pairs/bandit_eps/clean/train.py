import random
import torch

torch.manual_seed(4)


class Explorer:
    def __init__(self, arms, eps):
        self.arms, self.eps = arms, eps
        self.dice = random.Random("explorer")

    def pick(self, values):
        if self.dice.random() < self.eps:
            return self.dice.randrange(self.arms)
        return int(values.argmax())


theta = torch.nn.Parameter(torch.zeros(6))
opt = torch.optim.SGD([theta], lr=0.3)
payout = torch.tensor([0.1, 0.4, 0.2, 0.9, 0.5, 0.3])
agent = Explorer(6, 0.8)
for pull in range(25):
    arm = agent.pick(theta.detach())
    reward = payout[arm] + 0.01 * torch.randn(())
    loss = (theta[arm] - reward) ** 2
    opt.zero_grad()
    loss.backward()
    opt.step()
print("best arm chosen")
