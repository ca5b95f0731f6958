"""Train on another thread than the main one."""

import threading

import torch


def train():
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(3):
        (weight * 2).sum().backward()
        optimizer.step()


thread = threading.Thread(target=train)
thread.start()
thread.join()
