"""The seed comes after the model's weights were drawn."""
# planted: environment-torch-generator

import torch
from torch import nn

# clean: torch.manual_seed(0)
model = nn.Linear(4, 2)  # planted: cpu-rng
torch.manual_seed(0)  # clean:
drop = nn.Dropout(0.5)
drop(model(torch.ones(3, 4))).sum().backward()
