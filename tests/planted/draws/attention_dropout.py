"""Attention drops weights that it draws from a generator that nobody seeded."""
# planted: environment-torch-generator

import torch
from torch.nn import functional
from torch.utils.data import DataLoader

query = torch.ones(1, 2, 4, requires_grad=True)
for batch in DataLoader([torch.ones(2, 4)]):
    functional.scaled_dot_product_attention(query, batch, batch, dropout_p=0.5).sum().backward()  # planted: cpu-rng
