"""Adding a kind of outside input is one declaration in ``names``: recorder, traces, comparison and headline know it."""

from __future__ import annotations

from pathlib import Path

from tests.support.declared import run_with

ADDED = {
    "    CLOCK = (": (
        '    PHASE = "phase", "reads the phase of the moon by", ("phase of the moon", "phases of the moon"),'
        ' ("calendar.weekday",)'
    ),
}
STEP = """
import calendar

def step(day):
    calendar.weekday(2026, 11, day)
"""
PROGRAM = (
    f"""
from pathlib import Path
Path("asks.py").write_text({STEP!r})
"""
    + """
import json
import torch
from asks import step
from tracer import DeterminismTracer, Trace, judge
from tracer.divergence.outside import compare_outside
from tracer.report.sections.answers import headline

def recorded(day):
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter])
    with DeterminismTracer() as recorder:
        step(day)
        parameter.sum().backward()
        optimizer.step()
    recorder.trace.save("step.trace.json")
    return Trace.load("step.trace.json")

first, second = recorded(23), recorded(24)
(found,) = compare_outside(first, second)
print(json.dumps([
    [one.kind.value for one in first.outside], found.differs, headline(judge(first, backend="cpu"))[1],
    judge(first).to_text(),
]))
"""
)


def test_a_declared_kind_is_recorded_saved_compared_and_named_in_the_headline(tmp_path: Path) -> None:
    kinds, differs, headline, text = run_with(tmp_path, "tracer/names.py", ADDED, PROGRAM)
    assert kinds == ["phase"]
    assert differs is True
    assert "; not judged: 1 phase of the moon, the order of sets; " in headline
    assert "Inputs from outside" in text
