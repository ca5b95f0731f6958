"""Parts of a batch are placed as rows of the whole batch, wherever the recording of the whole has a row for them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch

from tracer.names import Phase, PlaceKind
from tracer.recording.magnitudes.batch_rows import Rows, WholeBatch
from tracer.recording.magnitudes.parts import Part
from tracer.trace.values import Form, Header, PlaceName, ValuesWriter

OUTPUT = PlaceName(kind=PlaceKind.OUTPUT, module="Net.layer", phase=Phase.FORWARD)


def whole(path: Path, *shapes: tuple[int, ...], losses: int = 1) -> Path:
    """A recording whose module was called with batches of these shapes."""
    writer = ValuesWriter(path, Header(magnitudes=True, digests=False))
    for occurrence, shape in enumerate(shapes):
        writer.place(OUTPUT, Form("float32", shape), occurrence)
    for occurrence in range(losses):
        writer.place(PlaceName(kind=PlaceKind.LOSS, phase=Phase.OTHER), Form("float32"), occurrence)
    writer.close()
    return path


def placed(batch: WholeBatch, *shapes: tuple[int, ...], step: int = 0) -> list[tuple[int, tuple[int, ...]] | None]:
    """Occurrence and start of each of these parts."""

    def of(rows: Rows | None) -> tuple[int, tuple[int, ...]] | None:
        return None if rows is None else (rows.occurrence, rows.part.start)

    parts = [Part(torch.zeros(shape), shape) for shape in shapes]
    name = msgspec.structs.replace(OUTPUT, module="DistributedDataParallel.layer")
    return [of(batch.rows(name, step, call, part, leads_with_class=True)) for call, part in enumerate(parts)]


@pytest.mark.parametrize(
    ("wholes", "losses", "parts", "expected"),
    [
        ([(8, 3)], 1, [(2, 3), (4, 3), (2, 3)], [(0, (0, 0)), (0, (2, 0)), (0, (6, 0))]),
        ([(8, 3), (8, 3)], 1, [(4, 3)] * 4, [(0, (0, 0)), (1, (0, 0)), (0, (4, 0)), (1, (4, 0))]),
        ([(4, 3), (4, 3)], 2, [(2, 3)] * 4, [(0, (0, 0)), (0, (2, 0)), (1, (0, 0)), (1, (2, 0))]),
        ([(1, 3)], 1, [(1, 3), (1, 3)], [(0, ()), (0, ())]),
        ([(8, 3)], 1, [(6, 3), (6, 3)], [(0, (0, 0)), None]),
        ([(8, 3)], 1, [(4, 2)], [None]),
    ],
    ids=["unequal parts", "a module called twice", "two parts and four", "not split", "more rows", "other rows"],
)
def test_parts_stand_where_the_rows_of_the_whole_do(
    tmp_path: Path, wholes: list[tuple[int, ...]], losses: int, parts: list[tuple[int, ...]], expected: list[object]
) -> None:
    assert placed(WholeBatch(whole(tmp_path / "a", *wholes, losses=losses)), *parts) == expected


def test_ranks_hold_equal_shares(tmp_path: Path) -> None:
    path = whole(tmp_path / "a", (8, 3))
    assert placed(WholeBatch(path, rank=1, world_size=2), (2, 3), (2, 3)) == [(0, (4, 0)), (0, (6, 0))]


def test_a_step_that_the_whole_has_not_is_left_alone(tmp_path: Path) -> None:
    assert placed(WholeBatch(whole(tmp_path / "a", (8, 3))), (4, 3), step=1) == [None]
