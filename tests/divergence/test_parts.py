"""Data from outside that a program reads part by part: a part that differs is input data, not memory that changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tracer import DeterminismTracer
from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Root
from tracer.divergence.recordings import Recording, read_recording


def recorded(path: Path, rows: torch.Tensor, *, late: float = 0.0) -> Recording:
    """Read ``rows`` one after the other; ``late`` is written into the first of them without an op, to be read again."""
    with DeterminismTracer(values=path.with_suffix(".values")) as recorder:
        for row in rows:
            row.exp()
        rows.numpy()[0] += late
        rows[0].exp()
    recorder.save(path)
    return read_recording(path)


def root(folder: Path, first: torch.Tensor, second: torch.Tensor, *, late: float = 0.0) -> Root:
    recordings = (recorded(folder / "1.json", first), recorded(folder / "2.json", second, late=late))
    found = compare_recordings(*recordings, may_resume=False).first
    assert found is not None
    return found


@pytest.mark.parametrize("row", [0, 2])
def test_a_row_that_differs_is_input_data_whichever_is_read_first(tmp_path: Path, row: int) -> None:
    first = torch.ones(4, 3)
    second = first.clone()
    second[row] = 2
    assert root(tmp_path, first, second).cause is RootCause.INPUT_DATA


def test_a_part_that_was_read_before_changed_while_no_op_wrote(tmp_path: Path) -> None:
    found = root(tmp_path, torch.ones(4, 3), torch.ones(4, 3), late=1.0)
    assert found.cause is RootCause.OUTSIDE_CHANGE
    assert found.shows is not Shows.PART
