import argparse
import torch
from torch import nn
import torch.nn.functional as F

p = argparse.ArgumentParser(description="item biases by plain indexing")
p.add_argument("--items", type=int, default=40)
p.add_argument("--ratings", type=int, default=50000)
p.add_argument("--steps", type=int, default=4)
p.add_argument("--lr", type=float, default=1.0)
args = p.parse_args()

torch.manual_seed(0)
torch.set_num_threads(2)
items = torch.randint(0, args.items, (args.ratings,))
ctx = torch.randn(args.ratings, 4)
true = torch.randn(args.items, 4)
y = (true[items] * ctx).sum(1) + torch.randn(args.ratings)

table = nn.Parameter(torch.randn(args.items, 4) * 0.1)
opt = torch.optim.SGD([table], lr=args.lr)
for step in range(args.steps):
    rows = table[items]
    loss = F.mse_loss((rows * ctx).sum(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
torch.save({"table": table.detach()}, "table.pt")
