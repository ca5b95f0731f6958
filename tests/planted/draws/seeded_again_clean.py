"""Seeded twice before anything is drawn; a state is saved and put back."""

import torch
from torch import nn

torch.manual_seed(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
x = torch.ones(3, 4)
state = torch.get_rng_state()
model(x).sum().backward()
torch.set_rng_state(state)
model(x).sum().backward()
