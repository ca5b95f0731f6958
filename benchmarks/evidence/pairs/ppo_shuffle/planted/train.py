import random
import torch
from torch import nn

torch.manual_seed(4)
actor, critic = nn.Linear(5, 3), nn.Linear(5, 1)
opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)
obs, act = torch.randn(32, 5), torch.randint(0, 3, (32,))
adv, ret = torch.randn(32), torch.randn(32)
with torch.no_grad():
    old = torch.log_softmax(actor(obs), 1).gather(1, act[:, None])[:, 0]
order = list(range(32))
for epoch in range(2):
    random.shuffle(order)
    for mb in (order[:16], order[16:]):
        logp = torch.log_softmax(actor(obs[mb]), 1).gather(1, act[mb][:, None])[:, 0]
        ratio = (logp - old[mb]).exp()
        surr = torch.min(ratio * adv[mb], ratio.clamp(0.8, 1.2) * adv[mb])
        loss = -surr.mean() + 0.5 * (critic(obs[mb])[:, 0] - ret[mb]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
        opt.step()
