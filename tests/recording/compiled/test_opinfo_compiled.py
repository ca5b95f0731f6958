"""OpInfo's entries, compiled on the CPU: every op of AOTAutograd's graphs is counted, and what varies was called so.

Entries that dynamo cannot take whole, or that Inductor refuses, are passed over.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten

from tests.support.bits import bits
from tests.support.samples import operator_database
from tracer import DeterminismTracer, judge
from tracer.names import RegionInside, Verdict

CHUNKS = 64
RUNS = 30
RISKY = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL, Verdict.UNKNOWN, Verdict.RAISES)
_GRAPHS = ("aot_inference_graph", "aot_forward_graph", "aot_backward_graph")
#: What Inductor's first pass over a graph without gradients makes of an op, or of a constant that it sees otherwise.
_FOLDED = dict.fromkeys(
    ("aten.scalar_tensor.default", "aten.unsqueeze.default", "prims.convert_element_type.default"), "aten.full.default"
)
_CALL = re.compile(r"= torch\.ops\.(\w+\.\w+(?:\.\w+)?)\(")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("inductor")]


class Graphs(logging.Handler):
    """The ops of the graphs that torch's own trace tells of."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: Counter[str] = Counter()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", {})
        if any(name in metadata for name in _GRAPHS):
            self.count += 1
            for line in str(getattr(record, "payload", "")).splitlines():
                found = None if line.lstrip().startswith("#") else _CALL.search(line)
                if found is not None:
                    self.ops[_FOLDED.get(found[1], found[1])] += 1


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
    torch.use_deterministic_algorithms(False)
    torch._dynamo.reset()


def program(op: Any) -> Callable[[Callable[..., Any]], Any]:
    """Calls what it is given on the entry's first sample, and gives the bits of results and gradients."""
    torch.manual_seed(0)
    sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)))

    def run(function: Callable[..., Any]) -> Any:
        leaves = [one for one in tree_flatten((sample.input, sample.args, sample.kwargs))[0] if _asks(one)]
        for leaf in leaves:
            leaf.grad = None
        torch.manual_seed(0)
        result = function(sample.input, *sample.args, **sample.kwargs)
        if op.supports_autograd and leaves:
            result = sample.output_process_fn_grad(result)
        outs = [one for one in tree_flatten(result)[0] if isinstance(one, torch.Tensor)]
        sums = [one.sum() for one in outs if one.requires_grad and not one.is_complex()]
        if sums:
            torch.stack([one.float() for one in sums]).sum().backward()
        grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
        return tuple(bits(one.detach()) for one in (*outs, *grads) if not one.is_sparse)

    return run


def _asks(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf


def recorded(op: Any, run: Callable[[Callable[..., Any]], Any]) -> tuple[Callable[..., Any], DeterminismTracer, Graphs]:
    torch._dynamo.reset()
    body = op.get_op()
    compiled = torch.compile(lambda *args, **kwargs: body(*args, **kwargs), fullgraph=True)
    graphs = Graphs()
    logger = logging.getLogger("torch.__trace")
    logger.addHandler(graphs)
    tracer = DeterminismTracer()
    try:
        with tracer:
            run(compiled)
    except Exception:
        return None
    finally:
        logger.removeHandler(graphs)
    return compiled, tracer, graphs


def wrong(op: Any) -> Iterator[str]:
    """What was said of an entry, or counted, that is not so."""
    run = program(op)
    for mode in (False, True):
        torch.use_deterministic_algorithms(mode)
        made = recorded(op, run)
        if made is None:
            return
        compiled, tracer, graphs = made
        trace = tracer.trace
        regions = [one for one in trace.regions if one.executions]
        unseen = {one.inside for one in regions} - {RegionInside.OPS_AND_KERNELS}
        if unseen:
            yield f"{op.full_name}: not seen whole: {unseen}"
        counted: Counter[str] = Counter()
        for call in trace.calls:
            if call.region:
                counted[_FOLDED.get(call.op, call.op)] += call.count
        # A graph that was not compiled, or did not run (its gradient was not asked for), counts nothing.
        ran_whole = len(regions) == graphs.count
        if counted != graphs.ops if ran_whole else not counted <= graphs.ops:
            yield f"{op.full_name}: counted {counted - graphs.ops} too many, {graphs.ops - counted} too few"
        if not any(kernel.atomic for one in regions for kernel in one.kernels):
            continue
        risky = [one.op for one in judge(trace).findings if one.op and one.regions and one.verdict in RISKY]
        results = {run(compiled) for _ in range(RUNS)}
        if len(results) > 1 and not risky:
            yield f"{op.full_name}: {len(results)} results of {RUNS}, and nothing said so"
        if mode and any(kernel.adds_in_any_order for one in regions for kernel in one.kernels):
            yield f"{op.full_name}: adds in any order under deterministic mode"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_op_is_counted_and_what_varies_was_called_so(chunk: int) -> None:
    entries = [op for op in operator_database() if torch.float32 in op.supported_dtypes("cpu")]
    assert [said for op in entries[chunk::CHUNKS] for said in wrong(op)] == []
