"""The page of ``torch.use_deterministic_algorithms`` in three editions: each entry run on the CPU, judged as it says.

Two editions are among the documents that this project began from; the third is that of the installed torch. What an
entry says stands here in our words; where it is wrong, ``corrected`` says how, and what is true is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.support.bits import seed_everything
from tests.tables.claims import LETTERS
from tracer import DeterminismTracer, judge
from tracer.tables.explaining import find_rules
from tracer.tables.loading import load_tables

#: Torch's versions that an edition speaks of; the first was printed before ``warn_only``.
EARLY, CURRENT, INSTALLED = ("1.11", "1.12"), ("2.10", "2.12"), ("2.13",)
EDITIONS = (EARLY, CURRENT, INSTALLED)
#: APIs that each edition lists as switched and as refused, counted there; one with several conditions counts once.
COUNTS = {EARLY: (16, 25), CURRENT: (21, 22)}

#: On the CPU, what is documented happens between threads.
pytestmark = [pytest.mark.usefixtures("two_threads"), pytest.mark.filterwarnings("ignore")]


class Entry(NamedTuple):
    """One entry of the page, or one of the conditions that an entry stands for."""

    api: str
    """Without ``torch.``."""
    condition: str
    listed: str
    """A letter for each edition: ``s``, the mode switches it, ``r``, refuses it, ``-``, not listed."""
    verdicts: str
    """By default and in the mode, as a claim spells them; several groups are for the editions that list it."""
    op: str
    """The op of aten, any overload, that decides; two where torch's version decides which is recorded."""
    run: Callable[[], Any]
    """Calls the API forward, and backward where the entry is about differentiating."""
    corrected: str = ""
    backend: str = "cuda"

    def __str__(self) -> str:
        return f"{self.api}, {self.condition}, {self.backend}"

    def said(self) -> dict[tuple[str, ...], tuple[str, str]]:
        """What each edition that lists it says, and what is true in its versions."""
        listing = [(edition, mark) for edition, mark in zip(EDITIONS, self.listed, strict=True) if mark != "-"]
        groups = self.verdicts.split()
        groups = groups * len(listing) if len(groups) == 1 else groups
        return {edition: (mark, group) for (edition, mark), group in zip(listing, groups, strict=True)}


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def grad(function: Callable[[Tensor], Tensor], *shape: int) -> Callable[[], None]:
    return lambda: function(leaf(*shape)).square().sum().backward()


def resized(mode: str, n: int) -> Callable[[], None]:
    return grad(lambda x: F.interpolate(x, scale_factor=2, mode=mode), 1, 1, *(4,) * n)


def unpool(n: int) -> Callable[[], None]:
    pool, unpooled = getattr(nn, f"MaxPool{n}d")(2, return_indices=True), getattr(nn, f"MaxUnpool{n}d")(2)
    return lambda: unpooled(*pool(torch.randn(1, 1, *(6,) * n)))


def ctc_loss() -> None:
    scores = leaf(256, 2, 5).log_softmax(2)
    nn.CTCLoss()(scores, torch.ones(2, 3, dtype=torch.long), torch.tensor([256, 256]), torch.tensor([3, 2])).backward()


def nll_loss(*shape: int, **options: str) -> Callable[[], Any]:
    target = torch.zeros(shape[0], *shape[2:]).long()
    return lambda: nn.NLLLoss(**options)(leaf(*shape).log_softmax(1), target).sum().backward()


def getitem() -> None:
    leaf(2, 2)[[PLACES, PLACES]].square().sum().backward()


def sampled() -> None:
    F.grid_sample(leaf(1, 1, 4, 4), torch.rand(1, 3, 3, 2), align_corners=False).sum().backward()


def bag() -> None:
    nn.EmbeddingBag(5, 3, mode="max")(torch.tensor([[1, 2], [1, 4]])).sum().backward()


def quantized_resize() -> None:
    torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8).resize_(8)


