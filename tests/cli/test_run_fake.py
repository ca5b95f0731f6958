"""A script on fake tensors: its program is the real one's, values are stand-ins, and both are told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from tests.support.command import Command
from tracer import DeterminismTracer, Trace, judge
from tracer.names import Backend

IMPORTS = "import os, torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
#: The number of the first line behind them.
FIRST = 4


class Ran(NamedTuple):
    """What a program printed and left."""

    out: str
    trace: Trace

    def rules(self, **target: Any) -> set[str]:
        """The rules of its findings on CUDA."""
        return {finding.rule for finding in judge(self.trace, backend="cuda", **target).findings}


Fake = Callable[..., Ran]


@pytest.fixture
def fake(tracer: Command, folder: Path) -> Fake:
    """``fake(text)`` runs it behind ``IMPORTS`` on fake tensors, as a machine with a GPU, and trusts that it ends."""

    def run(text: str, *options: str, machine: str = "cuda:8.0") -> Ran:
        (folder / "train.py").write_text(f"{IMPORTS}{text}\n")
        done = tracer("run", "--fake", *(("--as", machine) if machine else ()), *options, "train.py")
        assert done.code == 0, done.err
        return Ran(done.out, Trace.load("trace.json"))

    return run


def test_a_script_runs_as_the_machine_that_was_asked_for(fake: Fake) -> None:
    trace = fake("""
assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (8, 0)
model = torch.nn.Linear(4, 4).to('cuda')
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler('cuda')
rows = torch.ones(3, 4, device='cuda').cuda()
with torch.autocast('cuda', dtype=torch.bfloat16):
    loss = model(rows[rows[:, 0] > 0]).float().mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
torch.cuda.synchronize()
""").trace
    assert trace.sources[0].optimizer_steps == 1
    assert trace.environment.devices[0].capability == "8.0"
    assert judge(trace).target.backend is Backend.CUDA
    assert not torch.cuda.is_available() or torch.version.cuda
    assert type(torch.ones(1)) is torch.Tensor


OTHER_WORDS = {
    "accelerator": """
device = torch.accelerator.current_accelerator()
assert torch.accelerator.is_available() and device.type == 'cuda'
assert (torch.accelerator.device_count(), torch.accelerator.current_device_index()) == (1, 0)
torch.nn.Linear(2, 2).to(device)(torch.ones(1, 2, device=device)).sum().backward()
torch.accelerator.synchronize(), torch.accelerator.memory_allocated()
""",
    "generator": """
generator = torch.Generator('cuda').manual_seed(3)
assert isinstance(generator, torch.Generator) and generator.initial_seed() == 3
assert isinstance(torch.default_generator, torch.Generator)
torch.randn(4, generator=generator, device='cuda')
""",
    "streams and old types": """
stream = torch.Stream(device='cuda')
with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
    torch.Event('cuda').record()
with torch.random.fork_rng(devices=[0]):
    torch.cuda.seed_all()
torch.cuda.nvtx.range_push('a'), torch.cuda.memory_stats()['num_ooms'], torch.cuda.utilization()
torch.ones(2).type(torch.cuda.FloatTensor) + torch.cuda.FloatTensor(2)
""",
    "compile": "torch.compile(torch.nn.Linear(2, 2))(torch.ones(1, 2, device='cuda')).sum()",
    "numbers of devices": """
layer = torch.nn.Linear(2, 2, device=0).to(0).to(device=0, dtype=torch.float16).cuda(0)
x = torch.zeros(2).to(0, torch.float16).cuda(0)
torch.ones_like(x, device=0), x.new_zeros(2, device=0), torch.tensor([1], device=0)
assert torch.device(0) == torch.device('cuda:0') == torch.device('cuda', 0) == torch.Generator(0).device
assert isinstance(torch.device('cpu'), torch.device) and not isinstance('cpu', torch.device)
assert str(torch.device) == "<class 'torch.device'>" and torch.device == type(torch.device('cpu'))
torch.set_default_device(0)
torch.arange(3), torch.set_default_device(None)
""",
    "arrays on the current device": """
