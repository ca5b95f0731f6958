"""Who keeps no values loads none of what digests them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import process

RECORDS = """
import sys
import torch
from tracer import DeterminismTracer
with DeterminismTracer(values={values!r}):
    torch.ones(2).sum()
print([name for name in ("xxhash", "tracer.recording.values.value_recorder") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("values", "loaded"), [(False, []), (True, ["xxhash", "tracer.recording.values.value_recorder"])]
)
def test_a_recording_loads_what_digests_only_where_values_are_kept(
    values: bool, loaded: list[str], tmp_path: Path
) -> None:
    done = process("-c", RECORDS.format(values=values), cwd=tmp_path)
    assert done.out.strip() == str(loaded), done.err
