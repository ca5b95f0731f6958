"""The table of ops with rows: its names are torch's, and what it calls row-wise is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch

from tests.support.rows import otherwise
from tracer import DeterminismTracer
from tracer.names import RowOutcome
from tracer.ops.row_wise import known_row_wise, row_wise


def overloads(name: str) -> Iterator[Any]:
    packet = getattr(torch.ops.aten, name)
    for each in packet.overloads():
        schema = getattr(packet, each)._schema
        if all(argument.alias_info is None for argument in schema.arguments) or name.endswith("_"):
            yield schema


@pytest.mark.parametrize("name", known_row_wise())
def test_arguments_are_those_of_an_overload(name: str) -> None:
    known = row_wise(name)
    assert known is not None
    if not hasattr(torch.ops.aten, name):
        pytest.skip("this torch has no such op")
    named = [{argument.name for argument in schema.arguments} for schema in overloads(name)]
    wanted = {known.along, known.last, known.sizes} - {""}
    assert any(wanted <= names and (known.is_pointwise or set(known.arguments) & names) for names in named)


@pytest.mark.slow
def test_nothing_that_is_called_row_wise_mixes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over torch's own samples, differentiable ones backward too: rows differ by rounding, if at all."""
    from torch.testing._internal.common_methods_invocations import op_db

    found = otherwise(monkeypatch)

    class Called(torch.nn.Module):
        def forward(self, sample: Any, op: Any) -> Any:
            return op(sample.input, *sample.args, **sample.kwargs)

    outcomes: Counter[RowOutcome] = Counter()
    for op in op_db:
        if torch.float32 not in op.dtypes:
            continue
        for sample in list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd))[:8]:
            with suppress(RuntimeError, TypeError, NotImplementedError, AssertionError):
                with DeterminismTracer(rows=True) as tracer:
                    for result in torch.utils._pytree.tree_leaves(Called()(sample, op.op)):
                        if isinstance(result, torch.Tensor) and result.requires_grad:
                            result.backward(torch.rand_like(result), retain_graph=True)
                for trial in tracer.trace.rows:
                    outcomes[trial.outcome] += trial.count
    assert not found
    assert outcomes[RowOutcome.EQUAL] > 100 * outcomes[RowOutcome.ROUNDING] > 0
