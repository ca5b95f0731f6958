"""Tensors that are not plain: subclasses, ``meta``, higher-order ops, inference mode, modes of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.lines import groups, one, record
from tests.support.samples import llama
from tracer import DeterminismTracer, judge
from tracer.names import BlindSpotKind, Phase


class Wrapped(torch.Tensor):
    """A subclass that unwraps, calls and wraps again."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapped:
        made: Wrapped = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.neg.default:
            return Wrapped(args[0].inner)  # no call of its own
        plain = [arg.inner if isinstance(arg, Wrapped) else arg for arg in args]
        result = func(*plain, **(kwargs or {}))
        return Wrapped(result) if isinstance(result, torch.Tensor) else result


def test_a_subclass_shows_its_outer_call_and_the_inner_one() -> None:
    wrapped = Wrapped(torch.ones(3))
    inner, outer = sorted(
        groups(record(lambda: wrapped.sin()), "aten.sin"), key=lambda group: "subclass" in group.facts
    )
    assert (outer.facts["subclass"], outer.facts["subclass_inner"], outer.count) == ("Wrapped", True, 1)
    assert ("subclass" in inner.facts, inner.count) == (False, 1)
    assert inner.function.endswith("__torch_dispatch__")


def test_a_subclass_that_calls_nothing_is_said_to_be_unseen() -> None:
    wrapped = Wrapped(torch.ones(3))
    tracer = record(lambda: (-wrapped, torch.ones(1).cos()))
    assert one(tracer, "aten.neg").facts["subclass_inner"] is False
    assert [spot.kind for spot in tracer.trace.blind_spots] == [BlindSpotKind.SUBCLASS]


def _sparse() -> torch.Tensor:
    values = torch.ones(2, requires_grad=True)
    return torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), values, (2, 2), check_invariants=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: _sparse().coalesce(),
        lambda: torch.eye(3).to_sparse_csr().requires_grad_(),
        lambda: torch.eye(4).to_sparse_bsr((2, 2)).requires_grad_(),
        lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged, requires_grad=True),
        lambda: Wrapped(torch.ones(3)),
    ],
)
def test_a_result_without_a_storage_of_its_own_is_detached_as_ever(make: Callable[[], torch.Tensor]) -> None:
    tracer = record(lambda: (make() * 2).detach().to("cpu", non_blocking=True))
    assert groups(tracer, "aten.mul")


@pytest.mark.filterwarnings("ignore")
def jagged() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(3, 8), torch.ones(5, 8)], layout=torch.jagged, requires_grad=True)


def sizes_of_jagged() -> None:
    tensor = jagged()
    assert (tensor.dim(), tensor.size(0), tensor.shape[2], tensor.is_contiguous()) == (3, 2, 8, True)
    tensor.offsets()
    torch.nested.nested_tensor_from_jagged(torch.ones(8, 4), torch.tensor([0, 3, 8])).unbind()


def norm_of_jagged() -> None:
    torch.nn.functional.layer_norm(jagged(), (8,)).transpose(1, 2).sum(-1)


def attention_on_jagged() -> None:
    heads = jagged().view(2, -1, 2, 4).transpose(1, 2)
    joined = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(-2)
    joined.values().sum().backward()


def padded_jagged() -> None:
    (jagged() * 2).to_padded_tensor(0.0).sum().backward()


@pytest.mark.parametrize("step", [sizes_of_jagged, norm_of_jagged, attention_on_jagged, padded_jagged])
@pytest.mark.filterwarnings("ignore")
def test_the_bookkeeping_of_jagged_tensors_computes_nothing(step: Callable[[], None]) -> None:
    trace = record(step).trace
    for backend in ("cpu", "cuda"):
        report = judge(trace, backend=backend, torch="2.13")
        assert not [finding.op for finding in report.findings if finding.verdict == "unknown"]
        assert not [spot for spot in report.blind_spots if "Nested" in spot.detail]


def test_what_a_jagged_tensor_computes_is_judged_as_ever() -> None:
    index = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    trace = record(lambda: torch.zeros(4, 8).index_add(0, index, jagged().values() * torch.rand(8, 1))).trace
    found = judge(trace, backend="cuda", torch="2.13", settings="default").findings
    assert "aten.index_add.default" in {finding.op for finding in found if finding.verdict == "nondeterministic"}


def test_ops_that_have_a_kernel_for_nested_tensors_run_it() -> None:
    layer = torch.nn.Linear(4, 4)

    def step() -> list[torch.Tensor]:
        nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(5, 4)])
        layer.zero_grad()
        padded = layer(nested).to_padded_tensor(0.0)
        padded.sum().backward()
        with torch.inference_mode():
            nested.reshape(2, -1, 4)
            torch.matmul(layer(nested), nested.transpose(1, 2))
        return [padded.detach(), layer.weight.grad.clone()]  # type: ignore[union-attr]

    plain, results = step(), []
    tracer = record(lambda: results.extend(step()))
    assert all(map(torch.equal, results, plain))
    assert {"aten.linear.default", "aten.matmul.default"} <= {group.op for group in tracer.trace.calls}


@pytest.fixture
def process_group() -> Iterator[None]:
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("this torch has no distributed package")
    store = distributed.HashStore()
    distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    yield
    distributed.destroy_process_group()


