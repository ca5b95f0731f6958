"""A script on fake tensors: its program is the real one's, values are stand-ins, and both are told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tracer import DeterminismTracer, Trace, judge
from tracer.names import Backend


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


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            "device = torch.accelerator.current_accelerator()\n"
            "assert torch.accelerator.is_available() and device.type == 'cuda'\n"
            "assert (torch.accelerator.device_count(), torch.accelerator.current_device_index()) == (1, 0)\n"
            "torch.nn.Linear(2, 2).to(device)(torch.ones(1, 2, device=device)).sum().backward()\n"
            "torch.accelerator.synchronize(), torch.accelerator.memory_allocated()\n",
            id="accelerator",
        ),
        pytest.param(
            "generator = torch.Generator('cuda').manual_seed(3)\n"
            "assert isinstance(generator, torch.Generator) and generator.initial_seed() == 3\n"
            "assert isinstance(torch.default_generator, torch.Generator)\n"
            "torch.randn(4, generator=generator, device='cuda')\n",
            id="generator",
        ),
        pytest.param(
            "stream = torch.Stream(device='cuda')\n"
            "with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):\n"
            "    torch.Event('cuda').record()\n"
            "with torch.random.fork_rng(devices=[0]):\n"
            "    torch.cuda.seed_all()\n"
            "torch.cuda.nvtx.range_push('a'), torch.cuda.memory_stats()['num_ooms'], torch.cuda.utilization()\n"
            "torch.ones(2).type(torch.cuda.FloatTensor) + torch.cuda.FloatTensor(2)\n",
            id="streams and old types",
        ),
        pytest.param("torch.compile(torch.nn.Linear(2, 2))(torch.ones(1, 2, device='cuda')).sum()\n", id="compile"),
        pytest.param(
            "layer = torch.nn.Linear(2, 2, device=0).to(0).to(device=0, dtype=torch.float16).cuda(0)\n"
            "x = torch.zeros(2).to(0, torch.float16).cuda(0)\n"
            "torch.ones_like(x, device=0), x.new_zeros(2, device=0), torch.tensor([1], device=0)\n"
            "assert torch.device(0) == torch.device('cuda:0') == torch.device('cuda', 0) == torch.Generator(0).device\n"
            "assert isinstance(torch.device('cpu'), torch.device) and not isinstance('cpu', torch.device)\n"
            "assert str(torch.device) == \"<class 'torch.device'>\" and torch.device == type(torch.device('cpu'))\n"
            "torch.set_default_device(0)\n"
            "torch.arange(3), torch.set_default_device(None)\n",
            id="numbers of devices",
        ),
        pytest.param(
            "import numpy\n"
            "array, on = numpy.ones((2, 3), numpy.float32), torch.device('cuda')\n"
            "assert torch.tensor(array, device=on).device == torch.as_tensor(array, device='cuda').device\n"
            "assert torch.ones(1).new_tensor(array, device=on).is_cuda and not torch.tensor(array).is_cuda\n"
            "with on:\n    assert torch.asarray(array).is_cuda and torch.ones(1).is_cuda\n"
            "torch.set_default_device('cuda')\n"
            "assert torch.tensor(array).is_cuda and not torch.tensor(array, device='cpu').is_cuda\n"
            "torch.set_default_device(None)\n",
            id="arrays on the current device",
        ),
        pytest.param(
            "model = torch.nn.DataParallel(torch.nn.Linear(2, 2)).cuda()\n"
            "model(torch.ones(4, 2)).sum().backward()\n"
            "assert model.module.weight.grad is not None\n",
            id="data parallel",
        ),
        pytest.param(
            "assert torch.cuda.initial_seed() > 1 << 32\n"
            "torch.cuda.manual_seed_all(5)\n"
            "state = torch.cuda.get_rng_state()\n"
            "with torch.random.fork_rng(devices=[0]):\n"
            "    torch.manual_seed(7)\n"
            "    assert torch.cuda.initial_seed() == 7\n"
            "torch.cuda.set_rng_state(state), torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())\n"
            "assert torch.cuda.initial_seed() == 5\n"
            "torch.rand(2, device='cuda')\n",
            id="states of generators",
        ),
    ],
)
def test_what_asks_for_the_gpu_in_other_words_is_answered(tracer: Any, folder: Path, lines: str) -> None:
    stands_for = torch.Generator, torch.device
    Path("train.py").write_text(f"import torch\n{lines}")
    result = tracer("run", "--fake", "--as", "cuda:8.0", "train.py")
    assert result.code == 0, result.err
    assert (torch.Generator, torch.device) == stands_for
    assert type(torch.device("cpu")) is torch.device
    assert not torch.accelerator.is_available() or torch.version.cuda
    assert Trace.load("trace.json").sources[0].fake_calls > 0


TRAINING = (
    "import os, sys, torch\n"
    "torch.manual_seed(0)\n"
    "torch.backends.cudnn.benchmark = True\n"
    "model = torch.nn.Conv2d(3, 8, 3).cuda()\n"
    "{}"
    "model(torch.randn(4, 3, 16, 16).cuda()).pow(2).mean().backward()\n"
)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("x = torch.load('x.pt', map_location='cuda')", id="name"),
        pytest.param("x = torch.load('x.pt', map_location=torch.device(0))", id="device"),
        pytest.param("x = torch.load('x.pt', lambda storage, place: storage.cuda())", id="function"),
        pytest.param("x = torch.load(f='x.pt', weights_only=True, map_location={'cpu': 'cuda:0'})", id="mapping"),
        pytest.param("x = torch.zeros(2, device='cuda')", id="factory"),
        pytest.param("with torch.device('cuda'): x = torch.zeros(2)", id="block"),
        pytest.param("x = torch.cuda.FloatTensor(2)", id="old type"),
    ],
)
def test_a_call_on_a_tensor_that_came_to_the_gpu_otherwise_makes_no_other_call_the_hosts(
    tracer: Any, folder: Path, line: str
) -> None:
    torch.save(torch.zeros(2), "x.pt")
    Path("train.py").write_text(TRAINING.format(f"{line}\nx.half(), torch.ones(5, device=x.device)\n"))
    result = tracer("run", "--fake", "--as", "cuda:8.0", "train.py")
    assert result.code == 0, result.err
    trace = Trace.load("trace.json")
    assert {finding.location for finding in judge(trace).findings if finding.op == "aten.convolution.default"} == {
        "train.py:7"
    }
    assert "cuda" not in {group.facts.get("device") for group in trace.calls}


@pytest.mark.parametrize(
    ("line", "unseeded"),
    [
        ("torch.manual_seed(3)", set()),
        ("", {"cpu", "cuda:0"}),
        ("torch.cuda.manual_seed_all(3)", {"cpu"}),
        ("torch.cuda.manual_seed(3)", {"cpu"}),
        ("torch.default_generator.manual_seed(3)", {"cuda:0"}),
        ("torch.manual_seed(3); torch.cuda.seed_all()", {"cuda:0"}),
    ],
)
def test_a_generator_is_seeded_by_what_seeds_it(tracer: Any, folder: Path, line: str, unseeded: set[str]) -> None:
    Path("train.py").write_text(
        f"import torch\ntorch.default_generator.seed()\n{line}\ntorch.rand(3), torch.rand(3, device='cuda')\n"
    )
    assert tracer("run", "--fake", "--as", "cuda:8.0", "train.py").code == 0
    draws = Trace.load("trace.json").draws
    assert {draw.generator for draw in draws} == {"cpu", "cuda:0"}
    assert {draw.generator for draw in draws if draw.origin.value == "machine"} == unseeded


SEEDED_CPU, SEEDED_CUDA = "torch.default_generator.manual_seed(1)", "torch.cuda.manual_seed_all(1)"
GROWN = "nn.init.normal_(torch.empty_like(nn.Linear(4, 2, device='cuda').weight)[1:])"
AS_ITS_NEIGHBOUR = "x = torch.ones(3, device='cuda')\ntorch.empty(3, device=x.device).normal_()"
IN_CPP, UNSEEDED = "F.dropout2d(torch.ones(2, 3, 4, 4, device='cuda'))", {"nondeterministic"}
BACK_ON_THE_HOST = "x = torch.ones(3, device='cuda')\nx.cpu().normal_()"


@pytest.mark.parametrize(
    ("seed", "line", "verdicts"),
    [
        pytest.param(SEEDED_CUDA, "nn.Linear(4, 2, device='cuda')", {"seeded"}, id="made on the GPU"),
        pytest.param(SEEDED_CPU, "nn.Linear(4, 2, device='cuda')", UNSEEDED, id="unseeded there"),
        pytest.param(SEEDED_CPU, "nn.Linear(4, 2).to('cuda')", {"seeded"}, id="made on the host"),
        pytest.param(SEEDED_CUDA, "nn.Linear(4, 2).to('cuda')", UNSEEDED, id="unseeded on the host"),
        pytest.param(SEEDED_CUDA, "nn.Linear(4, 2).cuda().reset_parameters()", UNSEEDED | {"seeded"}, id="moved"),
        pytest.param(SEEDED_CUDA, GROWN, {"seeded"}, id="grown from it"),
        pytest.param(SEEDED_CPU, IN_CPP, UNSEEDED, id="made in C++"),
        pytest.param(SEEDED_CPU, AS_ITS_NEIGHBOUR, UNSEEDED, id="device of another"),
        pytest.param(SEEDED_CUDA, BACK_ON_THE_HOST, UNSEEDED, id="moved back"),
    ],
)  # fmt: skip
def test_a_tensor_is_drawn_into_where_it_was_placed(
    tracer: Any, folder: Path, seed: str, line: str, verdicts: set[str]
) -> None:
    lines = f"import torch\nfrom torch import nn\nfrom torch.nn import functional as F\ntorch.seed()\n{seed}\n{line}\n"
    (folder / "train.py").write_text(lines)
    tracer("run", "-o", "fake.trace.json", "--fake", "--as", "cuda:8.0", "train.py")
    report = judge(Trace.load("fake.trace.json"), backend="cuda")
    assert {finding.verdict.value for finding in report.findings if finding.op} == verdicts


HOST_OR_NOT = """\
import torch
from torch import nn
from torch.nn import functional as F
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x, h, zeros = torch.rand(4, 8, device=device), torch.rand(8), torch.zeros(8, dtype=torch.long)
"""


@pytest.mark.parametrize(
    ("line", "runs_there"),
    [
        pytest.param("x.to(torch.device('cpu')).flatten().cumsum(0)", False, id="moved to a device that is the host"),
        pytest.param("torch.cumprod(1 - torch.linspace(0.1, 0.2, 9), 0).to(device)", False, id="made on the host"),
        pytest.param("torch.zeros(8).index_add(0, zeros, h)", False, id="added on the host"),
        pytest.param("h.to(torch.ones(1)).flatten().cumsum(0)", False, id="as one on the host"),
        pytest.param(
            "torch.from_numpy(__import__('numpy').ones(3)).div(3).flatten().cumsum(0)", False, id="an array's"
        ),
        pytest.param(
            "m = nn.Linear(8, 8).to(x.device).cpu()\nm.weight.flatten().cumsum(0)", False, id="module moved back"
        ),
        pytest.param("torch.eye(4, device=x.device).div(3).flatten().cumsum(0)", True, id="device of a neighbour"),
        pytest.param("torch.eye(4).to('cuda' if x.is_cuda else 'cpu').div(3).flatten().cumsum(0)", True, id="is_cuda"),
        pytest.param("torch.eye(4, device=x.get_device()).div(3).flatten().cumsum(0)", True, id="number of a device"),
        pytest.param("torch.eye(4).to(x).div(3).flatten().cumsum(0)", True, id="as a neighbour"),
        pytest.param(
            "torch.zeros(4, device=x.device.type).add(.1).flatten().cumsum(0)", True, id="kind of a neighbour"
        ),
        pytest.param("m = nn.Linear(8, 8).to(device)\nm.weight.flatten().cumsum(0)", True, id="module"),
        pytest.param("h.to(nn.Linear(1, 1).to(x.device).weight.device).flatten().cumsum(0)", True, id="parameter"),
        pytest.param("F.one_hot(zeros.to(device)).float().div(3).flatten().cumsum(0)", True, id="made in C++"),
        pytest.param("y = x.to(device)\nassert y is x\ny.flatten().cumsum(0)", True, id="it is there"),
    ],
)
def test_a_call_is_the_hosts_where_all_its_tensors_would_lie_there(
    tracer: Any, folder: Path, line: str, runs_there: bool
) -> None:
    Path("train.py").write_text(f"{HOST_OR_NOT}{line}\n(x * 2).sum()\n")
    result = tracer("run", "--fake", "--as", "cuda:8.0", "train.py")
    assert result.code == 0, result.err
    varies = {finding.rule for finding in judge(Trace.load("trace.json"), backend="cuda", settings="default").findings}
    assert bool(varies & {"cuda-cumsum", "cuda-cumprod", "cuda-index-add"}) is runs_there


@pytest.mark.parametrize("values", ["torch.arange(6) % 3", "torch.rand(2000).mul(3).int()"], ids=["known", "unknown"])
def test_whole_numbers_are_counted_as_a_gpu_counts_them(tracer: Any, folder: Path, values: str) -> None:
    Path("train.py").write_text(
        f"import torch\nx = ({values}).to('cuda').int()\n"
        "counts = torch.histc(x.int() if x.device.type == 'cuda' else x.float(), bins=3, min=0, max=2)\n"
        "print(counts.dtype, counts.shape)\n"
    )
    result = tracer("run", "--fake", "--as", "cuda:8.0", "train.py")
    assert (result.code, result.out) == (0, "torch.int32 torch.Size([3])\n"), result.err


def test_a_loop_over_sequences_ends_where_each_is_at_its_end(tracer: Any, folder: Path) -> None:
    Path("train.py").write_text(
        "import torch\n"
        "words = torch.randn(2, 4000).argmax(1, keepdim=True)\n"
        "goes_on, steps = torch.ones(2, dtype=torch.long), 0\n"
        "while goes_on.max() != 0:\n"
        "    steps += 1\n"
        "    assert steps < 9\n"
        "    is_at_end = torch.full((2,), steps == 3) | torch.isin(words[:, -1], torch.tensor([7]))\n"
        "    goes_on = goes_on & ~is_at_end\n"
        "print('ended')\n"
    )
    assert tracer("run", "--fake", "train.py").out == "ended\n"


def test_a_program_that_asks_for_no_gpu_is_judged_as_if_it_ran_there(tracer: Any, folder: Path) -> None:
    Path("train.py").write_text("import torch\ntorch.rand(9).cumsum(0)\n")
    assert tracer("run", "--fake", "--as", "cuda:8.0", "train.py").code == 0
    found = judge(Trace.load("trace.json"), backend="cuda", settings="default").findings
    assert "cuda-cumsum" in {finding.rule for finding in found}


SET = "os.environ['CUBLAS_WORKSPACE_CONFIG'] = ':4096:8'\n"


@pytest.mark.parametrize(
    ("lines", "late"),
    [
        pytest.param(f"{SET}layer = torch.nn.Linear(4, 4).cuda()\n", False, id="before CUDA"),
        pytest.param(f"torch.cuda.is_available(), torch.cuda.manual_seed(1)\n{SET}", False, id="asked"),
        pytest.param(f"torch.ones(2, 2) @ torch.ones(2, 2)\ntorch.cuda.set_device(0)\n{SET}", False, id="no product"),
        pytest.param(f"x = torch.ones(2, 2).cuda()\nx @ x\n{SET}", True, id="after a product"),
        pytest.param(f"x = torch.ones(2, 2, device='cuda')\nx @ x\n{SET}", True, id="after a product made there"),
    ],
)
def test_a_variable_is_late_once_what_reads_it_was_used(
    tracer: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, lines: str, late: bool
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    Path("train.py").write_text(
        "import os, torch\ntorch.use_deterministic_algorithms(True)\n"
        f"{lines}y = torch.ones(2, 2, requires_grad=True, device=0)\n(y @ y).sum().backward()\n"
    )
    assert tracer("run", "--fake", "--as", "cuda:9.0", "train.py").code == 0
    found = judge(Trace.load("trace.json"), torch="2.6").findings  # from 2.10 on products ask for none
    assert ["CUBLAS_WORKSPACE_CONFIG" in finding.subject for finding in found].count(True) == late


@pytest.mark.parametrize(
    "line",
    [
        "torch.nn.Linear(2, 2).cuda()",
        "torch.ones(2).to(0)",
        "torch.cuda.get_device_name()",
        "assert torch.cuda.is_available(), 'this needs a GPU'",
        "sys.exit('no CUDA device')",
    ],
)
def test_a_script_that_wants_a_gpu_is_told_how_to_get_one(tracer: Any, folder: Path, line: str) -> None:
    Path("train.py").write_text(f"import sys, torch\ntorch.ones(2).sum()\n{line}\n")
    result = tracer("run", "--fake", "train.py")
    assert result.code == 1
    assert "add --as cuda:8.0; next" in result.err.splitlines()[-1]
    assert "add --as" not in tracer("run", "train.py").err


def test_a_script_that_fails_otherwise_is_not_told_of_gpus(tracer: Any, folder: Path) -> None:
    Path("train.py").write_text("import torch\ntorch.cuda.is_available(), torch.ones(2) + torch.ones(3)\n")
    result = tracer("run", "--fake", "train.py")
    assert result.code == 1
    assert "--as" not in result.err


def test_addresses_tell_which_tensors_share_memory(tracer: Any, folder: Path) -> None:
    Path("train.py").write_text(
        "import torch\n"
        "model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))\n"
        "model[2].weight = model[0].weight\n"
        "weights = [layer.weight for layer in model]\n"
        "of_storage, of_old = lambda x: x.untyped_storage().data_ptr(), lambda x: x.storage().data_ptr()\n"
        "for address in (torch.Tensor.data_ptr, of_storage, of_old):\n"
        "    print([address(weights[0]) == address(weight) for weight in weights], address(weights[0]) != 0)\n"
        "print(weights[0][1:].data_ptr() - weights[0].data_ptr(), torch.empty(2, device='meta').data_ptr())\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert result.out.splitlines() == ["[True, False, True] True"] * 3 + ["16 0"]


@pytest.mark.slow
def test_a_library_that_imports_torch_in_the_middle_of_itself_is_whole(folder: Path) -> None:
    pytest.importorskip("transformers")
    Path("train.py").write_text("from transformers import Trainer, PreTrainedModel\nprint(Trainer.__name__)\n")
    line = [sys.executable, "-m", "tracer", "run", "--fake", "train.py"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Trainer\n")


def test_without_a_machine_there_is_no_accelerator_and_nothing_is_compiled(tracer: Any, folder: Path) -> None:
    Path("train.py").write_text(
        "import torch\n"
        "assert not torch.accelerator.is_available() and torch.accelerator.current_accelerator() is None\n"
        "torch.compile(torch.nn.Linear(2, 2))(torch.ones(1, 2)).sum().backward()\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert result.code == 0, result.err
    assert "aten.addmm.default" in {call.op for call in Trace.load("trace.json").calls}


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


def test_weights_are_not_read_and_nothing_is_written(tracer: Any, folder: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    model = torch.nn.Linear(40, 30)
    safetensors.save_file(model.state_dict(), "weights.safetensors")
    torch.save(model.state_dict(), "weights.pt")
    whole = Path("weights.safetensors").read_bytes()
    Path("weights.safetensors").write_bytes(whole[: 8 + int.from_bytes(whole[:8], "little")])
    os.truncate("weights.safetensors", len(whole))  # nothing but its header
    Path("train.py").write_text(
        "import copy, torch\n"
        "from safetensors import safe_open\n"
        "from safetensors.torch import load_file\n"
        "model = torch.nn.Linear(40, 30)\n"
        "print(model.load_state_dict(load_file('weights.safetensors')))\n"
        "print(model.load_state_dict(torch.load('weights.pt')))\n"
        "with safe_open('weights.safetensors', framework='pt') as file:\n"
        "    print(sorted(file.keys()), file.get_slice('weight').get_shape(), file.get_slice('weight')[:5].shape)\n"
        "average = copy.deepcopy(model)\n"
        "assert average.weight is not model.weight and average.weight.requires_grad\n"
        "torch.save(average.state_dict(), 'saved.pt')\n"
        "torch.save({'step': 3}, 'step.pt')\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert result.code == 0, result.err
    assert result.out.splitlines() == ["<All keys matched successfully>"] * 2 + [
        "['bias', 'weight'] [30, 40] torch.Size([5, 40])"
    ]
    assert (Path("saved.pt").exists(), torch.load("step.pt")) == (False, {"step": 3})
    spots = [(spot.detail, spot.location, spot.count) for spot in Trace.load("trace.json").blind_spots]
    assert spots[0][0] == "weights in weights.safetensors: only their shapes were read"
    assert spots[0][1] == "train.py:5"
    assert spots[1:] == [
        ("weights in weights.pt: only their shapes were read", "train.py:6", 1),
        ("weights in weights.safetensors: only their shapes were read", "train.py:7", 1),
        ("save: nothing was written", "train.py:11", 1),
    ]


def test_what_was_saved_and_not_written_is_loaded_again(tracer: Any, folder: Path) -> None:
    Path("kept.pt").write_bytes(b"of another run")
    Path("train.py").write_text(
        "import io, pathlib, torch\n"
        "model = torch.nn.Linear(40, 30)\n"
        "torch.save({'model': model.state_dict(), 'step': 3}, 'kept.pt')\n"
        "checkpoint = torch.load(pathlib.Path('kept.pt').resolve(), map_location='cpu')\n"
        "print(checkpoint['step'], model.load_state_dict(checkpoint['model']))\n"
        "with open('whole.pt', 'wb') as file: torch.save(model, file)\n"
        "with open('whole.pt', 'rb') as file: other = torch.load(file, weights_only=False)\n"
        "print(other.weight.shape, other.weight is model.weight)\n"
        "buffer = io.BytesIO()\n"
        "torch.save(model.state_dict(), f=buffer)\n"
        "print(list(torch.load(buffer)))\n"
        "torch.save(5, 'kept.pt'), print(torch.load('kept.pt'))\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert result.code == 0, result.err
    assert result.out.splitlines() == [
        "3 <All keys matched successfully>",
        "torch.Size([30, 40]) False",
        "['weight', 'bias']",
        "5",
    ]


@pytest.mark.parametrize(
    "moves",
    [
        "os.replace('new.pt', 'last.pt')",
        "pathlib.Path('new.pt').rename('last.pt')",
        "os.link('new.pt', 'last.pt')",
        "shutil.copyfile('new.pt', dst='last.pt')",
        "print(shutil.copy2('new.pt', '.' if os.path.isdir('last.pt') else 'last.pt'))",
        "shutil.move('new.pt', 'last.pt')",
    ],
)
def test_a_checkpoint_that_was_not_written_is_renamed_and_no_other_file_is_lost(
    tracer: Any, folder: Path, moves: str
) -> None:
    Path("last.pt").write_bytes(b"of another run")
    Path("train.py").write_text(
        "import os, pathlib, shutil, torch\n"
        f"torch.save(torch.nn.Linear(2, 3).state_dict(), 'new.pt')\n{moves}\n"
        "print(torch.load('last.pt')['weight'].shape)\n"
        "pathlib.Path('other.txt').write_text('a'), os.replace('other.txt', 'moved.txt')\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert result.code == 0, result.err
    assert result.out.splitlines()[-1] == "torch.Size([3, 2])"
    assert (Path("last.pt").read_bytes(), Path("moved.txt").read_text()) == (b"of another run", "a")
    assert not Path("new.pt").exists()


def test_arrays_of_tensors_hold_their_values_and_have_memory_of_their_own(tracer: Any, folder: Path) -> None:
    Path("train.py").write_text(
        "import numpy, torch\n"
        "images = torch.from_numpy(numpy.arange(12, dtype=numpy.uint8).reshape(3, 4))\n"
        "array = images[1].numpy()\n"
        "print(array.tobytes(), numpy.asarray(images)[2].tolist(), images[1].numpy().tolist(), images[0].tolist())\n"
        "unknown = torch.nn.Linear(1, 1)(torch.ones(1))[0]\n"
        "print(torch.tensor([images[0, 3], 2]).tolist(), torch.tensor([[unknown], [3.0]]).tolist())\n"
        "print(torch.zeros(2, 2).numpy().sum(), torch.nn.Linear(2, 2).weight.detach().numpy().tobytes() != b'')\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert result.code == 0, result.err
    assert result.out.splitlines() == [
        r"b'\x04\x05\x06\x07' [8, 9, 10, 11] [4, 5, 6, 7] [0, 1, 2, 3]",
        "[3, 2] [[1.0], [3.0]]",
        "0.0 True",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        "d.Categorical(logits=layer(x)).log_prob(d.Categorical(logits=layer(x)).sample())",
        "d.Categorical(probs=layer(x).softmax(-1)).entropy()",
        "d.Normal(layer(x), layer(x).exp()).log_prob(layer(x))",
        "d.Bernoulli(layer(x).sigmoid()).log_prob(torch.ones(2, 3))",
    ],
)
def test_a_distribution_takes_parameters_and_samples_whose_values_are_not_known(
    tracer: Any, folder: Path, lines: str
) -> None:
    Path("train.py").write_text(
        "import torch, torch.distributions as d\nlayer, x = torch.nn.Linear(3, 3), torch.ones(2, 3)\n"
        f"{lines}.sum().backward()\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert result.code == 0, result.err


@pytest.mark.parametrize("header", [b"", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0{]", b'\x08\0\0\0\0\0\0\0{"a": 1}'])
def test_a_broken_file_of_weights_is_named(header: bytes, tracer: Any, folder: Path) -> None:
    pytest.importorskip("safetensors")
    Path("weights.safetensors").write_bytes(header)
    Path("train.py").write_text(
        "import torch\nfrom safetensors import safe_open\nsafe_open('weights.safetensors', framework='pt')\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert result.code == 1
    assert "SafetensorError" in result.err


def test_a_model_is_built_from_a_folder_whose_weights_are_not_read(tracer: Any, folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 64}
    config = transformers.LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **sizes)
    transformers.LlamaForCausalLM(config).save_pretrained("model")
    (weights,) = Path("model").glob("*.safetensors")
    whole = weights.read_bytes()
    weights.write_bytes(whole[: 8 + int.from_bytes(whole[:8], "little")])
    os.truncate(weights, len(whole))
    Path("train.py").write_text(
        "import torch\n"
        "from transformers import AutoModelForCausalLM\n"
        "model = AutoModelForCausalLM.from_pretrained('model', device_map='auto', dtype=torch.bfloat16)\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "words = torch.ones(1, 8, dtype=torch.long, device='cuda')\n"
        "model(input_ids=words, labels=words).loss.backward()\n"
        "optimizer.step()\n"
        "model.save_pretrained('trained')\n"
        "print({parameter.dtype for parameter in model.parameters()})\n"
    )
    result = tracer("run", "--fake", "--as", "cuda:8.0", "train.py")
    assert result.code == 0, result.err
    assert result.out.splitlines()[-1] == "{torch.bfloat16}"
    assert not Path("trained").exists()
    trace = Trace.load("trace.json")
    details = {spot.detail.partition(":")[0] for spot in trace.blind_spots}
    assert {f"weights in {weights.name}", "PreTrainedModel.save_pretrained"} <= details
    assert trace.unwritten_reads == ()


def test_worker_processes_of_a_loader_are_not_started_and_their_work_is_not_recorded(tracer: Any, folder: Path) -> None:
    Path("train.py").write_text(
        "import torch\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "class Shifted(TensorDataset):\n"
        "    def __getitem__(self, index):\n"
        "        return self.tensors[0][index].sin()\n"
        "loader = DataLoader(Shifted(torch.rand(6, 3)), 2, shuffle=True, num_workers=2, timeout=9, pin_memory=True)\n"
        "print(sum(batch.shape[0] for batch in loader), loader.num_workers)\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert (result.code, result.out) == (0, "6 2\n")
    trace = Trace.load("trace.json")
    assert {"aten.sin.default", "aten.stack.default"}.isdisjoint(group.op for group in trace.calls)
    assert "aten.randperm.generator" in {group.op for group in trace.calls}
    assert [(spot.detail.partition(":")[0], spot.count) for spot in trace.blind_spots] == [
        ("a DataLoader with 2 worker processes", 1)
    ]


def test_a_torch_without_such_fake_tensors_is_told_in_one_line(folder: Path) -> None:
    Path("train.py").write_text("import torch\nprint(torch.ones(1))\n")
    Path("older.py").write_text(
        "import sys\n"
        "class Older:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'tracer.recording.fake':\n"
        "            from torch._subclasses import fake_tensor\n"
        "            del fake_tensor.FakeTensorMode.may_turn_const\n"
        "sys.meta_path.insert(0, Older())\n"
        "from tracer.cli.main import main\n"
        "main(['run', '--fake', 'train.py'])\n"
    )
    done = subprocess.run([sys.executable, "older.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot run a step; record it on real ones" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not Path("trace.json").exists()


COPIES = """\
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
buffer = torch.empty(4, pin_memory=True)
there = buffer.to(device, non_blocking=True)
WAIT
buffer.zero_()
"""


@pytest.mark.parametrize(
    ("wait", "lines"),
    [
        ("pass", {"s.py:4"}),
        ("there.sum(); torch.ones(4).sum().item(); torch.ones(4).nonzero()", {"s.py:4"}),
        ("float(there.sum())", set()),
        ("torch.zeros_like(there).sum().item()", set()),
        ("there.sum().tolist()", set()),
        ("there.cpu()", set()),
        ("torch.empty(4).copy_(there)", set()),
        ("there[there > 0]", set()),
        ("torch.equal(there, there)", set()),
        ("torch.cuda.synchronize()", set()),
        ("torch.cuda.current_stream().synchronize()", set()),
        ("event = torch.cuda.Event(); event.record(); event.synchronize()", set()),
    ],
)
def test_on_fake_tensors_a_copy_says_where_it_goes(
    wait: str, lines: set[str], tracer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.py").write_text(COPIES.replace("WAIT", wait))
    tracer("run", "--fake", "--as", "cuda:8.0", "-o", "t.json", "s.py")
    found = judge(Trace.load("t.json"), backend="cuda").findings
    assert {one.location for one in found if one.rule == "environment-copy-in-flight"} == lines


FETCHES = """\
import torch
net, batch = torch.nn.Linear(4, 4).to("cuda"), torch.ones(2, 4).to("cuda")
pinned, pageable = torch.empty(2, 4, pin_memory=True), torch.empty(2, 4)
net.requires_grad_(False)
"""


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        ("pinned.copy_(net(batch), non_blocking=True)\npinned.argmax(1)", {"s.py:5"}),
        ("pinned[0].copy_(batch[0], non_blocking=True)\npinned.numpy()", {"s.py:5"}),
        ("h = net.weight.to('cpu', non_blocking=True)\nh.sum()", {"s.py:5"}),
        ("h = torch.randn(2, device='cuda').to('cpu', torch.float64, True)\nh.sum()", {"s.py:5"}),
        ("h = batch.to(net.weight.device, torch.float64, non_blocking=True)\nh.sum()", set()),
        ("pinned.copy_(batch, non_blocking=True)\ntorch.cuda.synchronize()\npinned.sum()", set()),
        ("pinned.copy_(batch, non_blocking=True)\nbatch.sum().item()\npinned.sum()", set()),
        ("pinned.copy_(batch, non_blocking=True)\nbatch.copy_(pinned, non_blocking=True)", set()),
        ("pageable.copy_(batch, non_blocking=True)\npageable.sum()", set()),
        ("pinned.copy_(pageable, non_blocking=True)\npinned.sum()", set()),
        ("net(batch).cpu().sum()", set()),
    ],
)
def test_on_fake_tensors_a_fetched_result_is_read_early_only_in_pinned_memory_that_nobody_waited_for(
    step: str, lines: set[str], tracer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.py").write_text(FETCHES + step + "\n")
    tracer("run", "--fake", "--as", "cuda:8.0", "-o", "t.json", "s.py")
    found = judge(Trace.load("t.json"), backend="cuda").findings
    assert {one.location for one in found if one.rule == "environment-copy-in-flight"} == lines