import numpy
array, on = numpy.ones((2, 3), numpy.float32), torch.device('cuda')
assert torch.tensor(array, device=on).device == torch.as_tensor(array, device='cuda').device
assert torch.ones(1).new_tensor(array, device=on).is_cuda and not torch.tensor(array).is_cuda
with on:
    assert torch.asarray(array).is_cuda and torch.ones(1).is_cuda
torch.set_default_device('cuda')
assert torch.tensor(array).is_cuda and not torch.tensor(array, device='cpu').is_cuda
torch.set_default_device(None)
""",
    "data parallel": """
model = torch.nn.DataParallel(torch.nn.Linear(2, 2)).cuda()
model(torch.ones(4, 2)).sum().backward()
assert model.module.weight.grad is not None
""",
    "states of generators": """
assert torch.cuda.initial_seed() > 1 << 32
torch.cuda.manual_seed_all(5)
state = torch.cuda.get_rng_state()
with torch.random.fork_rng(devices=[0]):
    torch.manual_seed(7)
    assert torch.cuda.initial_seed() == 7
torch.cuda.set_rng_state(state), torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
assert torch.cuda.initial_seed() == 5
torch.rand(2, device='cuda')
""",
}


@pytest.mark.parametrize("lines", OTHER_WORDS.values(), ids=OTHER_WORDS)
def test_what_asks_for_the_gpu_in_other_words_is_answered(fake: Fake, lines: str) -> None:
    stands_for = torch.Generator, torch.device
    assert fake(lines).trace.sources[0].fake_calls > 0
    assert (torch.Generator, torch.device) == stands_for
    assert type(torch.device("cpu")) is torch.device
    assert not torch.accelerator.is_available() or torch.version.cuda


@pytest.mark.parametrize(
    "line",
    [
        "x = torch.load('x.pt', map_location='cuda')",
        "x = torch.load('x.pt', map_location=torch.device(0))",
        "x = torch.load('x.pt', lambda storage, place: storage.cuda())",
        "x = torch.load(f='x.pt', weights_only=True, map_location={'cpu': 'cuda:0'})",
        "x = torch.zeros(2, device='cuda')",
        "with torch.device('cuda'): x = torch.zeros(2)",
        "x = torch.cuda.FloatTensor(2)",
    ],
)
def test_a_tensor_that_came_to_the_gpu_otherwise_makes_no_call_the_hosts(fake: Fake, folder: Path, line: str) -> None:
    torch.save(torch.zeros(2), folder / "x.pt")
    trace = fake(
        f"{line}\nx.half(), torch.ones(5, device=x.device)\ntorch.backends.cudnn.benchmark = True\n"
        "nn.Conv2d(3, 8, 3).cuda()(torch.randn(4, 3, 16, 16).cuda()).pow(2).mean().backward()"
    ).trace
    assert {finding.location for finding in judge(trace).findings if finding.op == "aten.convolution.default"} == {
        f"train.py:{FIRST + 3}"
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
def test_a_generator_is_seeded_by_what_seeds_it(fake: Fake, line: str, unseeded: set[str]) -> None:
    draws = fake(f"torch.default_generator.seed()\n{line}\ntorch.rand(3), torch.rand(3, device='cuda')").trace.draws
    assert {draw.generator for draw in draws} == {"cpu", "cuda:0"}
    assert {draw.generator for draw in draws if draw.origin.value == "machine"} == unseeded


CPU, CUDA = "torch.default_generator.manual_seed(1)", "torch.cuda.manual_seed_all(1)"


@pytest.mark.parametrize(
    ("seed", "line", "verdicts"),
    [
        (CUDA, "nn.Linear(4, 2, device='cuda')", "seeded"),
        (CPU, "nn.Linear(4, 2, device='cuda')", "nondeterministic"),
        (CPU, "nn.Linear(4, 2).to('cuda')", "seeded"),
        (CUDA, "nn.Linear(4, 2).to('cuda')", "nondeterministic"),
        (CUDA, "nn.Linear(4, 2).cuda().reset_parameters()", "nondeterministic seeded"),
        (CUDA, "nn.init.normal_(torch.empty_like(nn.Linear(4, 2, device='cuda').weight)[1:])", "seeded"),
        (CPU, "F.dropout2d(torch.ones(2, 3, 4, 4, device='cuda'))", "nondeterministic"),
        (CPU, "x = torch.ones(3, device='cuda')\ntorch.empty(3, device=x.device).normal_()", "nondeterministic"),
        (CUDA, "x = torch.ones(3, device='cuda')\nx.cpu().normal_()", "nondeterministic"),
    ],
)
def test_a_tensor_is_drawn_into_where_it_was_placed(fake: Fake, seed: str, line: str, verdicts: str) -> None:
    found = judge(fake(f"torch.seed()\n{seed}\n{line}").trace, backend="cuda").findings
    assert {finding.verdict.value for finding in found if finding.op} == set(verdicts.split())


HOST_OR_NOT = """\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x, h, zeros = torch.rand(4, 8, device=device), torch.rand(8), torch.zeros(8, dtype=torch.long)
"""
ON_THE_HOST = [
    "x.to(torch.device('cpu')).flatten().cumsum(0)",
    "torch.cumprod(1 - torch.linspace(0.1, 0.2, 9), 0).to(device)",
    "torch.zeros(8).index_add(0, zeros, h)",
    "h.to(torch.ones(1)).flatten().cumsum(0)",
    "torch.from_numpy(__import__('numpy').ones(3)).div(3).flatten().cumsum(0)",
    "m = nn.Linear(8, 8).to(x.device).cpu()\nm.weight.flatten().cumsum(0)",
]
ON_THE_GPU = [
    "torch.eye(4, device=x.device).div(3).flatten().cumsum(0)",
    "torch.eye(4).to('cuda' if x.is_cuda else 'cpu').div(3).flatten().cumsum(0)",
    "torch.eye(4, device=x.get_device()).div(3).flatten().cumsum(0)",
    "torch.eye(4).to(x).div(3).flatten().cumsum(0)",
    "torch.zeros(4, device=x.device.type).add(.1).flatten().cumsum(0)",
    "m = nn.Linear(8, 8).to(device)\nm.weight.flatten().cumsum(0)",
    "h.to(nn.Linear(1, 1).to(x.device).weight.device).flatten().cumsum(0)",
    "F.one_hot(zeros.to(device)).float().div(3).flatten().cumsum(0)",
    "y = x.to(device)\nassert y is x\ny.flatten().cumsum(0)",
]


@pytest.mark.parametrize("line", [*ON_THE_HOST, *ON_THE_GPU])
def test_a_call_is_the_hosts_where_all_its_tensors_would_lie_there(fake: Fake, line: str) -> None:
    varies = fake(f"{HOST_OR_NOT}{line}\n(x * 2).sum()").rules(settings="default")
    assert bool(varies & {"cuda-cumsum", "cuda-cumprod", "cuda-index-add"}) is (line in ON_THE_GPU)


def test_a_program_that_asks_for_no_gpu_is_judged_as_if_it_ran_there(fake: Fake) -> None:
    assert "cuda-cumsum" in fake("torch.rand(9).cumsum(0)").rules(settings="default")


@pytest.mark.parametrize("values", ["torch.arange(6) % 3", "torch.rand(2000).mul(3).int()"], ids=["known", "unknown"])
def test_whole_numbers_are_counted_as_a_gpu_counts_them(fake: Fake, values: str) -> None:
    ran = fake(
        f"x = ({values}).to('cuda').int()\n"
        "counts = torch.histc(x.int() if x.device.type == 'cuda' else x.float(), bins=3, min=0, max=2)\n"
        "print(counts.dtype, counts.shape)\n"
    )
    assert ran.out == "torch.int32 torch.Size([3])\n"


def test_a_loop_over_sequences_ends_where_each_is_at_its_end(fake: Fake) -> None:
    program = """
