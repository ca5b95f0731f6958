"""A recording on fake tensors shows what the same step shows on real ones, and says that nothing was computed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from msgspec.structs import replace
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.support.build import call, environment, trace
from tests.support.samples import llama
from tracer import DeterminismTracer, Report, Trace, Trials, judge
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import read_recording
from tracer.names import Untried, Verdict
from tracer.report import rendered_as
from tracer.report.sections.answers import headline
from tracer.trace.merging import merge_traces
from tracer.trace.records import TraceSource

Made = tuple[nn.Module | None, Callable[[], object]]


def index_add() -> Made:
    table = nn.Parameter(torch.zeros(5, 3))
    source = torch.ones(4, 3, requires_grad=True)
    places = torch.zeros(4, dtype=torch.long)

    def step() -> None:
        (torch.zeros(5, 3).index_add_(0, places, source) + table).sum().backward()

    return None, step


def trained(model: nn.Module, optimizer: type[torch.optim.Optimizer], loss: Callable[[], torch.Tensor]) -> Made:
    stepper: Any = optimizer(model.parameters(), lr=0.1)  # type: ignore[call-arg]

    def step() -> None:
        loss().backward()
        stepper.step()
        stepper.zero_grad()

    return model, step


def convolutions() -> Made:
    layers = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1), nn.Flatten())
    model = nn.Sequential(*layers, nn.Linear(8 * 7 * 7, 4))
    images, labels = torch.ones(2, 3, 16, 16), torch.zeros(2, dtype=torch.long)
    return trained(model, torch.optim.SGD, lambda: F.cross_entropy(model(images), labels))


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.bag = nn.EmbeddingBag(20, 8, mode="sum")
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(self.embedding(words))[:, torch.arange(words.shape[1])] + self.bag(words).unsqueeze(1)
        return F.interpolate(hidden.transpose(1, 2), scale_factor=2, mode="linear").cumsum(-1)


def embeddings() -> Made:
    model, words = Words(), torch.ones(2, 6, dtype=torch.long)
    return trained(model, torch.optim.AdamW, lambda: model(words).square().sum())


def language_model() -> Made:
    model, words = llama(), torch.ones(2, 8, dtype=torch.long)
    return trained(model, torch.optim.AdamW, lambda: model(input_ids=words, labels=words).loss)


def recomputation() -> Made:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))
    rows = torch.ones(2, 4, requires_grad=True)

    def step() -> None:
        checkpoint(model, rows, use_reentrant=False).sum().backward()  # type: ignore[no-untyped-call]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(rows).float().sum().backward()
        with torch.inference_mode():
            model(rows.detach())

    return model, step


def memory_and_indices() -> Made:
    def step() -> None:
        torch.empty_like(torch.empty(4, 4)).scatter_(0, torch.randperm(4)[None], torch.ones(1, 4))
        torch.empty(3) + 1
        half = torch.empty(2, 2)
        half.view(-1)[:2].fill_(0)
        half.t().sum()
        torch.zeros(10).index_put_((torch.randperm(10),), torch.ones(10), accumulate=True)
        torch.rand(3).expand(3, 3).sum()

    return None, step


def recorded(make: Callable[[], Made], *, fake: bool, **options: Any) -> DeterminismTracer:
    torch.manual_seed(0)
    with FakeTensorMode() if fake else nullcontext():
        model, step = make()
        with DeterminismTracer(model, **options) as tracer:
            step()
    return tracer


def findings(made: Trace, backend: str) -> list[tuple[Any, ...]]:
    found = judge(made, backend=backend).findings
    return [(one.rule, one.op, one.phase, one.module, one.location, one.count, one.verdict) for one in found]


MODELS = [index_add, convolutions, embeddings, recomputation, memory_and_indices]


@pytest.mark.parametrize("make", [*MODELS, pytest.param(language_model, marks=pytest.mark.slow)])
def test_a_fake_recording_has_the_groups_and_the_findings_of_the_real_one(make: Callable[[], Made]) -> None:
    real, fake = recorded(make, fake=False).trace, recorded(make, fake=True).trace
    assert [replace(group, fake=False) for group in fake.calls] == list(real.calls)
    assert fake.allocations == real.allocations
    assert fake.unwritten_reads == real.unwritten_reads
    assert fake.blind_spots == real.blind_spots
    for backend in ("recorded", "cpu", "cuda", "rocm", "npu"):
        assert findings(fake, backend) == findings(real, backend)
    assert real.sources[0].fake_calls == 0
    assert fake.sources[0].fake_calls > 0.9 * fake.call_count


def test_fake_tensors_outside_their_mode_are_counted_once() -> None:
    rows = FakeTensorMode().from_tensor(torch.ones(2, 3))
    with DeterminismTracer() as tracer:
        (rows @ rows.t()).sum()
    counted = [(group.op.split(".")[1], group.count, group.facts["device"]) for group in tracer.trace.calls]
    assert counted == [("t", 1, "cpu"), ("mm", 1, "cpu"), ("sum", 1, "cpu")]
    assert tracer.trace.sources[0].fake_calls == 3


@pytest.mark.filterwarnings("ignore")
def test_shapes_that_torch_works_out_while_it_compiles_are_no_calls() -> None:
    function = torch.compile(lambda rows: (rows @ rows.t()).sum(), backend="aot_eager")
    rows = torch.ones(2, 3)
    with DeterminismTracer() as tracer:
        function(rows)
    assert tracer.trace.sources[0].fake_calls == 0


# ------------------------------------------------------------------------------------- what rests on values


def test_values_of_fake_tensors_are_marked_as_not_digested(tmp_path: Path) -> None:
    found = []
    for name in ("one.json", "two.json"):
        recorded(convolutions, fake=True, values=True).save(tmp_path / name)
        found.append(read_recording(tmp_path / name))
    divergence = compare_recordings(*found)
    assert divergence.not_digested > 40
    assert divergence.first is None


def test_trials_on_fake_tensors_are_left_out_and_counted_and_neither_data_nor_inputs_are_looked_at() -> None:
    recording = recorded(index_add, fake=True, trials=Trials(2, all=True), data_facts=True, keep="index_add*")
    (one,) = (group for group in recording.trace.calls if group.op == "aten.index_add_.default")
    assert one.tried is not None
    assert (one.tried.trials, one.tried.untried) == (0, {Untried.NOT_COMPUTED: 1})
    assert not any(group.data or group.inputs for group in recording.trace.calls)


# --------------------------------------------------------------------------------------------- how it is told


@pytest.fixture(scope="module")
def fake_report() -> Report:
    return judge(recorded(convolutions, fake=True).trace, backend="cuda")


@pytest.mark.parametrize("format", ["text", "html", "markdown", "json", "sarif", "junit"])
def test_every_format_says_that_the_recording_is_on_fake_tensors(fake_report: Report, format: str) -> None:
    verdict, line = headline(fake_report)
    assert verdict is Verdict.NONDETERMINISTIC
    assert "; recorded on fake tensors: ops, shapes, modules, lines and settings are real; values, memory" in line
    text = rendered_as(format, fake_report)
    assert "fake tensors" in text
    if format == "json":
        assert json.loads(text)["headline"] == line
    if format == "junit":
        assert ElementTree.fromstring(text)[0].get("name") == "determinism on cuda, recorded on fake tensors"


def test_of_ranks_of_which_one_is_fake_the_calls_are_counted() -> None:
    ranks = [
        trace(call(count=10), environment=environment(), sources=(TraceSource(rank=rank, calls=10, fake_calls=fake),))
        for rank, fake in ((0, 10), (1, 0))
    ]
    merged = merge_traces(ranks)
    assert "; recorded on fake tensors in 10 of 20 calls: ops" in headline(judge(merged, backend="cuda"))[1]
    assert any("Calls on fake tensors: 10 of 20" in banner for banner in judge(merged).banners)
