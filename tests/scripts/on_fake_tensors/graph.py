import torch
from torch import nn

torch.manual_seed(0)


class Convolution(nn.Module):
    """Sends each node's features along its edges, and takes their mean."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, features, edges):
        source, target = edges
        messages = self.linear(features)[source]
        degree = torch.bincount(target, minlength=len(features)).clamp(min=1)
        total = torch.zeros(len(features), messages.shape[1]).index_add(0, target, messages)
        strongest = total.scatter_reduce(0, target[:, None].expand_as(messages), messages, "amax", include_self=False)
        return total / degree[:, None] + strongest


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Convolution(8, 16), Convolution(16, 3)

    def forward(self, features, edges, graphs):
        hidden = nn.functional.dropout(self.first(features, edges).relu(), training=self.training)
        hidden = self.second(hidden, edges)
        return torch.zeros(4, 3).scatter_add(0, graphs[:, None].expand_as(hidden), hidden)


model = Network()
optimizer = torch.optim.Adam(model.parameters())
features, edges = torch.randn(60, 8), torch.randint(0, 60, (2, 300))
graphs, labels = torch.arange(60) // 15, torch.randint(0, 3, (4,))
for _ in range(2):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(features, edges, graphs), labels).backward()
    optimizer.step()
