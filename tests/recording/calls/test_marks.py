"""Facts that are noted where they hold: each program notes its own, and its twin, which is near it, does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.support.lines import record
from tracer import Report, judge
from tracer.names import Verdict

COO = ([[0, 0, 1], [1, 1, 2]], [1.0, 2.0, 3.0])
FRAMES = torch.randn(12, 2, 5).log_softmax(2)
IMAGE = torch.randn(1, 2, 9, 9)
FILTERS = torch.randn(3, 2, 3, 3)


Program = Callable[[], object]


def sparse() -> torch.Tensor:
    return torch.sparse_coo_tensor(*COO, size=(5, 4))


def heads(size: int) -> None:
    q = torch.randn(1, 2, 8, size)
    F.scaled_dot_product_attention(q, q, q)


def shared(keys: int, dropout: float = 0.0) -> None:
    """Four heads of queries; fewer of keys and values are shared."""
    q, k = (torch.randn(1, count, 8, 16, requires_grad=True) for count in (4, keys))
    F.scaled_dot_product_attention(q, k, k, dropout_p=dropout, enable_gqa=True).sum().backward()


def repeated_by_hand() -> None:
    q, k = (torch.randn(1, count, 8, 16, requires_grad=True) for count in (4, 2))
    F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), k.repeat_interleave(2, 1), dropout_p=0.5).sum()


def masked(size: int, batches: int = 1) -> None:
    """The math route: the CPU's fused kernel takes no mask that wants a gradient."""
    q = torch.randn(*[batches] * (batches > 0), 2, 6, size, requires_grad=True)
    F.scaled_dot_product_attention(q, q, q, torch.randn(6, 6, requires_grad=True)).sum().backward()


def by_hand() -> None:
    q = torch.randn(1, 2, 6, 16, requires_grad=True)
    ((q @ q.transpose(-2, -1)).softmax(-1) @ q).sum().backward()


def ctc(dtype: torch.dtype, steps: int = 12, blank: int = 0) -> None:
    F.ctc_loss(FRAMES, torch.tensor([1, 2, 2, 3], dtype=dtype), (steps, 12), (2, 2), blank=blank)


def sampled(channels: int) -> None:
    x = torch.randn(1, channels, 2, 2, requires_grad=True)
    F.grid_sample(x, torch.zeros(1, 2, 2, 2), align_corners=True).sum().backward()


def by_rows(moved: bool) -> torch.Tensor:
    """As ``torch.optim.SparseAdam`` does: entries of its own at the places of a gradient that was brought together."""
    gradient = torch.sparse_coo_tensor(torch.tensor([[0, 2, 2]]), torch.ones(3, 4), (5, 4)).coalesce()
    rows = gradient._indices()
    if moved:
        rows.clamp_(max=0)
    return torch.zeros(5, 4).add_(torch.sparse_coo_tensor(rows, torch.ones(2, 4), (5, 4)))


def product(rows: int) -> torch.Tensor:
    return torch.randn(rows, 4) @ torch.randn(4, 5)


def counted(weights: list[float] | list[int]) -> torch.Tensor:
    return torch.bincount(torch.tensor([1, 1]), torch.tensor(weights))


def drawn(times: int, again: bool) -> torch.Tensor:
    return torch.multinomial(torch.rand(9), times, replacement=again)


def depthwise(turned: bool) -> torch.Tensor:
    function = F.conv_transpose2d if turned else F.conv2d
    return function(torch.randn(1, 4, 9, 9), torch.randn(4, 1, 3, 3), groups=4, dilation=2)


def transposed(stride: int) -> None:
    F.conv_transpose2d(IMAGE, FILTERS.transpose(0, 1), stride=stride, output_padding=2, dilation=3)


