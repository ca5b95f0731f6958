import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser(description="MLP with selective re-init (as in fine-tuning recipes)")
parser.add_argument("--hidden", type=int, default=20)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--seed", type=int, default=2024)
args = parser.parse_args()


class Net(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.stem = nn.Linear(8, h)
        self.block1 = nn.Linear(h, h)
        self.block2 = nn.Linear(h, h)
        self.head = nn.Linear(h, 4)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = x + torch.relu(self.block1(x))
        x = x + torch.relu(self.block2(x))
        return self.head(x)


def reinit(model, loaded):
    """Everything that the checkpoint did not provide gets fresh weights."""
    own = dict(model.named_parameters())
    missing = [k for k in own if k not in loaded]
    for name in missing:
        if own[name].dim() > 1:
            nn.init.xavier_normal_(own[name])
        else:
            nn.init.normal_(own[name], std=0.01)
    print(f"initialised {len(missing)} tensors")


torch.manual_seed(args.seed)
x = torch.randn(64, 8)
y = torch.randint(0, 4, (64,))
model = Net(args.hidden)
reinit(model, loaded={"stem.weight", "stem.bias"})
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(args.steps):
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    print(step, round(loss.item(), 5))