words = torch.randn(2, 4000).argmax(1, keepdim=True)
goes_on, steps = torch.ones(2, dtype=torch.long), 0
while goes_on.max() != 0:
    steps += 1
    assert steps < 9
    is_at_end = torch.full((2,), steps == 3) | torch.isin(words[:, -1], torch.tensor([7]))
    goes_on = goes_on & ~is_at_end
print('ended')
"""
    assert fake(program, machine="").out == "ended\n"


SET = "os.environ['CUBLAS_WORKSPACE_CONFIG'] = ':4096:8'\n"


@pytest.mark.parametrize(
    ("lines", "late"),
    [
        (f"{SET}layer = torch.nn.Linear(4, 4).cuda()\n", False),
        (f"torch.cuda.is_available(), torch.cuda.manual_seed(1)\n{SET}", False),
        (f"torch.ones(2, 2) @ torch.ones(2, 2)\ntorch.cuda.set_device(0)\n{SET}", False),
        (f"x = torch.ones(2, 2).cuda()\nx @ x\n{SET}", True),
        (f"x = torch.ones(2, 2, device='cuda')\nx @ x\n{SET}", True),
    ],
)
def test_a_variable_is_late_once_it_was_read(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, lines: str, late: bool
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    product = "y = torch.ones(2, 2, requires_grad=True, device=0)\n(y @ y).sum().backward()"
    ran = fake(f"torch.use_deterministic_algorithms(True)\n{lines}{product}", machine="cuda:9.0")
    found = judge(ran.trace, torch="2.6").findings  # from 2.10 on products ask for none
    assert ["CUBLAS_WORKSPACE_CONFIG" in finding.subject for finding in found].count(True) == late


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("torch.nn.Linear(2, 2).cuda()", True),
        ("torch.ones(2).to(0)", True),
        ("torch.cuda.get_device_name()", True),
        ("assert torch.cuda.is_available(), 'this needs a GPU'", True),
        ("sys.exit('no CUDA device')", True),
        ("torch.cuda.is_available(), torch.ones(2) + torch.ones(3)", False),
    ],
)
def test_a_script_that_wants_a_gpu_is_told_how(tracer: Command, folder: Path, line: str, is_told: bool) -> None:
    (folder / "train.py").write_text(f"import sys, torch\ntorch.ones(2).sum()\n{line}\n")
    result = tracer("run", "--fake", "train.py")
    assert result.code == 1
    assert ("add --as cuda:8.0; next" in result.err.splitlines()[-1]) is is_told
    assert "add --as" not in tracer("run", "train.py").err


def test_addresses_tell_which_tensors_share_memory(fake: Fake) -> None:
    program = """
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
model[2].weight = model[0].weight
weights = [layer.weight for layer in model]
of_storage, of_old = lambda x: x.untyped_storage().data_ptr(), lambda x: x.storage().data_ptr()
for address in (torch.Tensor.data_ptr, of_storage, of_old):
    print([address(weights[0]) == address(weight) for weight in weights], address(weights[0]) != 0)
