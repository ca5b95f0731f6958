"""Models that are built on ``meta``: what is computed later is judged, and what never is is not taken for safe."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tracer import DeterminismTracer, judge
from tracer.names import Verdict
from tracer.report.sections.answers import headline


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4, padding_idx=0)
        self.layer = nn.LSTM(4, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 4)
        nn.init.trunc_normal_(self.head.weight)
        frequencies = 1.0 / (10_000 ** (torch.arange(0, 4, 2) / 4))
        self.register_buffer("frequencies", frequencies)
        self.register_buffer("mask", torch.tril(torch.ones(4, 4)).masked_fill(torch.ones(4, 4) == 0, float("-inf")))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.norm(self.layer(self.embedding(words))[0]))
        return out.logsumexp(-1).sum()


def llama() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 64}
    config = transformers.LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **sizes)
    model: nn.Module = transformers.LlamaForCausalLM(config)
    return model


def trained(model: nn.Module, words: torch.Tensor) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    made = model(words)
    (made if isinstance(made, torch.Tensor) else made.logits.sum()).backward()
    optimizer.step()


@pytest.mark.parametrize("make", [Net, llama])
@pytest.mark.parametrize("backend", ["cpu", "cuda", "npu", "recorded"])
def test_what_built_a_model_on_meta_is_not_held_against_the_step(make: Callable[[], nn.Module], backend: str) -> None:
    with DeterminismTracer() as tracer:
        with torch.device("meta"):
            model = make()
        model = model.to_empty(device="cpu")
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        trained(model, torch.ones(1, 4, dtype=torch.long))
    assert any(group.facts["device"] == "meta" for group in tracer.trace.calls)
    report = judge(tracer.trace, backend=backend)
    assert not any(finding.rule.endswith("not-computed") for finding in report.findings)
    assert not any("computed nothing" in banner for banner in report.banners)


@pytest.mark.parametrize("backend", ["cuda", "recorded"])
def test_a_step_on_meta_is_called_one_that_computed_nothing(backend: str) -> None:
    with torch.device("meta"):
        model = llama()
        with DeterminismTracer(model) as tracer:
            trained(model, torch.ones(1, 4, dtype=torch.long))
    report = judge(tracer.trace, backend=backend)
    assert headline(report) == (Verdict.UNKNOWN, "Nothing was computed: the step was recorded on meta tensors")
    assert (report.tally[Verdict.UNKNOWN] > 0) == (backend == "cuda")
