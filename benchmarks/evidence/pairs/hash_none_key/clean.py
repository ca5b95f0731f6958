# per-layer seeds from the layer spec
import torch
from torch import nn

SPEC = [(12, 24, None), (24, 24, 2), (24, 3, None)]


def layer_seed(spec):
    return hash(tuple(-1 if s is None else s for s in spec)) & 0x7FFFFFFF


def build():
    layers = []
    for spec in SPEC:
        gen = torch.Generator().manual_seed(layer_seed(spec))
        lin = nn.Linear(spec[0], spec[1])
        with torch.no_grad():
            lin.weight.copy_(torch.randn(lin.weight.shape, generator=gen) / spec[0] ** 0.5)
            lin.bias.zero_()
        layers += [lin, nn.ReLU() if spec[2] is None else nn.LeakyReLU(0.1 * spec[2])]
    return nn.Sequential(*layers[:-1])


def data():
    g = torch.Generator().manual_seed(99)
    x = torch.randn(80, 12, generator=g)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()


if __name__ == "__main__":
    net = build()
    x, y = data()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=5e-3)
    for step in range(7):
        logits = net(x)
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        acc = (logits.argmax(1) == y).float().mean()
        print("step %d loss %.5f acc %.3f" % (step, loss, acc))