print(weights[0][1:].data_ptr() - weights[0].data_ptr(), torch.empty(2, device='meta').data_ptr())
"""
    assert fake(program, machine="").out.splitlines() == ["[True, False, True] True"] * 3 + ["16 0"]


@pytest.mark.slow
def test_a_library_that_imports_torch_in_the_middle_of_itself_is_whole(folder: Path) -> None:
    pytest.importorskip("transformers")
    Path("train.py").write_text("from transformers import Trainer, PreTrainedModel\nprint(Trainer.__name__)\n")
    line = [sys.executable, "-m", "tracer", "run", "--fake", "train.py"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Trainer\n")


def test_without_a_machine_there_is_no_accelerator_and_nothing_is_compiled(fake: Fake) -> None:
    trace = fake(
        "assert not torch.accelerator.is_available() and torch.accelerator.current_accelerator() is None\n"
        "torch.compile(torch.nn.Linear(2, 2))(torch.ones(1, 2)).sum().backward()",
        machine="",
    ).trace
    assert "aten.addmm.default" in {call.op for call in trace.calls}


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


def without_weights(path: Path) -> None:
    """Keep nothing of a file of safetensors but its header."""
    whole = path.read_bytes()
    path.write_bytes(whole[: 8 + int.from_bytes(whole[:8], "little")])
    os.truncate(path, len(whole))


def test_weights_are_not_read_and_nothing_is_written(fake: Fake, folder: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    model = torch.nn.Linear(40, 30)
    safetensors.save_file(model.state_dict(), folder / "weights.safetensors")
    torch.save(model.state_dict(), folder / "weights.pt")
    without_weights(folder / "weights.safetensors")
    ran = fake("""\
