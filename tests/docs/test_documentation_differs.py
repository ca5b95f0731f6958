"""What ``docs/where-torch-documentation-differs.md`` says was run on torch 2.13 is run again, and its rules exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from tracer.names import Backend
from tracer.tables.compiled import with_compiled
from tracer.tables.explaining import is_rule_id
from tracer.tables.loading import load_tables
from tracer.tables.rules import RuleTable

PAGE = Path(__file__).parents[2] / "docs" / "where-torch-documentation-differs.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| (?!API \||---)", line)]
RULE = re.compile(r"`((?:cpu|cuda|rocm|xpu|mps|npu|lib|inductor)-[a-z0-9-]+)`")

on_this_torch = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the page says what was run on torch 2.13"
)


@pytest.fixture
def deterministic_mode() -> Iterator[None]:
    """torch's deterministic mode, for one test."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


class Recorded(TorchDispatchMode):
    """Names of the ops that were dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.ops.append(str(func))
        return func(*args, **(kwargs or {}))


def reached(call: Callable[[], torch.Tensor], *, backward: bool = True) -> set[str]:
    """Ops that ``call`` dispatches, and its backward."""
    with Recorded() as recorded:
        out = call()
        if backward:
            out.sum().backward()
    return {op.removesuffix(".default") for op in recorded.ops}


def leaf(*shape: int, device: str = "cpu") -> torch.Tensor:
    return torch.randn(*shape, device=device, requires_grad=True)


@cache
def tables() -> Mapping[Backend, RuleTable]:
    return with_compiled(load_tables())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_a_row_is_whole_and_names_rules_that_exist(row: str) -> None:
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    assert len(cells) == 6
    assert all(cells)
    rules = RULE.findall(cells[-1])
    assert rules or cells[-1].startswith("no rule: ")
    for rule in rules:
        assert is_rule_id(rule, tables()), rule


def test_the_page_lists_what_is_known() -> None:
    assert len(ROWS) >= 50
    assert len(set(ROWS)) == len(ROWS)


@on_this_torch
@pytest.mark.parametrize(
    ("call", "op"),
    [
        (lambda: F.lp_pool3d(leaf(1, 1, 4, 4, 4), 2.0, 2), "aten.avg_pool3d_backward"),
        (lambda: F.adaptive_avg_pool1d(leaf(1, 1, 7), 3), "aten._adaptive_avg_pool2d_backward"),
        (lambda: F.adaptive_max_pool1d(leaf(1, 1, 7), 3), "aten.adaptive_max_pool2d_backward"),
        (lambda: F.interpolate(leaf(1, 1, 7), size=3, mode="area"), "aten._adaptive_avg_pool2d_backward"),
        (lambda: torch.take(leaf(7), torch.tensor([0, 1])), "aten.put"),
        (lambda: F.cross_entropy(leaf(2, 3, 4, 4), torch.zeros(2, 4, 4).long()), "aten.nll_loss2d_forward"),
        (lambda: F.cross_entropy(leaf(2, 3), torch.zeros(2).long()), "aten.nll_loss_forward"),
        (lambda: F.max_pool3d(leaf(1, 1, 4, 4, 4), 2), "aten.max_pool3d_with_indices_backward"),
    ],
)
def test_an_api_reaches_the_op_that_the_page_names(call: Callable[[], torch.Tensor], op: str) -> None:
    assert op in reached(call)


@on_this_torch
@pytest.mark.usefixtures("deterministic_mode")
@pytest.mark.parametrize(
    ("mode", "shape", "takes_the_route"),
    [("linear", (4,), False), ("bilinear", (4, 4), True), ("bicubic", (4, 4), False), ("trilinear", (4, 4, 4), True)],
)
def test_interpolation_takes_its_route_off_the_cpu(mode: str, shape: tuple[int, ...], takes_the_route: bool) -> None:
    ops = reached(lambda: F.interpolate(leaf(1, 1, *shape, device="meta"), scale_factor=2, mode=mode))
    assert ("aten._unsafe_index_put" in ops) is takes_the_route
    assert any(op.startswith("aten.upsample_") and op.endswith("_backward") for op in ops) is not takes_the_route


@on_this_torch
@pytest.mark.usefixtures("deterministic_mode")
@pytest.mark.parametrize(
    ("call", "alert"),
    [
        (lambda: torch.empty(4, 5, device="meta").median(1), "median CUDA with indices output"),
        (lambda: torch.empty(4, 5, device="meta").nanmedian(1), "median CUDA with indices output"),
        (lambda: torch.empty(4, 5, device="meta").mode(1), "median CUDA with indices output"),
        (lambda: torch.histc(torch.empty(4, device="meta"), 4, 0.0, 1.0), "_histc_cuda with floating point input"),
        (lambda: F.max_unpool1d(torch.ones(1, 1, 2), torch.tensor([[[0, 2]]]), 2), "max_unpooling2d_forward_out"),
    ],
)
def test_a_call_raises_that_no_page_lists(call: Callable[[], object], alert: str) -> None:
    with pytest.raises(RuntimeError, match=alert):
        call()


@on_this_torch
@pytest.mark.usefixtures("deterministic_mode")
@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.ones(4).index_copy(0, torch.tensor([0]), torch.ones(1)),
        lambda: torch.ones(4, 5).mode(1),
        lambda: torch.histc(torch.ones(4), 4, 0.0, 1.0),
    ],
)
def test_a_call_passes_that_a_page_or_its_meta_kernel_refuses(call: Callable[[], object]) -> None:
    call()


@on_this_torch
def test_the_other_interface_leaves_inductors_mode_off() -> None:
    from torch._inductor import config

    try:
        torch.use_deterministic_algorithms(True)
        assert config.deterministic
        torch.use_deterministic_algorithms(False)
        torch.set_deterministic_debug_mode("error")
        assert torch.are_deterministic_algorithms_enabled()
        assert not config.deterministic
    finally:
        torch.use_deterministic_algorithms(False)


@on_this_torch
def test_no_op_bears_the_tag_for_varying_bits() -> None:
    ops = [
        getattr(getattr(torch.ops.aten, name), overload)
        for name in dir(torch.ops.aten)
        for overload in getattr(getattr(torch.ops.aten, name), "overloads", list)()
    ]
    assert len(ops) > 1000
    assert not [op for op in ops if torch.Tag.nondeterministic_bitwise in op.tags]


@on_this_torch
@pytest.mark.parametrize(
    "name",
    ["topk", "scaled_dot_product", "index_reduce", "nanmedian", "AdaptiveMaxPool3d", "cumprod", "CrossEntropyLoss"],
)
def test_the_page_of_this_version_does_not_list(name: str) -> None:
    assert name not in str(torch.use_deterministic_algorithms.__doc__)
