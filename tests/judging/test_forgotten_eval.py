"""An inference in which dropout is active is asked about, seeded or not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tracer import DeterminismTracer, judge


class Functional(nn.Module):
    """Forgets to pass ``training`` on."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return F.dropout(batch, 0.5)


def is_asked(model: nn.Module, *, gradient: bool) -> bool:
    torch.manual_seed(0)
    with DeterminismTracer(model) as tracer, torch.set_grad_enabled(gradient):
        result = model(torch.ones(2, 8)).sum()
        if gradient:
            result.backward()
    return any("model.eval()" in banner for banner in judge(tracer.trace).banners)


@pytest.mark.parametrize("inner", [nn.Dropout(0.5), Functional(), nn.Dropout1d(0.5)])
def test_dropout_in_an_inference_is_asked_about(inner: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(8, 8), inner)
    assert is_asked(model, gradient=False)
    assert not is_asked(model, gradient=True)


def test_a_model_in_eval_mode_is_not_asked_about() -> None:
    assert not is_asked(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).eval(), gradient=False)
    assert not is_asked(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0)), gradient=False)
