import random


def rollout(seed, length=25):
    rng = random.Random(seed)
    states, actions, rewards = [], [], []
    for inner in range(1 + rng.randrange(40)):
        pos, vel = rng.uniform(-1, 1), 0.0
        states, actions, rewards = [], [], []
        for t in range(length):
            a = rng.randrange(2)
            vel = 0.9 * vel + (0.1 if a else -0.1)
            pos += vel
            states.append([pos, vel, t / length])
            actions.append(a)
            rewards.append(1.0 - abs(pos))
    return states, actions, rewards
