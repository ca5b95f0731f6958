"""Overlapping writes, found where elements share an address; regions of storages against brute force."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from operator import mul
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.support.lines import line_of, record
from tracer import DeterminismTracer
from tracer.names import About, Overlap, Phase, Verdict
from tracer.recording.storage import overlaps as overlaps_module
from tracer.recording.storage.overlaps import laid, overlaps_itself, share_bytes
from tracer.trace.records import OverlapWrite


def overlaps(function: Callable[[], object]) -> list[OverlapWrite]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch deprecates some of these writes
        tracer = record(function)
    assert tracer._session.recorder.storages.writes.failures == 0
    return list(tracer.trace.overlaps)


def kinds(function: Callable[[], object]) -> list[Overlap]:
    return [one.kind for one in overlaps(function)]


def named(write: Callable[..., object]) -> str:
    """A case by its line."""
    return f"line {write.__code__.co_firstlineno}"


def rows() -> torch.Tensor:
    """Three rows of four, each beginning at the middle of the one before."""
    return torch.zeros(8).as_strided((3, 4), (2, 1))


def test_an_overlapping_write_names_its_line_its_device_and_its_count() -> None:
    def step() -> None:
        frames = rows()
        for _ in range(3):
            frames.add_(1.0)

    (write,) = overlaps(step)
    assert (write.op, write.kind, write.count, write.device) == ("aten.add_.Tensor", Overlap.ITSELF, 3, "cpu")
    assert write.location.endswith(f":{line_of(step, 'add_(1.0)')}")


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1.0),
        lambda x: x.mul_(torch.ones(3, 4)),
        lambda x: x.copy_(torch.ones(4)),
        lambda x: x.normal_(),
        lambda x: x.clamp_(torch.ones(3, 4)),
        lambda x: x.cumsum_(1),
        lambda x: x.masked_fill_(torch.eye(3, 4) > 0, 1.0),
        lambda x: torch.mm(torch.ones(3, 2), torch.ones(2, 4), out=x),
        lambda x: torch.sort(torch.ones(3, 4), out=(x, torch.empty(3, 4, dtype=torch.long))),
        lambda x: torch._foreach_add_([torch.ones(2), x], 1.0),
        lambda x: torch._foreach_copy_([x], [torch.ones(3, 4)]),
        lambda x: x.t().add_(1.0),
        lambda x: x.__setitem__(slice(1, None), torch.ones(2, 4)),
    ],
    ids=named,
)
def test_a_write_to_rows_that_overlap_is_found(write: Callable[[torch.Tensor], object]) -> None:
    assert kinds(lambda: write(rows())) == [Overlap.ITSELF]


TWO = torch.arange(2)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.index_put_((TWO,), torch.rand(2, 4)),
        lambda x: x.__setitem__(TWO, torch.rand(2, 4)),
        lambda x: x.index_copy_(0, TWO, torch.rand(2, 4)),
        lambda x: x.index_add_(0, TWO, torch.rand(2, 4)),
        lambda x: x.scatter_(0, torch.zeros(2, 4, dtype=torch.long), torch.rand(2, 4)),
    ],
    ids=named,
)
def test_a_write_by_an_index_to_rows_that_overlap_is_conditional(write: Callable[[torch.Tensor], object]) -> None:
    with DeterminismTracer() as tracer:
        write(rows())
    assert [found.kind for found in tracer.trace.overlaps] == [Overlap.INDEXED]
    (finding,) = (one for one in tracer.report(backend="cuda").findings if one.rule == "environment-overlapping-write")
    assert finding.verdict is Verdict.CONDITIONAL


@pytest.mark.parametrize(
    "write",
    [
        # One value, whichever element is last.
        lambda x: x.fill_(2.0),
        lambda x: x.fill_(torch.tensor(2.0)),
        lambda x: x.relu_(),
        lambda x: x.clamp_(0.0, 1.0),
        lambda x: x.copy_(torch.tensor(2.0)),
        lambda x: torch._foreach_zero_([x]),
        # Parts that do not overlap.
        lambda x: x[:1].add_(1.0),
        lambda x: x[::2].mul_(2.0),
        lambda x: x[:, :2].add_(1.0),
        lambda x: x[1, 2].add_(1.0),
        # Nothing is written to it.
        lambda x: torch.zeros(3, 4).add_(x),
        lambda x: x.t_(),
        # Where it is written, only data know.
        lambda x: x.index_put_((torch.tensor([0]),), torch.tensor(1.0)),
    ],
    ids=named,
)
def test_a_write_that_gives_one_value_or_does_not_overlap_is_no_fault(write: Callable[[torch.Tensor], object]) -> None:
    assert kinds(lambda: write(rows())) == []


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda x: x[:, 1:].copy_(x[:, :-1]), Overlap.SOURCE),
        (lambda x: x.sub_(x[:, :1]), Overlap.SOURCE),
        (lambda x: torch.cumsum(x[:, :-1], 1, out=x[:, 1:]), Overlap.SOURCE),
        (lambda x: torch._foreach_copy_([x[:, 1:]], [x[:, :-1]]), Overlap.SOURCE),
        (lambda x: torch.add(x[:, :-1], 1.0, out=x[:, 1:]), Overlap.SOURCE),
        (lambda x: x[:, :6].addcmul_(x[:, 1:7], torch.ones(6, 6)), Overlap.SOURCE),
        (lambda x: x.add_(x), None),
        (lambda x: x.t().mul_(x.t()), None),
        (lambda x: x.view(-1).add_(x.view(48)), None),
        (lambda x: x[:, :4].copy_(x[:, 4:]), None),
        (lambda x: x[:, ::2].sub_(x[:, 1::2]), None),
        (lambda x: torch.mul(x, 2.0, out=x), None),
        (lambda x: x[:, 1:].copy_(x[:, :-1].clone()), None),
        (lambda x: x[:, :0].copy_(x[:, :0]), None),
        (lambda x: torch._foreach_add_([x[:, :4], x[:, 4:]], [x[:, 4:], x[:, :4]]), None),
    ],
)
def test_a_source_that_is_partly_the_target_is_found_and_one_that_is_it_or_lies_apart_is_not(
    write: Callable[[torch.Tensor], object], expected: Overlap | None
) -> None:
    assert kinds(lambda: write(torch.arange(48.0).view(6, 8))) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda y: torch.mm(y, y, out=y), Overlap.OPERAND),
        (lambda y: y.addmm_(y, y), Overlap.OPERAND),
        (lambda y: torch.mm(y, torch.eye(6), out=y), Overlap.OPERAND),
        (lambda y: y.addmm_(torch.eye(6), y.t(), beta=0), Overlap.OPERAND),
        (lambda y: torch.matmul(y, y, out=y), Overlap.OPERAND),
        (lambda y: y.view(1, 6, 6).baddbmm_(torch.ones(1, 6, 6), y.view(1, 6, 6)), Overlap.OPERAND),
        (lambda y: torch.mv(torch.eye(6), y[0], out=y[0]), Overlap.OPERAND),
        (lambda y: y[0].addmv_(y, torch.ones(6)), Overlap.OPERAND),
        (lambda y: y.addmm_(torch.eye(6), torch.eye(6)), None),
        (lambda y: torch.addmm(y, torch.eye(6), torch.eye(6), out=y), None),
        (lambda y: torch.mm(y[:3, :3], y[:3, 3:], out=torch.empty(3, 3)), None),
        (lambda y: y[:1, :1].addmm_(y[:1, :1], y[:1, :1]), None),
    ],
)
def test_a_product_into_a_factor_alone_is_found(
    write: Callable[[torch.Tensor], object], expected: Overlap | None
) -> None:
    assert kinds(lambda: write(torch.ones(6, 6))) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (torch.tensor([True, False, True, True]), []),
        (torch.tensor([[True, False, True, True]]), []),
        (torch.tensor(True), []),
        (torch.tensor([[True], [False], [True]]), [Overlap.ITSELF]),
        (torch.eye(3, 4) > 0, [Overlap.ITSELF]),
    ],
)
def test_a_mask_over_an_expanded_row_is_a_fault_where_it_differs(mask: torch.Tensor, expected: list[Overlap]) -> None:
    assert kinds(lambda: torch.ones(1, 4).expand(3, 4).masked_fill_(mask, 0.0)) == expected


def test_what_torch_refuses_was_not_written() -> None:
    def step() -> None:
        for refused in (
            lambda: torch.ones(1, 4).expand(3, 4).add_(1.0),
            lambda: torch.ones(4, 4).copy_(torch.ones(4, 4)).view(-1)[1:].copy_(torch.ones(16)),
        ):
            with pytest.raises(RuntimeError):
                refused()
        table = torch.ones(4, 4)
        with pytest.raises(RuntimeError):
            table[1:].copy_(table[:-1])

    assert overlaps(step) == []


def test_lists_of_many_views_of_one_buffer_are_compared_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def shares(written: torch.Tensor, read: torch.Tensor) -> bool:
        compared.append((written, read))
        return False

    monkeypatch.setattr(overlaps_module, "shares_with_source", shares)
    parts = list(torch.zeros(2, 200).unbind(1))
    kinds(lambda: torch._foreach_copy_(parts[:100], parts[100:]))
    assert 1000 < len(compared) < 1200


# --- products and lists ---


ENTRIES: list[Callable[[torch.Tensor, torch.Tensor], object]] = [
    lambda a, b: torch._foreach_add_([a, b, a], 1.0),
    lambda a, b: torch._foreach_mul_([b[:6], b[3:]], 2.0),
    lambda a, b: torch._foreach_add_([a, b], [b, a]),
    lambda a, b: torch._foreach_sqrt_([a, a.view(-1)]),
    lambda a, b: torch._foreach_addcmul_([a, b], [b, b], [b, a]),
    lambda a, b: torch._amp_foreach_non_finite_check_and_unscale_([a, a], torch.zeros(1), torch.ones(1)),
    lambda a, b: _adam([a, a], fused=True),
    lambda a, b: _adam([a, b, a], fused=None),
]

APART: list[Callable[[torch.Tensor, torch.Tensor], object]] = [
    lambda a, b: torch._foreach_add_([a, b], [a, b]),
    lambda a, b: torch._foreach_zero_([a, a]),
    lambda a, b: torch._foreach_add_(list(b.view(3, 3)), 1.0),
    lambda a, b: torch._foreach_add([a, a], 1.0),
    lambda a, b: _adam([a, b], fused=True),
    lambda a, b: _adam([a, a], foreach=False),
]


def _adam(values: list[torch.Tensor], **options: Any) -> None:
    made: dict[int, nn.Parameter] = {id(value): nn.Parameter(value) for value in values}
    parameters = [made[id(value)] for value in values]
    optimizer = torch.optim.Adam(parameters, 0.1, **options)
    torch.stack([parameter.sum() for parameter in parameters]).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("write", ENTRIES, ids=named)
@pytest.mark.filterwarnings("ignore")
def test_entries_of_a_list_that_share_memory_vary_on_cuda_in_both_modes_and_not_on_a_cpu(
    write: Callable[[torch.Tensor, torch.Tensor], object],
) -> None:
    tracer = record(lambda: write(torch.ones(9), torch.ones(9)))
    assert {one.kind for one in tracer.trace.overlaps} == {Overlap.ENTRIES}
    verdicts = {
        backend: {
            (finding.verdict, finding.deterministic_mode)
            for finding in tracer.report(backend=backend).findings
            if finding.about is About.OVERLAP
        }
        for backend in ("cuda", "cpu", "mps")
    }
    varies, open_ = Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL
    assert verdicts == {"cuda": {(varies, varies)}, "cpu": set(), "mps": {(open_, open_)}}


@pytest.mark.parametrize("write", APART, ids=named)
def test_entries_apart_are_no_fault(write: Callable[[torch.Tensor, torch.Tensor], object]) -> None:
    assert kinds(lambda: write(torch.ones(9), torch.ones(9))) == []


def test_a_parameter_given_twice_names_the_line_that_steps() -> None:
    def step() -> None:
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight, weight], 0.1)
        for _ in range(2):
            weight.sum().backward()
            optimizer.step()

    (write,) = overlaps(step)
    assert (write.op, write.count, write.phase) == ("SGD.step", 2, Phase.OPTIMIZER)
    assert write.location.endswith(f":{line_of(step, 'optimizer.step()')}")


class Region(NamedTuple):
    """All in elements of ``itemsize`` bytes."""

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    def addresses(self) -> list[int]:
        """The place of each element."""
        places = itertools.product(*map(range, self.sizes))
        return [self.offset + sum(map(mul, place, self.strides)) for place in places]

    def bytes(self) -> set[int]:
        return {address * self.itemsize + byte for address in self.addresses() for byte in range(self.itemsize)}


@st.composite
def regions(draw: st.DrawFn) -> Region:
    ndim = draw(st.integers(0, 4))
    sizes = tuple(draw(st.integers(0, 4)) for _ in range(ndim))
    strides = tuple(draw(st.integers(0, 9)) for _ in range(ndim))
    return Region(draw(st.integers(0, 12)), sizes, strides, draw(st.sampled_from((1, 2, 4))))


@given(regions())
def test_overlap_with_itself_is_two_elements_at_one_address(region: Region) -> None:
    places = region.addresses()
    assert overlaps_itself(region.sizes, region.strides) is (len(set(places)) < len(places))


@given(regions(), regions())
def test_two_regions_share_bytes_as_their_elements_do(one: Region, other: Region) -> None:
    assert share_bytes(laid(*one), laid(*other)) is bool(one.bytes() & other.bytes())


@given(regions(), st.integers(0, 9), st.integers(0, 12))
def test_two_regions_in_step_share_bytes_as_their_elements_do(one: Region, stride: int, offset: int) -> None:
    other = one._replace(offset=offset, strides=(*one.strides[:-1], stride) if one.strides else ())
    assert share_bytes(laid(*one), laid(*other)) is bool(one.bytes() & other.bytes())


@pytest.mark.parametrize("rows", [10, 10_000_000])
def test_shifted_columns_are_told_apart_whatever_the_number_of_rows(rows: int) -> None:
    assert share_bytes(laid(0, (rows, 9), (10, 1), 4), laid(1, (rows, 9), (10, 1), 4)) is True
    assert share_bytes(laid(0, (rows, 5), (10, 1), 4), laid(5, (rows, 5), (10, 1), 4)) is False
