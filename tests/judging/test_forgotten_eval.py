"""An inference in which dropout is active is asked about, seeded or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.support import build
from tests.support.promise import promised
from tracer import DeterminismTracer, Trace, judge
from tracer.names import Gradients, Training
from tracer.trace.records import GENERATOR, ORIGIN, TraceSource


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
    assert is_asked(model.eval(), gradient=False) is isinstance(inner, Functional)
    assert not is_asked(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0)), gradient=False)


class Mask(nn.Module):
    """Draws a mask, and scales nothing by how much it keeps."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return batch * torch.empty_like(batch).bernoulli_(0.5)


class DropPath(nn.Module):
    """Leaves out whole samples, and scales on a line of its own."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        kept = batch.new_empty(batch.shape[0], 1).bernoulli_(0.9)
        kept.div_(0.9)
        return batch * kept


class Attention(nn.Module):
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(batch, batch, batch, dropout_p=0.5)


def inferred(make: Callable[[], nn.Module], *, seeds: bool) -> Trace:
    torch.seed()
    with DeterminismTracer() as tracer, torch.no_grad():
        if seeds:
            torch.manual_seed(0)
        make()(torch.ones(2, 8))
    return tracer.trace


def recorded(inner: nn.Module, *, seeds: bool) -> Trace:
    return inferred(lambda: nn.Sequential(nn.Linear(8, 8), inner), seeds=seeds)


@pytest.mark.parametrize("seeds", [False, True])
@pytest.mark.parametrize("inner", [nn.Dropout(0.5), Functional(), DropPath(), Attention()])
def test_the_plan_proposes_eval_for_dropout_in_an_inference_and_a_seed_for_the_rest(
    inner: nn.Module, seeds: bool
) -> None:
    made = judge(recorded(inner, seeds=seeds))
    first = made.plan[0]
    assert (first.code, first.sets) == ("model.eval()", {})
    (closed,) = [made.findings[position] for position in first.findings]
    assert (closed.op, closed.sets) == ("aten.bernoulli_.float", {})
    others = {name: value for change in made.plan[1:] for name, value in change.sets.items()}
    assert others == ({} if seeds else {"seed.torch": True})
    assert others == made.judgement.planned
    promised(made.judgement, made.plan)  # which raises where the plan lacks a setting


def test_where_dropout_alone_draws_no_seed_is_proposed_for_it() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
    made = judge(inferred(lambda: model, seeds=False))
    closing = [change for change in made.plan if any(made.findings[at].op for at in change.findings)]
    assert [change.code for change in closing] == ["model.eval()"]
    promised(made.judgement, made.plan)


@pytest.mark.parametrize("op", ["_scaled_dot_product_flash_attention", "_efficient_attention_forward", "_cudnn_rnn"])
def test_dropout_inside_a_fused_kernel_counts(op: str) -> None:
    facts = {"device": "cuda", "dtype": "float16", "arg.dropout": True, GENERATOR: "cuda", ORIGIN: "machine"}
    call = build.call(f"aten.{op}.default", facts=facts, module="net.attention")
    made = judge(build.trace(call, sources=(TraceSource(gradients=Gradients.NONE, calls=1),)))
    assert made.judgement.training is Training.INFERENCE
    (at,) = [at for at, finding in enumerate(made.findings) if finding.op == call.op]
    assert [change.code for change in made.plan if at in change.findings] == ["model.eval()"]


def test_a_mask_that_a_model_draws_for_itself_is_no_dropout() -> None:
    made = judge(recorded(Mask(), seeds=False))
    assert all(change.code != "model.eval()" for change in made.plan)
    assert not any("model.eval()" in banner for banner in made.banners)
