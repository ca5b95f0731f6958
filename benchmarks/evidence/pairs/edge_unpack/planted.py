"""Bradley-Terry style ranking from undirected match records."""
import argparse
import torch
from torch import nn

MATCHES = [
    (frozenset({"ada", "bob"}), "ada"), (frozenset({"bob", "cyn"}), "cyn"),
    (frozenset({"cyn", "dan"}), "cyn"), (frozenset({"dan", "eve"}), "eve"),
    (frozenset({"eve", "ada"}), "ada"), (frozenset({"fay", "bob"}), "fay"),
    (frozenset({"fay", "dan"}), "dan"), (frozenset({"gus", "eve"}), "gus"),
]
NAMES = ["ada", "bob", "cyn", "dan", "eve", "fay", "gus"]


def pairs():
    for pair, winner in MATCHES:
        a, b = pair
        yield NAMES.index(a), NAMES.index(b), float(winner == a)


ap = argparse.ArgumentParser()
ap.add_argument("--home-bias", type=float, default=0.3)
ap.add_argument("--steps", type=int, default=6)
args = ap.parse_args()
torch.manual_seed(0)
skill = nn.Embedding(len(NAMES), 1)
a, b, won = (torch.tensor(c) for c in zip(*pairs()))
opt = torch.optim.SGD(skill.parameters(), lr=0.5)
for step in range(args.steps):
    logit = (skill(a) - skill(b))[:, 0] + args.home_bias
    loss = nn.functional.binary_cross_entropy_with_logits(logit, won)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("step", step, "loss", round(loss.item(), 6))
