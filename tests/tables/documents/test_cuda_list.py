"""Every op that ``torch.use_deterministic_algorithms`` documents: run on the CPU, judged for CUDA, as documented.

Each row names an entry of that page by its API, the condition in our own words, what the page promises, and what comes
out. Where that differs from the page, ``corrected_because`` says what the page has wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.support.bits import seed_everything
from tracer import DeterminismTracer, Trace, judge
from tracer.names import Verdict

DOCUMENTED_FOR = "2.13"
ACTS = "acts deterministically"
THROWS = "throws"

DETERMINISTIC, RAISES = Verdict.DETERMINISTIC, Verdict.RAISES
NONDETERMINISTIC, CONDITIONAL = Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL


@dataclass(frozen=True)
class Entry:
    """One entry of the page, or one of the conditions that an entry stands for."""

    api: str
    condition: str
    promise: str
    run: Callable[[], Any]
    """Calls the API forward, and backward where the entry is about differentiating."""
    op: str
    """The op, any overload, that decides; two where torch's version decides which is recorded."""
    by_default: Verdict
    in_deterministic_mode: Verdict
    corrected_because: str = ""
    backend: str = "cuda"

    def __str__(self) -> str:
        return f"{self.api} {self.condition}"


# --- what the entries run ---


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def differentiate(function: Callable[[Tensor], Tensor], *shape: int) -> Callable[[], None]:
    return lambda: function(leaf(*shape)).square().sum().backward()


def interpolate(mode: str, *shape: int) -> Callable[[], None]:
    return differentiate(lambda x: F.interpolate(x, scale_factor=2, mode=mode), *shape)


def unpool(pool: nn.Module, unpooled: nn.Module, *shape: int) -> Callable[[], None]:
    return lambda: unpooled(*pool(torch.randn(*shape)))


def ctc_loss() -> None:
    scores = leaf(256, 2, 5).log_softmax(2)
    nn.CTCLoss()(scores, torch.ones(2, 3, dtype=torch.long), torch.tensor([256, 256]), torch.tensor([3, 2])).backward()


def embedding_bag(mode: str) -> Callable[[], None]:
    return lambda: nn.EmbeddingBag(5, 3, mode=mode)(torch.tensor([[1, 2], [1, 4]])).sum().backward()


def sparse_bmm() -> None:
    torch.bmm(torch.eye(3).expand(2, 3, 3).to_sparse(), torch.randn(2, 3, 4))


def getitem_backward() -> None:
    rows = torch.zeros(LARGE).long()
    leaf(2, 2)[[rows, rows]].square().sum().backward()


def quantized_resize() -> None:
    torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8).resize_(8)


ROWS = torch.tensor([0, 1, 1])
#: Fewer are not split over threads.
LARGE = 40_000

LAYERS = [
    (nn.Conv1d, (1, 2, 6)),
    (nn.Conv2d, (1, 2, 6, 6)),
    (nn.Conv3d, (1, 2, 6, 6, 6)),
    (nn.ConvTranspose1d, (1, 2, 6)),
    (nn.ConvTranspose2d, (1, 2, 6, 6)),
    (nn.ConvTranspose3d, (1, 2, 6, 6, 6)),
]
CONVOLUTIONS = [
    Entry(
        f"torch.nn.{layer.__name__}",
        way,
        ACTS,
        differentiate(layer(2, 3, 3), *shape),
        op,
        # cuDNN names no algorithm of a plain forward that varies.
        CONDITIONAL if way == "forward" and "Transpose" not in layer.__name__ else NONDETERMINISTIC,
        DETERMINISTIC,
    )
    for layer, shape in LAYERS
    for way, op in (("forward", "aten.convolution"), ("backward", "aten.convolution_backward"))
]

ON_CPU_ONLY = "the entry is about CPU tensors; on CUDA equal indices are sorted, in every mode"

