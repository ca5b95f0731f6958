"""Fine-tune with weight perturbation (noisy start) on every Linear layer."""
import argparse
import torch
from torch import nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--layers", type=int, default=10)
    p.add_argument("--noise", type=float, default=0.05)
    p.add_argument("--iters", type=int, default=4)
    return p.parse_args()


def linears(model):
    # shared layers must be perturbed once only
    return dict.fromkeys(m for m in model.modules() if isinstance(m, nn.Linear))


def main():
    opt = parse()
    torch.manual_seed(5)
    blocks = []
    for _ in range(opt.layers):
        blocks += [nn.Linear(16, 16), nn.LayerNorm(16), nn.ReLU()]
    model = nn.Sequential(*blocks, nn.Linear(16, 1))
    with torch.no_grad():
        for lin in linears(model):
            lin.weight.add_(torch.randn_like(lin.weight) * opt.noise)
    x = torch.randn(48, 16)
    y = x.abs().mean(1, keepdim=True)
    sgd = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for it in range(opt.iters):
        sgd.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        sgd.step()
        print(f"iter {it}: {loss.item():.7f}")


if __name__ == "__main__":
    main()
