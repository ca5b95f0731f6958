"""Attention drops weights that it draws from a generator that nobody seeded."""
# planted: environment-torch-generator

import torch

# clean: from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

query = torch.ones(1, 2, 4, requires_grad=True)
# clean: with torch.random.fork_rng():
# clean:     torch.manual_seed(0)
# clean:     rnn = nn.GRU(4, 4, 2, dropout=0.5).eval()
for batch in DataLoader([torch.ones(2, 4)]):
    attended = functional.scaled_dot_product_attention(query, batch, batch, dropout_p=0.5)  # planted: cpu-rng  # clean:
    # clean:     attended = functional.scaled_dot_product_attention(query, rnn(batch)[0], batch)
    attended.sum().backward()
