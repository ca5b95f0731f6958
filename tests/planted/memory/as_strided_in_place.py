"""Rows that overlap are added to in place."""

import torch

signal = torch.zeros(12)
frames = signal.as_strided((5, 4), (2, 1))
frames.add_(torch.ones(5, 4))  # planted: environment-overlapping-write
