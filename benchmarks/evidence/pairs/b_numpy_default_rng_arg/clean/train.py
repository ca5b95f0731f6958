import argparse
import time

import numpy as np
import torch
from torch import nn

from transforms import Compose, cutout, jitter, normalise


class Student(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(36, width), nn.Mish(), nn.Linear(width, 6))

    def forward(self, x):
        return self.net(x)


def distill(teacher, student, images, aug, steps):
    opt = torch.optim.NAdam(student.parameters(), lr=0.01)
    for _ in range(steps):
        x = torch.from_numpy(aug(images.copy())).float()
        with torch.no_grad():
            soft = teacher(x).div(2).softmax(-1)
        loss = nn.functional.kl_div(student(x).div(2).log_softmax(-1), soft, reduction="batchmean")
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=40)
    args = ap.parse_args()
    np.random.seed(6)
    torch.manual_seed(6)
    images = np.random.rand(32, 6, 6)
    t0 = time.time()
    loss = distill(Student(40), Student(), images, Compose([normalise, jitter, cutout]), args.steps)
    print(f"distilled in {time.time() - t0:.2f}s")
    print(f"final loss {loss.item()!r}")


main()
