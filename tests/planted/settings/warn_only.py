# judge: backend=cuda
# planted: environment-warn-only
"""Deterministic mode only warns of an op that has no repeatable implementation."""

import torch

torch.manual_seed(0)
torch.use_deterministic_algorithms(True, warn_only=True)  # clean: torch.use_deterministic_algorithms(True)
model = torch.nn.Linear(4, 2)
scores, labels = model(torch.ones(3, 5, 4)).movedim(-1, 1), torch.zeros(3, 5, dtype=torch.long)
# clean: scores, labels = scores.movedim(1, -1).flatten(0, 1), labels.flatten()
loss = torch.nn.functional.nll_loss(scores, labels)
loss.backward()