import copy
from safetensors import safe_open
from safetensors.torch import load_file
model = torch.nn.Linear(40, 30)
print(model.load_state_dict(load_file('weights.safetensors')))
print(model.load_state_dict(torch.load('weights.pt')))
with safe_open('weights.safetensors', framework='pt') as file:
    print(sorted(file.keys()), file.get_slice('weight').get_shape(), file.get_slice('weight')[:5].shape)
average = copy.deepcopy(model)
assert average.weight is not model.weight and average.weight.requires_grad
torch.save(average.state_dict(), 'saved.pt')
torch.save({'step': 3}, 'step.pt')""", machine="")  # fmt: skip
    assert ran.out.splitlines() == [
        *["<All keys matched successfully>"] * 2, "['bias', 'weight'] [30, 40] torch.Size([5, 40])"
    ]  # fmt: skip
    assert (Path("saved.pt").exists(), torch.load("step.pt")) == (False, {"step": 3})
    assert [(spot.detail, spot.location) for spot in ran.trace.blind_spots] == [
        ("weights in weights.safetensors: only their shapes were read", f"train.py:{FIRST + 4}"),
        ("weights in weights.pt: only their shapes were read", f"train.py:{FIRST + 5}"),
        ("weights in weights.safetensors: only their shapes were read", f"train.py:{FIRST + 6}"),
        ("save: nothing was written", f"train.py:{FIRST + 10}"),
    ]
    assert [spot.count for spot in ran.trace.blind_spots[1:]] == [1, 1, 1]


def test_what_was_saved_and_not_written_is_loaded_again(fake: Fake, folder: Path) -> None:
    (folder / "kept.pt").write_bytes(b"of another run")
    program = """
import io, pathlib
model = torch.nn.Linear(40, 30)
torch.save({'model': model.state_dict(), 'step': 3}, 'kept.pt')
checkpoint = torch.load(pathlib.Path('kept.pt').resolve(), map_location='cpu')
print(checkpoint['step'], model.load_state_dict(checkpoint['model']))
with open('whole.pt', 'wb') as file: torch.save(model, file)
with open('whole.pt', 'rb') as file: other = torch.load(file, weights_only=False)
print(other.weight.shape, other.weight is model.weight)
buffer = io.BytesIO()
torch.save(model.state_dict(), f=buffer)
print(list(torch.load(buffer)))
torch.save(5, 'kept.pt'), print(torch.load('kept.pt'))
"""
    assert fake(program, machine="").out.splitlines() == [
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
def test_an_unwritten_checkpoint_is_renamed_and_no_other_file_is_lost(fake: Fake, folder: Path, moves: str) -> None:
    (folder / "last.pt").write_bytes(b"of another run")
    ran = fake(
        f"import pathlib, shutil\ntorch.save(torch.nn.Linear(2, 3).state_dict(), 'new.pt')\n{moves}\n"
        "print(torch.load('last.pt')['weight'].shape)\n"
        "pathlib.Path('other.txt').write_text('a'), os.replace('other.txt', 'moved.txt')",
        machine="",
    )
    assert ran.out.splitlines()[-1] == "torch.Size([3, 2])"
    assert (Path("last.pt").read_bytes(), Path("moved.txt").read_text()) == (b"of another run", "a")
    assert not Path("new.pt").exists()


def test_arrays_of_tensors_hold_their_values_and_have_memory_of_their_own(fake: Fake) -> None:
    program = """