def called(name: str, into: Tensor, *args: Any, **options: Any) -> Callable[[], Tensor]:
    """A method of a copy of ``into``."""
    return lambda: getattr(into.clone(), name)(*args, **options)


ROWS, THREE, MATRIX, GRID = torch.tensor([0, 1, 1]), torch.randn(3), torch.randn(3, 2), torch.randn(3, 3)
#: So many that threads share them.
MANY = torch.randn(40_000)
PLACES = torch.zeros(40_000).long()
INTO, COLUMNS = (THREE, 0, ROWS, THREE), ROWS.expand(3, 3)
WRITES_MANY = called("index_put", MANY, (PLACES,), MANY)
ADDS_MANY = called("index_put", MANY, (PLACES,), MANY, True)
ON_CPU = "the entry is about CPU tensors; on CUDA equal indices are sorted, in every mode"
APART = "torch takes it apart in Python on CUDA input under the mode"
POOL3D = "the deterministic route is taken only with return_indices=True; the ordinary call still raises"
EXACT = "by default the counts are exact up to 2**24 elements; under the mode it raises all the same"
SCANS = "builds for CUDA above 11.4 scan in a fixed order under the mode, and do not refuse"
GATHERS = "in two dimensions a gathering kernel runs under the mode since 2.7"
NLL = "spatial targets with a reduction alone; only that adds atomically and is refused"

