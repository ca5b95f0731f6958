"""What a remedy says to write, in code or in words, can be written, and gives what the call gave."""

# ruff: noqa: E501  (a line a case reads as the table that it is)

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tracer import DeterminismTracer, judge
from tracer.names import Backend, DeterministicMode, Verdict
from tracer.tables.conditions import wanted_values
from tracer.tables.loading import load_tables
from tracer.tables.rules import Rule, load_rows


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def remedies(rule: Rule) -> Iterator[str]:
    yield rule.remedy
    yield from (case.remedy for case in rule.case if case.remedy)


def code_of(rule_id: str, backend: Backend = Backend.CUDA) -> list[str]:
    """The snippets of a rule's remedies, in their order."""
    (rule,) = (rule for rule in load_tables()[backend].rule if rule.id == rule_id)
    return [snippet for remedy in remedies(rule) for snippet in re.findall(r"`([^`]+)`", remedy)]


def run(snippets: list[str], names: dict[str, Any]) -> Any:
    """Run ``snippets`` one after the other; returns the value of the last."""
    names = {"torch": torch, "F": F, **names}
    for snippet in snippets[:-1]:
        exec(snippet, names)
    return eval(snippets[-1], names)


INDEX = torch.tensor([0, 2, 2, 1, 0])

TIED = torch.tensor([[1.0, 3.0, 3.0, 2.0, 1.0], [5.0, float("nan"), 4.0, 4.0, 4.0], [float("nan")] * 5])

X4, X5, ROW = drawn(2, 3, 8, 6), drawn(2, 3, 6, 6, 6), drawn(2, 3, 7)

WEIGHTS = drawn(5)

EDGES = torch.linspace(0, 1, 5, dtype=torch.float64)

