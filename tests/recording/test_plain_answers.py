"""What readers answer for most calls is told beforehand: it has to be what they would say, or be read."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tracer.facts import MISSING
from tracer.recording.calls.groups import OverloadInfo

aten = torch.ops.aten
DENSE, EMPTY = torch.ones(2, 2), torch.ones(0, 2)
SPARSE = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], size=(2, 2))
NESTED_LISTS: list[torch.Tensor] = [DENSE, SPARSE]
ADDS = frozenset({"operands.sparse", "operands.uncoalesced"})
PRODUCTS = frozenset({"operands.both_sparse", "shape.no_elements"})
CALLS: list[tuple[Any, frozenset[str], tuple[Any, ...], bool]] = [
    (aten.add_.Tensor, ADDS, (DENSE, DENSE), True),
    (aten.add_.Tensor, ADDS, (DENSE, 1e-8), True),
    (aten.add_.Tensor, ADDS, (torch.nn.Parameter(DENSE), DENSE), True),
    (aten.add_.Tensor, ADDS, (DENSE, SPARSE), False),
    (aten.add_.Tensor, ADDS, (SPARSE, SPARSE), False),
    (aten.mul.Tensor, ADDS, (EMPTY, 2), True),
    (aten._foreach_add_.List, ADDS, ([DENSE, DENSE], NESTED_LISTS), False),
    (aten.mm.default, PRODUCTS, (DENSE, DENSE), True),
    (aten.mm.default, PRODUCTS, (EMPTY, DENSE), False),
    (aten.mm.default, PRODUCTS, (SPARSE, SPARSE), False),
    (aten.addmm.default, PRODUCTS, (DENSE, SPARSE, DENSE), False),
]


@pytest.mark.parametrize(("func", "asked", "args", "is_plain"), CALLS, ids=[f"{i}-{c[0]}" for i, c in enumerate(CALLS)])
def test_what_is_told_beforehand_is_what_the_readers_say(
    func: Any, asked: frozenset[str], args: tuple[Any, ...], is_plain: bool
) -> None:
    info = OverloadInfo(func, {str(func): asked})
    assert info.plain is not None
    assert info.plain.holds(args) is is_plain
    told = info.read(args, {})
    info.plain = None
    assert told == info.read(args, {})
    assert is_plain or any(value is not MISSING and value is not False for value in told)


def test_what_asks_for_more_than_layouts_is_read_at_every_call() -> None:
    asked = frozenset({"operands.sparse", "arg.reduction"})
    assert OverloadInfo(aten.nll_loss_backward.default, {"aten.nll_loss_backward": asked}).plain is None
    assert OverloadInfo(aten.view.default, {}).plain is None
