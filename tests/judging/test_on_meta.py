"""Calls on ``meta`` tensors: nothing was computed, and a report never takes that for safe."""

from __future__ import annotations

import pytest

from tests.support.build import call, trace
from tracer import Report, judge
from tracer.names import UnknownReason, Verdict
from tracer.report.sections.answers import headline
from tracer.trace.records import CallGroup


def on(device: str, op: str = "aten.index_add_.default", **fields: str) -> CallGroup:
    return call(op, facts={"device": device, "dtype": "float32", "layout": "strided", "ndim": 2}, **fields)


def of(*calls: CallGroup, backend: str = "cuda") -> Report:
    return judge(trace(*calls), backend=backend)


def verdicts(report: Report) -> dict[Verdict, int]:
    return {verdict: count for verdict, count in report.tally.as_is.items() if count}


@pytest.mark.parametrize("backend", ["cpu", "cuda", "rocm", "xpu", "mps", "npu"])
@pytest.mark.parametrize("phase", ["forward", "backward", "optimizer", "recompute", "other"])
def test_what_was_not_computed_is_unknown_for_a_named_backend(backend: str, phase: str) -> None:
    report = of(*(on("meta", f"aten.{op}", phase=phase) for op in ("mm.default", "add.Tensor")), backend=backend)
    assert verdicts(report) == {Verdict.UNKNOWN: 2}
    unknown = (f"{backend}-not-computed", UnknownReason.NOT_COMPUTED)
    assert {(finding.rule, finding.reason) for finding in report.findings} == {unknown}


def test_on_its_own_device_it_cannot_differ_and_the_headline_says_that_nothing_was_computed() -> None:
    report = of(on("meta"), backend="recorded")
    assert report.findings == ()
    assert headline(report) == (Verdict.UNKNOWN, "Nothing was computed: the step was recorded on meta tensors")
    assert any("computed nothing: 1" in banner for banner in report.banners)


def test_a_step_of_which_a_part_was_on_meta_is_no_clean_one() -> None:
    report = of(on("meta"), on("cpu", "aten.mul.Tensor"), backend="recorded")
    verdict, line = headline(report)
    assert verdict is Verdict.UNKNOWN
    assert line.startswith("No risk found in what is known")


#: Allocate, view or fill.
HARMLESS = "empty.memory_format empty_strided.default new_empty.default view.default detach.default t.default"
HARMLESS += " fill_.Scalar zeros.default copy_.default _to_copy.default arange.start_step"


@pytest.mark.parametrize("phase", ["forward", "other"])
def test_what_allocates_views_or_fills_is_not_held_against_a_recording(phase: str) -> None:
    report = of(*(on("meta", f"aten.{op}", phase=phase) for op in HARMLESS.split()))
    assert report.findings == ()
    assert not any("computed nothing" in banner for banner in report.banners)


def test_what_initialized_a_model_that_was_computed_later_is_not_held_against_it() -> None:
    ops = ("aten.uniform_.default", "aten.erfinv_.default", "aten.pow.Scalar", "aten.div.Tensor")
    report = of(*(on("meta", op, phase="other") for op in ops), on("cpu", "aten.mul.Tensor"))
    assert report.findings == ()
    assert not any("computed nothing" in banner for banner in report.banners)
    assert headline(report)[0] is Verdict.DETERMINISTIC


STEPPED = on("cpu", "aten.add_.Tensor", phase="optimizer")


@pytest.mark.parametrize("phase", ["forward", "backward", "other"])
def test_a_pass_that_counts_operations_is_not_held_against_a_training(phase: str) -> None:
    report = of(on("meta", phase=phase), STEPPED)
    assert (report.findings, verdicts(report)) == ((), {Verdict.DETERMINISTIC: 2})
    assert headline(report)[0] is Verdict.DETERMINISTIC


def test_a_training_on_meta_is_unknown_beside_one_that_computed() -> None:
    on_meta = (on("meta", phase="backward"), on("meta", "aten.add_.Tensor", phase="optimizer"))
    assert verdicts(of(*on_meta, STEPPED)) == {Verdict.UNKNOWN: 2, Verdict.DETERMINISTIC: 1}


def test_an_initialization_that_could_differ_on_the_target_is_unknown() -> None:
    report = of(on("meta", phase="other"), on("cpu", "aten.mul.Tensor"))
    assert verdicts(report) == {Verdict.UNKNOWN: 1, Verdict.DETERMINISTIC: 1}


def test_a_draw_onto_another_device_is_a_draw() -> None:
    facts = {"device": "meta", "dtype": "float32", "rng.generator": "cpu", "rng.origin": "machine"}
    report = of(call("aten.rand_like.default", phase="other", facts=facts))
    assert verdicts(report) == {Verdict.NONDETERMINISTIC: 1}
