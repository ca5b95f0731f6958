import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 12)
        self.b = nn.Linear(12, 8)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))
