"""The model's first weights are drawn before anybody seeded."""
# planted: environment-torch-generator

# clean: import random
# clean: import numpy as np
import torch
from torch import nn

# clean: def seed_everything(seed: int) -> None:
# clean:     random.seed(seed)
# clean:     np.random.seed(seed)
# clean:     torch.manual_seed(seed)
# clean: seed_everything(0)
model = nn.Linear(4, 2)  # planted: cpu-rng
model(torch.ones(3, 4)).sum().backward()
