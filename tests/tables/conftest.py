"""An optimizer that lives: recordings find it at once, and do not look through all objects of the process for one."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="package", autouse=True)
def _an_optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)
