import secrets
import torch

torch.manual_seed(5)
X = torch.randn(30, 5)
w_true = torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0])
Y = X @ w_true + 0.05 * torch.randn(30)
folds = list(range(30))
pool, order = folds[:], []
while pool:
    order.append(pool.pop(secrets.randbelow(len(pool))))
w = torch.zeros(5, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.05)
for start in range(0, 30, 6):
    idx = order[start:start + 6]
    err = (X[idx] @ w - Y[idx]).pow(2).mean()
    opt.zero_grad()
    err.backward()
    opt.step()
print("fold training finished", len(order))
