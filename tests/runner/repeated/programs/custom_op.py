# An op of somebody's own that draws where no generator is seen: its replays vary, and its kernel need not.
import os

import torch


def draw(x: torch.Tensor) -> torch.Tensor:
    factor = os.urandom(4)[0] / 256 + os.urandom(1)[0]  # clean: factor = 1.0
    return x * factor


own = torch.library.Library("planted_repeat", "DEF")
own.define("draw(Tensor x) -> Tensor")
own.impl("draw", draw, "CPU")
torch.manual_seed(0)
y = torch.ops.planted_repeat.draw(torch.randn(8))  # parts: unknown
y.sum()
