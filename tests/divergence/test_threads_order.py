"""Calls of threads that came in another order: no divergence where all of them agree, and named where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.divergence.recorded import Recorder, Run
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.names import ValueKind
from tracer.report.sections.runs import divergence_headline


def branches(run: Run, order: str = "ab", *, is_shared: bool = False, is_forked: bool = True) -> None:
    """Branches of ``torch.jit.fork``, each of two calls, in this order; they may add to one tensor as they end."""
    shared = run.enter(ValueKind.OUTSIDE, "shared", 0)
    weights = {name: run.enter(ValueKind.PARAMETER, name, name) for name in "ab"}
    results = {}
    for name in order:
        hidden = run.call("mm.default", weights[name], line=7, is_forked=is_forked)
        results[name] = run.call("tanh.default", hidden, line=7, is_forked=is_forked)
        if is_shared:
            shared = run.call("add_.Tensor", shared, results[name], line=7, is_forked=is_forked)
    run.call("add.Tensor", results["a"], results["b"], shared, line=8)


def test_branches_in_another_order_agree(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    compared = compare_recordings(record(branches), record(branches, order="ba"))
    assert compared.agrees
    assert (compared.reordered, compared.calls_compared, compared.only) == (2, 5, (0, 0))
    assert "in all 5 compared calls, 2 of them in another order" in divergence_headline(compared)


def test_in_the_same_order_none_is_reordered(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    compared = compare_recordings(record(branches), record(branches))
    assert (compared.agrees, compared.reordered) == (True, 0)


def test_what_branches_add_to_in_the_order_in_which_they_come_differs_by_the_order_of_threads(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    compared = compare_recordings(record(branches, is_shared=True), record(branches, order="ba", is_shared=True))
    (root,) = compared.roots
    assert (root.cause, root.op, root.location) == (RootCause.THREAD_ORDER, "aten.add_.Tensor", "train.py:7")


@pytest.mark.parametrize("order", ["ba", "aab"])
def test_calls_of_one_thread_have_their_order(tmp_path: Path, order: str) -> None:
    record = Recorder(tmp_path)
    compared = compare_recordings(record(branches, is_forked=False), record(branches, order=order, is_forked=False))
    assert not compared.agrees
    assert compared.reordered == 0


def test_a_branch_that_runs_once_more_is_no_order(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    compared = compare_recordings(record(branches), record(branches, order="aba"))
    assert not compared.agrees
    assert compared.only == (0, 2)
