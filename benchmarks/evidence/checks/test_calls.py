"""Calls made up: what was recorded of them is made again, by the families of their set."""

from __future__ import annotations

import pytest
import torch

from benchmarks.evidence.calls import made_up
from benchmarks.evidence.calls.making import FAMILIES
from benchmarks.evidence.made import SETS, Made
from benchmarks.evidence.nullgpu.recorded import load
from benchmarks.evidence.nullgpu.suites import fingerprint

pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_family_belongs_to_a_set_and_every_set_has_its_name() -> None:
    assert set(FAMILIES) == set(SETS)
    assert len({made.suite for made in SETS}) == len(SETS)


@pytest.mark.parametrize("made", SETS, ids=lambda made: made.suite)
def test_what_was_recorded_of_a_set_is_made_again_with_the_same_inputs(made: Made) -> None:
    again = {(one.entry, one.number, one.dtype): fingerprint(one) for one in made_up(made)}
    kept = {(one.entry, one.number, one.dtype): one.inputs for one in load(made.suite).samples}
    assert {key: again.get(key) for key in kept} == kept


@pytest.mark.slow
@pytest.mark.parametrize("made", SETS, ids=lambda made: made.suite)
def test_what_was_recorded_of_a_set_runs_here(made: Made) -> None:
    recorded = load(made.suite)
    if not torch.__version__.startswith(recorded.torch):
        pytest.skip(f"it was recorded by torch {recorded.torch}")
    ran = {(one.entry, one.number, one.dtype) for one in recorded.samples}
    for one in made_up(made):
        if (one.entry, one.number, one.dtype) in ran:
            one.prepared()()
