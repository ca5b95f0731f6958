"""Everything that is known to vary, to be refused or to change route on the CPU has its rule, with the right verdicts."""

# ruff: noqa: E501  (a claim a line reads as the table that it is)

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.tables.claims import Claim, check, rule_for, tagged_ops, verdicts
from tracer.names import Backend

CPU = Backend.CPU
LARGE = {"shape.numel_ge_32768": True}
SMALL = {"shape.numel_ge_32768": False}
ONE = {"threads": "one"}
SERIAL = {"index.is_mask": False, "index.one_value": False}
ADD, WRITE = {"arg.accumulate": True}, {"arg.accumulate": False}

ALERTS = [
    Claim("max_unpooling2d_forward_out", "aten.max_unpool2d", "cpu-max-unpool", "CCR"),
    Claim("max_unpooling3d_forward_out", "aten.max_unpool3d", "cpu-max-unpool", "CCR"),
    Claim("max_unpooling3d_forward_out", "aten.max_unpool3d", "cpu-max-unpool", "DDR", ONE),
    Claim("put_", "aten.put_", "cpu-put", "CCR", {**WRITE, **LARGE}),
    Claim("put_", "aten.put", "cpu-put", "DDR", {**WRITE, **SMALL}),
    Claim("quantized_resize_cpu_", "aten.resize_", "cpu-resize", "CCC CCR CCR CCR", {"dtype": "quantized", "shape.grows": True}),
    Claim("quantized_resize_cpu_", "aten.resize_", "cpu-resize", "DDD DDR DDR DDR", {"dtype": "quantized", "shape.grows": False}),
]  # fmt: skip

BRANCHES = [
    Claim("index_put.cpu", "aten.index_put_", "cpu-index-put", "NDD", {**ADD, **LARGE, "index.is_mask": False}),
    Claim("index_put.cpu", "aten.index_put", "cpu-index-put", "DDD", {**ADD, **LARGE, "index.is_mask": True}),
    Claim("index_put.cpu", "aten._unsafe_index_put", "cpu-index-put", "DDD", {**ADD, **SMALL}),
    Claim("index_put.cpu", "aten._index_put_impl_", "cpu-index-put", "DDD", {**ADD, **LARGE, **ONE, "index.is_mask": False}),
    Claim("index_put.cpu", "aten.index_put", "cpu-index-put", "DDD", {**ADD, **LARGE, "dtype": "float64"}),
    Claim("index_put.cpu", "aten._unsafe_masked_index_put_accumulate", "cpu-masked-index-put", "NDD", LARGE),
    Claim("index_put.cpu.nonaccum", "aten.index_put", "cpu-index-put", "CDD", {**WRITE, **LARGE, **SERIAL}),
    Claim("index_put.cpu.nonaccum", "aten.index_put", "cpu-index-put", "DDD", {**WRITE, **LARGE, **SERIAL, "index.one_value": True}),
    Claim("index_put.cpu.nonaccum", "aten.index_put", "cpu-index-put", "DDD", {**WRITE, **LARGE, "index.is_mask": True}),
    Claim("index_put.quantized_cpu", "aten.index_put_", "cpu-index-put", "CDD", {**WRITE, **LARGE, **SERIAL, "dtype": "quantized"}),
    Claim("put.cpu", "aten.put_", "cpu-put", "NDD", {**ADD, **LARGE}),
    Claim("put.cpu", "aten.put_", "cpu-put", "DDD", {**ADD, **LARGE, "dtype": "int64"}),
    Claim("index_copy.cpu", "aten.index_copy", "cpu-index-copy", "CDD", LARGE),
    Claim("index_copy.cpu", "aten.index_copy_", "cpu-index-copy", "DDD", SMALL),
    Claim("empty.cpu", "aten.empty.memory_format", "cpu-empty", "DDD"),
    Claim("empty_strided.cpu", "aten.empty_strided", "cpu-empty", "DDD"),
    Claim("empty.out", "aten.empty.out", "cpu-empty", "DDD"),
    Claim("resize_.cpu", "aten.resize_", "cpu-resize", "CCC CDD CDD CDD", {"shape.grows": True}),
    Claim("resize_.cpu", "aten.resize_", "cpu-resize", "CCC", {"shape.grows": True, "fill_uninitialized_memory": False}),
    Claim("resize_.cpu", "aten.resize_as_", "cpu-resize", "DDD", {"shape.grows": False}),
]  # fmt: skip

