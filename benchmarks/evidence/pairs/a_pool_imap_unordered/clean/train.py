import multiprocessing as mp
import time

import numpy as np
import torch


def episode(job):
    """Evolution-strategies rollout of one perturbation."""
    seed, theta = job
    rng = np.random.default_rng(seed)
    eps = rng.normal(size=theta.shape)
    w = theta + 0.1 * eps
    state, reward = np.ones(4), 0.0
    for _ in range(40 + 60 * (seed % 3)):
        action = np.tanh(w.reshape(2, 4) @ state)
        state = 0.9 * state + 0.1 * np.concatenate([action, -action]) + 0.01 * rng.normal(size=4)
        reward -= float((state**2).sum())
    return seed, reward, eps


def es_step(pool, theta, gen, velocity, n=24):
    jobs = [(1000 * gen + k, theta.numpy()) for k in range(n)]
    baseline = -20.0
    for seed, reward, eps in pool.imap(episode, jobs):
        adv = float(np.tanh((reward - baseline) / 10))
        baseline = 0.9 * baseline + 0.1 * reward
        velocity.mul_(0.9).add_(torch.from_numpy(eps), alpha=adv)
        theta.add_(velocity, alpha=0.01)
    return baseline


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    theta = torch.randn(8, dtype=torch.float64) * 0.3
    velocity = torch.zeros_like(theta)
    t0 = time.time()
    with mp.get_context("fork").Pool(3) as pool:
        for gen in range(6):
            base = es_step(pool, theta, gen, velocity)
    print(f"6 generations took {time.time() - t0:.2f}s")
    print("theta", theta.sum().item(), "baseline", base)


if __name__ == "__main__":
    main()
