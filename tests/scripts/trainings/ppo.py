"""Proximal policy optimization on a random walk, with advantages by a loop over time."""

import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, states: torch.Tensor) -> tuple:
        hidden = self.body(states)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(-1)


def rollout(policy: Policy) -> tuple:
    state, states, actions, rewards, logs, values = torch.zeros(4), [], [], [], [], []
    for _ in range(32):
        with torch.no_grad():
            choice, value = policy(state)
            action = choice.sample()
        states.append(state)
        actions.append(action)
        logs.append(choice.log_prob(action))
        values.append(value)
        state = state + 0.1 * (2 * action - 1) + 0.05 * torch.randn(4)
        rewards.append(-state.abs().sum())
    return tuple(map(torch.stack, (states, actions, rewards, logs, values)))


def main() -> None:
    torch.manual_seed(0)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    for _ in range(2):
        states, actions, rewards, logs, values = rollout(policy)
        returns = torch.flip(torch.cumsum(torch.flip(rewards, (0,)), 0), (0,))
        advantages = returns - values
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        for _ in range(2):
            for rows in torch.randperm(32).split(16):
                choice, value = policy(states[rows])
                ratio = (choice.log_prob(actions[rows]) - logs[rows]).exp()
                clipped = ratio.clamp(0.8, 1.2)
                gain = torch.min(ratio * advantages[rows], clipped * advantages[rows]).mean()
                loss = nn.functional.mse_loss(value, returns[rows]) - gain - 0.01 * choice.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                optimizer.step()
        print(loss.item().hex())


if __name__ == "__main__":
    main()