UNDOCUMENTED = [
    Claim("gelsy's unwritten pivots", "aten.linalg_lstsq", "cpu-lstsq", "NNN NDD NDD DDD", {"arg.driver": "default"}),
    Claim("another driver", "aten.linalg_lstsq", "cpu-lstsq", "DDD", {"arg.driver": "gelsd"}),
    *(
        Claim("duplicates of one slice meet in one thread", f"aten.{op}", "cpu-scatter", "DDD")
        for op in ("scatter.src", "scatter_add_", "scatter_reduce.two", "index_add", "index_reduce_")
    ),
    Claim("attention", "aten._scaled_dot_product_flash_attention_for_cpu_backward", "cpu-attention-backward", "DDD"),
    Claim("attention", "aten._scaled_dot_product_flash_attention_for_cpu", "cpu-attention-dropout", "DDD", {"arg.dropout": False}),
    Claim("attention", "aten._scaled_dot_product_attention_math", "cpu-attention-dropout", "SSS", {"arg.dropout": True}),
    Claim("recurrent", "aten.mkldnn_rnn_layer", "cpu-mkldnn-rnn", "DDD"),
    Claim("recurrent", "aten.lstm.input", "cpu-rnn", "SSS", {"arg.dropout": True}),
    Claim("collective", "c10d.allreduce_", "cpu-all-reduce", "UUU"),
    Claim("collective", "_c10d_functional.all_reduce", "cpu-all-reduce", "DDD", {"dtype": "int64"}),
    Claim("collective", "c10d.broadcast_", "cpu-collective-copy", "DDD"),
]  # fmt: skip


@pytest.mark.parametrize("claim", [*ALERTS, *BRANCHES, *UNDOCUMENTED])
def test_the_table_says_what_is_known(claim: Claim) -> None:
    check(CPU, claim)


def runs_on_the_cpu(op: Any) -> bool:
    """Whether torch has a CPU kernel for an overload, or breaks it up on every device.

    Out-variants are generated for every device: of ops that belong to one other, they say nothing.
    """
    if op.name().partition("::")[2].startswith(("_cudnn", "_lstm_mps", "miopen", "_triton", "_flash", "_efficient")):
        return False
    keys = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key) for key in keys)


@pytest.mark.parametrize("op", filter(runs_on_the_cpu, tagged_ops()))
def test_every_tagged_op_is_seeded_where_it_draws_and_deterministic_where_it_does_not(op: Any) -> None:
    rule = rule_for(CPU, str(op))
    if str(op).startswith("aten._nested_tensor_softmax"):
        assert verdicts(rule, {}) == "DDD"
        return
    assert verdicts(rule, {"arg.dropout": True, "arg.training": True}) == "SSS"
    asks = {key for case in rule.case for key in case.when}
    assert verdicts(rule, {"arg.dropout": False, "arg.training": False}) == ("DDD" if asks else "SSS")


@pytest.mark.parametrize("run", ["max_unpool", "put"])
def test_what_the_table_says_is_refused_torch_refuses(run: str) -> None:
    """Two of the alerts by hand; the whole operator database is held to the table elsewhere."""
    calls = {
        "max_unpool": lambda: torch.nn.functional.max_unpool2d(
            torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.int64), 2
        ),
        "put": lambda: torch.zeros(4).put_(torch.tensor([0]), torch.ones(1)),
    }
    was = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
            calls[run]()
    finally:
        torch.use_deterministic_algorithms(was)
