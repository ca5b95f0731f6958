"""The model's first weights are drawn before anybody seeded."""
# planted: environment-torch-generator

import torch
from torch import nn

model = nn.Linear(4, 2)  # planted: cpu-rng
model(torch.ones(3, 4)).sum().backward()
