"""Calls that compute a gradient within a compiled graph bear the line that asked for it, and say so."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.recording.compiled.programs import ran
from tests.support.build import call, trace
from tracer import judge
from tracer.names import BlindSpotKind, Phase


def test_a_finding_says_that_its_line_is_the_one_that_asked_for_the_gradient() -> None:
    known, unknown = (
        judge(trace(call(phase=Phase.BACKWARD, forward_unknown=one)), backend="cuda").findings for one in (False, True)
    )
    said = [one.why.endswith("the line of the forward is not known.") for one in (*known, *unknown) if one.op]
    assert said == [False, True]


PROGRAM = """
import torch


def loss(w, rows):
    return torch.zeros(8, 16).index_add(0, rows, w).exp().sum()


def run(steps):
    torch.manual_seed(0)
    asked = lambda w, rows: torch.func.grad(loss)(w, rows)  # asks
    w, rows = torch.randint(-2, 3, (64, 16)).float(), torch.randint(0, 8, (64,))  # their sums are exact
    compiled = torch.compile(asked, fullgraph=True)
    return None, [compiled(w, rows) for _ in range(steps)]
"""


@pytest.mark.slow
def test_such_a_call_bears_the_line_that_asked_and_says_so_with_code_from_a_cache_too(
    inductor: None, tmp_path: Path
) -> None:
    fresh, without, again = (ran(tmp_path, record=one, text=PROGRAM, steps=1) for one in (True, False, True))
    assert (fresh.misses, without.misses, again.misses) == (1, 0, 0)
    assert torch.equal(fresh.losses[0], without.losses[0])
    for run in (fresh, again):
        assert run.trace is not None
        (group,) = [one for one in run.trace.calls if one.op in ("aten.index.Tensor", "aten.gather.default")]
        assert (int(group.location.rpartition(":")[2]), group.forward_unknown) == (run.lines["asks"], True)
        assert group.phase is Phase.BACKWARD
        assert any(one.kind is BlindSpotKind.NO_FORWARD_LINK for one in run.trace.blind_spots)
