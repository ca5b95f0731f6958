"""The machine seeds anew in the middle, after the seeded generator has drawn."""
# planted: environment-torch-generator

import torch
from torch import nn

# clean: torch.manual_seed(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
x = torch.ones(3, 4)
# clean: state = torch.get_rng_state()
model(x).sum().backward()
torch.seed()  # clean: torch.set_rng_state(state)
model(x).sum().backward()
