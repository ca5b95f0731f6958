"""What the tables spell exists in torch: every op, and every argument that a condition asks for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed._functional_collectives  # registers c10d_functional and _c10d_functional
import torch.distributed.fsdp  # registers fsdp

from tracer.tables.loading import load_libraries, load_tables, required_facts
from tracer.tables.rules import RuleTable

#: Ops that the installed torch need not have.
ELSEWHERE = {
    *("aten._batch_norm_with_update", "aten.batch_norm_backward"),  # 2.4 and newer
    *(f"aten._philox_{kind}" for kind in ("uniform", "uniform_", "normal", "normal_")),  # 2.13 and newer
    *(f"mkldnn._convolution{kind}pointwise" for kind in ("_", "_transpose_")),  # builds with oneDNN
    "mkldnn._convolution_pointwise_",
    "rngprims.philox_rand",  # registered when torch._prims.rng_prims is imported
}
#: Newer than the oldest torch that these tests run on (2.4).
NEWER = """
    _cudnn_attention_backward _cudnn_attention_forward _flash_attention_forward_no_dropout_inplace _foreach_clone
    _foreach_max _foreach_powsum _foreach_rsqrt _foreach_rsqrt_ _fused_rms_norm _fused_rms_norm_backward _grouped_mm
    _index_put_impl _scaled_grouped_mm _scaled_grouped_mm_v2 _scaled_mm_v2 _unsafe_masked_index_put_accumulate
    _weight_int4pack_mm_with_scales_and_zeros rrelu_with_noise_functional
"""
ELSEWHERE |= {f"aten.{name}" for name in NEWER.split()}
#: Registered by parts of torch.distributed that a process need not import, or by some versions alone.
IMPORTED_APART = {
    *("_c10d_functional", "_c10d_functional_autograd", "_dtensor", "c10d", "c10d_functional", "fsdp"),
    *("torch_attn", "symm_mem"),
}
#: What stands behind a key that is not named after one argument.
SPELT = {"arg.output_mask0": {"output_mask"}, "arg.dropout": {"dropout_p", "dropout", "p"}}
OF_INDEX = {
    "one_value": {"values", "source"},
    "distinct": {"indices", "index"},
    "adds_one_number": {"source", "src", "value", "values"},
}

#: Namespaces of code that is not torch's own: what they register cannot be looked up here.
BROUGHT_ALONG = {"npu"} | {
    op.partition(".")[0] for rule in load_libraries().rule for op in rule.ops if not op.endswith(".*")
}


def overloads(op: str) -> list[Any]:
    """The overloads that an op, as a rule spells it, stands for; none where torch does not have it."""
    namespace, name, *overload = op.split(".")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if packet is None:
        return []
    names = overload or packet.overloads()
    return [getattr(packet, n) for n in names if hasattr(packet, n)]


def is_here(op: str) -> bool:
    """Whether the installed torch should have an op."""
    return op not in ELSEWHERE and op.partition(".")[0] not in BROUGHT_ALONG | IMPORTED_APART


@pytest.mark.parametrize("holder", load_tables().values(), ids=lambda holder: str(holder.backend))
def test_every_op_is_known_to_torch_or_said_to_be_elsewhere(holder: RuleTable) -> None:
    here = sorted({op for rule in holder.rule for op in rule.ops if is_here(op)})
    assert here
    assert [op for op in here if not overloads(op)] == []


def is_argument(op: str, key: str) -> bool:
    """Whether the overloads of ``op`` have what stands behind a key."""
    kind, _, name = key.partition(".")
    names = {argument.name for overload in overloads(op) for argument in overload._schema.arguments}
    if kind in ("arg", "given"):
        return bool(SPELT.get(key, {name}) & names)
    return kind != "index" or bool(OF_INDEX.get(name, {"indices"}) & names)


def test_every_argument_that_a_condition_asks_for_exists() -> None:
    """Of ops that this torch has, or should have."""
    asked = [(op, key) for op, keys in required_facts().items() if overloads(op) or is_here(op) for key in keys]
    assert len(asked) > 500
    assert [(op, key) for op, key in asked if not is_argument(op, key)] == []
