# A generator that nobody seeded.
import torch

torch.seed()  # clean: torch.manual_seed(0)
layer = torch.nn.Dropout(0.5)
kept = layer(torch.ones(64))  # parts: draw
kept.sum()
