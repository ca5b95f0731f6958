"""Nobody seeds, and nothing hangs on it: an unshuffled loader, attention and an RNN that drop nothing."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

query = torch.ones(1, 2, 4, requires_grad=True)
with torch.random.fork_rng():
    torch.manual_seed(0)
    rnn = nn.GRU(4, 4, 2, dropout=0.5).eval()
for batch in DataLoader([torch.ones(2, 4)]):
    functional.scaled_dot_product_attention(query, rnn(batch)[0], batch).sum().backward()
