# judge: backend=cuda settings=default
"""Two entries a row are gathered, which may be one: their gradients meet."""

import torch

torch.manual_seed(0)
logits = torch.randn(5, 7, requires_grad=True)
chosen = torch.randint(0, 7, (5, 2))  # clean:
logits.gather(1, chosen).square().sum().backward()  # planted: cuda-scatter-add  # clean:
# clean: chosen = torch.randint(0, 7, (5,))
# clean: torch.distributions.Categorical(logits=logits, validate_args=False).log_prob(chosen).sum().backward()
