"""A resumed run held against the uninterrupted one: the step is found, and what was not restored is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.divergence.recorded import Recorder, Run, program
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Divergence
from tracer.errors import TraceError
from tracer.names import Phase
from tracer.trace.values import ValueKind

STATES = {
    (ValueKind.OPTIMIZER_STATE, "exp_avg of fc.weight"): "m",
    (ValueKind.SCHEDULER, "StepLR"): "s",
    (ValueKind.SCALER, "GradScaler"): "g",
    (ValueKind.HYPERPARAMETER, "lr of group 0"): "0.1",
}


@pytest.fixture
def record(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


def resumed(record: Recorder, align: tuple[int, int] | None = None, **bend: Any) -> Divergence:
    """Six steps at once, against the last four after a restart; ``bend`` is what the restart got wrong."""
    state: dict[str, Any] = {}

    def all_at_once(run: Run) -> None:
        program(run, steps=6, states=STATES, keep=(2, state))

    def after_a_restart(run: Run) -> None:
        run.call("randn.default", line=1, generator=("cpu", "setting up"), numbers="size=[9]")
        program(run, steps=4, **{"begin": 2, "states": STATES, "restored": state, **bend})

    return compare_recordings(record(all_at_once), record(after_a_restart), align_step=align)


@pytest.mark.parametrize("align", [None, (2, 2)], ids=["by itself", "as told"])
def test_a_good_resume_agrees(record: Recorder, align: tuple[int, int] | None) -> None:
    found = resumed(record, align)
    assert found.agrees
    assert found.resumed is not None
    assert (found.resumed.first_step, found.resumed.second_step) == (2, 2)
    assert found.resumed.by_itself == (align is None)
    assert found.resumed.not_restored == ()
    assert found.calls_compared == 4 * 7


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, name in STATES], ids=[kind.value for kind, _ in STATES]
)
@pytest.mark.parametrize("how", ["missing", "another"])
def test_a_state_that_was_not_restored_is_named(record: Recorder, kind: ValueKind, name: str, how: str) -> None:
    states = {key: value for key, value in STATES.items() if key != (kind, name)}
    if how == "another":
        states = {**states, (kind, name): "wrong"}
    found = resumed(record, states=states)
    assert found.resumed is not None
    (missing,) = found.resumed.not_restored
    assert (missing.kind, missing.name) == (kind, name)


def test_steps_that_count_from_0_again_after_the_restart_are_found(record: Recorder) -> None:
    found = resumed(record, renumbered=-2)
    assert found.agrees
    assert found.resumed is not None
    assert (found.resumed.first_step, found.resumed.second_step) == (2, 0)


def test_a_call_too_many_after_the_restart_is_a_root(record: Recorder) -> None:
    for renumbered in (0, -2):
        found = resumed(record, extra_call=3, renumbered=renumbered)
        assert [(one.cause, one.op) for one in found.roots] == [(RootCause.STRUCTURE, "aten.relu.default")]


def test_a_generator_that_was_not_restored_is_named(record: Recorder) -> None:
    found = resumed(record, seed="seeded again")
    assert found.resumed is not None
    assert [(one.kind, one.name) for one in found.resumed.not_restored] == [(ValueKind.GENERATOR, "cpu")]
    assert found.roots[0].cause is RootCause.DRAW


def test_data_that_begin_again_are_named(record: Recorder) -> None:
    found = resumed(record, batches={step: ("batch", step - 2) for step in range(2, 6)})
    assert found.resumed is not None
    assert [one.kind for one in found.resumed.not_restored] == [ValueKind.DATA_POSITION]


def test_parameters_that_were_not_restored_are_named_where_the_step_is_told(record: Recorder) -> None:
    found = resumed(record, (2, 2), weight="other")
    assert found.resumed is not None
    assert [(one.kind, one.name) for one in found.resumed.not_restored] == [(ValueKind.PARAMETER, "fc.weight")]


@pytest.mark.parametrize(
    ("phase", "module", "kind", "cause"),
    [
        (Phase.FORWARD, "bn", ValueKind.OUTSIDE, RootCause.INITIAL_STATE),
        (Phase.OPTIMIZER, "", ValueKind.OPTIMIZER_STATE, RootCause.INITIAL_STATE),
        (Phase.OTHER, "", ValueKind.OUTSIDE, RootCause.INITIAL_STATE),
    ],
)
@pytest.mark.parametrize("made_by", ["call", "entry"])
def test_what_was_made_before_the_restart_and_is_another_one_is_told_by_where_it_is_read(
    record: Recorder, phase: Phase, module: str, kind: ValueKind, cause: RootCause, made_by: str
) -> None:
    def body(run: Run, first_step: int, value: int) -> None:
        run.writer.step(0)
        made = run.call("zeros.default", line=1, numbers=f"{value}")
        if made_by == "entry":
            made = run.enter(ValueKind.OUTSIDE, "", value)
        for step in range(first_step, 5):
            run.writer.step(step - first_step)
            run.call("ones.default", line=2)
            if step >= 3:
                run.call("add.Tensor", made, line=3, phase=phase, module=module)

    whole, resumed = record(body, first_step=0, value=1), record(body, first_step=2, value=2)
    found = compare_recordings(whole, resumed, align_step=(2, 0))
    assert found.resumed is not None
    assert [(one.cause, one.location, one.same_cause) for one in found.roots] == [(cause, "train.py:3", 1)]
    assert [one.kind for one in found.resumed.not_restored] == [kind]


def test_two_runs_from_one_start_are_no_resume(record: Recorder) -> None:
    assert compare_recordings(record(), record(steps=3)).resumed is None


def test_a_step_that_is_not_there_is_one_line(record: Recorder) -> None:
    with pytest.raises(TraceError, match="first recording has no step 77"):
        compare_recordings(record(), record(), align_step=(77, 0))


def test_a_run_that_goes_on_where_the_other_ended_agrees_with_none_of_it(tmp_path: Path) -> None:
    record = Recorder(tmp_path)

    def ended(run: Run) -> None:
        program(run, steps=2)
        run.writer.step(2)
        run.writer.moment(ValueKind.PARAMETER, "fc.weight", 7)

    def goes_on(run: Run) -> None:
        run.writer.moment(ValueKind.PARAMETER, "fc.weight", 7)
        program(run, steps=2, begin=2)

    found = compare_recordings(record(ended), record(goes_on))
    assert not found.agrees
    assert found.resumed is None


def test_whole_runs_of_one_program_are_compared_from_their_beginning(record: Recorder) -> None:
    state: dict[str, Any] = {}

    def whole(run: Run) -> None:
        program(run, steps=6, states=STATES, keep=(2, state))

    def found_a_checkpoint(run: Run) -> None:
        program(run, steps=4, begin=2, states=STATES, restored=state)

    recordings = record(whole), record(found_a_checkpoint)
    assert compare_recordings(*recordings).agrees
    assert not compare_recordings(*recordings, may_resume=False).agrees


def test_what_a_program_goes_on_writing_to_is_a_state_and_no_data(record: Recorder) -> None:
    def averages(run: Run, kept: str, begin: int, steps: int, state: dict[str, Any]) -> None:
        average = run.call("clone.default", line=2, numbers=kept, phase=Phase.OTHER)
        program(run, begin=begin, steps=steps, **state)
        run.call("mul_.Tensor", average, line=30, phase=Phase.OTHER)

    state: dict[str, Any] = {}
    whole = record(lambda run: averages(run, "whole", 0, 6, {"keep": (2, state)}))
    restarted = record(lambda run: averages(run, "begun anew", 2, 4, {"restored": state}))
    found = compare_recordings(whole, restarted)
    (root,) = found.roots
    assert (root.op, root.cause, root.kind) == ("aten.mul_.Tensor", RootCause.INITIAL_STATE, ValueKind.OUTSIDE)
    assert found.resumed is not None
    assert [one.kind for one in found.resumed.not_restored] == [ValueKind.OUTSIDE]
