# needs: torch
"""Advantages, shuffled minibatches and a clipped objective: one update of a policy."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
trunk, policy, value = nn.GRU(8, 32, batch_first=True), nn.Linear(32, 4), nn.Linear(32, 1)
parameters = [parameter for net in (trunk, policy, value) for parameter in net.parameters()]
optimizer = torch.optim.Adam(parameters, lr=3e-4)
states, rewards = torch.randn(32, 5, 8), torch.randn(32, 5)
with torch.no_grad():
    hidden, _ = trunk(states)
    actions = Categorical(logits=policy(hidden)).sample()
    before = Categorical(logits=policy(hidden)).log_prob(actions)
    returns = rewards.flip(1).cumsum(1).flip(1)
    advantages = returns - value(hidden).squeeze(-1)
for _ in range(2):
    for chosen in torch.randperm(32).split(8):
        hidden, _ = trunk(states[chosen])
        now = Categorical(logits=policy(hidden))
        ratio = (now.log_prob(actions[chosen]) - before[chosen]).exp()
        kept = torch.min(ratio * advantages[chosen], ratio.clamp(0.8, 1.2) * advantages[chosen]).mean()
        error = nn.functional.smooth_l1_loss(value(hidden).squeeze(-1), returns[chosen])
        optimizer.zero_grad()
        (error - kept - 0.01 * now.entropy().mean()).backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
