# judge: backend=cuda settings=default
"""One entry a row is gathered, as every log_prob of a category does: no two gradients meet."""

import torch

torch.manual_seed(0)
logits = torch.randn(5, 7, requires_grad=True)
chosen = torch.randint(0, 7, (5,))
torch.distributions.Categorical(logits=logits, validate_args=False).log_prob(chosen).sum().backward()
