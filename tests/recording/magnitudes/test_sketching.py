"""Sketches: how well they estimate a difference, that shards add up to the whole, and odd tensors."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
import torch

from tracer.recording import magnitudes as sketching
from tracer.recording.magnitudes import Part, Sketch, _on_device, part_of, sketched
from tracer.trace.values.places import KEPT_WHOLE, STRETCHES, SUMS, sums_of

SIZES = (1, 64, KEPT_WHOLE, KEPT_WHOLE + 1, 5000, 100_003)


def apart(one: torch.Tensor, two: torch.Tensor) -> float:
    """The difference that the sketches of two tensors tell."""
    return float(np.linalg.norm(sketched(one).sums - sketched(two).sums))


def numbers(size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("relative", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_difference_is_estimated_within_a_quarter(relative: float, seed: int) -> None:
    one = numbers(1 << 18, seed)
    two = one + relative * numbers(1 << 18, seed + 100)
    assert apart(one, two) == pytest.approx(float((two.double() - one.double()).norm()), rel=0.25)


def test_one_wrong_element_is_exact_and_swapped_rows_are_a_difference() -> None:
    one = numbers(100_003)
    two = one.clone()
    two[70_001] += 3
    assert apart(one, two) == pytest.approx(3, rel=1e-6)
    rows = numbers(1 << 14).view(128, 128)
    swapped = rows[torch.randperm(128, generator=torch.Generator().manual_seed(1))]
    assert apart(rows, swapped) > 0.5 * float(rows.norm())
    assert (sketched(rows.t()).sums == sketched(rows.t().contiguous()).sums).all()


@pytest.mark.parametrize("size", SIZES)
def test_a_device_computes_what_the_host_does_which_is_the_tensors_magnitude(size: int) -> None:
    tensor = numbers(size)
    host, device = sketched(tensor), _on_device(tensor, 0, size).read()
    assert host.extent == pytest.approx((float(tensor.double().norm()), float(tensor.abs().max()), 0), rel=1e-4)
    assert device.sums == pytest.approx(host.sums, abs=1e-9)
    assert device.extent == pytest.approx(host.extent, rel=1e-4)


@pytest.mark.parametrize("size", [9, 3000])
@pytest.mark.parametrize(
    "bits", [0x7FA00000, 0x7F800000, 0xFF800000], ids=["a signalling NaN", "infinity", "-infinity"]
)
def test_what_is_not_finite_is_counted_and_left_out_without_a_warning(size: int, bits: int) -> None:
    tensor = numbers(size)
    tensor.view(torch.int32)[1::4] = bits - (1 << 32 if bits >> 31 else 0)
    clean = tensor.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sketch = sketched(tensor)
    assert sketch.extent.not_finite == len(tensor[1::4])
    assert sketch.sums == pytest.approx(sketched(clean).sums)


def test_a_fault_in_one_stretch_stays_in_its_stretch() -> None:
    one = numbers(1 << 16)
    two = one.clone()
    two[-100:] = 0
    moved = np.linalg.norm((sketched(one).sums - sketched(two).sums).reshape(-1, SUMS), axis=1)
    assert moved[:-1].max() == 0
    assert moved[-1] > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("size", [7, 3000])
def test_any_dtype_is_summed_as_its_numbers(dtype: torch.dtype, size: int) -> None:
    tensor = (numbers(size) * 3).to(dtype)
    assert sketched(tensor).sums == pytest.approx(sketched(tensor.to(torch.float64)).sums)


def test_a_sketch_has_at_most_so_many_sums() -> None:
    assert max(map(sums_of, range(1, 40_000))) == SUMS * STRETCHES


@pytest.mark.parametrize("shape", [(7, 5), (40, 130), (1, 3000), (6, 11, 70), (64,), (KEPT_WHOLE + 1,), (100_003,)])
@pytest.mark.parametrize("dimensions", [(0,), (1,), (0, 1)])
def test_shards_add_up_to_the_whole(
    shape: tuple[int, ...], dimensions: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sketching, "_MOST_FILLED", 1000)
    whole = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shards = [(whole, (0,) * len(shape))]
    for dimension in (each for each in dimensions if each < len(shape)):
        shards = [
            (part, (*start[:dimension], offset, *start[dimension + 1 :]))
            for shard, start in shards
            for part, offset in zip(shard.tensor_split(3, dimension), (0, *_cuts(shape[dimension])), strict=True)
            if part.numel()
        ]
    sketches = [Part(local, shape, start).sketched() for local, start in shards]
    total = functools.reduce(Sketch.plus, sketches)
    np.testing.assert_allclose(total.sums, sketched(whole).sums, atol=1e-9)
    assert total.extent == pytest.approx(sketched(whole).extent)


def _cuts(length: int) -> tuple[int, int]:
    """Where ``tensor_split`` cuts into three."""
    several, rest = divmod(length, 3)
    first = several + (rest > 0)
    return first, first + several + (rest > 1)


@pytest.mark.parametrize("tensor", [torch.eye(3).to_sparse(), torch.empty(3, device="meta")], ids=("sparse", "meta"))
def test_what_cannot_be_read_is_no_part(tensor: torch.Tensor) -> None:
    assert part_of(tensor) is None