def without_cudnn(groups: int = 1) -> None:
    with torch.backends.cudnn.flags(enabled=False):
        F.conv2d(torch.randn(1, 4, 9, 9), torch.randn(4, 4 // groups, 3, 3), groups=groups)


def by_channel(
    dtype: torch.dtype = torch.float32,
    channels: int = 32,
    sides: tuple[int, ...] = (9, 9),
    kernel: int = 3,
    layout: torch.memory_format = torch.contiguous_format,
    groups: int | None = None,
    **options: int,
) -> Program:
    """A convolution by channel with its gradients."""

    def program() -> None:
        image = torch.randn(2, channels, *sides, dtype=dtype).to(memory_format=layout).requires_grad_()
        own = channels // (groups or channels)
        filters = torch.randn(channels, own, *[kernel] * len(sides), dtype=dtype, requires_grad=True)
        convolve = (F.conv1d, F.conv2d, F.conv3d)[len(sides) - 1]
        convolve(image, filters, groups=groups or channels, **options).sum().backward()

    return program


def turned(dtype: torch.dtype) -> None:
    """As Mamba calls it: one dimension, whose channels come from the last dimension of a product."""
    rows = torch.randn(2, 9, 32, dtype=dtype, requires_grad=True).transpose(1, 2)
    F.conv1d(rows, torch.randn(32, 1, 4, dtype=dtype), padding=3, groups=32).sum().backward()


def held_to(*backends: SDPBackend) -> None:
    q = torch.randn(1, 2, 8, 16)
    with sdpa_kernel([*backends, SDPBackend.MATH]):
        F.scaled_dot_product_attention(q, q, q)


def pooled(indices: bool) -> None:
    F.max_pool3d(torch.randn(1, 2, 4, 4, 4), 2, return_indices=indices)


LAST = IMAGE.contiguous(memory_format=torch.channels_last)
GRID = torch.zeros(1, 2, 2, 2)
PADS = [1, 1, 1, 1]
ROWS, WIDE, ROW = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5)


def row_within() -> torch.Tensor:
    return F.linear(ROWS, WIDE, ROW)


#: What CUDA builds of torch 2.4 to 2.9 refuse without a workspace for cuBLAS.
NO_ROW_WITHIN: tuple[Program, ...] = (
    lambda: F.linear(ROWS, WIDE),
    lambda: F.linear(ROWS, WIDE[:1], ROW[:1]),
    lambda: torch.addmm(ROW, ROWS, WIDE.t(), beta=0.5),
    lambda: torch.addmm(torch.randn(10)[::2], ROWS, WIDE.t()),
    lambda: torch.addmm(torch.randn(1, 5), ROWS, WIDE.t()),
    lambda: F.linear(ROWS.cfloat(), WIDE.cfloat(), ROW.cfloat()),
)
CHANNELS_LAST, HALF = torch.channels_last, torch.float16
#: What CUDA builds of torch 2.6 to 2.15 launch a kernel of their own for.
OWN_DEPTHWISE: tuple[Program, ...] = (
    by_channel(),
    by_channel(torch.float64, layout=CHANNELS_LAST),
    by_channel(sides=(5, 5, 5), kernel=2),
    lambda: turned(torch.float32),
    lambda: turned(torch.bfloat16),
    by_channel(HALF, channels=16),
    by_channel(HALF, kernel=7),
    by_channel(HALF, sides=(5, 5)),
)
#: What they call cuDNN for.
NOT_OWN_DEPTHWISE: tuple[Program, ...] = (
    by_channel(groups=16),
    by_channel(layout=CHANNELS_LAST),
    by_channel(HALF),
    by_channel(HALF, channels=256, stride=2),
    lambda: F.conv_transpose2d(torch.randn(1, 4, 9, 9), torch.randn(4, 1, 3, 3), groups=4),
)
PAIRS: list[tuple[str, Program, Program]] = [
    (
        "operands.uncoalesced",
        lambda: torch.zeros(5, 4).add_(sparse()),
        lambda: torch.zeros(5, 4).add_(torch.ones(5, 4)),
    ),
    ("operands.uncoalesced", lambda: sparse().to_dense(), lambda: sparse().coalesce().to_dense()),
    (
        "operands.uncoalesced",
        lambda: torch._foreach_add_([torch.zeros(5, 4)] * 2, [torch.ones(5, 4), sparse()]),
        lambda: torch._foreach_add_([torch.zeros(5, 4)] * 2, [torch.ones(5, 4), sparse().coalesce()]),
    ),
    ("operands.uncoalesced", lambda: by_rows(moved=True), lambda: by_rows(moved=False)),
    ("operands.sparse", lambda: torch.ones(5, 4) * sparse(), lambda: sparse() * torch.ones(5, 4)),
    ("operands.sparse", lambda: torch.ones(5, 4).sub_(sparse()), lambda: torch.ones(5, 4).sub_(torch.ones(5, 4))),
    ("operands.integral_weights", lambda: counted([2, 3]), lambda: counted([2.0, 3.0])),
    *(("operands.row_within", row_within, near) for near in NO_ROW_WITHIN),
    ("draw.cumulates", lambda: drawn(3, True), lambda: drawn(3, False)),
    ("draw.cumulates", lambda: drawn(2, True), lambda: drawn(1, True)),
    ("shape.no_elements", lambda: product(0), lambda: product(1)),
    ("shape.topk_plain", lambda: torch.randn(2, 4096).topk(64), lambda: torch.randn(200, 4096).topk(64)),
    ("shape.topk_plain", lambda: torch.randn(200, 1001).topk(64), lambda: torch.randn(200, 1000).topk(64)),
    ("shape.channels_gt_1024", lambda: sampled(1025), lambda: sampled(1024)),
    ("conv.leaves_cudnn", lambda: F.conv2d(IMAGE, FILTERS, dilation=2), lambda: F.conv2d(IMAGE, FILTERS)),
    ("conv.leaves_cudnn", lambda: F.conv2d(IMAGE, FILTERS, dilation=2), lambda: F.conv2d(LAST, FILTERS, dilation=2)),
    ("conv.leaves_cudnn", lambda: depthwise(True), lambda: depthwise(False)),
    ("conv.pads_output_widely", lambda: transposed(2), lambda: transposed(3)),
    ("call.makes_half_complex", lambda: torch.ones(2).to(torch.complex32), lambda: torch.ones(2).to(torch.complex64)),
    ("conv.without_cudnn", without_cudnn, lambda: F.conv2d(IMAGE, FILTERS)),
    ("conv.without_cudnn", without_cudnn, lambda: without_cudnn(groups=4)),
    *(("conv.own_depthwise", own, near) for own in OWN_DEPTHWISE for near in NOT_OWN_DEPTHWISE[:1]),
    *(("conv.own_depthwise", own, near) for own in OWN_DEPTHWISE[:1] for near in NOT_OWN_DEPTHWISE[1:]),
    (
        "sdp.efficient_off",
        lambda: held_to(SDPBackend.FLASH_ATTENTION),
        lambda: held_to(SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION),
    ),
    ("sdp.head_not_of_4", lambda: heads(18), lambda: heads(20)),
    ("sdp.head_not_of_8", lambda: heads(20), lambda: heads(24)),
    ("sdp.head_gt_256", lambda: heads(264), lambda: heads(256)),
    ("sdp.head_not_of_8", lambda: masked(12), lambda: masked(16)),
    ("sdp.shares_heads", lambda: shared(2), lambda: shared(4)),
    ("call.direct", lambda: torch.ops.aten.replication_pad2d(IMAGE, PADS), lambda: F.pad(IMAGE, PADS, "replicate")),
    (
        "call.direct",
        lambda: torch.ops.aten.upsample_bilinear2d(IMAGE, [18, 18], False),
        lambda: torch.nn.Upsample(scale_factor=2, mode="bilinear")(IMAGE),
    ),
    (
        "call.direct",
        lambda: torch.grid_sampler_2d(IMAGE, GRID, 0, 0, True),
        lambda: F.grid_sample(IMAGE, GRID, align_corners=True),
    ),
    ("call.returns_indices", lambda: pooled(True), lambda: pooled(False)),
    ("call.fits_cudnn", lambda: ctc(torch.int32), lambda: ctc(torch.int64)),
    ("call.fits_cudnn", lambda: ctc(torch.int32), lambda: ctc(torch.int32, steps=11)),
    ("call.fits_cudnn", lambda: ctc(torch.int32), lambda: ctc(torch.int32, blank=4)),
]


@cache
def noted(program: Program) -> set[str]:
    """The facts that hold of its calls; some programs are near misses of several."""
    return {key for group in record(program).trace.calls for key, value in group.facts.items() if value is True}


@pytest.mark.parametrize(
    ("fact", "program", "near"), (pytest.param(*pair, id=f"{n}-{pair[0]}") for n, pair in enumerate(PAIRS))
)
def test_a_fact_is_noted_where_it_holds_and_not_of_a_near_miss(fact: str, program: Program, near: Program) -> None:
    assert fact in noted(program)
    assert fact not in noted(near)


def judged(program: Program, torch_version: str = "2.13", settings: str = "default", backend: str = "cuda") -> Report:
    return judge(record(program).trace, backend=backend, torch=torch_version, settings=settings)


def rules_of(program: Program) -> set[str]:
    return {finding.rule for finding in judged(program).findings}


def attended(
    dtype: torch.dtype, head: int, tokens: int = 197, dropout: float = 0.0, keys: int = 4, masked: bool = False
) -> Program:
    """On a CPU made of two products: dropout, and masks that want a gradient, keep its fused kernel away."""

    def program() -> None:
        q, k = (torch.randn(2, count, tokens, head, dtype=dtype, requires_grad=True) for count in (4, keys))
        mask = torch.randn(tokens, tokens, dtype=dtype, requires_grad=True) if masked else None
        F.scaled_dot_product_attention(q, k, k, mask, dropout_p=dropout, enable_gqa=keys < 4).sum().backward()

    return program


BFLOAT, FLOAT = torch.bfloat16, torch.float32


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (attended(FLOAT, 64, masked=True), False),
        (attended(FLOAT, 12, dropout=0.1), False),
        (attended(FLOAT, 18, tokens=196, dropout=0.1), True),
        (attended(FLOAT, 16, dropout=0.1, keys=2), True),
        (attended(BFLOAT, 12, dropout=0.1), False),
        (attended(BFLOAT, 12, masked=True), True),
        (attended(BFLOAT, 16, masked=True), False),
        (attended(BFLOAT, 64, dropout=0.1, keys=2), False),
        (attended(BFLOAT, 64, keys=2, masked=True), True),
    ],
)
def test_attention_is_refused_where_builds_without_a_workspace_refuse_it(
    program: Program, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As CUDA builds of torch 2.6.0 and 2.9.1 do, as sm_90; what hangs on older hardware is no refusal."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    tracer = record(program)
    for version in ("2.6", "2.9"):
        report = judge(tracer.trace, backend="cuda", torch=version, settings="recorded")
        assert any(finding.deterministic_mode is Verdict.RAISES for finding in report.findings) is expected


@pytest.mark.parametrize(
    ("program", "kernel"),
    [
        (attended(BFLOAT, 64, dropout=0.1), "flash"),
        (attended(BFLOAT, 64, masked=True), "efficient"),
        (attended(FLOAT, 64, dropout=0.1), "efficient"),
        (attended(BFLOAT, 64), "flash"),
    ],
)
def test_the_kernel_that_attention_takes_first_is_told_first(program: Program, kernel: str) -> None:
    assert f"cuda-{kernel}-attention-backward" in rules_of(program)


def backwards(function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype = torch.float32) -> Program:
    leaf = torch.randn(1, 2, 6, 6, dtype=dtype, requires_grad=True)
    return lambda: function(leaf).abs().sum().backward()


def past_functional(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.replication_pad2d(x, PADS)


def through_functional(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, PADS, mode="replicate")


RAISES, VARIES, OPEN = Verdict.RAISES, Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL


@pytest.mark.parametrize(
    ("program", "torch_version", "verdicts"),
    [
        (backwards(past_functional), "2.13", {RAISES}),
        (backwards(through_functional), "2.13", set()),
        (backwards(lambda x: past_functional(x) + through_functional(x)), "2.13", {RAISES}),
        (backwards(lambda x: F.max_pool3d(x, 2, return_indices=True)[0]), "2.12", {RAISES}),
        (backwards(lambda x: F.max_pool3d(x, 2, return_indices=True)[0]), "2.13", set()),
        (backwards(lambda x: F.max_pool3d(x, 2)), "2.13", {RAISES}),
        # Up to 2.12 cuDNN's backward varies in silence; torch's own, which torch.grid_sampler_2d takes, is refused.
        (backwards(lambda x: torch.grid_sampler_2d(x, GRID, 0, 0, True)), "2.12", {RAISES}),
        (backwards(lambda x: F.grid_sample(x, GRID, align_corners=True)), "2.12", {VARIES}),
        # Fresh memory of complex32 cannot be filled.
        (lambda: torch.ones(3).to(torch.complex32), "2.5", {RAISES}),
        (lambda: torch.ones(3).to(torch.complex32), "2.6", set()),
        (lambda: torch.ones(3).to(torch.complex64), "2.5", set()),
        (backwards(through_functional, torch.complex64), "2.4", {RAISES}),
        (backwards(through_functional, torch.complex64), "2.5", set()),
        (backwards(through_functional), "2.4", set()),
    ],
)
def test_deterministic_mode_refuses_what_releases_refuse_and_how_it_was_called_matters(
    program: Program, torch_version: str, verdicts: set[Verdict]
) -> None:
    found = {finding.verdict for finding in judged(program, torch_version, "deterministic").findings}
    assert found == verdicts


def steps_of_a_sparse_embedding() -> None:
    words = torch.nn.Embedding(9, 4, sparse=True)
    optimizer = torch.optim.SGD(words.parameters(), lr=0.1)
    words(torch.tensor([1, 1, 2])).sum().backward()
    optimizer.step()


@pytest.mark.parametrize(
    ("program", "on_mps"),
    [
        (lambda: torch.ones(5, 4).add_(sparse()), VARIES),
        (lambda: torch.ones(5, 4) - sparse(), Verdict.UNKNOWN),
        (lambda: torch._foreach_add_([torch.ones(5, 4)] * 2, [torch.ones(5, 4), sparse()]), Verdict.UNKNOWN),
        (steps_of_a_sparse_embedding, VARIES),
    ],
)
def test_a_sparse_tensor_onto_a_dense_one_is_called_deterministic_on_no_accelerator(
    program: Program, on_mps: Verdict
) -> None:
    tracer = record(program)
    unknown = dict.fromkeys(("xpu", "npu"), Verdict.UNKNOWN)
    for backend, verdict in {"cuda": VARIES, "rocm": VARIES, **unknown, "mps": on_mps}.items():
        report = judge(tracer.trace, backend=backend, torch="2.13", settings="default")
        assert verdict in [one.verdict for one in report.findings if "add" in one.op or "sub" in one.op], backend


@pytest.mark.parametrize("backend", ["xpu", "npu"])
def test_a_product_with_a_sparse_operand_is_not_settled_by_deterministic_mode(backend: str) -> None:
    report = judged(lambda: torch.addmm(torch.ones(5, 3), sparse(), torch.ones(4, 3)), backend=backend)
    assert [one.deterministic_mode for one in report.findings if one.op == "aten.addmm.default"] == [Verdict.UNKNOWN]


def switched_off() -> None:
    with sdpa_kernel(SDPBackend.MATH):
        masked(16)


@pytest.mark.parametrize(
    ("program", "torch_version", "expected"),
    [
        (lambda: masked(16), "2.9", OPEN),  # CUDA may fuse it
        (lambda: masked(16), "2.0", RAISES),  # takes the math route in deterministic mode
        (lambda: masked(13), "2.9", RAISES),
        (lambda: masked(16, batches=0), "2.9", RAISES),
        (by_hand, "2.9", RAISES),
        (switched_off, "2.9", RAISES),
        (lambda: shared(2, dropout=0.5), "2.9", RAISES),
        # A user who repeats keys by hand hands over as many heads as there are queries, which CUDA may fuse.
        (repeated_by_hand, "2.9", OPEN),
    ],
)
def test_products_are_refused_without_a_workspace_unless_fused(
    program: Program, torch_version: str, expected: Verdict
) -> None:
    """2.9 is the last release that asks for a workspace for cuBLAS."""
    findings = judged(program, torch_version).findings
    assert {one.deterministic_mode for one in findings if one.op == "aten.bmm.default"} == {expected}


def test_a_linear_layer_is_refused_in_its_backward_alone() -> None:
    """Without a workspace, up to 2.9: the bias is added within a product that is never checked."""
    report = judged(lambda: torch.nn.Linear(4, 5)(ROWS).sum().backward(), "2.9")
    found = {one.op: one.deterministic_mode for one in report.findings if one.rule == "cuda-cublas"}
    assert found == {"aten.addmm.default": OPEN, "aten.mm.default": RAISES}


EFFICIENT = ("_scaled_dot_product_efficient_attention_backward", VARIES, Verdict.DETERMINISTIC)


@pytest.mark.parametrize(
    ("keys", "dropout", "torch_version", "expected"),
    [
        # Held against CUDA builds of 2.5.1, 2.9.1, 2.13.0, 2.14.1 and 2.15.0, run without a GPU.
        (2, 0.0, "2.9", {("bmm", OPEN, RAISES)}),
        (2, 0.0, "2.13", set()),
        (2, 0.0, "2.14", {EFFICIENT}),
        (4, 0.0, "2.9", {EFFICIENT}),
        # The math route on the CPU shows it too.
        (2, 0.5, "2.13", set()),
        (4, 0.5, "2.13", {EFFICIENT}),
    ],
)
def test_attention_whose_heads_share_keys_is_made_of_products_until_2_14(
    keys: int, dropout: float, torch_version: str, expected: set[tuple[str, Verdict, Verdict]]
) -> None:
    findings = judged(lambda: shared(keys, dropout), torch_version).findings
    ours = [one for one in findings if "scaled_dot" in one.op + one.runs_as or "softmax" in one.op]
    assert {(one.runs_as.partition(".")[2], one.verdict, one.deterministic_mode) for one in ours} == expected


def test_shared_heads_are_no_call_of_releases_that_lack_the_argument() -> None:
    findings = judged(lambda: shared(2), "2.4").findings
    assert {one.verdict for one in findings if "scaled_dot" in one.op} == {Verdict.UNKNOWN}


def penalised() -> None:
    """The gradient of a gradient runs the forward op again, which nobody called."""
    x = torch.randn(2, 2, 5, requires_grad=True)
    (slope,) = torch.autograd.grad(F.pad(x, (1, 2), mode="replicate").square().sum(), x, create_graph=True)
    slope.square().sum().backward()


def backward_by_hand() -> None:
    torch.ops.aten.upsample_bilinear2d_backward(torch.randn(1, 3, 9, 9), [9, 9], [1, 3, 6, 6], False)


@pytest.mark.parametrize(
    # Held against CUDA builds: F.pad takes another way in deterministic mode, forward and twice backward.
    ("program", "refused"),
    [(penalised, set()), (backward_by_hand, {"upsample_bilinear2d_backward"})],
)
def test_a_gradient_of_a_gradient_went_not_past_the_function_and_a_backward_called_by_itself_did(
    program: Program, refused: set[str]
) -> None:
    found = [one.op.split(".")[1] for one in judged(program).findings if one.deterministic_mode is RAISES]
    assert set(found) == refused
