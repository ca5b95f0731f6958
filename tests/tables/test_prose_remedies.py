"""Remedies that tell in words what to write instead: done as they say, the finding is gone and the numbers are the same."""

# ruff: noqa: E501  (a line a case reads as the table that it is)

from __future__ import annotations

from itertools import chain

import pytest
import torch

from tracer import DeterminismTracer, judge
from tracer.names import Verdict
from tracer.tables.loading import load_tables
from tracer.tables.setting_rows import load_rows

NAMES = """
import torch
from torch import nn
from torch.nn import functional as F
generator = torch.Generator().manual_seed(0)
i = torch.tensor([0, 2, 2, 1, 0])
flat = torch.rand(5, generator=generator, requires_grad=True)
rows = torch.rand(5, 4, generator=generator, requires_grad=True)
image = torch.rand(2, 3, 8, 8, generator=generator, requires_grad=True)
volume = torch.rand(2, 3, 4, 4, 4, generator=generator, requires_grad=True)
grid = torch.rand(2, 5, 5, 2, generator=generator) * 1.6 - 0.8
words = torch.tensor([[0, 2, 2], [1, 3, 0]])
averaging = F.adaptive_avg_pool1d(torch.eye(8)[None], 3)[0].T
def corners(image, grid):
    n, c, h, w = image.shape
    x, y = ((grid[..., 0] + 1) * w - 1) / 2, ((grid[..., 1] + 1) * h - 1) / 2
    left, top = x.floor(), y.floor()
    result = 0
    for dx in (0, 1):
        for dy in (0, 1):
            column, row = (left + dx).long(), (top + dy).long()
            weight = (1 - (x - column).abs()) * (1 - (y - row).abs()) * (column >= 0) * (column < w) * (row >= 0) * (row < h)
            place = (row.clamp(0, h - 1) * w + column.clamp(0, w - 1)).flatten(1)[:, None].expand(-1, c, -1)
            result = result + image.flatten(2).gather(2, place).view(n, c, *grid.shape[1:3]) * weight[:, None]
    return result
"""

#: The rule; words of its remedy; the call; what these words make of it; whether deterministic mode is on after that.
CASES = [
    ("cuda-index-reduce", "`index_add` and a count for a mean", "torch.zeros(3, 4).index_reduce_(0, i, rows.detach(), 'mean', include_self=False)", "torch.zeros(3, 4).index_add(0, i, rows.detach()) / i.bincount()[:, None]", True),
    ("cuda-scatter-reduce", "a sum of logarithms", "torch.ones(3).scatter_reduce(0, i, flat.detach(), 'prod')", "torch.zeros(3).scatter_add(0, i, flat.detach().log()).exp()", True),
    ("cuda-adaptive-avg-pool-backward", "a matrix product with the averaging weights", "F.adaptive_avg_pool2d(image, 3)", "averaging @ image @ averaging.T", False),
    ("cuda-max-pool3d-backward", "pool with `x.unfold(...)` and `amax`", "F.max_pool3d(volume, 3, 1)", "volume.unfold(2, 3, 1).unfold(3, 3, 1).unfold(4, 3, 1).amax((-1, -2, -3))", True),
    ("cuda-avg-pool3d-backward", "kernel_size == stride through `x.unfold(...)` and `mean`", "F.avg_pool3d(volume, 2)", "volume.unfold(2, 2, 2).unfold(3, 2, 2).unfold(4, 2, 2).mean((-1, -2, -3))", True),
    ("cuda-embedding-bag-backward", "`embedding(x).amax(1)`", "F.embedding_bag(words, rows, mode='max')", "F.embedding(words, rows).amax(1)", True),
    ("cuda-grid-sample-2d-backward", "the four-corner gather by hand with deterministic mode on", "F.grid_sample(image, grid, align_corners=False)", "corners(image, grid)", True),
    ("cuda-cumprod", "stack two copies and keep the first", "flat.detach().cumprod(0)", "torch.stack([flat.detach()] * 2).cumprod(1)[0]", False),
    ("cuda-nll-loss2d", "reduce them yourself", "F.cross_entropy(image, image.argmax(1))", "F.cross_entropy(image, image.argmax(1), reduction='none').mean()", False),
    ("cuda-sparse-onto-dense", "call `coalesce()`", "torch.zeros(3).add(torch.sparse_coo_tensor(i[None], flat.detach(), (3,)))", "torch.zeros(3).add(torch.sparse_coo_tensor(i[None], flat.detach(), (3,)).coalesce())", False),
    ("cpu-lstsq", "Name another driver", "torch.linalg.lstsq(rows.detach(), torch.ones(5, 1)).solution", "torch.linalg.lstsq(rows.detach(), torch.ones(5, 1), driver='gelsd').solution", False),
    ("environment-unwritten-memory", "initialise a parameter by `torch.nn.init`", "(nn.Parameter(torch.empty(3)) * 2).isnan()", "(nn.init.ones_(nn.Parameter(torch.empty(3))) * 2).isnan()", False),
    ("environment-unwritten-memory", "allocate other memory with `torch.zeros`", "(torch.empty(3) * 0).nan_to_num(0, 0, 0)", "torch.zeros(3) * 0", False),
    ("environment-overlapping-write", "Write to a tensor of its own", "y = torch.full((3, 3), 0.1); torch.mm(y, y, out=y).sum() * 0", "y = torch.full((3, 3), 0.1); torch.mm(y, y).sum() * 0", False),
]  # fmt: skip


def ran(code: str, rule: str, *, mode: bool) -> tuple[torch.Tensor, bool]:
    """The value of the last expression of ``code``, and whether ``rule`` finds a risk in it."""
    names: dict[str, object] = {}
    exec(NAMES, names)
    *before, last = code.split("; ")
    with DeterminismTracer() as tracer:
        for line in before:
            exec(line, names)
        result = eval(last, names)
        if result.requires_grad:
            result.square().sum().backward()
    settings = "deterministic" if mode else "default"
    backend = "cpu" if rule.startswith("cpu") else "cuda"
    found = judge(tracer.trace, backend=backend, settings=settings).findings
    safe = {Verdict.DETERMINISTIC, Verdict.SEEDED}
    return result, any(one.rule == rule and not {one.verdict, one.deterministic_mode} <= safe for one in found)


def remedies(rule: str) -> str:
    """All that a rule or a row of settings says to do."""
    rules = chain.from_iterable(table.rule for table in load_tables().values())
    said = [one for one in chain(rules, load_rows().row) if one.id == rule]
    return "\n".join(text for one in said for text in (one.remedy, *(case.remedy or "" for case in one.case)))


@pytest.mark.parametrize(
    ("rule", "words", "call", "instead", "mode"), [pytest.param(*case, id=f"{case[0]}: {case[1]}") for case in CASES]
)
def test_what_a_remedy_says_in_words_leaves_no_risk_and_the_numbers(
    rule: str, words: str, call: str, instead: str, mode: bool
) -> None:
    assert words in remedies(rule)
    expected, has_risk = ran(call, rule, mode=False)
    given, has_still = ran(instead, rule, mode=mode)
    assert (has_risk, has_still) == (True, False)
    assert torch.allclose(given.double(), expected.double(), atol=1e-5)
