"""A script on fake tensors: its program is the real one's, values are stand-ins, and both are told."""

from __future__ import annotations

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
    ],
)
def test_what_asks_for_the_gpu_in_other_words_is_answered(tracer: Any, folder: Path, lines: str) -> None:
    stands_for = torch.Generator
    Path("train.py").write_text(f"import torch\n{lines}")
    result = tracer("run", "--fake", "--as", "cuda:8.0", "train.py")
    assert result.code == 0, result.err
    assert torch.Generator is stands_for
    assert not torch.accelerator.is_available() or torch.version.cuda
    assert Trace.load("trace.json").sources[0].fake_calls > 0


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
    Path("weights.safetensors").write_bytes(whole[: 8 + int.from_bytes(whole[:8], "little")])  # its header alone
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
    assert spots[0][1].startswith("safetensors/torch.py:")
    assert spots[1:] == [
        ("weights in weights.pt: only their shapes were read", "train.py:6", 1),
        ("weights in weights.safetensors: only their shapes were read", "train.py:7", 1),
        ("save: nothing was written", "train.py:11", 1),
    ]


@pytest.mark.parametrize("header", [b"", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0{]", b'\x08\0\0\0\0\0\0\0{"a": 1}'])
def test_a_broken_file_of_weights_is_named(header: bytes, tracer: Any, folder: Path) -> None:
    pytest.importorskip("safetensors")
    Path("weights.safetensors").write_bytes(header)
    Path("train.py").write_text(
        "import torch\nfrom safetensors import safe_open\nsafe_open('weights.safetensors', framework='pt')\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert result.code == 1
    assert "ValueError: weights.safetensors has no header of safetensors" in result.err


def test_a_model_is_built_from_a_folder_whose_weights_are_not_read(tracer: Any, folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 64}
    config = transformers.LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **sizes)
    transformers.LlamaForCausalLM(config).save_pretrained("model")
    (weights,) = Path("model").glob("*.safetensors")
    whole = weights.read_bytes()
    weights.write_bytes(whole[: 8 + int.from_bytes(whole[:8], "little")])
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
    details = {spot.detail.partition(":")[0] for spot in Trace.load("trace.json").blind_spots}
    assert {f"weights in {weights.name}", "PreTrainedModel.save_pretrained"} <= details


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
        "        if name == 'tracer.recording.fake.running':\n"
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
