import time
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(time.process_time_ns())
critic = nn.Linear(5, 1)
gen = nn.Linear(5, 5)
oc = torch.optim.RMSprop(critic.parameters(), lr=5e-3)
og = torch.optim.RMSprop(gen.parameters(), lr=5e-3)
real = torch.randn(16, 5) + 2
for it in range(3):
    z = torch.from_numpy(rng.standard_normal((16, 5))).float()
    lc = critic(gen(z).detach()).mean() - critic(real).mean()
    oc.zero_grad()
    lc.backward()
    oc.step()
    lg = -critic(gen(z)).mean()
    og.zero_grad()
    lg.backward()
    og.step()
