"""The seed comes before the model's weights are drawn."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
drop = nn.Dropout(0.5)
drop(model(torch.ones(3, 4))).sum().backward()