UNIFORM = torch.rand(200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

POOLED, PLACES = F.max_pool1d(ROW, 2, return_indices=True)

#: A rule; the number of its snippets to run, from the first on; the names they need; what they replace.
APPLIED: list[tuple[str, slice, dict[str, Any], Callable[[], torch.Tensor]]] = [
    ("cuda-index-add", slice(0, 1), {"out": torch.zeros(3, dtype=torch.float64), "index": INDEX, "source": WEIGHTS}, lambda: torch.zeros(3, dtype=torch.float64).index_add(0, INDEX, WEIGHTS)),
    ("cuda-put", slice(0, 1), {"flat": torch.zeros(3, dtype=torch.float64), "index": INDEX, "source": WEIGHTS}, lambda: torch.zeros(3, dtype=torch.float64).put(INDEX, WEIGHTS, accumulate=True)),
    ("cuda-bincount", slice(0, 1), {"n": 3, "x": INDEX, "weights": WEIGHTS}, lambda: torch.bincount(INDEX, WEIGHTS)),
    ("cuda-histc", slice(0, 1), {"x": UNIFORM, "lo": 0.0, "hi": 1.0, "bins": 4}, lambda: torch.histc(UNIFORM, 4, 0, 1)),
    ("cuda-histogram", slice(0, 1), {"x": UNIFORM, "edges": EDGES}, lambda: torch.histogram(UNIFORM, EDGES).hist),
    ("cuda-avg-pool3d-backward", slice(0, 1), {"x": X5, "c": 3, "k": 2, "s": 1}, lambda: F.avg_pool3d(X5, 2, 1)),
    ("cuda-max-unpool", slice(0, 1), {"n": 2, "c": 3, "size": 7, "indices": PLACES, "x": POOLED}, lambda: F.max_unpool1d(POOLED, PLACES, 2, output_size=(7,))),
    ("cuda-upsample-linear1d-backward", slice(0, 1), {"x": ROW, "n": 9}, lambda: F.interpolate(ROW, size=9, mode="linear")),
    ("cuda-reflection-pad-backward", slice(0, 1), {"x": ROW, "left": 2, "right": 1}, lambda: F.pad(ROW, (2, 1), mode="reflect")),
    ("cuda-reflection-pad-backward", slice(1, 2), {"x": ROW, "index": [2, 1, *range(7), 5]}, lambda: F.pad(ROW, (2, 1), mode="reflect")),
    ("cuda-reflection-pad2d-backward", slice(0, 1), {"x": X4, "rows": [1, *range(8), 6], "columns": [1, *range(6), 4]}, lambda: F.pad(X4, (1, 1, 1, 1), mode="reflect")),
    ("cuda-adaptive-avg-pool3d-backward", slice(3, 4), {"x": X5}, lambda: F.adaptive_avg_pool3d(X5, 1)),
    ("cuda-adaptive-avg-pool-backward", slice(1, 2), {"x": X4}, lambda: F.adaptive_avg_pool2d(X4, 1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "which", "names", "call"), [pytest.param(*case, id=f"{case[0]}-{case[1].start}") for case in APPLIED]
)
def test_a_remedy_gives_what_the_call_gives(
    rule: str, which: slice, names: dict[str, Any], call: Callable[[], torch.Tensor]
) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        given = run(code_of(rule)[which], {"x": torch.zeros(()), **names})
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.allclose(given.to(torch.float64), call().to(torch.float64), equal_nan=True)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(("name", "middle"), [("median", 3), ("nanmedian", 4)])
def test_medians_by_sorting_pass_nan_on_as_torch_does(name: str, middle: int, dim: int) -> None:
    code = code_of("cuda-median-indices")
    names: dict[str, Any] = {"torch": torch, "x": TIED, "dim": dim}
    for snippet in code[:2]:
        exec(snippet, names)
    names["middle"] = eval(code[middle], names)
    given, expected = eval(code[2], names), getattr(torch, name)(TIED, dim)
    assert torch.equal(given.nan_to_num(99), expected.values.nan_to_num(99))
    places = names["places"].gather(dim, names["middle"])
    assert torch.equal(TIED.gather(dim, places).squeeze(dim).nan_to_num(99), expected.values.nan_to_num(99))


@pytest.mark.parametrize("size", [(12, 9), (4, 3), (5, 9)])
def test_antialiasing_by_two_products_is_the_same_map(size: tuple[int, int]) -> None:
    code = [
        snippet
        for snippet in code_of("cuda-upsample-antialias-backward")
        if "w(x.shape" in snippet or "w = lambda" in snippet
    ]
    x = X4.float().requires_grad_()
    given = run(code, {"x": x, "height": size[0], "width": size[1]})
    expected = F.interpolate(x, size=size, mode="bilinear", antialias=True)
    assert torch.allclose(given, expected, atol=1e-5)
    (first,), (second,) = (torch.autograd.grad(out.square().sum(), x) for out in (given, expected))
    assert torch.allclose(first, second, atol=1e-4)


@pytest.mark.parametrize(("n", "shape"), [(2, (2, 7, 4)), (3, (2, 7, 4, 5)), (5, (2, 7, 3, 4, 5))])
def test_local_response_norm_is_written_without_a_pool(n: int, shape: tuple[int, ...]) -> None:
    code = code_of("cuda-avg-pool3d-backward")
    at = next(place for place, snippet in enumerate(code) if snippet.startswith("squares"))
    x = drawn(*shape)
    given = run(code[at : at + 2], {"x": x, "n": n, "alpha": 0.1, "beta": 0.75, "k": 2.0})
    assert torch.allclose(given, F.local_response_norm(x, n, 0.1, 0.75, 2.0))


@pytest.mark.parametrize("backend", list(load_tables()))
def test_every_snippet_of_a_remedy_is_code_or_a_name(backend: Backend) -> None:
    """A placeholder ``...`` is code too; what is no Python is a variable, a shell's line or a package."""
    for rule in load_tables()[backend].rule:
        for remedy in remedies(rule):
            assert remedy.count("`") % 2 == 0, rule.id
            for snippet in re.findall(r"`([^`]+)`", remedy):
                if "(" in snippet and not snippet.startswith(("with ", "python ", "pip ", ".")):
                    compile(snippet, rule.id, "exec")


def on_alone(rule: Rule) -> Iterator[tuple[str, str]]:
    """Cases that stay as they are in deterministic mode, with the remedy that is said."""
    for case in rule.case:
        modes = wanted_values(case, "deterministic_mode")
        if (modes == {DeterministicMode.ON.value} and case.verdict in (Verdict.RAISES, Verdict.NONDETERMINISTIC)) or (
            DeterministicMode.OFF.value not in modes and case.verdict is Verdict.CONDITIONAL
        ):
            yield case.torch, case.remedy or rule.remedy


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.id) for rule in load_tables()[Backend.CUDA].rule])
def test_who_has_the_mode_on_is_not_told_to_switch_it_on(rule: Rule) -> None:
    said = [
        remedy
        for _, remedy in on_alone(rule)
        if re.search(r"^Switch deterministic mode on[,.]|or switch deterministic mode on", remedy)
    ]
    assert not said


def test_a_remedy_with_code_fits_on_the_page() -> None:
    """A terminal's report shortens longer ones in the middle, and so the code."""
    for table in load_tables().values():
        too_long = [rule.id for rule in table.rule for remedy in remedies(rule) if "(" in remedy and len(remedy) > 400]
        assert not too_long


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


def told_in_words(rule: str) -> str:
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
    assert words in told_in_words(rule)
    expected, has_risk = ran(call, rule, mode=False)
    given, has_still = ran(instead, rule, mode=mode)
    assert (has_risk, has_still) == (True, False)
    assert torch.allclose(given.double(), expected.double(), atol=1e-5)
