"""Real training steps and torch's own idioms read no unwritten memory, and write to none that overlaps."""

# ruff: noqa: E501  (an idiom a line)

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import rnn

from tests.models.workloads import IN_EVERY_RUN, MAKERS, make
from tests.support.slow import slow_unless
from tracer import DeterminismTracer

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", slow_unless(IN_EVERY_RUN, MAKERS))
def test_training_is_blamed_for_nothing(name: str) -> None:
    tracer = DeterminismTracer()
    with tracer:
        training = make(name)
        for _ in range(2):
            training.step()
    trace = tracer.trace
    assert (trace.unwritten_reads, trace.overlaps) == ((), ())
    assert not tracer._session.recorder.storages.writes.failures
    assert not tracer._session.recorder.storages.registry.live


SIZES = (3, 5, 2)


def packed() -> Any:
    return rnn.pack_padded_sequence(torch.randn(3, 5, 4), torch.tensor(SIZES), batch_first=True, enforce_sorted=False)


def trained(optimizer: Callable[..., torch.optim.Optimizer]) -> list[torch.Tensor]:
    layer = nn.Linear(3, 2)
    stepping = optimizer(layer.parameters(), lr=0.1)
    for _ in range(2):
        stepping.zero_grad()
        layer(torch.ones(2, 3)).square().sum().backward()
        stepping.step()
    return list(layer.parameters())


def differentiated(module: nn.Module, *shape: int) -> list[torch.Tensor]:
    x = torch.randn(shape, requires_grad=True)
    result = module(x)
    first = result[0] if isinstance(result, tuple) else result
    first.square().sum().backward()
    return [first, x.grad if x.grad is not None else x, *(p.grad for p in module.parameters() if p.grad is not None)]


def half_inverted() -> list[torch.Tensor]:
    """No idiom: half of it is never written."""
    order = torch.randperm(6)
    inverse = torch.empty_like(order)
    inverse.scatter_(0, order[:3], torch.arange(3))
    return [inverse + 0]


D = torch.distributions
IDIOMS: dict[str, Callable[[], Iterable[torch.Tensor]]] = {
    "pack, any order": lambda: packed()[:],
    "pack and pad": lambda: rnn.pad_packed_sequence(packed(), batch_first=True),
    "pack, GRU, pad": lambda: rnn.pad_packed_sequence(nn.GRU(4, 3, batch_first=True)(packed())[0]),
    "unpack": lambda: rnn.unpack_sequence(packed()),
    "pad": lambda: [rnn.pad_sequence([torch.ones(n) for n in SIZES])],
    "unpad": lambda: rnn.unpad_sequence(torch.randn(5, 3), torch.tensor(SIZES)),
    "pack a list": lambda: rnn.pack_sequence([torch.ones(n) for n in SIZES], enforce_sorted=False)[:],
    "LSTM": lambda: differentiated(nn.LSTM(4, 3, 2, bidirectional=True), 5, 2, 4),
    "attention": lambda: [nn.MultiheadAttention(4, 2)(*[torch.randn(3, 2, 4)] * 3)[0]],
    "transformer": lambda: differentiated(nn.TransformerEncoderLayer(4, 2, 8), 3, 2, 4),
    "batch norm": lambda: differentiated(nn.BatchNorm2d(3), 2, 3, 4, 4),
    "max pool and back": lambda: [F.max_unpool2d(*F.max_pool2d(torch.randn(1, 1, 4, 4), 2, return_indices=True), 2)],
    "fractional pool": lambda: differentiated(nn.FractionalMaxPool2d(2, output_size=2), 1, 1, 5, 5),
    "fold": lambda: [F.fold(F.unfold(torch.randn(1, 2, 4, 4), 2), (4, 4), 2)],
    "bilinear": lambda: [F.interpolate(torch.randn(1, 1, 4, 4), scale_factor=0.5, mode="bilinear")],
    "CTC": lambda: [F.ctc_loss(torch.randn(5, 1, 4).log_softmax(2), torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2]))],
    "embedding bag": lambda: [nn.EmbeddingBag(4, 3, mode="max")(torch.tensor([[1, 2], [3, 3]]))],
    "category": lambda: [D.Categorical(logits=torch.randn(3, 4)).log_prob(torch.tensor([1, 0, 2]))],
    "multivariate normal": lambda: [D.MultivariateNormal(torch.zeros(2), torch.eye(2)).rsample()],
    "Wishart": lambda: [D.Wishart(torch.tensor([4.0]), torch.eye(2)).rsample()],
    "Dirichlet": lambda: [D.Dirichlet(torch.ones(3)).rsample()],
    "von Mises": lambda: [D.VonMises(torch.zeros(3), torch.ones(3)).sample()],
    "LKJ": lambda: [D.LKJCholesky(3).sample()],
    "low rank normal": lambda: [D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2)).rsample()],
    **{
        f"optim.{kind.__name__}": lambda kind=kind: trained(kind)
        for kind in (torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.NAdam)
    },
    "orthogonal": lambda: [nn.init.orthogonal_(torch.empty(3, 3))],
    "sparse init": lambda: [nn.init.sparse_(torch.empty(4, 4), 0.5)],
    "block diagonal": lambda: [torch.block_diag(torch.ones(2), torch.ones(3))],
    "combinations": lambda: [torch.combinations(torch.arange(4))],
    "stft and back": lambda: [torch.istft(torch.stft(torch.randn(64), 16, window=torch.ones(16), return_complex=True), 16, window=torch.ones(16))],
    "half inverted": half_inverted,
}  # fmt: skip


@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_that_allocates_before_it_writes_is_not_blamed_and_what_was_never_written_is(name: str) -> None:
    torch.manual_seed(0)
    with DeterminismTracer() as tracer:
        list(IDIOMS[name]())
    assert bool(tracer.trace.unwritten_reads) is (name == "half inverted"), tracer.trace.unwritten_reads
