"""What a process holds of a tensor: shards of any dimension add up to the sketch of the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tracer.recording.magnitudes import sketching
from tracer.recording.magnitudes.sketching import Part, Sketch, part_of, sketched


@pytest.mark.parametrize("shape", [(7, 5), (40, 130), (1, 3000), (6, 11, 70), (3000,)])
@pytest.mark.parametrize("dimensions", [(0,), (1,), (0, 1)])
def test_shards_add_up_to_the_whole(
    shape: tuple[int, ...], dimensions: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sketching, "_MOST_FILLED", 1000)
    whole = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shards = [(whole, (0,) * len(shape))]
    for dimension in dimensions:
        if dimension >= len(shape):
            continue
        shards = [
            (part, (*start[:dimension], offset, *start[dimension + 1 :]))
            for shard, start in shards
            for part, offset in zip(shard.tensor_split(3, dimension), (0, *_cuts(shape[dimension])), strict=True)
            if part.numel()
        ]
    total: Sketch | None = None
    for local, start in shards:
        sketch = Part(local, shape, start).sketched()
        assert isinstance(sketch, Sketch)
        total = sketch if total is None else total.plus(sketch)
    assert total is not None
    expected = sketched(whole)
    assert isinstance(expected, Sketch)
    np.testing.assert_allclose(total.sums, expected.sums, atol=1e-9)
    assert total.extent.norm == pytest.approx(expected.extent.norm)
    assert total.extent.largest == expected.extent.largest


def _cuts(length: int) -> tuple[int, int]:
    """Where ``tensor_split`` cuts into three."""
    several, rest = divmod(length, 3)
    first = several + (rest > 0)
    return first, first + several + (rest > 1)


@pytest.mark.parametrize("tensor", [torch.eye(3).to_sparse(), torch.empty(3, device="meta")], ids=("sparse", "meta"))
def test_what_cannot_be_read_is_no_part(tensor: torch.Tensor) -> None:
    assert part_of(tensor) is None