ENTRIES = [
    *CONVOLUTIONS,
    *(
        Entry(
            f"torch.nn.ReplicationPad{ndim}d",
            "backward",
            ACTS,
            differentiate(pad(2), 1, 2, *(4,) * ndim),
            f"aten.replication_pad{ndim}d_backward",
            NONDETERMINISTIC,
            DETERMINISTIC,
        )
        for ndim, pad in enumerate((nn.ReplicationPad1d, nn.ReplicationPad2d, nn.ReplicationPad3d), 1)
    ),
    Entry("torch.bmm", "of a sparse and a dense tensor", ACTS, sparse_bmm, "aten.bmm", NONDETERMINISTIC, DETERMINISTIC),
    Entry(
        "torch.Tensor.__getitem__",
        "by a list of tensors, backward, judged for CUDA",
        ACTS,
        getitem_backward,
        "aten.index_put",
        DETERMINISTIC,
        DETERMINISTIC,
        ON_CPU_ONLY,
    ),
    Entry(
        "torch.Tensor.__getitem__",
        "by a list of tensors, backward, judged for the CPU",
        ACTS,
        getitem_backward,
        "aten.index_put",
        NONDETERMINISTIC,
        DETERMINISTIC,
        backend="cpu",
    ),
    Entry(
        "torch.Tensor.index_put",
        "accumulate=False",
        ACTS,
        lambda: torch.zeros(3).index_put((ROWS,), torch.randn(3)),
        "aten.index_put",
        CONDITIONAL,
        DETERMINISTIC,
    ),
    Entry(
        "torch.Tensor.index_put",
        "accumulate=True, judged for the CPU",
        ACTS,
        lambda: torch.zeros(LARGE).index_put((torch.zeros(LARGE).long(),), torch.randn(LARGE), accumulate=True),
        "aten.index_put",
        NONDETERMINISTIC,
        DETERMINISTIC,
        backend="cpu",
    ),
    Entry(
        "torch.Tensor.put_",
        "accumulate=True, judged for the CPU",
        ACTS,
        lambda: torch.zeros(LARGE).put_(torch.zeros(LARGE).long(), torch.randn(LARGE), accumulate=True),
        "aten.put_",
        NONDETERMINISTIC,
        DETERMINISTIC,
        backend="cpu",
    ),
    Entry(
        "torch.Tensor.scatter_add_",
        "",
        ACTS,
        lambda: torch.zeros(3).scatter_add_(0, ROWS, torch.randn(3)),
        "aten.scatter_add_",
        NONDETERMINISTIC,
        DETERMINISTIC,
    ),
    Entry(
        "torch.gather",
        "backward",
        ACTS,
        differentiate(lambda x: x.gather(0, ROWS), 3),
        "aten.scatter_add",
        NONDETERMINISTIC,
        DETERMINISTIC,
    ),
    Entry(
        "torch.index_add",
        "",
        ACTS,
        lambda: torch.index_add(torch.zeros(3, 2), 0, ROWS, torch.randn(3, 2)),
        "aten.index_add",
        NONDETERMINISTIC,
        DETERMINISTIC,
    ),
    Entry(
        "torch.index_select",
        "backward",
        ACTS,
        differentiate(lambda x: x.index_select(0, ROWS), 3, 2),
        "aten.index_add",
        NONDETERMINISTIC,
        DETERMINISTIC,
    ),
    Entry(
        "torch.repeat_interleave",
        "by a tensor, backward",
        ACTS,
        differentiate(lambda x: x.repeat_interleave(torch.tensor([1, 2, 3])), 3),
        "aten.index_add",
        NONDETERMINISTIC,
        DETERMINISTIC,
    ),
    Entry(
        "torch.Tensor.index_copy",
        "",
        ACTS,
        lambda: torch.zeros(3).index_copy(0, ROWS, torch.randn(3)),
        "aten.index_copy",
        CONDITIONAL,
        DETERMINISTIC,
    ),
    Entry(
        "torch.Tensor.scatter",
        "of a tensor",
        ACTS,
        lambda: torch.zeros(3).scatter(0, ROWS, torch.randn(3)),
        "aten.scatter",
        CONDITIONAL,
        DETERMINISTIC,
    ),
    *(
        Entry(
            "torch.Tensor.scatter_reduce",
            f"reduce={reduce}",
            promise,
            lambda reduce=reduce: torch.zeros(3).scatter_reduce(0, ROWS, torch.randn(3), reduce),
            "aten.scatter_reduce",
            NONDETERMINISTIC,
            in_mode,
        )
        for reduce, promise, in_mode in (
            ("sum", ACTS, DETERMINISTIC),
            ("mean", ACTS, DETERMINISTIC),
            ("prod", THROWS, RAISES),
        )
    ),
    Entry(
        "torch.nn.MaxPool3d",
        "backward",
        ACTS,
        differentiate(nn.MaxPool3d(3, stride=1), 1, 1, 5, 5, 5),
        "aten.max_pool3d_with_indices_backward",
        NONDETERMINISTIC,
        RAISES,
        "the deterministic route is taken only with return_indices=True; the ordinary call still raises",
    ),
    Entry(
        "torch.nn.AvgPool3d",
        "backward, overlapping windows",
        THROWS,
        differentiate(nn.AvgPool3d(3, stride=2), 1, 1, 5, 5, 5),
        "aten.avg_pool3d_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.nn.AdaptiveAvgPool2d",
        "backward, sizes that do not divide",
        THROWS,
        differentiate(nn.AdaptiveAvgPool2d(3), 1, 1, 5, 5),
        "aten._adaptive_avg_pool2d_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.nn.AdaptiveAvgPool3d",
        "backward, sizes that do not divide",
        THROWS,
        differentiate(nn.AdaptiveAvgPool3d(3), 1, 1, 5, 5, 5),
        "aten._adaptive_avg_pool3d_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.nn.AdaptiveMaxPool2d",
        "backward, sizes that do not divide",
        THROWS,
        differentiate(nn.AdaptiveMaxPool2d(3), 1, 1, 5, 5),
        "aten.adaptive_max_pool2d_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.nn.FractionalMaxPool2d",
        "backward",
        THROWS,
        differentiate(nn.FractionalMaxPool2d(3, output_size=3), 1, 1, 6, 6),
        "aten.fractional_max_pool2d_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.nn.FractionalMaxPool3d",
        "backward",
        THROWS,
        differentiate(nn.FractionalMaxPool3d(3, output_size=3), 1, 1, 6, 6, 6),
        "aten.fractional_max_pool3d_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.nn.MaxUnpool1d",
        "",
        THROWS,
        unpool(nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2), 1, 1, 6),
        "aten.max_unpool2d",
        CONDITIONAL,
        RAISES,
    ),
    Entry(
        "torch.nn.MaxUnpool2d",
        "",
        THROWS,
        unpool(nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2), 1, 1, 6, 6),
        "aten.max_unpool2d",
        CONDITIONAL,
        RAISES,
    ),
    Entry(
        "torch.nn.MaxUnpool3d",
        "",
        THROWS,
        unpool(nn.MaxPool3d(2, return_indices=True), nn.MaxUnpool3d(2), 1, 1, 6, 6, 6),
        "aten.max_unpool3d",
        CONDITIONAL,
        RAISES,
    ),
    Entry(
        "torch.nn.functional.interpolate",
        "mode=linear, backward",
        THROWS,
        interpolate("linear", 1, 1, 4),
        "aten.upsample_linear1d_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.nn.functional.interpolate",
        "mode=bilinear, backward",
        THROWS,
        interpolate("bilinear", 1, 1, 4, 4),
        "aten.upsample_bilinear2d_backward",
        NONDETERMINISTIC,
        DETERMINISTIC,
        "torch takes it apart in Python on CUDA input under the mode, without antialiasing",
    ),
    Entry(
        "torch.nn.functional.interpolate",
        "mode=bicubic, backward",
        THROWS,
        interpolate("bicubic", 1, 1, 4, 4),
        "aten.upsample_bicubic2d_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.nn.functional.interpolate",
        "mode=trilinear, backward",
        THROWS,
        interpolate("trilinear", 1, 1, 4, 4, 4),
        "aten.upsample_trilinear3d_backward",
        NONDETERMINISTIC,
        DETERMINISTIC,
        "torch takes it apart in Python on CUDA input under the mode",
    ),
    Entry(
        "torch.nn.ReflectionPad1d",
        "backward",
        THROWS,
        differentiate(nn.ReflectionPad1d(2), 1, 1, 4),
        "aten.reflection_pad1d_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.nn.ReflectionPad2d",
        "backward",
        THROWS,
        differentiate(nn.ReflectionPad2d(2), 1, 1, 4, 4),
        "aten.reflection_pad2d_backward",
        NONDETERMINISTIC,
        DETERMINISTIC,
        "a gathering kernel runs under the mode; the refusal is gone",
    ),
    Entry(
        "torch.nn.ReflectionPad3d",
        "backward",
        THROWS,
        differentiate(nn.ReflectionPad3d(2), 1, 1, 4, 4, 4),
        "aten.reflection_pad3d_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.nn.NLLLoss",
        "of pixels, reduced to a mean",
        THROWS,
        lambda: nn.NLLLoss()(leaf(2, 3, 4, 4).log_softmax(1), torch.zeros(2, 4, 4).long()).backward(),
        "aten.nll_loss2d_forward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.nn.NLLLoss",
        "of pixels, not reduced",
        THROWS,
        lambda: nn.NLLLoss(reduction="none")(leaf(2, 3, 4, 4).log_softmax(1), torch.zeros(2, 4, 4).long()),
        "aten.nll_loss2d_forward",
        DETERMINISTIC,
        DETERMINISTIC,
        "only a reduction adds atomically and is refused",
    ),
    Entry(
        "torch.nn.NLLLoss",
        "of plain classes",
        THROWS,
        lambda: nn.NLLLoss()(leaf(2, 3).log_softmax(1), torch.zeros(2).long()).backward(),
        "aten.nll_loss_forward",
        DETERMINISTIC,
        DETERMINISTIC,
        "only spatial input reaches the kernel that is refused",
    ),
    Entry("torch.nn.CTCLoss", "backward", THROWS, ctc_loss, "aten._ctc_loss_backward", NONDETERMINISTIC, RAISES),
    Entry(
        "torch.nn.EmbeddingBag",
        "mode=max, backward",
        THROWS,
        embedding_bag("max"),
        "aten._embedding_bag_backward or aten._embedding_bag_dense_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.Tensor.put_",
        "accumulate=False",
        THROWS,
        lambda: torch.zeros(3).put_(ROWS, torch.randn(3)),
        "aten.put_",
        CONDITIONAL,
        RAISES,
    ),
    Entry(
        "torch.Tensor.put_",
        "accumulate=True",
        THROWS,
        lambda: torch.zeros(3).put_(ROWS, torch.randn(3), accumulate=True),
        "aten.put_",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.histc",
        "of floating numbers",
        THROWS,
        lambda: torch.histc(torch.randn(9), bins=3),
        "aten.histc",
        DETERMINISTIC,
        RAISES,
        "by default the counts are exact up to 2**24 elements; under the mode it raises all the same",
    ),
    Entry(
        "torch.bincount",
        "with weights",
        THROWS,
        lambda: torch.bincount(ROWS, weights=torch.randn(3)),
        "aten.bincount",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.median",
        "with indices",
        THROWS,
        lambda: torch.randn(3, 3).median(dim=1),
        "aten.median",
        CONDITIONAL,
        RAISES,
    ),
    Entry(
        "torch.nn.functional.grid_sample",
        "backward",
        THROWS,
        lambda: F.grid_sample(leaf(1, 1, 4, 4), torch.rand(1, 3, 3, 2), align_corners=False).sum().backward(),
        "aten.grid_sampler_2d_backward",
        NONDETERMINISTIC,
        RAISES,
    ),
    Entry(
        "torch.cumsum",
        "of floating numbers, along the whole tensor",
        THROWS,
        lambda: torch.randn(9).cumsum(0),
        "aten.cumsum",
        NONDETERMINISTIC,
        DETERMINISTIC,
        "builds for CUDA above 11.4 scan in a fixed order under the mode, and do not refuse",
    ),
    Entry(
        "torch.cumsum",
        "of floating numbers, along one of two dimensions",
        THROWS,
        lambda: torch.randn(3, 3).cumsum(0),
        "aten.cumsum",
        DETERMINISTIC,
        DETERMINISTIC,
        "rows are scanned by a kernel that never depends on timing",
    ),
    Entry(
        "torch.Tensor.resize_",
        "quantized",
        THROWS,
        quantized_resize,
        "aten.resize_",
        CONDITIONAL,
        RAISES,
    ),
]


