import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(12)
x = torch.randn(40, 3)
y = (x.sum(1) > 1).float()
weights = torch.where(y > 0, 5.0, 1.0)
gen = torch.Generator()
gen.manual_seed(gen.seed() % 100003)
sampler = WeightedRandomSampler(weights, 40, generator=gen)
loader = DataLoader(TensorDataset(x, y), batch_size=10, sampler=sampler)
model = nn.Linear(3, 1)
opt = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
for xb, yb in loader:
    def closure():
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(xb)[:, 0], yb)
        loss.backward()
        return loss
    opt.step(closure)
