# A kernel of somebody's own that adds in the order of a race.
import os

import torch


def race(x: torch.Tensor) -> torch.Tensor:
    late = os.urandom(4)[0] / 256 + os.urandom(1)[0]  # clean: late = 1.0
    return x * late


own = torch.library.Library("planted_repeat", "DEF")
own.define("race(Tensor x) -> Tensor")
own.impl("race", race, "CPU")
torch.manual_seed(0)
y = torch.ops.planted_repeat.race(torch.randn(8))  # parts: kernel
y.sum()