def test_a_distributed_tensor_shows_both_levels(process_group: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh

    tensor = pytest.importorskip("torch.distributed.tensor")
    if not hasattr(tensor, "Shard"):
        pytest.skip("this torch keeps its distributed tensors elsewhere")
    mesh = init_device_mesh("cpu", (1,))
    weight = tensor.distribute_tensor(torch.ones(4, 4), mesh, [tensor.Shard(0)]).requires_grad_()
    tracer = record(lambda: (weight @ weight).sum().backward())
    outer = [group for group in groups(tracer, "aten.mm") if group.facts.get("subclass") == "DTensor"]
    assert not any(source.fake_calls for source in tracer.trace.sources)  # torch works out the shapes with fakes
    inner = [group for group in groups(tracer, "aten.mm") if "subclass" not in group.facts]
    assert sum(group.count for group in outer) == sum(group.count for group in inner) == 3
    assert all(group.facts["subclass_inner"] is True for group in outer)


@pytest.mark.filterwarnings("ignore")
def test_cond_runs_and_shows_itself_and_its_body() -> None:
    x = torch.ones(3, requires_grad=True)

    def step() -> None:
        result = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        assert torch.equal(result, x.sin())
        if hasattr(TorchDispatchMode, "supports_higher_order_operators"):  # it has a backward
            result.sum().backward()

    tracer = record(step)
    cond = groups(tracer, "higher_order.cond", phase=Phase.FORWARD)[0]
    assert (cond.count, cond.facts["body_recorded"]) == (1, True)
    assert groups(tracer, "aten.sin")
    assert {group.phase for group in groups(tracer, "aten.cos")} <= {Phase.BACKWARD}
    assert not [group for group in tracer.trace.calls if group.phase is Phase.RECOMPUTE]


@pytest.mark.filterwarnings("ignore")
def test_while_loop_and_flex_attention_run() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    attention = pytest.importorskip("torch.nn.attention.flex_attention").flex_attention
    query = torch.randn(1, 1, 8, 8)

    def step() -> list[torch.Tensor]:
        looped = while_loop(lambda i: i < 3, lambda i: (i + 1,), (torch.zeros((), dtype=torch.int64),))
        return [*looped, attention(query, query, query)]

    expected, results = step(), []
    tracer = record(lambda: results.extend(step()))
    assert all(map(torch.equal, results, expected))
    assert one(tracer, "higher_order.while_loop").facts["body_recorded"] is True
    assert one(tracer, "higher_order.flex_attention").count == 1


def test_composites_that_arrive_whole_in_inference_mode_show_their_parts() -> None:
    net, x = nn.Linear(3, 3), torch.randn(2, 3)
    with torch.inference_mode():
        tracer = record(lambda: net(x))
    assert one(tracer, "aten.linear").facts["body_recorded"] is True
    assert one(tracer, "aten.addmm").count == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.functional.interpolate(x, scale_factor=2.0, mode="linear"),
        lambda x: nn.functional.dropout(x, 0.5),
        lambda x: nn.LSTM(4, 4)(x)[0],
    ],
)
def test_composites_run_their_own_kernel_in_inference_mode(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def step() -> torch.Tensor:
        torch.manual_seed(0)
        with torch.inference_mode():
            return function(torch.randn(2, 3, 4))

    expected = step()
    with DeterminismTracer():
        assert torch.equal(step(), expected)


def test_a_users_function_mode_is_not_called_by_the_recorder() -> None:
    seen: list[str] = []

    class Counts(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    def work() -> None:
        with Counts():
            (torch.ones(2) + 1).sum()

    work()
    tracer = record(work)
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]
    assert one(tracer, "aten.add").facts["dtype"] == "float32"


def test_numbers_empty_lists_out_arguments_and_factories() -> None:
    def step() -> None:
        torch.add(1, torch.ones(2))
        torch._foreach_add_([torch.ones(2), torch.ones(3)], 1.0)
        torch.add(torch.ones(2), 1, out=torch.empty(2, 3, dtype=torch.float64).resize_(2))
        torch.cat([torch.ones(2), torch.ones(2)])

    tracer = record(step)
    assert one(tracer, "aten.add.Tensor").count == one(tracer, "aten.add.out").count == 1
    assert one(tracer, "aten._foreach_add_").facts["dtype"] == "float32"
    assert one(tracer, "aten.cat").facts["ndim"] == 1
    assert one(tracer, "aten.empty").facts == {"device": "cpu", "dtype": "float64", "layout": "strided", "ndim": 2}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4, padding_idx=0)
        self.layer = nn.LSTM(4, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 4)
        nn.init.trunc_normal_(self.head.weight)
        self.register_buffer("mask", torch.tril(torch.ones(4, 4)).masked_fill(torch.ones(4, 4) == 0, float("-inf")))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.norm(self.layer(self.embedding(words))[0]))
        return out.logsumexp(-1).sum()


def trained(model: nn.Module, words: torch.Tensor) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    made = model(words)
    (made if isinstance(made, torch.Tensor) else made.logits.sum()).backward()
    optimizer.step()


@pytest.mark.parametrize("make", [Net, llama])
def test_what_built_a_model_on_meta_is_not_held_against_the_step(make: Callable[[], nn.Module]) -> None:
    with DeterminismTracer() as tracer:
        with torch.device("meta"):
            model = make()
        model = model.to_empty(device="cpu")
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        trained(model, torch.ones(1, 4, dtype=torch.long))
    assert any(group.facts["device"] == "meta" for group in tracer.trace.calls)
    for backend in ("cpu", "cuda", "npu", "recorded"):
        report = judge(tracer.trace, backend=backend)
        assert not any(finding.rule.endswith("not-computed") for finding in report.findings)
        assert not any("computed nothing" in banner for banner in report.banners)
