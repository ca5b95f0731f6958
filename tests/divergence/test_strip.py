"""The picture of all calls: every call is in it, roots are never lost, and it stays small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.divergence.recorded import Recorder, Run
from tracer.divergence import Span, State, compare_recordings, strip
from tracer.names import Phase
from tracer.trace.values import ValueKind


def layers(run: Run, steps: int = 30, noise: int = -1, extra: int = -1) -> None:
    for step in range(steps):
        run.writer.step(step)
        hidden = run.enter(ValueKind.BATCH, "loader", step, step)
        if step == extra:
            run.call("extra.default", hidden, line=9)
        for layer in range(6):
            bent = noise if (step, layer) == (17, 3) else -1
            hidden = run.call("mm.default", hidden, line=layer, module=f"layers.{layer}", noise=bent)


def spans(folder: Path, **bend: int) -> tuple[Span, ...]:
    record = Recorder(folder)
    return compare_recordings(record(layers), record(layers, **bend)).strip


def test_a_span_is_calls_of_one_state_step_phase_and_module(tmp_path: Path) -> None:
    found = spans(tmp_path, noise=1)
    assert len(found) == 30 * 6
    assert [(one.step, one.module, one.call) for one in found if one.state is State.ROOT] == [(17, "layers.3", 105)]
    assert sum(one.count for one in found if one.state is State.FOLLOWS) == 2


@pytest.mark.parametrize("most", [100, 40, 7])
def test_too_many_spans_are_told_by_fewer_and_no_root_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(strip, "MOST_SPANS", most)
    found = spans(tmp_path, noise=1)
    assert len(found) <= most + 1
    assert sum(one.count for one in found) == 180
    assert sum(one.state is State.ROOT for one in found) == 1


def test_a_call_that_one_side_alone_has_stands_at_its_place(tmp_path: Path) -> None:
    found = spans(tmp_path, extra=4)
    place = next(at for at, one in enumerate(found) if one.state is State.ONLY_SECOND)
    assert found[place] == Span(State.ONLY_SECOND, 4, Phase.FORWARD, "", 24, 1)
    assert (found[place - 1].step, found[place + 1].step) == (3, 4)
