"""A script on fake tensors: its program is the real one's, values are stand-ins, and both are told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from tracer import DeterminismTracer, Trace, judge
from tracer.names import Backend, BlindSpotKind, Phase

SCRIPTS = {
    "perceptron": """
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        data = torch.from_numpy(__import__("numpy").ones((3, 4), dtype="float32"))
    """,
    "convolutions": """
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Dropout(0.1))
        data = torch.ones(2, 3, 8, 8)
    """,
    "transformer": """
        model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).bfloat16()
        data = torch.ones(2, 6, 8, dtype=torch.bfloat16)
    """,
}
TRAINING = """
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = model(data).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    optimizer.step()
print("loss", loss.item())
"""


def program(name: str) -> str:
    from textwrap import dedent

    return "import torch\nfrom torch import nn\n" + dedent(SCRIPTS[name]) + TRAINING


def groups(trace: Trace) -> Counter[tuple[Any, ...]]:
    """The groups by what fake tensors do not change: numbers among the arguments may come from values.

    torch detaches a fake tensor that becomes a parameter, and times steps by an op that real tensors do not dispatch.
    """
    counted: Counter[tuple[Any, ...]] = Counter()
    for one in trace.calls:
        is_wrapping = one.op == "aten.detach.default" and one.phase is Phase.OTHER
        if not is_wrapping and not one.op.startswith("profiler."):
            shapes = tuple(getattr(value, "shape", None) for value in one.given.values())
            counted[one.op, one.phase, one.module, one.location, shapes] += one.count
    return counted


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_on_fake_tensors_has_the_groups_of_the_real_one(
    tracer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(program(name))
    assert tracer("run", "-o", "real.json", "train.py").code == 0
    assert tracer("run", "--fake", "-o", "fake.json", "train.py").code == 0
    real, fake = Trace.load("real.json"), Trace.load("fake.json")
    assert groups(fake) == groups(real)
    assert fake.sources[0].fake_calls > 0
    assert fake.sources[0].fake_as == "cpu"
    assert any(spot.kind is BlindSpotKind.FAKE_VALUE for spot in fake.blind_spots)


def test_a_script_runs_as_the_machine_that_was_asked_for(
    tracer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "import torch\n"
        "assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (8, 0)\n"
        "model = torch.nn.Linear(4, 4).to('cuda')\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "scaler = torch.amp.GradScaler('cuda')\n"
        "rows = torch.ones(3, 4, device='cuda').cuda()\n"
        "with torch.autocast('cuda', dtype=torch.bfloat16):\n"
        "    loss = model(rows[rows[:, 0] > 0]).float().mean()\n"
        "scaler.scale(loss).backward()\n"
        "scaler.step(optimizer)\n"
        "scaler.update()\n"
        "torch.cuda.synchronize()\n"
    )
    assert tracer("run", "--fake", "--as", "cuda:8.0", "train.py").code == 0
    trace = Trace.load("trace.json")
    assert trace.sources[0].optimizer_steps == 1
    assert trace.environment.devices[0].capability == "8.0"
    assert judge(trace).target.backend is Backend.CUDA
    assert not torch.cuda.is_available() or torch.version.cuda
    assert type(torch.ones(1)) is torch.Tensor


def test_the_context_manager_builds_and_trains_on_fake_tensors() -> None:
    with DeterminismTracer(fake=True) as recording:
        model = torch.nn.Linear(1 << 20, 1 << 20)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(1, 1 << 20)).sum().backward()
        optimizer.step()
    assert recording.optimizer_steps == 1
    assert type(torch.ones(1)) is torch.Tensor


def test_a_model_from_before_the_block_is_as_it_was() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    model(torch.ones(2, 3)).sum().backward()
    states = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = {name: value.grad for name, value in model.named_parameters()}
    copies = {name: value.clone() for name, value in gradients.items() if value is not None}
    with DeterminismTracer(model, fake=True):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    for name, parameter in model.named_parameters():
        assert parameter.grad is gradients[name]
        assert torch.equal(copies[name], parameter.grad)
    assert all(torch.equal(value, states[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fake", "--values"], "--fake has no values"),
        (["--fake", "--trials", "2"], "--fake has no values"),
        (["--as", "cuda:8.0"], "add --fake"),
        (["--fake", "--as", "abacus"], "is no machine"),
    ],
)
def test_what_fake_tensors_cannot_do_is_refused_in_one_line(tracer: Any, options: list[str], message: str) -> None:
    result = tracer("run", *options, "train.py")
    assert result.code == 2
    assert message in result.err
    assert len(result.err.strip().splitlines()) == 1