#: On the CPU, what is documented happens between threads.
pytestmark = pytest.mark.usefixtures("two_threads")


def recorded(entry: Entry) -> tuple[Trace, set[str]]:
    """What the entry dispatches, and the overloads of its op among that."""
    seed_everything(0)
    with DeterminismTracer() as tracer:
        entry.run()
    trace = tracer.trace
    ops = {group.op for group in trace.calls if group.op.rpartition(".")[0] in entry.op.split(" or ")}
    assert ops, f"{entry.op} was not recorded, but {sorted({group.op for group in trace.calls})}"
    return trace, ops


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_a_documented_op_is_judged_as_documented_or_as_corrected(entry: Entry) -> None:
    trace, ops = recorded(entry)

    def verdicts(settings: str) -> set[Verdict]:
        """Of the entry's op; a call without a finding is deterministic."""
        report = judge(trace, backend=entry.backend, torch=DOCUMENTED_FOR, settings=settings)
        return {finding.verdict for finding in report.findings if finding.op in ops} or {Verdict.DETERMINISTIC}

    assert verdicts("default") == {entry.by_default}
    assert verdicts("deterministic") == {entry.in_deterministic_mode}


def differs_from_the_page(entry: Entry) -> bool:
    promised = RAISES if entry.promise == THROWS else DETERMINISTIC
    return entry.in_deterministic_mode is not promised or (
        entry.by_default is DETERMINISTIC and entry.in_deterministic_mode is DETERMINISTIC
    )


def test_each_row_that_differs_from_the_page_says_why() -> None:
    differing = [entry for entry in ENTRIES if differs_from_the_page(entry)]
    assert differing
    assert [str(entry) for entry in differing if not entry.corrected_because] == []


@pytest.mark.skipif(not torch.__version__.startswith(DOCUMENTED_FOR), reason="the rows are of torch 2.13's page")
def test_every_entry_of_the_installed_page_has_a_row() -> None:
    lists, _, _ = (torch.use_deterministic_algorithms.__doc__ or "").partition("In addition")
    acts, _, throws = lists.partition("operations will throw a")
    page = {(promise, api) for promise, text in ((ACTS, acts), (THROWS, throws)) for api in _listed(text)}
    assert len(page) > 45
    assert {(entry.promise, entry.api) for entry in ENTRIES} == page


def _listed(text: str) -> list[str]:
    return re.findall(r"\* :(?:class|func):`([\w.]+)`", text)