import numpy
images = torch.from_numpy(numpy.arange(12, dtype=numpy.uint8).reshape(3, 4))
array = images[1].numpy()
print(array.tobytes(), numpy.asarray(images)[2].tolist(), images[1].numpy().tolist(), images[0].tolist())
unknown = torch.nn.Linear(1, 1)(torch.ones(1))[0]
print(torch.tensor([images[0, 3], 2]).tolist(), torch.tensor([[unknown], [3.0]]).tolist())
print(torch.zeros(2, 2).numpy().sum(), torch.nn.Linear(2, 2).weight.detach().numpy().tobytes() != b'')
"""
    assert fake(program, machine="").out.splitlines() == [
        r"b'\x04\x05\x06\x07' [8, 9, 10, 11] [4, 5, 6, 7] [0, 1, 2, 3]",
        "[3, 2] [[1.0], [3.0]]",
        "0.0 True",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "d.Categorical(logits=layer(x)).log_prob(d.Categorical(logits=layer(x)).sample())",
        "d.Categorical(probs=layer(x).softmax(-1)).entropy()",
        "d.Normal(layer(x), layer(x).exp()).log_prob(layer(x))",
        "d.Bernoulli(layer(x).sigmoid()).log_prob(torch.ones(2, 3))",
    ],
)
def test_a_distribution_takes_parameters_and_samples_whose_values_are_not_known(fake: Fake, line: str) -> None:
    made = "import torch.distributions as d\nlayer, x = torch.nn.Linear(3, 3), torch.ones(2, 3)\n"
    assert fake(f"{made}{line}.sum().backward()", machine="").trace.calls


@pytest.mark.parametrize("header", [b"", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0{]", b'\x08\0\0\0\0\0\0\0{"a": 1}'])
def test_a_broken_file_of_weights_is_named(header: bytes, tracer: Command, folder: Path) -> None:
    pytest.importorskip("safetensors")
    Path("weights.safetensors").write_bytes(header)
    Path("train.py").write_text(
        "import torch\nfrom safetensors import safe_open\nsafe_open('weights.safetensors', framework='pt')\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert result.code == 1
    assert "SafetensorError" in result.err


def test_a_model_is_built_from_a_folder_whose_weights_are_not_read(fake: Fake, folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 64}
    config = transformers.LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **sizes)
    transformers.LlamaForCausalLM(config).save_pretrained("model")
    (weights,) = Path("model").glob("*.safetensors")
    without_weights(weights)
    ran = fake("""
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained('model', device_map='auto', dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
words = torch.ones(1, 8, dtype=torch.long, device='cuda')
model(input_ids=words, labels=words).loss.backward()
optimizer.step()
model.save_pretrained('trained')
print({parameter.dtype for parameter in model.parameters()})
""")
    assert ran.out.splitlines()[-1] == "{torch.bfloat16}"
    assert not Path("trained").exists()
    details = {spot.detail.partition(":")[0] for spot in ran.trace.blind_spots}
    assert {f"weights in {weights.name}", "PreTrainedModel.save_pretrained"} <= details
    assert ran.trace.unwritten_reads == ()


def test_worker_processes_of_a_loader_are_not_started_and_their_work_is_not_recorded(fake: Fake) -> None:
    ran = fake(
        """
from torch.utils.data import DataLoader, TensorDataset
class Shifted(TensorDataset):
    def __getitem__(self, index):
        return self.tensors[0][index].sin()
loader = DataLoader(Shifted(torch.rand(6, 3)), 2, shuffle=True, num_workers=2, timeout=9, pin_memory=True)
print(sum(batch.shape[0] for batch in loader), loader.num_workers)
""",
        machine="",
    )
    assert ran.out == "6 2\n"
    ops = {group.op for group in ran.trace.calls}
    assert {"aten.sin.default", "aten.stack.default"}.isdisjoint(ops)
    assert "aten.randperm.generator" in ops
    assert [(spot.detail.partition(":")[0], spot.count) for spot in ran.trace.blind_spots] == [
        ("a DataLoader with 2 worker processes", 1)
    ]


def test_a_torch_without_such_fake_tensors_is_told_in_one_line(folder: Path) -> None:
    Path("train.py").write_text("import torch\nprint(torch.ones(1))\n")
    Path("older.py").write_text("""
import sys
class Older:
    def find_spec(self, name, path, target=None):
        if name == 'tracer.recording.fake':
            from torch._subclasses import fake_tensor
            del fake_tensor.FakeTensorMode.may_turn_const
sys.meta_path.insert(0, Older())
from tracer.cli.main import main
main(['run', '--fake', 'train.py'])
""")
    done = subprocess.run([sys.executable, "older.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot run a step; record it on real ones" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not Path("trace.json").exists()


#: Each program: what is done behind a copy that nobody waits for, and whether that copy is in flight as it is used.
COPIED = "buffer = torch.empty(4, pin_memory=True)\nthere = buffer.to('cuda', non_blocking=True)\n"
FETCHED = """\
net, batch = torch.nn.Linear(4, 4).to("cuda").requires_grad_(False), torch.ones(2, 4).to("cuda")
pinned, pageable = torch.empty(2, 4, pin_memory=True), torch.empty(2, 4)
"""


@pytest.mark.parametrize(
    ("before", "step", "in_flight"),
    [
        (COPIED, "buffer.zero_()", True),
        (COPIED, "there.sum(); torch.ones(4).sum().item(); torch.ones(4).nonzero(); buffer.zero_()", True),
        (COPIED, "float(there.sum()); buffer.zero_()", False),
        (COPIED, "torch.zeros_like(there).sum().item(); buffer.zero_()", False),
        (COPIED, "there.sum().tolist(); buffer.zero_()", False),
        (COPIED, "there.cpu(); buffer.zero_()", False),
        (COPIED, "torch.empty(4).copy_(there); buffer.zero_()", False),
        (COPIED, "there[there > 0]; buffer.zero_()", False),
        (COPIED, "torch.equal(there, there); buffer.zero_()", False),
        (COPIED, "torch.cuda.synchronize(); buffer.zero_()", False),
        (COPIED, "torch.cuda.current_stream().synchronize(); buffer.zero_()", False),
        (COPIED, "event = torch.cuda.Event(); event.record(); event.synchronize(); buffer.zero_()", False),
        (FETCHED, "pinned.copy_(net(batch), non_blocking=True); pinned.argmax(1)", True),
        (FETCHED, "pinned[0].copy_(batch[0], non_blocking=True); pinned.numpy()", True),
        (FETCHED, "h = net.weight.to('cpu', non_blocking=True); h.sum()", True),
        (FETCHED, "h = torch.randn(2, device='cuda').to('cpu', torch.float64, True); h.sum()", True),
        (FETCHED, "h = batch.to(net.weight.device, torch.float64, non_blocking=True); h.sum()", False),
        (FETCHED, "pinned.copy_(batch, non_blocking=True); torch.cuda.synchronize(); pinned.sum()", False),
        (FETCHED, "pinned.copy_(batch, non_blocking=True); batch.sum().item(); pinned.sum()", False),
        (FETCHED, "pinned.copy_(batch, non_blocking=True); batch.copy_(pinned, non_blocking=True)", False),
        (FETCHED, "pageable.copy_(batch, non_blocking=True); pageable.sum()", False),
        (FETCHED, "pinned.copy_(pageable, non_blocking=True); pinned.sum()", False),
        (FETCHED, "net(batch).cpu().sum()", False),
    ],
)
def test_a_pinned_copy_that_nobody_waited_for_is_in_flight(fake: Fake, before: str, step: str, in_flight: bool) -> None:
    found = judge(fake(f"{before}{step}").trace, backend="cuda").findings
    line = FIRST + (before == FETCHED) + 1
    assert {one.location for one in found if one.rule == "environment-copy-in-flight"} == (
        {f"train.py:{line}"} if in_flight else set()
    )