ENTRIES = [
    *(
        Entry(
            f"nn.{name}{n}d",
            way or "forward",
            "sss",
            # cuDNN names no algorithm of a plain forward that varies.
            "CD" if (name, way) == ("Conv", "") else "ND",
            f"convolution{way}",
            grad(getattr(nn, f"{name}{n}d")(2, 3, 3), 1, 2, *(6,) * n),
        )
        for name in ("Conv", "ConvTranspose")
        for n in (1, 2, 3)
        for way in ("", "_backward")
    ),
    *(
        Entry(
            f"nn.{name}Pad{n}d", "backward", listed, verdicts, op, grad(getattr(nn, f"{name}Pad{n}d")(2), *shape), why
        )
        for n, shape in ((1, (1, 2, 4)), (2, (1, 2, 4, 4)), (3, (1, 2, 4, 4, 4)))
        for name, listed, verdicts, op, why in (
            ("Replication", "rss", "NR ND ND", f"replication_pad{n}d_backward", ""),
            ("Reflection", "rrr", "NR ND ND" if n == 2 else "NR", f"reflection_pad{n}d_backward", GATHERS),
        )
    ),
    Entry("bmm", "sparse by dense", "sss", "ND", "bmm", lambda: torch.ones(2, 3, 3).to_sparse().bmm(leaf(2, 3, 4))),
    Entry("Tensor.__getitem__", "backward", "sss", "DD", "index_put", getitem, ON_CPU),
    Entry("Tensor.__getitem__", "backward", "sss", "ND", "index_put", getitem, "", "cpu"),
    Entry("Tensor.index_put", "writing", "sss", "CD", "index_put", called("index_put", THREE, (ROWS,), THREE)),
    Entry("Tensor.index_put", "writing", "sss", "CD", "index_put", WRITES_MANY, "", "cpu"),
    Entry("Tensor.index_put", "adding", "sss", "ND", "index_put", ADDS_MANY, "", "cpu"),
    Entry("Tensor.put_", "adding", "sss", "ND", "put_", called("put_", MANY, PLACES, MANY, True), "", "cpu"),
    Entry("Tensor.put_", "writing", "rrr", "CR", "put_", called("put_", THREE, ROWS, THREE)),
    Entry("Tensor.put_", "writing", "rrr", "CR", "put_", called("put_", MANY, PLACES, MANY), "", "cpu"),
    Entry("Tensor.put_", "adding", "rrr", "NR", "put_", called("put_", THREE, ROWS, THREE, True)),
    Entry("Tensor.scatter_add_", "1-D", "sss", "ND", "scatter_add_", called("scatter_add_", *INTO)),
    Entry(
        "Tensor.scatter_add_", "2-D", "rss", "NR ND ND", "scatter_add_", called("scatter_add_", GRID, 1, COLUMNS, GRID)
    ),
    Entry("gather", "1-D", "sss", "ND", "scatter_add", grad(lambda x: x.gather(0, ROWS), 3)),
    Entry("gather", "2-D", "rss", "NR ND ND", "scatter_add", grad(lambda x: x.gather(1, COLUMNS), 3, 3)),
    Entry("index_add", "", "sss", "ND", "index_add", called("index_add", MATRIX, 0, ROWS, MATRIX)),
    Entry("index_select", "backward", "sss", "ND", "index_add", grad(lambda x: x.index_select(0, ROWS), 3, 2)),
    Entry("repeat_interleave", "backward", "sss", "ND", "index_add", grad(lambda x: x.repeat_interleave(ROWS + 1), 3)),
    Entry("Tensor.index_copy", "", "sss", "CD", "index_copy", called("index_copy", *INTO)),
    Entry("Tensor.index_copy", "", "sss", "CD", "index_copy", called("index_copy", MANY, 0, PLACES, MANY), "", "cpu"),
    Entry("Tensor.scatter", "of a tensor", "-ss", "CD", "scatter", called("scatter", *INTO)),
    *(
        Entry("Tensor.scatter_reduce", kind, listed, said, "scatter_reduce", called("scatter_reduce", *INTO, kind))
        for kind, listed, said in (("sum", "-ss", "ND"), ("mean", "-ss", "ND"), ("prod", "-rr", "NR"))
    ),
    *(  # windows that overlap, sizes that do not divide
        Entry(f"nn.{name}", "backward", "rrr", "NR", op, grad(getattr(nn, name)(*options), *shape))
        for name, options, shape, op in (
            ("AvgPool3d", (3, 2), (1, 5, 5, 5), "avg_pool3d_backward"),
            ("AdaptiveAvgPool2d", (3,), (1, 5, 5), "_adaptive_avg_pool2d_backward"),
            ("AdaptiveAvgPool3d", (3,), (1, 5, 5, 5), "_adaptive_avg_pool3d_backward"),
            ("AdaptiveMaxPool2d", (3,), (1, 5, 5), "adaptive_max_pool2d_backward"),
            ("FractionalMaxPool2d", (3, 3), (1, 1, 6, 6), "fractional_max_pool2d_backward"),
            ("FractionalMaxPool3d", (3, 3), (1, 1, 6, 6, 6), "fractional_max_pool3d_backward"),
        )
    ),
    Entry(
        "nn.MaxPool3d",
        "",
        "rrs",
        "NR",
        "max_pool3d_with_indices_backward",
        grad(nn.MaxPool3d(3, 1), 1, 5, 5, 5),
        POOL3D,
    ),
    *(Entry(f"nn.MaxUnpool{n}d", "", "--r", "CR", f"max_unpool{max(n, 2)}d", unpool(n)) for n in (1, 2, 3)),
    *(
        Entry("nn.functional.interpolate", mode, "rrr", said, f"upsample_{mode}{n}d_backward", resized(mode, n), why)
        for mode, n, said, why in (
            ("linear", 1, "NR", ""),
            ("bilinear", 2, "NR ND ND", APART),
            ("bicubic", 2, "NR", ""),
            ("trilinear", 3, "NR ND ND", APART),
        )
    ),
    Entry("nn.NLLLoss", "of pixels, a mean", "rrr", "NR", "nll_loss2d_forward", nll_loss(2, 3, 4, 4), NLL),
    Entry(
        "nn.NLLLoss", "of pixels, each", "rrr", "DD", "nll_loss2d_forward", nll_loss(2, 3, 4, 4, reduction="none"), NLL
    ),
    Entry("nn.NLLLoss", "of plain classes", "rrr", "DD", "nll_loss_forward", nll_loss(2, 3), NLL),
    Entry("nn.CTCLoss", "backward", "rrr", "NR", "_ctc_loss_backward", ctc_loss),
    Entry("nn.EmbeddingBag", "max", "rrr", "NR", "_embedding_bag_backward or aten._embedding_bag_dense_backward", bag),
    Entry("histc", "floating", "rrr", "DR", "histc", called("histc", THREE, 3), EXACT),
    Entry("bincount", "weighted", "rrr", "NR", "bincount", called("bincount", ROWS, THREE)),
    Entry("bincount", "plain", "r--", "DR", "bincount", called("bincount", ROWS)),
    Entry("kthvalue", "", "r--", "CR", "kthvalue", called("kthvalue", THREE, 2)),
    Entry("median", "with indices", "rrr", "CR", "median", called("median", GRID, 1)),
    Entry("nn.functional.grid_sample", "backward", "rrr", "NR", "grid_sampler_2d_backward", sampled),
    Entry("cumsum", "of the whole tensor", "-rr", "ND", "cumsum", called("cumsum", THREE, 0), SCANS),
    Entry("cumsum", "along rows", "-rr", "DD", "cumsum", called("cumsum", GRID, 0), "the kernel for rows never varies"),
    Entry("Tensor.resize_", "quantized", "-rr", "CR", "resize_", quantized_resize),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_an_entry_is_judged_as_each_edition_lists_it_or_as_corrected(entry: Entry) -> None:
    seed_everything(0)
    with DeterminismTracer() as tracer:
        entry.run()
    names = f"aten.{entry.op}".split(" or ")
    ops = {group.op for group in tracer.trace.calls if group.op.rpartition(".")[0] in names}
    assert ops, f"{entry.op} was not recorded, but {sorted({group.op for group in tracer.trace.calls})}"
    rules = {rule.id for found in find_rules(f"torch.{entry.api}", load_tables()).values() for rule in found}
    for versions, (_, expected) in entry.said().items():
        for version in versions:
            verdicts = ""
            for settings in ("default", "deterministic"):
                report = judge(tracer.trace, backend=entry.backend, torch=version, settings=settings)
                found = [one for one in report.findings if one.op in ops]
                (letter,) = {LETTERS[one.verdict] for one in found} or {"D"}
                verdicts += letter
                assert {one.rule for one in found} <= rules, "explain does not lead from the page's name to the rule"
            assert verdicts == expected, version


def is_as_listed(mark: str, verdicts: str) -> bool:
    """Whether an edition is right: what it says is switched or refused is so, and varies otherwise."""
    return verdicts[1] == {"s": "D", "r": "R"}[mark] and verdicts != "DD"


def test_each_entry_of_which_an_edition_is_wrong_says_why() -> None:
    wrong = [one for one in ENTRIES if not all(is_as_listed(*said) for said in one.said().values())]
    assert wrong
    assert [str(one) for one in wrong if not one.corrected] == []


@pytest.mark.parametrize("edition", COUNTS, ids=str)
def test_no_entry_of_an_edition_was_lost(edition: tuple[str, ...]) -> None:
    at = EDITIONS.index(edition)
    assert tuple(len({one.api for one in ENTRIES if one.listed[at] == mark}) for mark in "sr") == COUNTS[edition]


@pytest.mark.skipif(not torch.__version__.startswith(INSTALLED), reason="the rows are of torch 2.13's page")
def test_every_entry_of_the_installed_page_has_a_row() -> None:
    lists, _, _ = (torch.use_deterministic_algorithms.__doc__ or "").partition("In addition")
    acts, _, throws = lists.partition("operations will throw a")
    for mark, text in (("s", acts), ("r", throws)):
        listed = set(re.findall(r"\* :(?:class|func):`torch\.([\w.]+)`", text))
        assert {one.api for one in ENTRIES if one.listed[-1] == mark} == listed != set()
